"""Going on with a run: its inputs, parameters and ways, as its record has them. What is written already is told by marks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from semgraph.errors import PlanError, Problem
from semgraph.execution.runs import Run, find_run

INPUTS = "inputs"


@dataclass(frozen=True)
class Resumed:
    """What a run was asked to do."""

    plan: str = ""
    params: Mapping[str, Any] = field(default_factory=dict)
    use: Mapping[str, str] = field(default_factory=dict)
    inputs: Mapping[str, pa.Table] = field(default_factory=dict)


def keep_inputs(folder: Path, inputs: Mapping[str, pa.Table]) -> None:
    """Put the rows that a run was given into its record."""
    import pyarrow.parquet as pq

    (folder / INPUTS).mkdir(parents=True, exist_ok=True)
    for name, table in inputs.items():
        pq.write_table(table, folder / INPUTS / f"{name}.parquet")


def resumed(ref: str, runs: Path | None) -> Resumed:
    """What a run was asked to do, from its record. Raises PlanError if there is no such run, or no record of its rows."""
    import pyarrow.parquet as pq

    if runs is None:
        raise PlanError(Problem(f'there is no run "{ref}"', there="no records are kept", hint="give runs= a folder"))
    run: Run = find_run(ref, runs)
    folder = run.folder / INPUTS
    if "plan" not in run.facts or not folder.is_dir():
        hint = "run the plan again with the same rows: what is written already is left out"
        raise PlanError(Problem(f"run {run.name} ended before its rows were kept", hint=hint))
    inputs = {file.stem: pq.read_table(file) for file in sorted(folder.glob("*.parquet"))}
    return Resumed(str(run.facts["plan"]), run.facts.get("params") or {}, run.facts.get("use") or {}, inputs)
