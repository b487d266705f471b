"""The world's model, which also reads LOTUS's prompts: it finds the texts in them and answers as it would have been asked.

`python -m benchmarks.operators.server --latency 0.05` prints its address. `POST /reset?forgiving=1` lets rows through that
were refused.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import re
from collections.abc import Mapping
from typing import Any

from aiohttp import web

from benchmarks.operators.cases import MARK
from benchmarks.world import Fault, Noise, StandIn
from benchmarks.world.answers.fields import Source, combined, filled
from benchmarks.world.answers.words import holds, strength
from benchmarks.world.requests import NotUnderstood

_FIELD = re.compile(r"\[([\w:]+)\]: «(.*?)»", re.DOTALL)
_AGG = "Your job is to provide an answer to the user's instruction given the context below"


class Model(StandIn):
    """The server. What LOTUS writes is found by the words of its prompts."""

    forgiving = False

    def reset(self) -> None:
        """Forget all that was counted."""
        super().reset()
        self.forgiving = False

    def answer(self, body: Mapping[str, Any]) -> tuple[str, str]:
        """The question, and the answer. Raises NotUnderstood."""
        texts = [_plain(message["content"]) for message in body["messages"]]
        if MARK in texts[-1] and not self.forgiving:
            raise NotUnderstood("this row is refused")
        found = _of_lotus(texts, body)
        return ("lotus", found) if found is not None else super().answer(body)

    async def _answered(self, body: Mapping[str, Any], fault: Fault | None, request: web.Request) -> web.StreamResponse:
        messages = [message | {"content": _plain(message["content"])} for message in body["messages"]]
        return await super()._answered({**body, "messages": messages}, fault, request)

    async def _reset(self, request: web.Request) -> web.Response:
        forgiving = request.query.get("forgiving") == "1"
        self.reset()
        self.forgiving = forgiving
        return web.json_response({})


def _plain(content: Any) -> str:
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


def _of_lotus(texts: list[str], body: Mapping[str, Any]) -> str | None:
    """The answer to a prompt of LOTUS's, or None if it is none."""
    system, user = texts[0], texts[-1]
    if system.startswith("Your job is to to select"):
        question, first, second = re.split(r"\n+Document [12]:\n", user.removeprefix("Question: "))
        better = strength(_filled(question, first)) >= strength(_filled(question, second))
        return f"Document {1 if better else 2}"
    if system.startswith("The user will provide a claim"):
        context, _, claim = user.removeprefix("Context:\n").rpartition("\n\nClaim: ")
        return f"Answer: {holds(_filled(claim, context))}"
    if system.startswith("The user will provide an instruction"):
        context = user.rpartition("\n\nInstruction: ")[0]
        return _json(filled(_schema(body), Source(dict(_FIELD.findall(context))["Text"])))
    if user.startswith(_AGG):
        documents = [value for name, value in _FIELD.findall(user) if name == "Text"]
        return _json(combined(_schema(body), [Source(text) for text in documents], []))
    return None


def _filled(question: str, context: str) -> str:
    for name, value in _FIELD.findall(context):
        question = re.sub(rf"“\{{?{re.escape(name)}\}}?”", lambda _, v=value: f"“{v}”", question, flags=re.IGNORECASE)
    return question


def _schema(body: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Mapping[str, Any] = body["response_format"]["json_schema"]["schema"]["properties"]
    return found


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


async def _serve(latency: float, noise: Noise) -> None:
    async with Model(latency=latency, noise=noise) as server:
        print(server.base_url, flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--latency", type=float, default=0.05)
    parser.add_argument("--noise", type=Noise.parse, default=Noise(), help="as of python -m benchmarks.world")
    given = parser.parse_args()
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_serve(given.latency, given.noise))
