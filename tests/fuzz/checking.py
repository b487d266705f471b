"""Whether the three evaluations of a case agree, and what is printed where they do not."""

from __future__ import annotations

import io
import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from unittest.mock import patch

from ruamel.yaml import YAML

from semgraph.errors import PlanError
from tests.fuzz import naive
from tests.fuzz.coverage import Coverage
from tests.fuzz.engine import Engine, Ran
from tests.fuzz.plans import Case, case
from tests.fuzz.shrink import shrink
from tests.fuzz.values import Uncomputable, same_key


class Unusable(Exception):
    """The plan is refused, or its expressions have no value: there is nothing to compare."""


@dataclass
class Report:
    """What came of many cases."""

    coverage: Coverage = field(default_factory=Coverage)
    outcomes: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)


def check(engine: Engine, seeds: Iterable[int], most: int = 1, shrunken: int = 1500) -> Report:
    """Compare the evaluations of the cases of some seeds, until so many have failed."""
    report = Report()
    for seed in seeds:
        drawn = case(seed)
        try:
            found = difference(engine, drawn, report.coverage.note)
        except Unusable as error:
            report.outcomes[str(error).split(":")[0]] += 1
            report.coverage.plan_ends(compared=False)
            continue
        report.coverage.plan_ends(compared=True)
        report.outcomes["agree" if found is None else "differ"] += 1
        if found is not None:
            report.failures.append(told(engine, seed, drawn, shrunken))
            if len(report.failures) >= most:
                break
    return report


def told(engine: Engine, seed: int, failing: Case, shrunken: int = 1500) -> str:
    """A failing case, as small as it gets: plan and rows as YAML, and how the evaluations
    differ.
    """
    wanted = _kind(difference(engine, failing) or "")

    def fails(attempt: Case) -> bool:
        try:
            return _kind(difference(engine, replace(attempt, few=failing.few)) or "") == wanted
        except (Unusable, naive.NotUnderstood, LookupError, TypeError, ValueError, AttributeError):
            return False  # the attempt is no plan that the generator could have drawn

    small = replace(shrink(failing, fails, shrunken), few=failing.few)
    text = io.StringIO()
    yaml = YAML()
    yaml.default_flow_style = None
    yaml.width = 120
    yaml.dump({**small.document, "rows": small.inputs}, text)
    return f"{text.getvalue()}\n{difference(engine, small)}\n\nmake fuzz SEED={seed} repeats it"


def _kind(found: str) -> str:
    """What a difference is like, so that a smaller case shows the same and not another one."""
    return re.sub(r"^result \S+", "result", found)[:24]


def difference(engine: Engine, drawn: Case, note: naive.Note = lambda *_: None) -> str | None:
    """How the evaluations of a case differ; None where they agree. Raises Unusable.

    One evaluation computes relations of few rows in Python and others by DuckDB; the other one
    computes and compares both.
    """
    try:
        plan = engine.load(drawn.document)
    except PlanError as error:
        raise Unusable(f"refused: {error}") from None
    try:
        ours = naive.run(drawn.document, drawn.inputs, note)
    except Uncomputable as error:
        raise Unusable(f"not computable: {error}") from None
    except naive.Misplaced as error:
        return f"an aggregate stands where none can, and the plan was not refused: {error}"
    except naive.Refused as error:
        raise Unusable(f"refused: {error}") from None
    runs: dict[str, Ran] = {}
    for name, segments in (("as written", str(drawn.few)), ("optimized", "both")):
        try:
            with patch.dict(os.environ, SEMGRAPH_SEGMENTS=segments):
                runs[name] = engine.run(plan, drawn.inputs, optimize=name == "optimized")
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the finding
            return f"{name}: {type(error).__name__}: {error}"
    if (
        "windows" not in drawn.document
    ):  # where nothing is cut into windows, a plan may read rows of several partitions
        for ran in runs.values():
            ran.mixed.clear()
    fewer = len(runs["optimized"].failed) < len(runs["as written"].failed)
    if fewer and "windows" in drawn.document:
        del runs["optimized"]  # a row that does not fail brings all rows of its window back
    return next(
        (found for name, ran in runs.items() if (found := differs(name, ran, ours, fewer=fewer))),
        None,
    )


def differs(name: str, ran: Ran, ours: naive.Evaluated, *, fewer: bool) -> str | None:
    """How a run differs from the reference; None where they agree. Raises Unusable."""
    if ran.refused:
        raise Unusable(f"refused: {ran.error}")
    if ran.tables is None or ran.halted:
        return f"{name}: {ran.error}"
    if ran.mixed:
        return f"{name}: a request holds rows of two partitions:\n{ran.mixed[0]}"
    failed = {step for step, _ in ours.failed}
    if set(ran.failed) != failed and not (name == "optimized" and fewer):
        return f"{name}: rows failed in {sorted(set(ran.failed))}, expected {sorted(failed)}"
    if set(ran.tables) != set(ours.tables):
        return f"{name}: results {sorted(ran.tables)}, expected {sorted(ours.tables)}"
    for table, relation in ours.tables.items():
        expected = [row.columns for row in relation.rows]
        if not _same(ran.tables[table], expected):
            return f"result {table}, expected:\n{_shown(expected)}\n{name}:\n{_shown(ran.tables[table])}"
        if table in ran.made and (lost := _without_sources(ran, table, relation)):
            return f"lineage of {table}, expected, and not in the record of {name}:\n{lost}"
    return None


def _without_sources(ran: Ran, table: str, relation: naive.Relation) -> str:
    """The rows of a result that the record does not have with the rows of inputs that they are
    made of.
    """
    recorded = Counter((same_key(row), sources) for row, sources in ran.made[table])
    rows = [((same_key(dict(row.columns)), row.sources), row) for row in relation.rows]
    lost = Counter(key for key, _ in rows) - recorded
    return "\n".join(
        f"  {row.columns} of {sorted(row.sources)}" for key, row in rows if key in lost
    )


def _same(rows: Sequence[Mapping[str, Any]], expected: Sequence[Mapping[str, Any]]) -> bool:
    return [same_key(dict(row)) for row in rows] == [same_key(dict(row)) for row in expected]


def _shown(rows: Sequence[Mapping[str, Any]]) -> str:
    return "\n".join(f"  {dict(row)}" for row in rows[:20]) or "  no rows"
