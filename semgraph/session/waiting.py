"""The thread and event loop of a session's synchronous calls."""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
import weakref
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from semgraph.errors import EngineError, SemgraphError

T = TypeVar("T")


class Waiting:
    """An event loop in a thread for all synchronous calls of a session; they share open resources.

    Args:
        busy: Whether the caller's event loop, which blocks while the caller waits, has runs.
    """

    def __init__(self, busy: Callable[[], bool] = lambda: False) -> None:
        self._busy = busy
        self._process = os.getpid()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()
        _ALL.add(self)

    def wait(self, work: Coroutine[Any, Any, T], *, calls_model: bool = False) -> T:
        """Run a coroutine and return its result. An interrupt cancels the coroutine and is raised
        after its end. Several threads may wait.

        Args:
            work: The coroutine.
            calls_model: Whether the coroutine may call a model. It would wait forever if a blocked
                run held the limiter.
        """
        if self.is_own:
            work.close()
            raise EngineError(
                "a synchronous call within a run would wait for itself: await session.arun(...) there"
            )
        if calls_model and self._busy():
            work.close()
            raise SemgraphError(
                "this event loop has a run of this session, and would stand still while this call waits. "
                "Await that run first, or await session.arun(...) in place of session.run(...)"
            )
        loop, ended, tasks = self._started(), threading.Event(), list[asyncio.Task[T]]()

        def start() -> None:
            task = loop.create_task(work)
            task.add_done_callback(lambda _: ended.set())
            tasks.append(task)

        loop.call_soon_threadsafe(start)
        try:
            while not ended.wait(0.1):  # some systems cannot interrupt a wait without a timeout
                pass
        except BaseException:
            loop.call_soon_threadsafe(lambda: [task.cancel() for task in tasks])
            ended.wait()
            raise
        return tasks[0].result()

    def _started(self) -> asyncio.AbstractEventLoop:
        with self._starting:
            if self._loop is None or self._process != os.getpid():  # a fork has no threads
                self._process = os.getpid()
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=_serve, args=(self._loop,), name="semgraph", daemon=True
                )
                self._thread.start()
                _THREADS.add(self._thread)
            return self._loop

    @property
    def is_own(self) -> bool:
        """Whether the calling thread is the loop's."""
        return threading.current_thread() is self._thread

    def close(self) -> None:
        """Stop the loop and wait for its end; a later `wait` starts another."""
        thread = self.stop()
        if thread is not None:
            thread.join()

    def stop(self) -> threading.Thread | None:
        """Stop the loop without waiting; returns its thread, if any."""
        with self._starting:
            loop, thread, self._loop, self._thread = self._loop, self._thread, None, None
        if loop is not None and self._process == os.getpid():
            loop.call_soon_threadsafe(loop.stop)
        return thread


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    """Run a loop until it is stopped, then clean up as `asyncio.run` does."""
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.get_loop().run_forever()


_ALL: weakref.WeakSet[Waiting] = weakref.WeakSet()
# Threads of loops; a thread outlives its `Waiting` while resources are closed in it.
_THREADS: weakref.WeakSet[threading.Thread] = weakref.WeakSet()
_EXIT_SECONDS = 10.0


@atexit.register
def _at_exit() -> None:
    for waiting in list(_ALL):
        waiting.stop()
    for thread in list(_THREADS):
        thread.join(_EXIT_SECONDS)
