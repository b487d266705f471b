"""The world's model, which also answers graphiti-core's reranker: how near a passage is to a query, as a probability.

graphiti-core asks for "True" or "False" in one token and reads the probability of that token; semgraph asks for a score. Both
get the same number for the same query and passage. `python -m benchmarks.search.server` prints its address.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import math
import re
from collections.abc import Mapping
from typing import Any

from aiohttp import web

from benchmarks.world import Fault, StandIn
from benchmarks.world.__main__ import serve, switches
from benchmarks.world.answers.words import strength
from benchmarks.world.protocol import Said, Tokens, completion

_ASKED = re.compile(r"<PASSAGE>\s*(?P<passage>.*?)\s*</PASSAGE>\s*<QUERY>\s*(?P<query>.*?)\s*</QUERY>", re.DOTALL)


class Model(StandIn):
    """The server."""

    async def _answered(self, body: Mapping[str, Any], fault: Fault | None, request: web.Request) -> web.StreamResponse:
        asked = _ASKED.search(body["messages"][-1]["content"]) if body.get("logprobs") else None
        if asked is None:
            return await super()._answered(body, fault, request)
        score = strength(f"Query: {asked['query']}\nPassage: {asked['passage']}") / 100
        tokens = Tokens(sum(self._count(message["content"]) + 4 for message in body["messages"]) + 3, 0, 1)
        self.counters.answered("relevance", tokens)
        return web.json_response(_told(body["model"], score, tokens))


def _told(model: str, score: float, tokens: Tokens) -> dict[str, Any]:
    """A completion of one token, with its probability."""
    word, share = ("True", score) if score >= 0.5 else ("False", 1 - score)
    document = completion(model, Said(word), tokens)
    said = {"token": word, "logprob": math.log(share), "bytes": None}
    document["choices"][0]["logprobs"] = {"content": [said | {"top_logprobs": [said]}], "refusal": None}
    return document


def main() -> None:
    """Serve until the process is ended."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.search.server", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="0: a free one, which is printed")
    switches(parser)
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(serve(parser.parse_args()))


if __name__ == "__main__":
    main()
