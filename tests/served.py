"""Servers in threads of their own, for tests that are not asynchronous, and sessions with their models."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from pathlib import Path
from typing import Any

import semgraph
from benchmarks.world import StandIn
from semgraph.stores.base import Store
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


def session_with(
    model: StandIn, store: str | Store, folder: Path, **limits: Any
) -> semgraph.Session:
    """A session over a store with the models of a server; it keeps no answers and no records."""
    return semgraph.Session(
        llm=f"openai:gpt-4.1-mini@{model.base_url}?timeout={HANGS:.0f}",
        embedder=f"openai:stand-in@{model.base_url}?dimensions=256&timeout={HANGS:.0f}",
        store=store,
        journal=False,
        runs="",
        folder=folder,
        **limits,
    )
