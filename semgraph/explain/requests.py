"""The first request of each semantic step, as it would be sent, without sending it.

Rows that derive from the inputs and the store are computed. Where the rows of a step depend on
answers, its implementation is run over made-up rows, in which the names of columns stand for their
values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pyarrow as pa

from semgraph.errors import SemgraphError
from semgraph.execution.evaluation import Evaluation
from semgraph.execution.executor import cut_waves, given_rows, number_rows
from semgraph.execution.runtime import Runtime
from semgraph.execution.windows import Wave
from semgraph.llm.base import LLM, Embeddings, Message, Reply, Request, Usage
from semgraph.llm.stack import bound
from semgraph.logical.node import Node, walk
from semgraph.logical.prompt import Prompt
from semgraph.logical.semantic import Semantic
from semgraph.meter import Meter, StepMetrics
from semgraph.physical.plan import PhysicalNode, PhysicalPlan
from semgraph.relational.batch import Batch
from semgraph.semantic.ask import AnswerContext, answer
from semgraph.semantic.context import NodeContext
from semgraph.semantic.contract import Implementation, Part, Rows
from semgraph.stores.base import Store

_TWO = 2  # rows: enough to show what several of them in one call look like


async def ask_of_names(
    node: Semantic, implementation: Implementation[Any], ctx: NodeContext
) -> None:
    """Run an implementation over two made-up rows (pairs of them, a group of them)."""
    await implementation.answer(node, _rows(node), ctx)


async def ask_of_one(node: Semantic, ctx: NodeContext) -> None:
    """Ask about one made-up row, pair or group in the prompt's own words, whatever the implementation."""
    rows = _rows(node)
    if node.keyword == "sem_agg":
        await ctx.ask_groups(node, rows, [Part(0, range(_TWO))])
    else:
        await ctx.ask_packed(node, rows, [[item] for item in range(rows.items.num_rows)])


def _rows(node: Semantic) -> Rows:
    numbers = list(range(_TWO))
    right = None
    columns: dict[str, list[int]] = {"left": numbers}
    if node.keyword == "sem_join":
        right = _named(node.prompt.other_fields, f"{getattr(node, 'alias', '')}.")
        columns = {"left": [left for left in numbers for _ in numbers], "right": numbers * _TWO}
    elif node.keyword in {"sem_agg", "sem_topk"}:
        columns = {"group": [0] * _TWO, "left": numbers}
    items = pa.table({name: pa.array(values, pa.int64()) for name, values in columns.items()})
    return Rows(_named(node.prompt.fields), right, items, [""] * _TWO, [0] * _TWO)


def _named(paths: Sequence[str], prefix: str = "") -> pa.Table:
    if not paths:
        return pa.table({"_": pa.array([None] * _TWO, pa.null())}).select([])
    return pa.table({path: pa.array([f"<{prefix}{path}>"] * _TWO, pa.string()) for path in paths})


@dataclass(frozen=True)
class FirstPrompt:
    """The messages of a step's first request. `real`: with the values of a row; else with the names
    of its columns.
    """

    node: Semantic
    messages: Sequence[Message]
    tokens: int
    real: bool


class _NotAskedError(SemgraphError):
    """A model, an embedder or the store would be called now."""


class _RecordsFirstRequest:
    """A model that records the first request and answers none, with the limits and the tokenizer of
    the real one.
    """

    def __init__(self, model: LLM) -> None:
        self._model = model
        self.name, self.limits, self.exact_tokens = model.name, model.limits, model.exact_tokens
        self.first: Request | None = None

    def count_tokens(self, text: str) -> int:
        return self._model.count_tokens(text)

    def dollars(self, usage: Usage) -> float | None:
        return self._model.dollars(usage)

    async def complete(self, request: Request) -> Reply:
        self.first = self.first or request
        raise _NotAskedError("a model would be asked here")

    async def aclose(self) -> None:
        """Nothing is open."""


class _NoEmbedder:
    """An embedder that embeds nothing."""

    name = "none"

    async def dimensions(self) -> int:
        raise _NotAskedError("an embedder would be asked here")

    def count_tokens(self, text: str) -> int:
        return len(text) // 4

    def dollars(self, usage: Usage) -> float | None:  # noqa: ARG002
        return None

    async def embed(self, texts: Sequence[str], partition: str = "") -> Embeddings:  # noqa: ARG002
        raise _NotAskedError("an embedder would be asked here")

    async def aclose(self) -> None:
        """Nothing is open."""


class _NoStore:
    """A store that is not read."""

    name = "none"
    round_trips = 0

    def __init__(self, store: Store) -> None:
        self.takes = store.takes

    def __getattr__(self, name: str) -> Any:
        raise _NotAskedError(f"the store would be asked here: {name}")


async def tokens_of_inputs(
    plan: PhysicalPlan, llm: LLM, store: Store, inputs: Mapping[str, pa.Table], now: datetime
) -> dict[Node, float]:
    """Tokens of the first prompts that rest on the inputs alone, by node; the store is
    not read.
    """
    closed: Any = _NoStore(store)
    prompts = await first_prompts(plan, llm, closed, inputs, now)
    return {each.node: float(each.tokens) for each in prompts if each.real}


async def first_prompts(
    plan: PhysicalPlan, llm: LLM, store: Store, inputs: Mapping[str, pa.Table], now: datetime
) -> list[FirstPrompt]:
    """The first prompt of each semantic step, over the first rows of each partition; the store is
    read, no model is called.
    """
    runtime = Runtime(plan, _RecordsFirstRequest(llm), _NoEmbedder(), store, Meter())
    tables, windows = await _first_rows(plan, runtime, inputs)
    prompts = []
    async with Evaluation(runtime, tables, now, windows) as evaluation:
        for node in walk(*plan.roots):
            if isinstance(node, Semantic):
                model = bound(llm, node.prompt.first.role)
                request = await _first_request(node, evaluation, _RecordsFirstRequest(model), now)
                first = request or await _made_up(
                    node, plan.model_call(node).implementation, _RecordsFirstRequest(model)
                )
                messages = _in_names(node.prompt.first) if first is None else first.messages
                tokens = sum(model.count_tokens(message.content) for message in messages)
                prompts.append(FirstPrompt(node, messages, tokens, request is not None))
    return prompts


async def _first_rows(
    plan: PhysicalPlan, runtime: Runtime, inputs: Mapping[str, pa.Table]
) -> tuple[dict[PhysicalNode, Batch], Wave]:
    tables = dict(inputs)
    first: Wave = ()
    order = plan.logical.order
    if order is not None and order.input in tables:
        rows = await number_rows(runtime, order, tables)
        waves = cut_waves(runtime, order, rows, dict(enumerate(rows.of)))
        first = waves[0] if waves else ()
        some = Batch.of_table(rows.rows).of_rows([row for window in first for row in window.rows])
        assert runtime.confinement is not None
        tables[order.input] = runtime.confinement.by_window(some).table
    return given_rows(plan, tables), first


async def _first_request(
    node: Semantic, evaluation: Evaluation, model: _RecordsFirstRequest, now: datetime
) -> Request | None:
    runtime = evaluation.runtime
    try:
        ask = runtime.plan.model_call(node)
        tables = [batch.table for batch in await evaluation.batches(ask.inputs)]
        column = runtime.plan.logical.graph.partition
        async with NodeContext(model, _NoEmbedder(), node, StepMetrics()) as ctx:
            await answer(
                node,
                tables,
                AnswerContext(ask.implementation, ctx, runtime.partitions, column, now),
            )
    except _NotAskedError:
        pass
    return model.first


async def _made_up(
    node: Semantic, implementation: Implementation[Any], model: _RecordsFirstRequest
) -> Request | None:
    """A request about rows of names; in the prompt's own words where the implementation cannot
    work with them.
    """
    if getattr(node, "form", ""):
        return None  # what it asks for stands in the rows
    async with NodeContext(model, _NoEmbedder(), node, StepMetrics()) as ctx:
        for asking in (ask_of_names(node, implementation, ctx), ask_of_one(node, ctx)):
            if model.first is None:
                with suppress(
                    Exception
                ):  # an implementation may want numbers, or vectors, where there are names
                    await asking
            asking.close()
    return model.first


def _in_names(prompt: Prompt) -> tuple[Message, ...]:
    """A prompt with names in place of values."""
    static = "\n\n".join(part.strip() for part in (prompt.rules, prompt.examples) if part.strip())
    question = "\n\n".join(
        part.question().strip() for part in (prompt.context, prompt.item, prompt.other) if part
    )
    return (*((Message("system", static),) if static else ()), Message("user", question))


def shown(prompts: Sequence[FirstPrompt], *, exact: bool) -> str:
    """The prompts as text, each headed by its step and its tokens (`~`: not by the model's own
    tokenizer).
    """
    parts = []
    for each in prompts:
        sign = "" if exact else "~"
        note = "" if each.real else " · its rows depend on answers: <column> stands for a value"
        lines = [f"── {each.node.step} · {each.node.keyword} · {sign}{each.tokens:,} tokens{note}"]
        lines += [
            line
            for message in each.messages
            for line in (f"[{message.role}]", message.content.strip())
        ]
        parts.append("\n".join(lines))
    return "\n\n".join(parts)
