"""Why a row is there: from a run's record, backwards through the steps that it came by, to what was asked and answered.

A record has no pointer from row to row. Two rows of a step and of one it reads belong together if they have the same member
(`_m`) and the most values in common; a call belongs to a row if its question and answer hold the most of the row's words.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from semgraph.errors import PlanError, Problem, did_you_mean
from semgraph.execution.runs import Run
from semgraph.logical.node import walk
from semgraph.logical.plan import LogicalPlan

if TYPE_CHECKING:
    import pyarrow as pa

    from semgraph.llm.journal import Exchange

Row = Mapping[str, Any]
Lookup = Callable[[str], "Exchange | None"]
MEMBER = "_m"
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\Z")
_PREFIX = re.compile(r"[0-9a-f][0-9a-f-]{3,}\Z")
_WORDY = 3  # letters from which a text tells rows apart


def flow(plan: LogicalPlan) -> dict[str, list[str]]:
    """For each step the steps and inputs that it reads directly; what writes is a step too, named as in the plan's writes."""
    found: dict[str, dict[str, None]] = {}
    for node in walk(*plan.roots):
        reads = found.setdefault(node.step, {})
        reads.update({source.step: None for source in node.inputs if source.step != node.step})
    return {step: list(reads) for step, reads in found.items() if step}


@dataclass(frozen=True)
class Asked:
    """One item that a semantic step asked about: what the prompt read, what was answered, and the calls that it took."""

    left: Any
    right: Any
    answers: Row
    error: str | None
    calls: tuple[tuple[str, Exchange | None], ...]


@dataclass(frozen=True)
class Link:
    """One step of the chain: the row as it was there, and what was asked about it."""

    step: str
    row: Row
    asked: tuple[Asked, ...] = ()


@dataclass(frozen=True)
class Chain:
    """How a row came to be, newest first. `others` are rows that what was looked for fits as well, by step."""

    run: str
    what: str
    links: tuple[Link, ...]
    others: tuple[tuple[str, Row], ...] = ()


def explain(run: Run, what: str, lookup: Lookup = lambda _call: None) -> Chain:
    """Trace a row back.

    Args:
        run: The record.
        what: `STEP:column=value`, or a value that rows hold: a key or its beginning, or a name.
        lookup: The journal: a call by its id.

    Raises:
        PlanError: The record has no such step, column or row.
    """
    tracer = _Tracer(run, lookup)
    matches = tracer.find(what)
    if not matches:
        hint = "a key or its beginning, a name as the results have it, or STEP:column=value"
        raise PlanError(Problem(f'no row of run {run.name} holds "{what}"', hint=hint))
    (step, row), *others = matches
    return Chain(run.name, what, tuple(tracer.back(step, row)), tuple(others))


@dataclass
class _Tracer:
    run: Run
    lookup: Lookup
    _tables: dict[tuple[str, str], list[Row]] = field(default_factory=dict)

    @cached_property
    def steps(self) -> list[str]:
        """Steps whose rows are recorded, what is read before what reads it."""
        reads: dict[str, list[str]] = self.run.facts.get("flow", {})
        order: dict[str, None] = {}

        def visit(step: str) -> None:
            for source in reads.get(step, ()):
                if source not in order:
                    visit(source)
            order.setdefault(step)

        for step in reads:
            visit(step)
        base = self.run.folder / "steps"
        known = {str(path.parent.relative_to(base)) for path in base.rglob("*.parquet")}
        return [*(step for step in order if step in known), *sorted(known - set(order))]

    def rows(self, kind: str, step: str) -> list[Row]:
        """All recorded rows of a step."""
        if (kind, step) not in self._tables:
            from semgraph.execution.record import read_rows

            table: pa.Table | None = read_rows(self.run.folder, kind, step)
            self._tables[kind, step] = [] if table is None else list(table.to_pylist())
        return self._tables[kind, step]

    def find(self, what: str) -> list[tuple[str, Row]]:
        """The rows that hold it, those of the last step first."""
        step, colon, rest = what.partition(":")
        column, equals, value = rest.partition("=")
        if colon and equals and re.fullmatch(r"[\w./]+", step) and re.fullmatch(r"[\w.]+", column):
            return [(step, row) for row in self._of(step, column) if _text(_at(row, column)) == value]
        for name in reversed(self.steps):
            found = [(name, row) for row in self.rows("steps", name) if _holds(row, what)]
            if found:
                return found
        return []

    def _of(self, step: str, column: str) -> list[Row]:
        if step not in self.steps:
            there = "steps: " + ", ".join(self.steps)
            raise PlanError(
                Problem(f'run {self.run.name} has no step "{step}"', there=there, hint=did_you_mean(step, self.steps))
            )
        rows = self.rows("steps", step)
        names = [name for name in (rows[0] if rows else {}) if name != MEMBER]
        if column.partition(".")[0] not in names:
            hint = did_you_mean(column, names)
            raise PlanError(
                Problem(f'step {step} has no column "{column}"', there="columns: " + ", ".join(names), hint=hint)
            )
        return rows

    def back(self, step: str, row: Row) -> Iterator[Link]:
        """The row's step, then every step before it that has a row of its own for it, newest first."""
        reads: dict[str, list[str]] = self.run.facts.get("flow", {})
        wanted: dict[str, None] = {step: None}
        before = set(_ancestors(step, reads))
        traced = {step: row}
        words = _words(row)
        for name in [step, *(s for s in reversed(self.steps) if s in before and s != step)]:
            if name not in traced:
                readers = [traced[r] for r, sources in reads.items() if r in traced and name in sources]
                match = self._match(name, row, readers or [row])
                if match is None:
                    continue
                traced[name] = match
                wanted[name] = None
            yield Link(name, traced[name], tuple(self._asked(name, traced[name], words)))

    def _match(self, step: str, start: Row, readers: Sequence[Row]) -> Row | None:
        """The row of a step that shares the most values with the rows that were made from it."""
        rows = [row for row in self.rows("steps", step) if _same_member(row, start)]
        scored = [(max(_common(row, reader) for reader in readers), row) for row in rows]
        best = max((score for score, _ in scored), default=0)
        if best == 0:
            return rows[0] if len(rows) == 1 else None
        return next(row for score, row in scored if score == best)

    def _asked(self, step: str, row: Row, words: set[str]) -> Iterator[Asked]:
        """What was asked about the row: the items whose question and answer hold the most of its words."""
        items = [item for item in self.rows("answers", step) if _same_member(item, row)]
        own = words | _words(row)
        scored = [(sum(word in _text(item) for word in own), item) for item in items]
        best = max((score for score, _ in scored), default=0)
        for score, item in scored:
            if score == best:
                calls = tuple((call, self.lookup(call)) for call in item.get("calls") or ())
                fixed = {MEMBER, "left", "right", "error", "calls"}
                answers = {name: value for name, value in item.items() if name not in fixed}
                yield Asked(_parsed(item.get("left")), _parsed(item.get("right")), answers, item.get("error"), calls)


def _ancestors(step: str, reads: Mapping[str, Iterable[str]]) -> dict[str, None]:
    found: dict[str, None] = {}
    stack = [step]
    while stack:
        for source in reads.get(stack.pop(), ()):
            if source not in found:
                found[source] = None
                stack.append(source)
    return found


def _same_member(row: Row, other: Row) -> bool:
    mine, theirs = row.get(MEMBER), other.get(MEMBER)
    return mine is None or theirs is None or mine == theirs


def _holds(row: Row, what: str) -> bool:
    """Whether a value of the row is it, or a key that begins with it."""
    folded = what.casefold()
    prefix = bool(_PREFIX.match(folded))
    for value in _texts(row):
        if value.casefold() == folded or (prefix and _UUID.match(value) and value.startswith(folded)):
            return True
    return False


def _texts(value: Any) -> Iterator[str]:
    """Every text inside a value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from _texts(inner)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from _texts(inner)


def _words(row: Row) -> set[str]:
    """The texts of a row that tell it from others, but for keys."""
    return {text for text in _texts(row) if len(text) >= _WORDY and not _UUID.match(text)}


def _common(row: Row, other: Row) -> int:
    """How many values two rows share; keys count most, since nothing else is equal by chance as rarely."""
    mine, theirs = set(_texts(row)), set(_texts(other))
    return sum(10 if _UUID.match(text) else 1 for text in mine & theirs if len(text) >= _WORDY)


def _at(row: Row, path: str) -> Any:
    value: Any = row
    for part in path.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, default=str)


def _parsed(text: Any) -> Any:
    try:
        return json.loads(text) if isinstance(text, str) else text
    except json.JSONDecodeError:
        return text
