"""The rows of a compared step: which row is which, what each way says about it, and where two differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from semgraph.errors import PlanError, Problem
from semgraph.execution.comparison import Arm, Comparison, Trial, trial_of
from semgraph.execution.likeness import MEMBER, at
from semgraph.expr.functions import canonical_json
from semgraph.logical.prompt import plain
from semgraph.scoring import answers
from semgraph.scoring.rows import lookup

Said = Mapping[Hashable, Counter[Hashable]]
FAILED = "\0failed"
EACH = "[]"
TRUE = "_true"
"""Of the rows of a truth that says yes or no of each: which."""


def said(table: pa.Table, key: Sequence[str], compare: Sequence[str], units: pa.Table | None = None) -> Said:
    """The answers that rows give, by what names the row; `units` are rows that were asked about, answered or not.

    `people[].name` compares a field of each element of a list and `tags[]` each element whole: every element is an answer
    of its own, whatever their order. What else is compared of a row is one answer.
    """
    rows = [plain(row) for row in table.to_pylist()]
    asked = [] if units is None else [_values(plain(row), key) for row in units.to_pylist()]
    lists = {path.partition(EACH)[0]: [p for p in compare if p.partition(EACH)[0] == path.partition(EACH)[0]]
             for path in compare if EACH in path}  # fmt: skip
    whole = [path for path in compare if EACH not in path]
    parts: dict[str, Mapping[Hashable, Counter[Hashable]]] = {}
    if whole or not lists:
        flat = (dict(zip((*key, *whole), _values(row, (*key, *whole)), strict=True)) for row in rows)
        parts[""] = answers(flat, key, whole, asked)
    for name, paths in lists.items():
        named = [*asked, *(_values(row, key) for row in rows)]
        parts[name] = answers(_elements(rows, key, name, paths), key, paths, named)
    if len(parts) == 1:
        return next(iter(parts.values()))
    found: dict[Hashable, Counter[Hashable]] = {}
    for name, part in parts.items():
        for unit, own in part.items():
            several = found.setdefault(unit, Counter())
            for answer, count in own.items():
                several[(name, answer) if name else answer] += count
    return found


def names(table: pa.Table, key: Sequence[str]) -> list[Hashable]:
    """What names each row."""
    return [tuple(map(lookup, _values(plain(row), key))) for row in table.to_pylist()]


def _values(row: Mapping[str, Any], paths: Sequence[str]) -> tuple[Any, ...]:
    return tuple(at(row, path) for path in paths)


def _elements(
    rows: Sequence[Mapping[str, Any]], key: Sequence[str], name: str, paths: Sequence[str]
) -> Iterator[Mapping[str, Any]]:
    """The elements of a list column, each as a row of its own with what names the row that it is in."""
    for row in rows:
        for element in at(row, name) or ():
            fields = {path: path.partition(EACH)[2].removeprefix(".") for path in paths}
            values = {path: at(element, inner) if inner else element for path, inner in fields.items()}
            yield dict(zip(key, _values(row, key), strict=True)) | values


def told(
    trial: Trial, key: Sequence[str], compare: Sequence[str], asked: pa.Table | None, way: str = ""
) -> dict[Hashable, Counter[Hashable]]:
    """What a trial says of each row that was asked about. A row that failed says that, and agrees with no other way."""
    empty = pa.table({name.split(".")[0].removesuffix(EACH): [] for name in (*key, *compare)})
    found = dict(said(empty if trial.rows is None else trial.rows, key, compare, asked))
    if trial.answers is not None and asked is not None and trial.failed:
        wrong = {r[MEMBER] for r in trial.answers.select([MEMBER, "error"]).to_pylist() if r["error"] is not None}
        failed = asked.take(pa.array(sorted(wrong), pa.int64()))
        found |= {unit: Counter([(FAILED, way)]) for unit in said(failed.slice(0, 0), key, (), failed)}
    return found


def differing(comparison: Comparison, one: Arm, other: Arm, trial: int) -> pa.Table:
    """See `Comparison.disagreements`."""
    if comparison.rows is None:
        hint = "compare a step of the plan: step=..."
        raise PlanError(Problem("whole plans were compared, which have no rows in common", hint=hint))
    asked = _with_keys(comparison)
    ours, theirs = (
        told(trial_of(arm, trial), comparison.key, comparison.compare, asked, arm.name) for arm in (one, other)
    )
    true = None if comparison.wanted is None else _true(comparison.wanted, comparison)
    none: Counter[Hashable] = Counter()
    found: list[dict[str, Any]] = []
    for unit in dict.fromkeys([*ours, *theirs]):
        mine, yours = ours.get(unit, none), theirs.get(unit, none)
        if mine != yours:
            values = dict(zip(comparison.key, unit, strict=True)) if isinstance(unit, tuple) else {}
            row: dict[str, Any] = {name: _text(value) for name, value in values.items()}
            row |= {one.name: _listed(mine, comparison), other.name: _listed(yours, comparison)}
            if true is not None:
                open_ = not comparison.closed and unit not in true
                row["truth"] = None if open_ else _listed(true.get(unit, none), comparison)
            found.append(row)
    names = [*comparison.key, one.name, other.name, *(["truth"] if true is not None else [])]
    schema = pa.schema([(n, pa.string() if n in comparison.key else pa.list_(pa.string())) for n in names])
    return pa.Table.from_pylist(found, schema=schema)


def _true(wanted: pa.Table, comparison: Comparison) -> Said:
    """What is true of each row that the truth has."""
    right = wanted.filter(wanted.column(TRUE)) if TRUE in wanted.column_names else wanted
    return said(right, comparison.key, comparison.compare, wanted if wanted.num_rows else None)


def _with_keys(comparison: Comparison) -> pa.Table | None:
    rows = comparison.rows
    named = rows is not None and all(path.split(".")[0] in rows.column_names for path in comparison.key)
    return rows if named else None


def _listed(answers: Counter[Hashable], comparison: Comparison) -> list[str]:
    """Answers as text: the value alone where one column is compared; `yes` where being there is the answer."""
    if any(isinstance(said, tuple) and said[:1] == (FAILED,) for said in answers):
        return ["(failed)"]
    if not comparison.compare:
        return ["yes"] * answers.total()
    found = []
    for said in answers.elements():
        values = said if isinstance(said, tuple) else (said,)
        if len(values) == 2 and isinstance(values[1], tuple):  # of one of several lists
            values = (values[0], *values[1])
        found.append(" · ".join(_text(value) or "–" for value in values))
    return found


def _text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else canonical_json(value)
