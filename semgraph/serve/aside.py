"""Threads for the calls of clients: what one computes keeps up to eleven others not waiting."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Coroutine
from functools import cached_property
from typing import Any, TypeVar

from semgraph.expr.isolated import PROCESS, SqlProcess

T = TypeVar("T")
_THREADS = 12  # each with a process, once it is needed


class Aside:
    """A few threads, each with an event loop for the calls of a client or of some, and a process for
    expressions that may grow.

    Args:
        seconds: How long the expressions of a call may take.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._threads = [_Thread(SqlProcess(seconds)) for _ in range(_THREADS)]

    async def run(self, client: object, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """The result of work, in the thread of a client. A client without calls gets the thread that has
        the fewest others.
        """
        of = [thread for thread in self._threads if client in thread.calls]
        thread = min(of or self._threads, key=lambda each: len(each.calls))
        thread.calls[client] += 1
        try:
            return await thread.run(work, SqlProcess(self._seconds, thread.process))
        finally:
            thread.calls[client] -= 1
            thread.calls += Counter()  # without clients that have none

    def close(self) -> None:
        """End the processes."""
        for thread in self._threads:
            thread.process.close()


class _Thread:
    def __init__(self, process: SqlProcess) -> None:
        self.process = process
        self.calls = Counter[object]()

    @cached_property
    def _loop(self) -> asyncio.AbstractEventLoop:
        loop = asyncio.new_event_loop()
        threading.Thread(target=loop.run_forever, name="semgraph call", daemon=True).start()
        return loop

    async def run(self, work: Callable[[], Coroutine[Any, Any, T]], process: SqlProcess) -> T:
        """The result of work. When it is cancelled, what the process computes for it ends, and the work
        after it.
        """
        tasks = list[asyncio.Task[T]]()
        cancelled = threading.Event()

        async def begun() -> None:
            if cancelled.is_set():  # behind what another call of the client computed
                return
            PROCESS.set(process)
            tasks.append(asyncio.ensure_future(work()))
            await asyncio.wait(tasks)

        waiting = asyncio.wrap_future(asyncio.run_coroutine_threadsafe(begun(), self._loop))
        try:
            await asyncio.shield(waiting)
        except asyncio.CancelledError:
            cancelled.set()
            self._loop.call_soon_threadsafe(lambda: [task.cancel() for task in tasks])
            process.end()
            await waiting
            raise
        return tasks[0].result()
