"""Waiting for a coroutine where there may be a running event loop already."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def wait(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end: on a loop of its own, in another thread where this one has a running loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    outcome: list[T | BaseException] = []
    loops: list[tuple[asyncio.AbstractEventLoop, asyncio.Task[T]]] = []

    async def tell() -> T:
        task: asyncio.Task[T] = asyncio.ensure_future(work)
        loops.append((asyncio.get_running_loop(), task))
        return await task

    def work_there() -> None:
        try:
            outcome.append(asyncio.run(tell()))
        except BaseException as error:  # noqa: BLE001 - raised again in the caller's thread
            outcome.append(error)

    thread = threading.Thread(target=work_there, name="semgraph", daemon=True)
    thread.start()
    try:
        while thread.is_alive():
            thread.join(0.1)
    except BaseException:
        for loop, task in loops:
            loop.call_soon_threadsafe(task.cancel)
        thread.join()
        raise
    (found,) = outcome
    if isinstance(found, BaseException):
        raise found
    return found
