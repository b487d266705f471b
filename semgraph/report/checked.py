"""Plans and graphs checked without being run: what is wrong with each file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from semgraph.errors import PlanError, Problem
from semgraph.frontend.document import read_file, shown
from semgraph.frontend.head import read_graph
from semgraph.frontend.yaml import find_plan, load_plan
from semgraph.optimizer import optimized
from semgraph.physical.library import Library
from semgraph.physical.planner import check_ways
from semgraph.report.formats import plural
from semgraph.report.plans import PlanFile, is_plan


@dataclass(frozen=True)
class Checked:
    """What checking a file found."""

    file: str
    ok: str
    problems: tuple[str, ...]
    kind: str = "plan"
    warnings: tuple[str, ...] = ()

    def lines(self) -> Iterator[str]:
        """One line if it is good, else one for each problem; then one for each warning."""
        if self.problems:
            yield from self.problems
        else:
            yield f"{self.file}   ok   {self.ok}"
        yield from (f"! {warning}" for warning in self.warnings)


def files_in(names: Sequence[str]) -> list[Path]:
    """The plan files that are named, or lie in folders that are named. Raises PlanError."""
    found: list[Path] = []
    for name in names:
        path = Path(name)
        if path.is_dir():
            found += [p for p in sorted(path.glob("*.yaml")) if is_plan(p)]
        elif path.is_file():
            found.append(path)
        elif "/" not in name and not name.endswith((".yaml", ".yml")):
            found.append(find_plan(name)[0])
        else:
            raise PlanError(Problem(f"{name}: there is no such file or folder", hint="see semgraph plans list"))
    if not found:
        raise PlanError(
            Problem(f"{', '.join(names)}: there is no plan", hint="a plan is a .yaml file with the key plan")
        )
    return found


def checked(path: Path, library: Library) -> Checked:
    """Load a plan and its presets, with the ways that they choose, or a graph; all that is wrong is told."""
    kind = "graph" if not is_plan(path) and _is_graph(path) else "plan"
    try:
        if kind == "graph":
            return Checked(shown(path), _graph(path), (), kind)
        ok, warnings = _plan(path, library)
        return Checked(shown(path), ok, (), kind, tuple(map(str, warnings)))
    except PlanError as error:
        return Checked(shown(path), "", tuple(dict.fromkeys(map(str, error.problems))), kind)


def _is_graph(path: Path) -> bool:
    data = read_file(path).data
    return isinstance(data, dict) and "nodes" in data


def _graph(path: Path) -> str:
    graph = read_graph(path)
    return f"a graph: {plural(len(graph.nodes), 'label')} of nodes, {len(graph.edges)} of edges"


def _plan(path: Path, library: Library) -> tuple[str, tuple[Problem, ...]]:
    """What a plan is made of, and the warnings about it and its presets. Raises PlanError."""
    file = PlanFile(path, shipped=False)
    plan = file.plan
    warnings: dict[Problem, None] = {}
    for loaded in (plan, *(load_plan(path, preset=preset) for preset in plan.document.get("presets") or {})):
        warnings |= dict.fromkeys(loaded.warnings)
        if loaded.use:  # the reference of an operator does all of it
            check_ways(optimized(loaded, {}), library)
    writes = len(plan.writes) + bool(plan.schema)
    made_of = f"{plural(len(plan.steps), 'step')}, {len(file.semantic)} semantic, {plural(writes, 'write')}"
    return made_of, tuple(warnings)


def verdict(found: Sequence[Checked]) -> str:
    """How many of the files have errors; nothing if none has."""
    wrong, whole = sum(bool(c.problems) for c in found), len(found)
    kinds = {c.kind for c in found}
    kind = kinds.pop() if len(kinds) == 1 else "file"
    if not wrong:
        return ""
    if whole == 1:
        return f"the {kind} has errors"
    return f"{wrong} of {whole} {kind}s {'has' if wrong == 1 else 'have'} errors"
