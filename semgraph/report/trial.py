"""One real, small question to a model or an embedder: does it answer, in the form that was asked for, and how fast?"""

from __future__ import annotations

import asyncio
import json
import time

from semgraph.errors import ModelUnavailable
from semgraph.expr.functions import canonical_json
from semgraph.llm.base import LLM, Embedder, Message, Request
from semgraph.llm.budget import Budget, Cost
from semgraph.llm.config import Settings
from semgraph.llm.endpoints import build_embedder, build_model
from semgraph.llm.limits import Limiter
from semgraph.llm.models import Model
from semgraph.llm.retry import RetryPolicy
from semgraph.llm.specs import ModelSpec
from semgraph.llm.stack import stack
from semgraph.report.formats import duration, plural

_LONGEST = 120.0
SENTENCE = "Ada lives in Paris."
_SCHEMA = canonical_json(
    {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
        "additionalProperties": False,
    }
)
_REQUEST = Request(
    role="default",
    messages=(
        Message("system", "Name the city in the sentence, as JSON."),
        Message("user", SENTENCE),
    ),
    schema=_SCHEMA,
    max_tokens=32,
)


async def ask(model: LLM) -> str:
    """What came of one request of less than 100 tokens.

    Raises:
        ModelUnavailable: It does not answer, or not in the form that was asked for.
        RowError: It refused, or cut the answer.
    """
    began = time.monotonic()
    reply = await model.complete(_REQUEST)
    seconds = time.monotonic() - began
    try:
        city = json.loads(reply.text)["city"]
    except (ValueError, TypeError, KeyError):
        raise ModelUnavailable(
            f"{model.name} ignores the schema of the answer: it said {reply.text[:60]!r}. Switch structured outputs on "
            "where it is served, or add ?structured=tool to its name"
        ) from None
    usage = f"{reply.usage.prompt} → {reply.usage.completion} tokens"
    return f"asked for the city in “{SENTENCE}”, it said “{city}” ({usage}, {duration(seconds)})"


async def embed(embedder: Embedder) -> str:
    """What came of embedding one sentence. Raises as `Embedder.embed` does."""
    began = time.monotonic()
    found = await embedder.embed([SENTENCE])
    return f"{plural(found.vectors.shape[1], 'dimension')} ({duration(time.monotonic() - began)})"


async def try_spec(spec: ModelSpec, settings: Settings) -> str:
    """Ask, or embed with, what a specification names, once; it is closed afterwards.

    It takes no longer than `max_seconds`, and an endpoint no longer than two minutes.

    Raises:
        SemgraphError: It does not answer, or not as it should; `BudgetReached` if not in time.
    """
    budget = Budget(max_seconds=settings.limits.max_seconds or (_LONGEST if spec.provider == "openai" else None))
    if spec.kind == "embedder":
        embedder = build_embedder(settings)
        try:
            return await budget.spend(Cost(), lambda: embed(embedder), lambda _: Cost(), "an embedding")
        finally:
            await embedder.aclose()
    model = stack(build_model(spec, settings), Limiter(), retry=RetryPolicy(attempts=1), budget=budget)
    try:
        return await ask(model)
    finally:
        await model.aclose()


def trial(model: Model) -> str:
    """Load a local model and let it answer. Raises as `ask` does."""
    key = "llm" if model.kind == "model" else "embedder"
    settings = Settings.load({key: f"local:{model.name}"})
    return asyncio.run(try_spec(settings.model() if model.kind == "model" else settings.embedder, settings))
