"""The simulated model server as a separate process, and the figures that it counts on the wire."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import json
import urllib.parse
import urllib.request
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from benchmarks.frame.processes import Child
from semgraph.llm.base import Usage
from semgraph.llm.embed import OpenAIEmbedder
from semgraph.llm.openai import OpenAI
from semgraph.llm.tokens import price_of
from semgraph.meter import StepMetrics
from semgraph.session import Session
from semgraph.stores.base import Store

PRICED, DIMENSIONS = "gpt-4.1-mini", 256
"""The model whose prices count, and the length of vectors: a request for it would be a call more."""
_COUNTED = "calls attempts rounds tokens_in tokens_out embedding_calls embedding_tokens"


@dataclass(frozen=True)
class Server:
    """A running server, at the address for clients."""

    url: str

    def reset(self, **options: str) -> None:
        """Reset the counters, and set options of the server."""
        self._ask(f"/reset?{urllib.parse.urlencode(options)}", "POST")

    def counted(self) -> dict[str, Any]:
        """The counters of the wire since the reset."""
        return self._ask("/counters", "GET")

    def _ask(self, path: str, method: str) -> dict[str, Any]:
        request = urllib.request.Request(self.url.removesuffix("/v1") + path, method=method)
        with urllib.request.urlopen(request) as answer:
            counters: dict[str, Any] = json.load(answer)
            return counters


@contextlib.asynccontextmanager
async def session_at(
    url: str, store: Store | str, journal: str | bool = False, **limits: Any
) -> AsyncIterator[Session]:
    """A session with the simulated model at an address, without a journal and records of runs."""
    llm = OpenAI(PRICED, url, "none")
    embedder = OpenAIEmbedder("stand-in", DIMENSIONS, url, "none")
    models: Any = {"llm": llm, "embedder": embedder}
    try:
        async with Session(**models, store=store, journal=journal, runs="", **limits) as session:
            yield session
    finally:
        await asyncio.gather(llm.aclose(), embedder.aclose())


class NotServing(RuntimeError):
    """The server did not start. The message has the reason and the remedy."""


_SERVERS: dict[tuple[str, ...], tuple[Child, Server]] = {}


@contextlib.contextmanager
def serving(*options: str) -> Iterator[Server]:
    """A server with these options of `python -m benchmarks.world`, with its counters reset. A
    server with the same options is reused until this process ends.

    Raises:
        NotServing: It does not start.
    """
    key = ("benchmarks.world", *options)
    if key not in _SERVERS or _SERVERS[key][0].process.poll() is not None:
        child = Child(key)
        try:
            _SERVERS[key] = child, Server(child.line())
        except RuntimeError as error:
            child.stop()
            busy = " End the program that uses that port, or choose another port."
            hint = busy if "address already in use" in str(error) else ""
            raise NotServing(f"{error}.{hint} By hand: python -m {' '.join(key)}") from None
    server = _SERVERS[key][1]
    server.reset()
    yield server


@atexit.register
def close() -> None:
    """End all servers."""
    while _SERVERS:
        _SERVERS.popitem()[1][0].stop()


def on_wire(server: Server) -> dict[str, float]:
    """The server's counters of a run; dollars are those of the tokens at a real model's price."""
    counters = server.counted()
    found = {name: counters[name] for name in _COUNTED.split()}
    return found | {"usd": dollars(counters["tokens_in"], counters["tokens_out"])}


def dollars(tokens_in: int, tokens_out: int) -> float:
    """The cost of the tokens at the price of a real model."""
    price = price_of(PRICED)
    assert price is not None
    return price.dollars(Usage(prompt=tokens_in, completion=tokens_out))


def same_as_counted(total: StepMetrics, wire: Mapping[str, Any]) -> None:
    """Check semgraph's own counters, of chats and embeddings, against the server's. Raises
    ValueError.
    """
    ours = (total.attempts, total.tokens_in, total.tokens_out)
    theirs = (
        wire["attempts"] + wire["embedding_calls"],
        wire["tokens_in"] + wire["embedding_tokens"],
        wire["tokens_out"],
    )
    if ours != theirs:
        raise ValueError(f"attempts, tokens in, out: semgraph counted {ours}, the server {theirs}")
