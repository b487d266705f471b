"""Plans that are run again and again: loaded, and thereby optimized, once, whichever session runs them."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from semgraph.expr.canonical import canonical
from semgraph.frontend.noticing import Stamp, noticing, stamp
from semgraph.frontend.yaml import load_plan
from semgraph.logical.plan import LogicalPlan

_MOST = 64
_plans: OrderedDict[tuple[str, ...], tuple[LogicalPlan, dict[Path, Stamp]]] = OrderedDict()
_lock = threading.Lock()


class LoadedPlans:
    """Loads plans from files, each once while its files (the plan's, its graph's, prompts', called plans') stay as they are.

    Of many, those that were not asked for the longest are forgotten. What one session has loaded serves all others of the
    process: who opens a session for each request plans once.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def load(
        self, ref: str | Path, params: Mapping[str, Any], preset: str | None, use: Mapping[str, str]
    ) -> LogicalPlan:
        """As `load_plan`, looking into the folder first. Raises PlanError."""
        key = (str(self._folder), str(ref), str(Path.cwd()), canonical(params), repr(preset), canonical(use))
        with _lock:
            plan, files = _plans.get(key, (None, {}))
        if plan is None or any(stamp(path) != before for path, before in files.items()):
            with noticing() as files:
                plan = load_plan(ref, params=params, preset=preset, use=use, folders=(self._folder,))
        with _lock:
            _plans[key] = plan, files
            _plans.move_to_end(key)
            if len(_plans) > _MOST:
                _plans.popitem(last=False)
        return plan
