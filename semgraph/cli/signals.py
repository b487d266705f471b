"""Ctrl-C, SIGTERM and SIGHUP: the first signal stops a run cleanly, so that it can be resumed; the
second ends the process at once. A SIGHUP that the process was started to ignore (`nohup`) is
ignored.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, TypeVar

from semgraph.cli.options import INTERRUPTED

T = TypeVar("T")
_NAMES = ("SIGINT", "SIGTERM", "SIGHUP")  # Windows has no SIGHUP


def run_until_signal(job: Coroutine[Any, Any, T], on_first: Callable[[], None]) -> T:
    """Run a coroutine in a new event loop. The first signal calls `on_first` and cancels the
    coroutine.

    Raises:
        KeyboardInterrupt: A signal cancelled the coroutine, which has cleaned up.
    """
    import asyncio

    interrupted = False

    async def main() -> T:
        nonlocal interrupted
        task = asyncio.ensure_future(job)
        loop = asyncio.get_running_loop()

        def stop() -> None:
            nonlocal interrupted
            interrupted = True
            task.cancel()
            with suppress(OSError):  # the terminal may be gone
                on_first()

        with _handling(lambda: loop.call_soon_threadsafe(stop)):
            return await task

    try:
        return asyncio.run(main())
    except asyncio.CancelledError:
        if not interrupted:
            raise
        raise KeyboardInterrupt from None


@contextmanager
def _handling(first: Callable[[], object]) -> Iterator[None]:
    """Call `first` at the first signal; end the process at the second. Only the main thread can
    handle signals.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    count = 0

    def handle(_number: int, _frame: FrameType | None) -> None:
        nonlocal count
        count += 1
        if count > 1:
            os._exit(INTERRUPTED)
        first()

    before = {number: signal.signal(number, handle) for number in _numbers()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _numbers() -> list[signal.Signals]:
    signals = [getattr(signal, name) for name in _NAMES if hasattr(signal, name)]
    return [
        number
        for number in signals
        if number.name != "SIGHUP" or signal.getsignal(number) != signal.SIG_IGN
    ]
