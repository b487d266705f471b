"""The records of a folder: their list, and each loaded as what its call returned."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from semgraph.display import Displayed
from semgraph.execution.record import COMPARED, RAN, REFRESHED, find_run
from semgraph.execution.result import Result, load_result

if TYPE_CHECKING:
    from semgraph.compare.comparison import Comparison
    from semgraph.tune.tuning import Tuning


class History(Displayed, list[dict[str, Any]]):
    """Runs, comparisons and tunings, the latest first. Its text is that of `semgraph runs list`."""

    def to_pandas(self) -> Any:
        """A data frame with a row for each record. Needs pandas."""
        from importlib import import_module

        times = [datetime.fromisoformat(t) if (t := row["started"]) else None for row in self]
        return import_module("pandas").DataFrame(self).assign(started=times)


def load(ref: str, runs: Path) -> Result | Comparison | Tuning:
    """What the call of a record returned. Raises PlanError."""
    from semgraph.compare.comparison import load_comparison
    from semgraph.tune.tuning import load_tuning

    run = find_run(ref, runs)
    kind = run.facts.get("kind", RAN)
    if kind in {RAN, COMPARED, REFRESHED}:
        return load_result(run)
    return (load_tuning if kind == "tuning" else load_comparison)(run.name, runs)
