"""A thread for one thing at a time, for libraries that compute and would hold up the event loop."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")

Cancelled = Callable[[], bool]
"""Asked now and then by what runs: whether nobody waits for its result any more."""


class Worker:
    """Runs calls one after the other in a thread of its own, from any event loop.

    The thread lives while there is work and not longer, and it is no daemon: a daemon that is
    inside a C++ library when the interpreter ends takes the process down with it.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._guard = threading.Lock()
        self._jobs: deque[Callable[[], None]] = deque()
        self._thread: threading.Thread | None = None

    async def run(self, call: Callable[[Cancelled], T]) -> T:
        """Have the thread make the call, and wait for its result or its exception.

        When the waiting task is cancelled it goes on at once, and the call is told by its argument;
        a call that has not begun is dropped.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        unwanted = threading.Event()

        def settle(result: T | None, error: BaseException | None) -> None:
            if future.done():
                return
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(result)  # type: ignore[arg-type]  # without an error there is a result

        def cancelled() -> bool:
            # A loop that no longer runs waits for nothing, though nobody cancelled its tasks.
            return unwanted.is_set() or not loop.is_running()

        def job() -> None:
            if unwanted.is_set():
                return
            result, error = None, None
            try:
                result = call(cancelled)
            except BaseException as caught:  # noqa: BLE001 - whatever it is, the task that waits raises it
                error = caught
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(settle, result, error)

        self._submit(job)
        try:
            return await future
        finally:
            unwanted.set()

    def _submit(self, job: Callable[[], None]) -> None:
        with self._guard:
            self._jobs.append(job)
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name=self._name)
                self._thread.start()

    def _work(self) -> None:
        while True:
            with self._guard:
                if not self._jobs:
                    self._thread = None
                    return
                job = self._jobs.popleft()
            job()
