"""The run records of a folder: found by the beginning of their names, read, removed."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from semgraph.errors import PlanError, Problem, did_you_mean

RUNS = Path(".semgraph/runs")
LAST = "last"


@dataclass(frozen=True)
class Run:
    """One run's record (`docs/run-record.md`)."""

    folder: Path

    @property
    def name(self) -> str:
        """Its id."""
        return self.folder.name

    @cached_property
    def facts(self) -> dict[str, Any]:
        """What `run.json` says; {} if the run ended before it could be written."""
        return _json(self.folder / "run.json")

    @cached_property
    def metrics(self) -> dict[str, Any]:
        """What `metrics.json` says; {} if the run did not end by itself."""
        return _json(self.folder / "metrics.json")

    @property
    def asked(self) -> bool:
        """Whether a model answered questions of it, now or earlier."""
        from semgraph.execution.record import recorded_steps

        return (self.folder / "answers").is_dir() or bool(recorded_steps(self.folder, "answers"))

    @property
    def started(self) -> str:
        """When it began, in ISO 8601; "" if that is not known."""
        return str(self.facts.get("started") or "")

    def remove(self) -> None:
        """Delete the record. What the run wrote to a store stays, and so do its answers in the journal."""
        shutil.rmtree(self.folder)


def _json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, json.JSONDecodeError):
        return {}
    return found if isinstance(found, dict) else {}


def all_runs(folder: Path = RUNS) -> list[Run]:
    """All records, the latest first."""
    found = [Run(path.parent) for path in folder.glob("*/run.json")]
    return sorted(found, key=lambda run: (run.started, run.name), reverse=True)


def find_run(ref: str, folder: Path = RUNS, *, asking: bool = False) -> Run:
    """A record by its name, the beginning of its name, or `last`: with `asking` the last that asked. Raises PlanError."""
    runs = all_runs(folder)
    if ref == LAST and runs:
        return next((run for run in runs if run.asked), runs[0]) if asking else runs[0]
    names = [run.name for run in runs]
    exact = [run for run in runs if run.name == ref]
    found = exact or [run for run in runs if ref and run.name.startswith(ref)]
    if len(found) == 1:
        return found[0]
    if found:
        raise PlanError(Problem(f'"{ref}" begins several runs', there=", ".join(run.name for run in found)))
    there = f"runs in {folder}: {', '.join(names[:10]) or 'none'}"
    hint = did_you_mean(ref, names) or "List them: semgraph runs list"
    raise PlanError(Problem(f'there is no run "{ref}"', there=there, hint=hint))
