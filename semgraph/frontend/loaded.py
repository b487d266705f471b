"""Plans that are run again and again: loaded, and thereby optimized, once, whichever session runs them."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from semgraph.expr.canonical import canonical
from semgraph.frontend.noticing import Stamp, noticing, stamp
from semgraph.frontend.yaml import load_plan
from semgraph.logical.plan import LogicalPlan

_MOST = 64
Key = tuple[str, ...]


@dataclass(frozen=True)
class _Loaded:
    """A plan and what it was found by.

    Args:
        plan: The plan.
        there: The files that were read.
        missing: Where files were looked for that were not there, from the folders that are looked into.
        within: Which of those folders hold a file of it: for others it need not be the same plan.
    """

    plan: LogicalPlan
    there: Mapping[Path, Stamp]
    missing: tuple[tuple[int, Path], ...]
    within: tuple[bool, ...]

    @classmethod
    def of(cls, plan: LogicalPlan, files: Mapping[Path, Stamp], folders: tuple[Path, ...]) -> Self:
        """What was noticed while a plan was loaded."""
        inside = [(n, path) for path in files for n, folder in enumerate(folders) if path.is_relative_to(folder)]
        missing = tuple((n, path.relative_to(folders[n])) for n, path in inside if files[path] is None)
        held = {n for n, path in inside if files[path] is not None}
        return cls(plan, files, missing, tuple(n in held for n in range(len(folders))))

    def serves(self, folders: tuple[Path, ...]) -> bool:
        """Whether all files are as they were, and none has appeared that would be found instead."""
        return not any((folders[n] / path).exists() for n, path in self.missing) and all(
            stamp(path) == before for path, before in self.there.items()
        )


_plans: OrderedDict[Key, _Loaded] = OrderedDict()
_lock = threading.Lock()


class LoadedPlans:
    """Loads plans from files, each once while its files (the plan's, its graph's, prompts', called plans') stay as they are.

    Of many, those that were not asked for the longest are forgotten. What one session has loaded serves all others of the
    process, in whatever folder: who opens a session for each request plans once.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder.absolute()

    def load(
        self, ref: str | Path, params: Mapping[str, Any], preset: str | None, use: Mapping[str, str]
    ) -> LogicalPlan:
        """As `load_plan`, looking into the folder first. Raises PlanError."""
        folders = (self._folder, Path.cwd())
        asked = (str(ref), canonical(params), repr(preset), canonical(use))
        for within in ((False, False), (False, True), (True, False), (True, True)):
            key = _key(asked, folders, within)
            with _lock:
                found = _plans.get(key)
            if found is not None and found.serves(folders):
                break
        else:
            with noticing() as files:
                plan = load_plan(ref, params=params, preset=preset, use=use, folders=(self._folder,))
            found = _Loaded.of(plan, files, folders)
            key = _key(asked, folders, found.within)
        with _lock:
            _plans[key] = found
            _plans.move_to_end(key)
            if len(_plans) > _MOST:
                _plans.popitem(last=False)
        return found.plan


def _key(asked: Key, folders: tuple[Path, ...], within: tuple[bool, ...]) -> Key:
    """What a plan is kept under: what was asked for, and the folders that hold files of it."""
    return (*asked, *(str(folder) if inside else "" for folder, inside in zip(folders, within, strict=True)))
