"""Run records: a line for each, or a page for one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from datetime import UTC, datetime
from typing import Any

from semgraph.execution.record import Run
from semgraph.formats import UNKNOWN, count, dollars, duration
from semgraph.meter import StepMetrics, split
from semgraph.render.outcome import cost, narrowed, step_columns, written
from semgraph.render.tables import Column, cell, lines

_NAMES = {f.name for f in fields(StepMetrics)}


def summary(run: Run) -> dict[str, Any]:
    """The main facts of a run."""
    return {
        "run": run.name,
        "started": run.started,
        "plan": run.facts.get("plan"),
        "status": run.facts.get("status", "unknown"),
        "calls": total(run).calls_issued,
        "dollars": total(run).dollars,
        "seconds": seconds(run),
    }


def total(run: Run) -> StepMetrics:
    """The counters of the whole run; zeros if it was interrupted."""
    return metrics_of(run.metrics.get("total") or {})


def metrics_of(counters: Mapping[str, Any]) -> StepMetrics:
    """Counters from `metrics.json`."""
    return StepMetrics(**{name: value for name, value in counters.items() if name in _NAMES})


def seconds(run: Run) -> float | None:
    """The wall time; None if the run was interrupted."""
    start, end = (run.facts.get(name) for name in ("started", "ended"))
    if not start or not end:
        return None
    return (datetime.fromisoformat(str(end)) - datetime.fromisoformat(str(start))).total_seconds()


def list_lines(runs: Sequence[Run], width: int) -> Iterator[str]:
    """A line for each run."""
    rows = [summary(run) for run in runs]
    yield from lines(
        [
            Column("run", [row["run"] for row in rows]),
            Column("started", [_at(row["started"]) for row in rows]),
            Column("plan", [str(row["plan"] or UNKNOWN) for row in rows]),
            Column("status", [row["status"] for row in rows]),
            Column("calls", [count(row["calls"]) for row in rows], right=True),
            Column("$", [dollars(row["dollars"]) for row in rows], right=True),
            Column(
                "time",
                [UNKNOWN if row["seconds"] is None else duration(row["seconds"]) for row in rows],
                right=True,
            ),
        ],
        width,
        indent=0,
    )


def _at(text: str) -> str:
    """A time to the second, so that all lines have the same form.

    >>> _at("2025-03-03T09:00:00+00:00")
    '2025-03-03 09:00:00'
    """
    return f"{datetime.fromisoformat(text).astimezone(UTC):%Y-%m-%d %H:%M:%S}" if text else UNKNOWN


def page(run: Run, width: int) -> Iterator[str]:
    """A run on a page: its facts, steps and cost."""
    yield f"run {run.name}   {run.folder}"
    for name, value in run.facts.items():
        if name in {"flow", "graph", "returns"}:
            continue
        if isinstance(value, dict) and value:
            yield f"{name}"
            yield from (f"  {inner:<22} {_value(v)}" for inner, v in value.items())
        elif value not in (None, {}, [], ""):
            yield f"{name:<24} {_value(value)}"
    steps = {
        name: metrics_of(counters) for name, counters in (run.metrics.get("steps") or {}).items()
    }
    parts = {
        name: [metrics_of(m) for m in operators]
        for name, operators in (run.metrics.get("operators") or {}).items()
    }
    if steps:
        yield ""
        yield from lines(narrowed(step_columns(split(steps, parts), every=True), width - 2), width)
        yield f"  {written(run.facts.get('written') or {})}"
        yield cost(total(run), seconds(run) or 0.0)


def _value(value: Any) -> str:
    if isinstance(value, dict) and {"value", "origin"} <= set(value):
        return f"{value['value']}   ({value['origin']})"
    return cell(value)
