"""The first request of each semantic step, composed but not sent, and the queries of a plan.

Rows that depend only on the inputs and the store are computed. If the rows of a step depend on
answers, its implementation runs over made-up rows with column names as values.

The queries are the DuckDB statement of every segment, and the store's statements. The latter are
recorded while each search, match and scan runs for a row of made-up values. A scan of all
partitions runs with a condition that is always false.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa

from semgraph.execution.evaluation import Evaluation
from semgraph.execution.executor import batches_of_inputs
from semgraph.execution.runtime import Runtime
from semgraph.execution.windows import Confinement, Wave, cut, prepare
from semgraph.expr.own_functions import plain_names
from semgraph.expr.row_scalars import Unsupported
from semgraph.expr.scalar import parse_scalar
from semgraph.llm.base import LLM, Embeddings, Message, Request
from semgraph.llm.stack import bound
from semgraph.logical.graph import Match, Scan
from semgraph.logical.node import Node, walk
from semgraph.logical.plan import uses_store
from semgraph.logical.prompt import Prompt
from semgraph.logical.search import Search
from semgraph.logical.semantic import VECTOR, Semantic
from semgraph.meter import Meter, StepMetrics
from semgraph.physical.loops import IterateRows
from semgraph.physical.plan import PhysicalNode, PhysicalPlan, SqlSegment, StoreSearch
from semgraph.physical.reads import run_match, scanned_where
from semgraph.physical.search import run_searches
from semgraph.physical.vectors import Partition
from semgraph.relational.batch import Batch, runtime_schema
from semgraph.semantic.ask import Asking
from semgraph.semantic.context import DryRun, DryRunEnded
from semgraph.semantic.contract import Item, Part, Rows
from semgraph.semantic.dispatch import answer
from semgraph.semantic.implementation import Implementation
from semgraph.stores.base import ScanQuery, Store

_TWO = 2  # number of made-up rows: enough to show several in one call


def _made_up_rows(node: Semantic) -> Rows:
    items, right = [Item(number) for number in range(_TWO)], None
    if node.keyword == "sem_join":
        right = _named(node.prompt.other_fields, f"{getattr(node, 'alias', '')}.")
        items = [Item(*pair) for pair in product(range(_TWO), repeat=2)]
    return Rows(_named(node.prompt.fields), right, items, [""] * _TWO, [0] * _TWO)


def _named(paths: Sequence[str], prefix: str = "") -> pa.Table:
    if not paths:
        return pa.table({"_": pa.array([None] * _TWO, pa.null())}).select([])
    return pa.table({path: pa.array([f"<{prefix}{path}>"] * _TWO, pa.string()) for path in paths})


@dataclass(frozen=True)
class FirstPrompt:
    """The messages of a step's first request to a model. `real` is the request if they have values of
    a row; otherwise they have column names.
    """

    node: Semantic
    messages: Sequence[Message]
    tokens: int
    real: Request | None
    model: LLM


class _Closed:
    """A model, embedder or store of which any use but its description raises DryRunEnded."""

    name = "none"

    def __init__(self, described: object = None, *names: str) -> None:
        self._described, self._names = described, names

    def __getattr__(self, name: str) -> Any:
        if name in self._names:
            return getattr(self._described, name)
        raise DryRunEnded


async def prompts_of_inputs(
    plan: PhysicalPlan, llm: LLM, store: Store, inputs: Mapping[str, pa.Table], now: datetime
) -> dict[Node, FirstPrompt]:
    """The first prompts that depend only on the inputs, by node; the store is not read."""
    closed: Any = _Closed(store, "takes")
    prompts = await first_prompts(plan, llm, closed, inputs, now)
    return {each.node: each for each in prompts if each.real}


async def first_prompts(
    plan: PhysicalPlan, llm: LLM, store: Store, inputs: Mapping[str, pa.Table], now: datetime
) -> list[FirstPrompt]:
    """The first prompt of each semantic step, over the first rows of each partition. The store is
    read, no model is called.
    """
    closed: Any = _Closed(llm, "limits", "exact_tokens", "count_tokens", "dollars")
    embedder: Any = _Closed()
    runtime = Runtime(plan, closed, embedder, store, Meter())
    tables, windows = await _first_rows(plan, runtime, inputs)
    prompts = []
    async with Evaluation(runtime, tables, now, windows) as evaluation:
        for node in walk(*plan.roots):
            for loop in plan.of_kind(IterateRows):  # its body reads the input as round 0, if known
                if loop.logical.input is node:
                    with suppress(DryRunEnded):
                        await evaluation.start(loop)
            if isinstance(node, Semantic):
                model = bound(llm, node.prompt.first.role)
                request = await _first_request(node, evaluation, model, now)
                first = request or await _made_up(node, plan.model_call(node).implementation, model)
                messages = _with_names(node.prompt.first) if first is None else first.messages
                tokens = sum(model.count_tokens(message.content) for message in messages)
                prompts.append(FirstPrompt(node, messages, tokens, request, model))
    return prompts


async def _first_rows(
    plan: PhysicalPlan, runtime: Runtime, inputs: Mapping[str, pa.Table]
) -> tuple[dict[PhysicalNode, Batch], Wave]:
    tables = dict(inputs)
    first: Wave = ()
    windowing = plan.logical.windows
    if windowing is not None and windowing.input in tables:
        rows = await prepare(windowing, tables[windowing.input])
        waves = cut(windowing, dict(enumerate(rows.of)))
        runtime.partition_of_row = rows.partition_of_row
        confinement = runtime.confinement = Confinement.of(rows, waves)
        first = waves[0] if waves else ()
        own = [row for window in first for row in window.rows]
        batch = Batch.of_table(rows.rows).of_input_rows(own)
        tables[windowing.input] = confinement.by_window(batch).table
    return batches_of_inputs(plan, tables), first


def _dry_run(node: Semantic, model: LLM) -> DryRun:
    return DryRun(model, _Closed(), node, StepMetrics(), most=1)


async def _first_request(
    node: Semantic, evaluation: Evaluation, model: LLM, now: datetime
) -> Request | None:
    runtime = evaluation.runtime
    async with _dry_run(node, model) as ctx:
        with suppress(DryRunEnded):
            call = runtime.plan.model_call(node)
            tables = [batch.table for batch in await evaluation.compute(call.inputs)]
            column = runtime.plan.logical.graph.partition
            answering = Asking(call.implementation, ctx, runtime.partition_of_row, column, now)
            await answer(node, tables, answering)
    return ctx.first


async def _made_up(
    node: Semantic, implementation: Implementation[Any], model: LLM
) -> Request | None:
    """A request about made-up rows, if need be in the prompt's own words."""
    if getattr(node, "answer_schema", ""):
        return None  # the answer schema comes from the rows
    rows = _made_up_rows(node)
    async with _dry_run(node, model) as ctx:
        with suppress(Exception):  # an implementation may require numbers
            await implementation.answer(node, rows, ctx)
    if ctx.first is not None:
        return ctx.first
    async with _dry_run(node, model) as ctx:
        with suppress(DryRunEnded):
            if node.keyword == "sem_agg":
                await ctx.ask_groups(node, rows, [Part(0, range(_TWO))])
            else:
                await ctx.ask_packed(node, rows, [[item] for item in range(len(rows.items))])
    return ctx.first


def _with_names(prompt: Prompt) -> tuple[Message, ...]:
    """A prompt with column names instead of values."""
    static = "\n\n".join(part.strip() for part in (prompt.rules, prompt.examples) if part.strip())
    question = "\n\n".join(
        part.question().strip() for part in (prompt.context, prompt.item, prompt.other) if part
    )
    return (*((Message("system", static),) if static else ()), Message("user", question))


def text(prompts: Sequence[FirstPrompt], *, exact: bool) -> str:
    """The prompts as text, each below its step and its tokens (`~`: estimated)."""
    parts = []
    for each in prompts:
        sign = "" if exact else "~"
        note = "" if each.real else " · its rows depend on answers: <column> stands for a value"
        lines = [f"── {each.node.step} · {each.node.keyword} · {sign}{each.tokens:,} tokens{note}"]
        for message in each.messages:
            lines += [f"[{message.role}]", message.content.strip()]
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


_NOW = datetime(2000, 1, 1, tzinfo=UTC)
_FRAME = ("BEGIN", "COMMIT", "ROLLBACK", "PRAGMA", "--")


async def store_queries(
    plan: PhysicalPlan, store: Store, dimensions: int
) -> list[tuple[str, list[str]]]:
    """For each read of the store, the steps that share it and its distinct statements.

    The made-up values match no stored rows. `dimensions` is the length of made-up vectors.
    """
    statements: list[tuple[str, list[str]]] = []
    recorded: list[str] = []
    store.observe(recorded.append)
    try:
        for node in walk(*plan.roots):
            recorded.clear()
            steps = await _read(plan, node, store, dimensions)
            if steps:
                texts = (text.strip() for text in recorded)
                own = dict.fromkeys(text for text in texts if not text.startswith(_FRAME))
                statements.append((", ".join(steps), list(own)))
    finally:
        store.observe(None)
    return statements


async def _read(plan: PhysicalPlan, node: Node, store: Store, dimensions: int) -> list[str]:
    """Perform one read and return its steps; none if an earlier read included it."""

    async def embed(texts: Sequence[str], _partition: Partition) -> Embeddings:
        return Embeddings(np.ones((len(texts), dimensions), np.float32))

    if isinstance(node, Search):
        physical = plan.nodes[node]
        assert isinstance(physical, StoreSearch)
        group = physical.group.specs
        if group[0].node is not node:
            return []
        withins = [
            None if s.node.within is None else Batch.of_tuples([], runtime_schema(s.node.within))
            for s in group
        ]
        row = Batch.of_table(_row(node.inputs[0], dimensions))
        await run_searches(group, row, withins, store.search, embed, _NOW)
        return [spec.node.step for spec in group]
    if isinstance(node, Match):
        await run_match(node, Batch.of_table(_row(node.inputs[0], dimensions)), store, _NOW)
        return [node.step]
    if isinstance(node, Scan):
        where = scanned_where(node, store)
        all_partitions = node.partition == "all"
        never = (parse_scalar(f"\"{node.graph.key}\" = ''"),) if all_partitions else ()
        partitions = None if all_partitions else ["x"]
        await store.scan(
            ScanQuery(node.label, node.schema.names, partitions, (*where, *never), node.limit)
        )
        return [node.step]
    return []


def _row(node: Node, dimensions: int) -> pa.Table:
    schema = runtime_schema(node)
    values = {f.name: [1.0] * dimensions if f.type == VECTOR else _value(f.type) for f in schema}
    return pa.table({f.name: pa.array([values[f.name]], f.type) for f in schema}, schema=schema)


def _value(kind: pa.DataType) -> Any:
    if pa.types.is_struct(kind):
        return {field.name: _value(field.type) for field in kind}
    if pa.types.is_fixed_size_list(kind):
        return [1.0] * kind.list_size
    if pa.types.is_list(kind):
        return [_value(kind.value_type)]
    plain = {pa.string(): "x", pa.bool_(): True, pa.date32(): _NOW.date()}
    return _NOW if pa.types.is_timestamp(kind) else plain.get(kind, 0)


def queries_text(statements: Sequence[tuple[str, list[str]]]) -> str:
    """The statements as text, below the steps of each read."""
    return "\n\n".join(
        f"-- store: {steps}\n" + ";\n".join(texts) + ";" for steps, texts in statements if texts
    )


def segment_queries(plan: PhysicalPlan) -> str:
    """The SQL of every segment with its step, and why DuckDB computes it even over few rows."""
    parts = []
    for segment in (node.segment for node in plan.of_kind(SqlSegment)):
        reads = ", ".join(f"{name} = {node.step or node.keyword}" for name, node in segment.inputs)
        few = f"-- {segment.function}\n" if isinstance(segment.function, Unsupported) else ""
        parts.append(
            f"-- DuckDB: {segment.root.step or 'sink'}  ({reads})\n{few}{plain_names(segment.sql)};"
        )
    if not parts:
        parts.append("-- DuckDB: no statements")
    if not uses_store(*plan.roots):
        parts.append("-- store: not read")
    return "\n\n".join(parts)
