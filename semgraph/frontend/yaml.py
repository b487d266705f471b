"""Plan files: to load one, to find one by name, to write one back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from semgraph.frontend.document import read_file
from semgraph.frontend.finding import find_plan
from semgraph.frontend.loader import load_document
from semgraph.frontend.writing import write_yaml
from semgraph.logical.plan import LogicalPlan

__all__ = ["dump", "find_plan", "load_plan"]


def load_plan(
    ref: str | Path,
    *,
    params: Mapping[str, Any] | None = None,
    preset: str | None = None,
    use: Mapping[str, str] | None = None,
    folders: Sequence[str | Path] = (),
) -> LogicalPlan:
    """A checked plan.

    Args:
        ref: A path or a name; looked for in the working directory, then among the shipped plans.
        params: Values of parameters, in place of the plan's.
        preset: One of the plan's presets: a set of parameters and choices.
        use: How steps are done, such as `{"linked": "block(left=10)"}`, in place of the plan's choices.
        folders: Folders to look in first, for the plan and for those it calls.

    Raises:
        PlanError: With everything that is wrong, each at its place.
    """
    paths = tuple(Path(folder) for folder in folders)
    path, _ = find_plan(ref, paths)
    return load_document(read_file(path), path, params=params, preset=preset, use=use, folders=paths)


def dump(plan: LogicalPlan) -> str:
    """A plan as the text of a plan file: the document it was made from, parameters and presets included."""
    return write_yaml(plan.document)
