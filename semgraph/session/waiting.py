"""Waiting for coroutines, in a script and where there is a running event loop already (Jupyter's)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from semgraph.errors import EngineError

T = TypeVar("T")


class Waiting:
    """One event loop, in a thread of its own, for all that is waited for: what one coroutine opened serves the next."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end. An interrupt cancels it, and is raised when it has ended. Several threads may wait."""
        if threading.current_thread() is self._thread:
            work.close()
            raise EngineError("this is called by what is being waited for: await session.arun(...) there")
        loop, ended, tasks = self._started(), threading.Event(), list[asyncio.Task[T]]()

        def start() -> None:
            task = loop.create_task(work)
            task.add_done_callback(lambda _: ended.set())
            tasks.append(task)

        loop.call_soon_threadsafe(start)
        try:
            while not ended.wait(0.1):  # a wait without an end sees no interrupt on every system
                pass
        except BaseException:
            loop.call_soon_threadsafe(lambda: [task.cancel() for task in tasks])
            ended.wait()
            raise
        return tasks[0].result()

    def _started(self) -> asyncio.AbstractEventLoop:
        with self._starting:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._loop.run_forever, name="semgraph", daemon=True)
                self._thread.start()
            return self._loop

    def close(self) -> None:
        """End the loop; a later `wait` begins another."""
        with self._starting:
            loop, thread, self._loop, self._thread = self._loop, self._thread, None, None
        if loop is not None and thread is not None:
            for ending in (loop.shutdown_asyncgens(), loop.shutdown_default_executor()):
                asyncio.run_coroutine_threadsafe(ending, loop).result()
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()
