"""Semantic operators: what is asked about, and what becomes of the answers.

The engine makes the items (rows, pairs, groups), hands them to an implementation, checks what it returns, and puts the result
together. An implementation never sees `how`, `keep` or `on_error`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import singledispatch
from typing import Any

import pyarrow as pa

from semgraph.errors import EngineError
from semgraph.expr.functions import canonical_json
from semgraph.logical.node import Node
from semgraph.logical.prompt import PromptSet, plain
from semgraph.logical.semantic import Semantic, SemMap
from semgraph.physical.answers import answer_table
from semgraph.physical.columns import pick, values
from semgraph.physical.contract import Context, Implementation, Outcome, Rows, answer_schema
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
        stays: The rows of the input that the result has, for operators that give each row at most once.
        members: For each row that was asked about its member row, where `evidence` has not a row for each.
    """

    table: pa.Table
    failures: tuple[Failure, ...] = ()
    kept: bool = False
    evidence: pa.Table | None = None
    rows_in: int = 0
    stays: Sequence[int] = ()
    members: Sequence[int | None] | None = None

    def asked_of(self, members: Collection[int] | None) -> int:
        """How many rows were asked about that derive from some members (None: all), or from none."""
        if members is None or self.evidence is None:
            return self.rows_in
        own = set(members)
        of = values(self.evidence.column(MEMBER)) if self.members is None else self.members
        return sum(member is None or member in own for member in of)

    @property
    def unusable(self) -> list[str]:
        """The calls that ended in an error of what they were asked about, each once."""
        if self.evidence is None:
            return []
        errors, calls = values(self.evidence.column("error")), values(self.evidence.column("calls"))
        return list(
            dict.fromkeys(call for error, own in zip(errors, calls, strict=True) if error for call in own or ())
        )


@dataclass(frozen=True)
class Asking:
    """What an operator needs to be answered: the way, what it may touch, the partition values by `_p`, and `$now`.

    `known` has the answers to earlier parts of the same relation, and takes those to this one; None: it is whole.
    """

    way: Implementation[Any]
    ctx: Context
    partitions: Sequence[str]
    partition_column: str
    now: datetime | None
    check: Any = field(repr=False)  # framing.check_answer
    known: dict[object, pa.Table] | None = None


async def answer(node: Semantic, inputs: Sequence[pa.Table], asking: Asking) -> Answered:
    """Run one semantic operator over its inputs."""
    if not inputs[0].num_rows:
        return Answered(runtime_schema(node).empty_table())
    return await assemble(node, inputs, asking)


def _flat(table: pa.Table, paths: Sequence[str]) -> pa.Table:
    if not paths:
        return table.select([])
    return pa.table({path: pick(table, path) for path in paths})


def whose(table: pa.Table, asking: Asking) -> list[str]:
    """For each row its partition; "" where it has none."""
    return owners_of(table, asking) or [""] * table.num_rows


def owners_of(table: pa.Table, asking: Asking) -> list[str] | None:
    """For each row its partition, which may be ""; None if the rows are of no partition."""
    if PARTITION in table.column_names:
        return [asking.partitions[i] for i in values(table.column(PARTITION))]
    name = asking.partition_column
    if name in table.column_names and table.schema.field(name).type == pa.string():
        return [value or "" for value in values(table.column(name))]
    return None


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
    owners: Sequence[str] | None = None,
) -> pa.Table:
    """Hand items to the implementation and check what comes back: every item once, in order.

    A row for which there is no prompt is not asked about: that is its error. `times` says for how many rows each left row
    stands. `owners` are the partitions of the left rows, where these do not say it themselves.
    """
    prompts = _prompts(left, node.prompt)
    refused = _refused(node, left, items, prompts)
    part, units = _without(node, items, refused)
    other = None if right is None else _flat(right, node.prompt.other_fields)
    numbers = [p or 0 for p in prompts]
    if isinstance(node, SemMap) and node.form:
        node, numbers = shaped(node, values(pick(left, node.form)), numbers)
    rows = Rows(_flat(left, node.prompt.fields), other, part, owners or whose(left, asking), numbers, times)
    if not part.num_rows:
        return _with_errors(node, answer_schema(node).empty_table(), units, refused)
    table = await watched(asking.way, node, rows, asking.ctx)
    asking.check(node, rows, table, asking.way)
    return _with_errors(node, table, units, refused)


def _refused(node: Semantic, left: pa.Table, items: pa.Table, prompts: Sequence[int | None]) -> dict[int, str]:
    """The items (for sem_agg: the groups) with a row for which there is no prompt, and what is said of them."""
    if None not in prompts:
        return {}
    there = ", ".join(value for value, _ in node.prompt.prompts)
    picked = ["NULL" if value is None else f'"{value}"' for value in values(pick(left, node.prompt.by))]
    lefts, numbers = values(items.column("left")), _units(node, items)
    return {
        unit: f"no_prompt: there is none for {node.prompt.by} {picked[row]}, only for {there}: add otherwise to the prompt"
        for unit, row in zip(numbers, lefts, strict=True)
        if prompts[row] is None
    }


def _units(node: Semantic, items: pa.Table) -> list[int]:
    """What each item's answer is numbered by."""
    return values(items.column("group")) if node.keyword == "sem_agg" else list(range(items.num_rows))


def _without(node: Semantic, items: pa.Table, refused: Mapping[int, str]) -> tuple[pa.Table, list[int]]:
    """The items that can be asked about, groups numbered anew, and the number that each answer about them had before."""
    numbers = _units(node, items)
    if not refused:
        return items, list(dict.fromkeys(numbers))
    kept = [i for i, unit in enumerate(numbers) if unit not in refused]
    part = items.take(pa.array(kept, pa.int64()))
    if "group" in part.column_names:
        groups = values(part.column("group"))
        dense = {group: i for i, group in enumerate(dict.fromkeys(groups))}
        part = part.set_column(
            part.column_names.index("group"), "group", pa.array([dense[group] for group in groups], pa.int64())
        )
    return part, list(dict.fromkeys(numbers[i] for i in kept))


def _with_errors(node: Semantic, table: pa.Table, units: Sequence[int], refused: Mapping[int, str]) -> pa.Table:
    """The answers, by their numbers before, with the errors of those that were not asked about; in order."""
    table = table.sort_by("item")
    if not refused:
        return table
    errors = answer_table(node, [Outcome(None, error) for error in refused.values()])
    numbered = [
        each.set_column(0, "item", pa.array(list(numbers), pa.int64()))
        for each, numbers in ((table, units), (errors, refused))
    ]
    return pa.concat_tables(numbered, promote_options="default").sort_by("item")


def shown(table: pa.Table, paths: Sequence[str], index: Sequence[int]) -> list[str]:
    """What a prompt reads of some rows, as JSON: equal for rows that a model cannot tell apart."""
    rows = _flat(table, paths).to_pylist() if paths else [{}] * table.num_rows
    texts = [canonical_json(plain(row)) for row in rows]
    return [texts[i] for i in index]


def told_apart(node: Semantic, rows: pa.Table, asking: Asking, owners: Sequence[str] | None = None) -> list[object]:
    """For each row what tells it from others: whose it is, what the prompts read or are picked by, the form of the answer.

    Rows that are equal in this are one question, whatever else they hold.
    """
    form = node.form if isinstance(node, SemMap) else ""
    forms = values(pick(rows, form)) if form else [""] * rows.num_rows
    texts = shown(rows, node.prompt.fields, range(rows.num_rows))
    return list(zip(owners or whose(rows, asking), texts, forms, strict=True))


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
