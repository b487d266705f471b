"""An asynchronous server in a thread of its own, for tests that are not asynchronous."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import Any

from tests.patience import HANGS


@contextmanager
def served(server: AbstractAsyncContextManager[Any]) -> Iterator[asyncio.AbstractEventLoop]:
    """Run a server for the time of a block; gives its loop."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        asyncio.run_coroutine_threadsafe(server.__aenter__(), loop).result(HANGS)
        try:
            yield loop
        finally:
            asyncio.run_coroutine_threadsafe(server.__aexit__(None, None, None), loop).result(HANGS)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(HANGS)
        loop.close()
