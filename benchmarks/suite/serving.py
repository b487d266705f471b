"""The simulated model server as a process of its own, and the figures that it counted on the wire."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from benchmarks.suite.made import ROOT
from semgraph.llm.base import Usage
from semgraph.llm.prices import price_of

PRICED = "gpt-4.1-mini"


@dataclass(frozen=True)
class Server:
    """A running server.

    Args:
        url: What a client is given.
    """

    url: str

    def reset(self, *, forgiving: bool = False) -> None:
        """Forget what was counted; with `forgiving`, answer what was refused before."""
        self._ask("/reset?forgiving=1" if forgiving else "/reset", "POST")

    def counted(self) -> dict[str, Any]:
        """What went over the wire since."""
        return self._ask("/counters", "GET")

    def _ask(self, path: str, method: str) -> dict[str, Any]:
        request = urllib.request.Request(self.url.removesuffix("/v1") + path, method=method)
        with urllib.request.urlopen(request) as answer:
            found: dict[str, Any] = json.load(answer)
            return found


@contextlib.contextmanager
def serving(*options: str, module: str = "benchmarks.world") -> Iterator[Server]:
    """A server with these options of `python -m benchmarks.world`, or of another module, ended afterwards."""
    command = [sys.executable, "-m", module, *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    try:
        assert process.stdout is not None
        yield Server(process.stdout.readline().strip())
    finally:
        process.terminate()
        process.wait()


def on_wire(server: Server) -> dict[str, float]:
    """The figures of a run as the server counted them; dollars are those of the tokens at a real model's price."""
    found = server.counted()
    names = ("calls", "attempts", "rounds", "tokens_in", "tokens_out", "embedding_calls", "embedding_tokens")
    return {name: found[name] for name in names} | {"usd": dollars(found["tokens_in"], found["tokens_out"])}


def dollars(tokens_in: int, tokens_out: int) -> float:
    """What the tokens would cost at the price of a real model."""
    price = price_of(PRICED)
    assert price is not None
    return price.dollars(Usage(prompt=tokens_in, completion=tokens_out))
