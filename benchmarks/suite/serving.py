"""The simulated model server as a process of its own, and the figures that it counted on the
wire.
"""

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

from benchmarks.suite.children import begun, ended
from benchmarks.suite.made import ROOT
from semgraph.llm.base import Usage
from semgraph.llm.prices import price_of
from semgraph.meter import StepMetrics

PRICED = "gpt-4.1-mini"


@dataclass(frozen=True)
class Server:
    """A running server.

    Args:
        url: What a client is given.
    """

    url: str

    def reset(self, **options: str) -> None:
        """Forget what was counted; with options that the server knows for this."""
        self._ask(f"/reset?{urllib.parse.urlencode(options)}", "POST")

    def counted(self) -> dict[str, Any]:
        """What went over the wire since."""
        return self._ask("/counters", "GET")

    def _ask(self, path: str, method: str) -> dict[str, Any]:
        request = urllib.request.Request(self.url.removesuffix("/v1") + path, method=method)
        with urllib.request.urlopen(request) as answer:
            found: dict[str, Any] = json.load(answer)
            return found


class NotServing(RuntimeError):
    """The server did not start. Says why, and what to do."""


_KEPT: dict[tuple[str, ...], tuple[subprocess.Popen[str], Server]] = {}


@contextlib.contextmanager
def serving(*options: str, module: str = "benchmarks.world") -> Iterator[Server]:
    """A server with these options of `python -m benchmarks.world`, or of another module, that has
    counted nothing.

    One that was started with the same options serves again: starting takes longer than most of what
    is measured. All end with this process, or by `close`. Raises NotServing.
    """
    key = (module, *options)
    if key not in _KEPT or _KEPT[key][0].poll() is not None:
        _KEPT[key] = _started(key)
    server = _KEPT[key][1]
    server.reset()
    yield server


def _started(key: tuple[str, ...]) -> tuple[subprocess.Popen[str], Server]:
    with tempfile.TemporaryFile("w+") as said:
        process = begun([sys.executable, "-m", *key], stdout=subprocess.PIPE, stderr=said, cwd=ROOT)
        assert process.stdout is not None
        if url := process.stdout.readline().strip():
            return process, Server(url)
        ended(process)
        said.seek(0)
        last = (said.read().strip().splitlines() or ["it said nothing"])[-1]
    busy = (
        " Another program uses that port: end it, or choose another."
        if "address already in use" in last
        else ""
    )
    msg = f"the model's server did not start: {last}.{busy} By hand: python -m {' '.join(key)}"
    raise NotServing(msg)


@atexit.register
def close() -> None:
    """End all servers that were kept."""
    for process, _ in _KEPT.values():
        ended(process)
    _KEPT.clear()


def on_wire(server: Server) -> dict[str, float]:
    """The figures of a run as the server counted them; dollars are those of the tokens at a real
    model's price.
    """
    found = server.counted()
    names = (
        "calls",
        "attempts",
        "rounds",
        "tokens_in",
        "tokens_out",
        "embedding_calls",
        "embedding_tokens",
    )
    return {name: found[name] for name in names} | {
        "usd": dollars(found["tokens_in"], found["tokens_out"])
    }


def dollars(tokens_in: int, tokens_out: int) -> float:
    """What the tokens would cost at the price of a real model."""
    price = price_of(PRICED)
    assert price is not None
    return price.dollars(Usage(prompt=tokens_in, completion=tokens_out))


def same_as_counted(total: StepMetrics, wire: Mapping[str, Any]) -> None:
    """Fail where semgraph's own accounting, chats and embeddings together, is not the server's.
    Raises ValueError.
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
