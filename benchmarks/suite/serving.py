"""The simulated model server as a separate process, and the figures that it counts on the wire."""

from __future__ import annotations

import atexit
import contextlib
import json
import subprocess
import sys
import tempfile
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from benchmarks.suite.children import started, stop
from benchmarks.suite.made import ROOT
from semgraph.llm.base import Usage
from semgraph.llm.prices import price_of
from semgraph.meter import StepMetrics

PRICED = "gpt-4.1-mini"


@dataclass(frozen=True)
class Server:
    """A running server.

    Args:
        url: The address for clients.
    """

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


class NotServing(RuntimeError):
    """The server did not start. The message has the reason and the remedy."""


_SERVERS: dict[tuple[str, ...], tuple[subprocess.Popen[str], Server]] = {}


@contextlib.contextmanager
def serving(*options: str, module: str = "benchmarks.world") -> Iterator[Server]:
    """A server with these options of `python -m benchmarks.world` (or another module), with its
    counters reset.

    A server with the same options is reused, because starting takes longer than most measurements.
    All servers end with this process, or by `close`. Raises NotServing.
    """
    key = (module, *options)
    if key not in _SERVERS or _SERVERS[key][0].poll() is not None:
        _SERVERS[key] = _started(key)
    server = _SERVERS[key][1]
    server.reset()
    yield server


def _started(key: tuple[str, ...]) -> tuple[subprocess.Popen[str], Server]:
    with tempfile.TemporaryFile("w+") as errors:
        process = started(
            [sys.executable, "-m", *key], stdout=subprocess.PIPE, stderr=errors, cwd=ROOT
        )
        assert process.stdout is not None
        if url := process.stdout.readline().strip():
            return process, Server(url)
        stop(process)
        errors.seek(0)
        last = (errors.read().strip().splitlines() or ["no message"])[-1]
    busy = (
        " Another program uses that port: end it, or choose a different port."
        if "address already in use" in last
        else ""
    )
    msg = f"the model server did not start: {last}.{busy} By hand: python -m {' '.join(key)}"
    raise NotServing(msg)


@atexit.register
def close() -> None:
    """End all servers."""
    for process, _ in _SERVERS.values():
        stop(process)
    _SERVERS.clear()


def on_wire(server: Server) -> dict[str, float]:
    """The server's counters of a run; dollars are those of the tokens at a real model's price."""
    counters = server.counted()
    names = (
        "calls",
        "attempts",
        "rounds",
        "tokens_in",
        "tokens_out",
        "embedding_calls",
        "embedding_tokens",
    )
    return {name: counters[name] for name in names} | {
        "usd": dollars(counters["tokens_in"], counters["tokens_out"])
    }


def dollars(tokens_in: int, tokens_out: int) -> float:
    """The cost of the tokens at the price of a real model."""
    price = price_of(PRICED)
    assert price is not None
    return price.dollars(Usage(prompt=tokens_in, completion=tokens_out))


def same_as_counted(total: StepMetrics, wire: Mapping[str, Any]) -> None:
    """Check semgraph's own counters, of chats and embeddings, against the server's. Raises
    ValueError.
    """
    ours = {
        "attempts": total.attempts,
        "tokens_in": total.tokens_in,
        "tokens_out": total.tokens_out,
    }
    theirs = {
        "attempts": wire["attempts"] + wire["embedding_calls"],
        "tokens_in": wire["tokens_in"] + wire["embedding_tokens"],
        "tokens_out": wire["tokens_out"],
    }
    if ours != theirs:
        msg = f"semgraph counted {ours}, the server {theirs}"
        raise ValueError(msg)
