"""The rows of a compared step: which row is which, what each way says about it, and where two differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from semgraph.errors import PlanError, Problem
from semgraph.execution.comparison import Arm, Comparison, Trial, trial_of
from semgraph.execution.likeness import MEMBER, at
from semgraph.expr.functions import canonical_json
from semgraph.logical.prompt import plain
from semgraph.scoring import answers

Said = Mapping[Hashable, Counter[Hashable]]
FAILED = "\0failed"


def said(table: pa.Table, key: Sequence[str], compare: Sequence[str], units: pa.Table | None = None) -> Said:
    """The answers that rows give, by what names the row; `units` are rows that were asked about, answered or not."""
    paths = (*key, *compare)
    rows = ({path: plain(at(row, path)) for path in paths} for row in table.to_pylist())
    asked = [] if units is None else [tuple(plain(at(row, path)) for path in key) for row in units.to_pylist()]
    return answers(rows, key, compare, asked)


def told(
    trial: Trial, key: Sequence[str], compare: Sequence[str], asked: pa.Table | None, way: str = ""
) -> dict[Hashable, Counter[Hashable]]:
    """What a trial says of each row that was asked about. A row that failed says that, and agrees with no other way."""
    empty = pa.table({name.split(".")[0]: [] for name in (*key, *compare)})
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
    true = None if comparison.wanted is None else said(comparison.wanted, comparison.key, comparison.compare)
    none: Counter[Hashable] = Counter()
    found: list[dict[str, Any]] = []
    for unit in dict.fromkeys([*ours, *theirs]):
        mine, yours = ours.get(unit, none), theirs.get(unit, none)
        if mine != yours:
            values = dict(zip(comparison.key, unit, strict=True)) if isinstance(unit, tuple) else {}
            row: dict[str, Any] = {name: _text(value) for name, value in values.items()}
            row |= {one.name: _listed(mine, comparison), other.name: _listed(yours, comparison)}
            if true is not None:
                row["truth"] = _listed(true.get(unit, none), comparison)
            found.append(row)
    names = [*comparison.key, one.name, other.name, *(["truth"] if true is not None else [])]
    schema = pa.schema([(n, pa.string() if n in comparison.key else pa.list_(pa.string())) for n in names])
    return pa.Table.from_pylist(found, schema=schema)


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
        found.append(" · ".join(_text(value) or "–" for value in values))
    return found


def _text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else canonical_json(value)
