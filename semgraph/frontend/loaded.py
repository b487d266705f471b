"""Plans that are run again and again: loaded, and thereby optimized, once."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from semgraph.expr.canonical import canonical
from semgraph.frontend.noticing import Stamp, noticing, stamp
from semgraph.frontend.yaml import load_plan
from semgraph.logical.plan import LogicalPlan

_MOST = 64


class LoadedPlans:
    """Loads plans from files, each once while its files (the plan's, its graph's, prompts', called plans') stay as they are.

    Of many, those that were not asked for the longest are forgotten.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._plans: OrderedDict[tuple[str, ...], tuple[LogicalPlan, dict[Path, Stamp]]] = OrderedDict()

    def load(
        self, ref: str | Path, params: Mapping[str, Any], preset: str | None, use: Mapping[str, str]
    ) -> LogicalPlan:
        """As `load_plan`, looking into the folder first. Raises PlanError."""
        key = (str(ref), str(Path.cwd()), canonical(params), repr(preset), canonical(use))
        if key in self._plans:
            plan, files = self._plans[key]
            if all(stamp(path) == before for path, before in files.items()):
                self._plans.move_to_end(key)
                return plan
            del self._plans[key]
        with noticing() as files:
            plan = load_plan(ref, params=params, preset=preset, use=use, folders=(self._folder,))
        self._plans[key] = plan, files
        if len(self._plans) > _MOST:
            self._plans.popitem(last=False)
        return plan
