"""The record of a comparison: a folder beside those of runs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from semgraph.compare.comparison import (
    SCHEMA,
    Arm,
    Comparison,
    Estimate,
    Failed,
    Quality,
    Spent,
    Trial,
)
from semgraph.errors import PlanError, Problem
from semgraph.execution.record import RunRecord, find_run, write_table
from semgraph.private import RUNS

FILE = "comparison.json"
_TABLES = ("rows", "wanted")


def save(comparison: Comparison, record: RunRecord) -> None:
    """Write a comparison into its record."""
    record.text(FILE, json.dumps(comparison.to_json(), indent=1, ensure_ascii=False, default=str))
    tables = {name: getattr(comparison, name) for name in _TABLES}
    for i, arm in enumerate(comparison.arms):
        for trial in arm.trials:
            tables |= {
                f"{i}.{trial.number - 1}.rows": trial.rows,
                f"{i}.{trial.number - 1}.answers": trial.answers,
            }
    for name, table in tables.items():
        if table is not None:
            write_table(record.folder / f"{name}.parquet", table)


def load_comparison(ref: str, runs: Path = RUNS) -> Comparison:
    """A recorded comparison, by its id, a prefix of it, or `last`. Raises PlanError."""
    run = find_run(ref, runs)
    file = run.folder / FILE
    if not file.exists():
        raise PlanError(
            Problem(
                f"{run.name} is not a finished comparison", hint="Show a run: semgraph runs show"
            )
        )
    data = json.loads(file.read_text(encoding="utf-8"))
    if data.pop("schema") != SCHEMA:
        raise PlanError(
            Problem(f"comparison {run.name} was recorded by another version of semgraph")
        )
    del data["kind"]
    arms = tuple(_read_arm(run.folder, i, arm) for i, arm in enumerate(data.pop("arms")))
    journal = data.pop("journal")
    read: dict[str, Any] = {name: tuple(data.pop(name)) for name in ("key", "compare", "notes")}
    read |= {name: Spent(**data.pop(name)) for name in ("paid", "before")}
    read |= {name: _table(run.folder, name) for name in _TABLES}
    read["estimates"] = tuple(Estimate(each.pop("way"), **each) for each in data.pop("estimates"))
    read["journal"] = Path(journal) if journal else None
    return Comparison(**data, **read, arms=arms, record=run.folder)


def _read_arm(folder: Path, i: int, data: Mapping[str, Any]) -> Arm:
    trials = tuple(
        Trial(
            t["number"] + 1, Spent(**t["cold"]), Spent(**t["paid"]), t["seconds"], t["failed"],
            _table(folder, f"{i}.{t['number']}.rows"), _table(folder, f"{i}.{t['number']}.answers"),
            tuple(Failed(**each) for each in t.get("failures", ())),
        )
        for t in data["trials"]
    )  # fmt: skip
    quality: dict[str, Any] = {
        n: tuple(v) if isinstance(v, list) else v for n, v in data["quality"].items()
    }
    clusters = [quality.pop(name, None) for name in ("clusters", "modularity")]
    if clusters != [None, None]:
        what = f"comparison {folder.name} compared algorithms of a step that clusters"
        raise PlanError(Problem(what, hint="only semgraph 0.2 shows such a comparison"))
    return Arm(data["name"], data["use"], trials, Quality(**quality))


def _table(folder: Path, name: str) -> pa.Table | None:
    import pyarrow.parquet as pq

    path = folder / f"{name}.parquet"
    return pq.read_table(path) if path.exists() else None
