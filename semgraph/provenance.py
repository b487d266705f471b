"""The provenance of a row, from a run's record: back through the steps to questions and answers.

Each recorded row has an id. The record holds the source rows of each row (`lineage/`) and the rows
of each question (`answers/`). The provenance of a row is the set of its direct and indirect
sources, and the questions about them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeVar

from semgraph.errors import PlanError, Problem, among, did_you_mean
from semgraph.execution import record
from semgraph.formats import plain_line, plural, shortened

if TYPE_CHECKING:
    from semgraph.llm.journal import Exchange


Row = Mapping[str, Any]
T = TypeVar("T")
# The columns of recorded items that are not answers.
FIXED = frozenset({record.INPUT_ROW, record.ROW_ID, "left", "right", "error", "calls"})
_HIDDEN = frozenset({record.INPUT_ROW, record.ROW_ID, "_p"})
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\Z")
_KEY_PREFIX = re.compile(r"[0-9a-f][0-9a-f-]{3,}\Z")


def holds(value: Any, what: str) -> bool:
    """Whether a value, or one inside it, equals the text `what` or is a UUID that begins with it."""
    folded = what.casefold()
    prefix = bool(_KEY_PREFIX.match(folded))
    return any(
        text.casefold() == folded
        or (prefix and UUID.match(text) is not None and text.startswith(folded))
        for text in texts(value)
    )


def texts(value: Any) -> Iterator[str]:
    """Every text inside a value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from texts(inner)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from texts(inner)


def at(row: Row, path: str) -> Any:
    """The value of a column, or of a field inside it (`pair.a`)."""
    value: Any = row
    for part in path.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def as_text(value: Any) -> str:
    """A value in the notation used after `column=`."""
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, default=str)


def parsed(text: Any) -> Any:
    """A text parsed as JSON; the text itself if it is invalid."""
    try:
        return json.loads(text) if isinstance(text, str) else text
    except json.JSONDecodeError:
        return text


Found = list[tuple[str, Row]]
_LISTED = 8
_SHOWN = 80
_NAME = 60  # the maximum length of a text that counts as a name in suggestions


def meant(what: str, key: str, steps: Sequence[str], rows: Callable[[str], Sequence[Row]]) -> Found:
    """The rows that contain a text, rows of the last step first.

    Exact keys and texts take precedence over prefixes, and these over other parts of texts.

    Args:
        what: A key or its prefix, a text or a part of it.
        key: The name of the key property.
        steps: The steps with rows, in order of computation.
        rows: The rows of a step.

    Raises:
        PlanError: Several keys or texts have this part; they are listed.
    """
    for own in (True, False):  # rows with this key, before rows that refer to it
        for name in reversed(steps):
            matches = [row for row in rows(name) if holds(row.get(key) if own else row, what)]
            if matches:
                if own:
                    _only_text([(name, str(row[key])) for row in matches], what)
                return [(name, row) for row in matches]
    last = ((step, row) for step in reversed(steps) for row in rows(step))
    every = [(step, row, text) for step, row in last for text in texts(visible(row))]
    begun = [one for one in every if what and one[2].casefold().startswith(what.casefold())]
    begun = begun or [one for one in every if what and what.casefold() in one[2].casefold()]
    whole = _only_text([(step, text) for step, _, text in begun], what)
    return [(step, row) for step, row, _ in begun if step == begun[0][0]] if whole else []


def in_column(step: str, column: str, value: str, rows: Sequence[Row]) -> Found:
    """The rows of a step with a value in a column; without any, those with this prefix. Raises
    PlanError.
    """
    values = [(as_text(at(row, column)), row) for row in rows]
    if not any(text == value for text, _ in values):
        begun = [
            text for text, _ in values if value and text.casefold().startswith(value.casefold())
        ]
        value = _only_text([(step, text) for text in begun], value) or value
    return [(step, row) for text, row in values if text == value]


def nearest(what: str, rows: Iterable[Row]) -> str | None:
    """A hint with the name most similar to an unknown name, or None."""
    names = {text for row in rows for text in texts(visible(row)) if len(text) <= _NAME}
    return did_you_mean(what, sorted(names)) if len(what) <= _NAME else None


def visible(row: Row) -> dict[str, Any]:
    """The columns of the plan in a recorded row."""
    return {name: value for name, value in row.items() if name not in _HIDDEN}


def _only_text(pairs: Sequence[tuple[str, str]], what: str) -> str | None:
    """The only distinct text; None without any. Raises PlanError if there are several."""
    step_of: dict[str, tuple[str, str]] = {}
    for step, text in pairs:
        step_of.setdefault(text.casefold(), (step, text))
    if len(step_of) > 1:
        hint = "write more of the one that is meant"
        begun = all(text.startswith(what.casefold()) for text in step_of)
        part = "the beginning" if begun else "a part"
        texts_ = [(step, shortened(plain_line(text), _SHOWN)) for step, text in step_of.values()]
        listed = [f'  "{text}"   step {step}' for step, text in texts_]
        if (more := len(listed) - _LISTED) > 0:
            listed[_LISTED:] = [f"  … and {more:,} more"]
        problem = Problem(f'"{what}" is {part} of {len(texts_):,} values', hint=hint)
        raise PlanError(problem, *listed)
    return next((text for _, text in step_of.values()), None)


Lookup = Callable[[str], "Exchange | None"]


@dataclass(frozen=True)
class AskedItem:
    """One item of a semantic step: the row, the answers and the calls."""

    left: Any
    right: Any
    answers: Row
    error: str | None
    calls: tuple[tuple[str, Exchange | None], ...]


def asked_item(item: Row, lookup: Lookup) -> AskedItem:
    """A recorded item with its calls."""
    calls = tuple((call, lookup(call)) for call in item.get("calls") or ())
    answers = {name: value for name, value in item.items() if name not in FIXED}
    return AskedItem(
        parsed(item.get("left")), parsed(item.get("right")), answers, item.get("error"), calls
    )


@dataclass(frozen=True)
class Link:
    """A source row of the explained row in a step, and the questions about it. `row` is {} for
    questions that belong to no single row of the step.
    """

    step: str
    row: Row
    asked: tuple[AskedItem, ...] = ()


@dataclass(frozen=True)
class Chain:
    """The provenance of a row, newest first. `others` are other matching rows, by step."""

    run: str
    what: str
    links: tuple[Link, ...]
    others: tuple[tuple[str, Row], ...] = ()


def explain(run: record.Run, what: str, lookup: Lookup = lambda _call: None) -> Chain:
    """Trace a row back.

    Args:
        run: The record.
        what: `STEP:column=value`, or a key or text of a row; a unique prefix is enough.
        lookup: The journal: a call by its id.

    Raises:
        PlanError: The record has no lineage, or no such step, column or row, or the prefix is
            ambiguous.
    """
    tracer = Tracer(run, lookup)
    if run.facts.get("ids") is None:
        version = run.facts.get("semgraph", "an earlier version")
        raise PlanError(
            f"run {run.name} was recorded by semgraph {version} without the lineage of its rows",
            hint="run the plan again; what the journal has of it costs nothing",
        )
    matches = tracer.find(what)
    if not matches:
        there = "look for a key or a text, whole or its beginning, or for STEP:column=value"
        near = nearest(what, (row for step in tracer.steps for row in tracer.rows("steps", step)))
        raise PlanError(f'no row of run {run.name} holds "{what}"', there=there, hint=near)
    (step, row), *others = matches
    return Chain(run.name, what, tuple(tracer.back(step, row)), tuple(others))


def written_by(runs: Sequence[record.Run], what: str) -> Chain:
    """Trace a row back in the latest run that wrote it with answers of a model. Without such a run,
    in the latest one that asked about it and writes nothing, else in the latest that has it. Answers
    are without their calls.

    Raises PlanError if no run has such a row, or the text is ambiguous where it is.
    """
    kinds, found, problems = {record.RAN, record.REFRESHED}, [], []
    own = [run for run in runs if run.facts.get("kind", record.RAN) in kinds]
    for run in sorted(own, key=lambda run: not run.facts.get("written")):  # the latest stay first
        try:
            chain = explain(run, what)
        except PlanError as error:
            problems.append(error)
            continue
        asked = any(link.asked for link in chain.links)
        if asked and (not run.facts.get("written") or _wrote(run, chain.links[0].row, what)):
            return chain
        found.append((asked, chain))
    if found:
        return max(found, key=itemgetter(0))[1]
    there = f"{plural(len(own), 'run')} recorded"
    there += ", beside diffs and comparisons" if len(runs) > len(own) else ""
    hint = "list them: semgraph runs list"
    nowhere = PlanError(f'no row of any recorded run holds "{what}"', there=there, hint=hint)
    raise next((error for error in problems if len(error.problems) > 1), nowhere)  # ambiguous


def _wrote(run: record.Run, row: Row, what: str) -> bool:
    """Whether a run merged this row, or one that has the text, into the graph."""
    key = row.get(str(run.facts.get("key")))
    labels = record.recorded_steps(run.folder, record.WRITTEN)
    written = (record.read_rows(run.folder, record.WRITTEN, label) for label in labels)
    return any(holds(rows, str(key or what)) for rows in written)


@dataclass
class Tracer:
    """Reads the rows, lineage and questions of a record.

    Args:
        run: The record.
        lookup: The journal: a call by its id.
    """

    run: record.Run
    lookup: Lookup
    _tables: dict[tuple[str, str], list[Row]] = field(default_factory=dict)

    @cached_property
    def steps(self) -> list[str]:
        """Inputs and steps with recorded rows, in order of computation."""
        reads: dict[str, list[str]] = self.run.facts.get("flow", {})
        order: dict[str, None] = {}

        def visit(step: str) -> None:
            for source in reads.get(step, ()):
                if source not in order:
                    visit(source)
            order.setdefault(step)

        for step in reads:
            visit(step)
        known = {*record.recorded_steps(self.run.folder, "steps")}
        known |= record.recorded_inputs(self.run.folder).keys()
        return [*(step for step in order if step in known), *sorted(known - set(order))]

    def rows(self, kind: str, step: str) -> list[Row]:
        """All recorded rows of a step."""
        if (kind, step) not in self._tables:
            rows: list[Row] = list(record.read_rows(self.run.folder, kind, step))
            self._tables[kind, step] = rows or (self._input_rows(step) if kind == "steps" else [])
        return self._tables[kind, step]

    def _input_rows(self, name: str) -> list[Row]:
        """The rows of an input with their ids; rows of the windowed input also with their number."""
        file = record.recorded_inputs(self.run.folder).get(name)
        rows: list[Row] = [] if file is None else list(record.read_input(file).to_pylist())
        first = (self.run.facts.get("ids") or {}).get(name, 0)
        rows = [{**row, record.ROW_ID: first + i} for i, row in enumerate(rows)]
        if self.run.facts.get("order") != name:
            return rows
        return [{**row, record.INPUT_ROW: i} for i, row in enumerate(rows)]

    def find(self, what: str) -> list[tuple[str, Row]]:
        """The matching rows, rows of the last step first."""
        step, colon, rest = what.partition(":")
        column, equals, value = rest.partition("=")
        if colon and equals and re.fullmatch(r"[\w./]+", step) and re.fullmatch(r"[\w.]+", column):
            return in_column(step, column, value, self._of(step, column))
        key = str(self.run.facts.get("key", ""))
        return meant(what, key, self.steps, partial(self.rows, "steps"))

    def _of(self, step: str, column: str) -> list[Row]:
        if step not in self.steps:
            what = f'run {self.run.name} has no step "{step}"'
            raise PlanError(what, **among(step, self.steps, "steps"))
        rows = self.rows("steps", step)
        names = list(visible(rows[0])) if rows else []
        if column.partition(".")[0] not in names:
            what = f'step {step} has no column "{column}"'
            raise PlanError(what, **among(column, names, "columns"))
        return rows

    @cached_property
    def _sources(self) -> dict[int, list[int]]:
        """The ids of the direct sources of each row that has any."""
        sources: dict[int, list[int]] = {}
        for table in record.recorded_parts(self.run.folder, record.LINEAGE):
            ids, of = (table[name].to_pylist() for name in (record.ROW_ID, record.SOURCES))
            sources |= zip(ids, of, strict=True)  # type: ignore[arg-type]
        return sources

    def sources_of(self, number: int) -> set[int]:
        """The id of a row, and the ids of its direct and indirect sources."""
        return _reached(number, self._sources)

    def back(self, step: str, row: Row) -> Iterator[Link]:
        """The row, then its source rows in earlier steps with the questions about them, newest
        first.
        """
        before = _reached(step, self.run.facts.get("flow", {}))
        ids = self.sources_of(row[record.ROW_ID])
        for name in [step, *(s for s in reversed(self.steps) if s in before and s != step)]:
            rows = [each for each in self.rows("steps", name) if each[record.ROW_ID] in ids]
            yield from self._links(name, [row] if name == step else rows, ids)

    def _links(self, step: str, rows: Sequence[Row], ids: set[int]) -> Iterator[Link]:
        """The rows of a step, each with the questions about its sources."""
        items = self._items_about(step, ids)
        for row in rows:
            own = self.sources_of(row[record.ROW_ID]) if items and len(rows) > 1 else ids
            of_row = [item for item in items if own.issuperset(item[record.ROW_ID][0])]
            items = [item for item in items if item not in of_row]
            yield Link(step, row, self._asked(of_row))
        if items:
            yield Link(step, {}, self._asked(items))

    def _asked(self, items: Iterable[Row]) -> tuple[AskedItem, ...]:
        return tuple(asked_item(item, self.lookup) for item in items)

    def _items_about(self, step: str, ids: set[int]) -> list[Row]:
        """The questions about some rows. For a left row of a join, only questions about pairs whose
        right row is also among the rows; if there are none, all its questions.
        """
        items = [i for i in self.rows("answers", step) if not ids.isdisjoint(i[record.ROW_ID][0])]
        paired = {i[record.ROW_ID][0][0] for i in items if not ids.isdisjoint(i[record.ROW_ID][1])}
        return [
            item
            for item in items
            if item[record.ROW_ID][0][0] not in paired or not ids.isdisjoint(item[record.ROW_ID][1])
        ]


def _reached(start: T, sources: Mapping[T, Iterable[T]]) -> set[T]:
    """Something and its direct and indirect sources."""
    found, pending = {start}, [start]
    while pending:
        new = set(sources.get(pending.pop(), ())) - found
        found |= new
        pending += new
    return found
