"""Threads for calls that may take long: all others are answered meanwhile."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from semgraph.expr.isolated import PROCESS, SqlProcess
from semgraph.turns import Turns

T = TypeVar("T")
_THREADS = 12  # a client has at most eight at once
_LARGE = 20_000  # characters and values of the arguments of a call
_WORD = re.compile(r"[\w.:+-]{0,64}")


class Aside:
    """A few threads, each with an event loop and, for the expressions of callers, a process.

    Args:
        seconds: How long the expressions of a call may take.
    """

    def __init__(self, seconds: float) -> None:
        self._turns = Turns(_THREADS)
        self._free = [_Thread(SqlProcess(seconds)) for _ in range(_THREADS)]
        self._all = tuple(self._free)

    async def run(self, work: Callable[[], Coroutine[Any, Any, T]], *, isolated: bool) -> T:
        """The result of work, in one of the threads.

        Args:
            work: Makes a coroutine.
            isolated: Whether DuckDB computes in the process.
        """
        async with self._turns:
            thread = self._free.pop()
            try:
                return await thread.run(work, isolated=isolated)
            finally:
                self._free.append(thread)

    def close(self) -> None:
        """End the processes."""
        for thread in self._all:
            thread.worker.close()


class _Thread:
    def __init__(self, worker: SqlProcess) -> None:
        self.worker = worker
        self._loop: asyncio.AbstractEventLoop | None = None

    def _running(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            threading.Thread(
                target=self._loop.run_forever, name="semgraph call", daemon=True
            ).start()
        return self._loop

    async def run(self, work: Callable[[], Coroutine[Any, Any, T]], *, isolated: bool) -> T:
        """The result of work. When it is cancelled, the process ends, and the work after it."""
        loop, tasks = self._running(), list[asyncio.Task[T]]()

        async def begun() -> None:
            if isolated:
                self.worker.renew()
                PROCESS.set(self.worker)
            tasks.append(asyncio.ensure_future(work()))
            await asyncio.wait(tasks)

        waiting = asyncio.wrap_future(asyncio.run_coroutine_threadsafe(begun(), loop))
        try:
            await asyncio.shield(waiting)
        except asyncio.CancelledError:
            loop.call_soon_threadsafe(lambda: [task.cancel() for task in tasks])
            self.worker.end()
            await waiting
            raise
        return tasks[0].result()


def may_take_long(arguments: Any) -> bool:
    """Whether arguments are many or large."""
    return _weight(arguments, _LARGE) > _LARGE


def has_expressions(params: Mapping[str, Any]) -> bool:
    """Whether a parameter may hold an expression: any text but a word, a number or a time."""
    texts, values = list[str](), list[Any](params.values())
    while values:
        value = values.pop()
        if isinstance(value, str):
            texts.append(value)
        elif isinstance(value, Mapping):
            values += [*value, *value.values()]
        elif isinstance(value, list):
            values += value
    return not all(map(_WORD.fullmatch, texts))


def _weight(value: Any, most: int) -> int:
    """Characters and values, counted up to about `most`."""
    total, values = 0, [value]
    while values and total <= most:
        part = values.pop()
        total += 1 + (len(part) if isinstance(part, (str, Mapping, list)) else 0)
        if isinstance(part, Mapping):
            values += part.values()
        elif isinstance(part, list):
            values += part
    return total


class Clients:
    """How many calls each client has at once; further ones of it wait."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._turns: dict[object, tuple[Turns, int]] = {}

    @asynccontextmanager
    async def turn(self, client: object) -> Any:
        """Wait for a turn of a client."""
        turns, count = self._turns.get(client) or (Turns(self._most), 0)
        self._turns[client] = turns, count + 1
        try:
            async with turns:
                yield
        finally:
            turns, count = self._turns.pop(client)
            if count > 1:
                self._turns[client] = turns, count - 1
