"""A worker thread for libraries that would block the event loop."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")

Cancelled = Callable[[], bool]
"""Whether no caller waits for the result any more. Calls poll it."""


class Worker:
    """Runs calls one after the other in its own thread, from any event loop.

    The thread ends when there is no work. It is not a daemon: a daemon thread inside a C++ library
    at interpreter exit crashes the process.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._guard = threading.Lock()
        self._jobs: deque[Callable[[], None]] = deque()
        self._thread: threading.Thread | None = None

    async def run(self, call: Callable[[Cancelled], T]) -> T:
        """Make the call in the thread, and wait for its result or exception.

        A cancelled caller does not wait: the call learns of it through its argument, and a call that
        has not begun is dropped.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        unwanted = threading.Event()

        def finish(result: T | None, error: BaseException | None) -> None:
            if future.done():
                return
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(result)  # type: ignore[arg-type]  # no error: a result

        def cancelled() -> bool:
            # Tasks of a stopped loop do not wait, even if they were not cancelled.
            return unwanted.is_set() or not loop.is_running()

        def job() -> None:
            if unwanted.is_set():
                return
            result, error = None, None
            try:
                result = call(cancelled)
            except BaseException as caught:  # noqa: BLE001 - the waiting task raises it
                error = caught
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(finish, result, error)

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
