"""Semantic operators: what is asked about, and what becomes of the answers.

The engine makes the items (rows, pairs, groups), hands them to an implementation, checks what it returns, and puts the result
together. An implementation never sees `how`, `keep` or `on_error`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import singledispatch
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from semgraph.errors import EngineError
from semgraph.expr.functions import canonical_json
from semgraph.logical.node import Node
from semgraph.logical.prompt import PromptSet, plain
from semgraph.logical.semantic import Semantic, SemMap
from semgraph.physical.columns import values
from semgraph.physical.contract import Context, Implementation, Rows
from semgraph.physical.relational import runtime_schema
from semgraph.physical.semantic.shaped import shaped
from semgraph.physical.sql import MEMBER, PARTITION
from semgraph.physical.watching import watched


@dataclass(frozen=True)
class Failure:
    """A row whose answer could not be had. `member` is its member row of the order's input, if it has one."""

    step: str
    error: str
    member: int | None
    row: dict[str, Any]


@dataclass(frozen=True)
class Answered:
    """What a semantic operator gave.

    Args:
        table: The result, with hidden columns.
        failures: Rows that were left out, or kept with NULLs if `kept`.
        kept: Whether failed rows stayed (`on_error: null`).
        evidence: What was asked and answered, an item a row: `_m`, `left` and `right` (JSON of what the prompt read), the
            answers, `error`, `calls`.
        rows_in: How many rows (for sem_join: pairs) were asked about.
    """

    table: pa.Table
    failures: tuple[Failure, ...] = ()
    kept: bool = False
    evidence: pa.Table | None = None
    rows_in: int = 0


@dataclass(frozen=True)
class Asking:
    """What an operator needs to be answered: the way, what it may touch, the partition values by `_p`, and `$now`."""

    way: Implementation[Any]
    ctx: Context
    partitions: Sequence[str]
    partition_column: str
    now: datetime | None
    check: Any = field(repr=False)  # framing.check_answer


async def answer(node: Semantic, inputs: Sequence[pa.Table], asking: Asking) -> Answered:
    """Run one semantic operator over its inputs."""
    if not inputs[0].num_rows:
        return Answered(runtime_schema(node).empty_table())
    return await assemble(node, inputs, asking)


def pick(table: pa.Table, path: str) -> pa.ChunkedArray[Any]:
    """A column, or a field of a struct column."""
    root, *rest = path.split(".")
    column = table.column(root)
    return pc.struct_field(column, rest) if rest else column


def _flat(table: pa.Table, paths: Sequence[str]) -> pa.Table:
    if not paths:
        return table.select([])
    return pa.table({path: pick(table, path) for path in paths})


def whose(table: pa.Table, asking: Asking) -> list[str]:
    """For each row its partition."""
    if PARTITION in table.column_names:
        return [asking.partitions[i] for i in values(table.column(PARTITION))]
    name = asking.partition_column
    if name in table.column_names and table.schema.field(name).type == pa.string():
        return [value or "" for value in values(table.column(name))]
    return [""] * table.num_rows


def _prompts(table: pa.Table, prompts: PromptSet) -> list[int | None]:
    if not prompts.by:
        return [0] * table.num_rows
    everything = prompts.all
    found: list[int | None] = []
    for value in values(pick(table, prompts.by)):
        prompt = prompts.pick(value)
        found.append(None if prompt is None else next(i for i, p in enumerate(everything) if p is prompt))
    return found


async def ask(
    node: Semantic,
    left: pa.Table,
    right: pa.Table | None,
    items: pa.Table,
    asking: Asking,
    times: Sequence[int] = (),
) -> pa.Table:
    """Hand items to the implementation and check what comes back: every item once, in order.

    `times` says for how many rows each left row stands.
    """
    prompts = _prompts(left, node.prompt)
    if None in prompts:
        row = prompts.index(None)
        value = pick(left, node.prompt.by)[row].as_py()
        there = ", ".join(v for v, _ in node.prompt.prompts)
        msg = f'step {node.step}: no prompt for {node.prompt.by} "{value}"; there are: {there}. Add otherwise: to the prompt'
        raise EngineError(msg)
    other = None if right is None else _flat(right, node.prompt.other_fields)
    numbers = [p for p in prompts if p is not None]
    if isinstance(node, SemMap) and node.form:
        node, numbers = shaped(node, values(pick(left, node.form)), numbers)
    rows = Rows(_flat(left, node.prompt.fields), other, items, whose(left, asking), numbers, times)
    if not items.num_rows:
        from semgraph.physical.contract import answer_schema

        return answer_schema(node).empty_table()
    table = await watched(asking.way, node, rows, asking.ctx)
    asking.check(node, rows, table, asking.way)
    return table.sort_by("item")


def shown(table: pa.Table, paths: Sequence[str], index: Sequence[int]) -> list[str]:
    """What a prompt reads of some rows, as JSON: equal for rows that a model cannot tell apart."""
    rows = _flat(table, paths).to_pylist() if paths else [{}] * table.num_rows
    texts = [canonical_json(plain(row)) for row in rows]
    return [texts[i] for i in index]


def evidence(
    node: Semantic, left: pa.Table, lefts: Sequence[int], answers: pa.Table, rights: Sequence[str]
) -> pa.Table:
    """What was asked and answered, an item a row."""
    members: list[int | None] = values(left.column(MEMBER)) if MEMBER in left.column_names else [None] * left.num_rows
    columns: dict[str, Any] = {
        MEMBER: pa.array([members[i] for i in lefts], pa.int64()),
        "left": pa.array(shown(left, node.prompt.fields, lefts), pa.string()),
        "right": pa.array(list(rights), pa.string()) if rights else pa.nulls(len(lefts), pa.string()),
    }
    return pa.table(columns | {name: answers.column(name) for name in answers.column_names if name != "item"})


def failures(node: Node, left: pa.Table, lefts: Sequence[int], errors: Sequence[str | None]) -> tuple[Failure, ...]:
    """The items with an error, each with its row."""
    found = []
    for i, error in zip(lefts, errors, strict=True):
        if error is not None:
            row = left.slice(i, 1).to_pylist()[0]
            member = row.pop(MEMBER, None)
            row.pop(PARTITION, None)
            found.append(Failure(node.step, error, member, plain(row)))
    return tuple(found)


@singledispatch
async def assemble(node: Semantic, inputs: Sequence[pa.Table], asking: Asking) -> Answered:  # noqa: ARG001
    """Ask, and put the result together; each operator has its own way."""
    raise EngineError(f"the engine cannot put together the answers of {node.keyword}")
