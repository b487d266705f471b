"""The implementations of a folder, to be checked; each problem of one is said beside its name and stops no other."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from semgraph.checking.cases import OPERATORS, usable
from semgraph.checking.way import Way
from semgraph.errors import PlanError, Problem
from semgraph.logical.plan import Choice
from semgraph.physical.library import Library


class Found(NamedTuple):
    """A file of a folder: the way in it, or why there is none (it cannot be loaded, it refuses every case)."""

    name: str
    file: Path
    way: Way | None
    problem: str | None = None


def files_of(folder: Path) -> list[tuple[str, Path]]:
    """The files of a folder that are implementations, named as `sem_join/sorted_block`."""
    own = folder.resolve()
    files = [(operator, file) for operator in OPERATORS for file in sorted((own / operator).glob("[!_]*.py"))]
    return [(f"{operator}/{file.stem}", file) for operator, file in files]


def find(folder: Path) -> list[Found]:
    """All implementations of a folder, with their default parameters.

    Raises:
        PlanError: The folder is not there, or holds no implementation.
    """
    library = Library([folder])
    files = files_of(folder)
    if not files:
        there = f"in it: {', '.join(sorted(p.name for p in folder.iterdir())) or 'nothing'}"
        hint = f"files are found as {folder}/<operator>/<name>.py, of the operators {', '.join(OPERATORS)}"
        raise PlanError(Problem(f'"{folder}" holds no implementation', there=there, hint=hint))
    return [_found(library, name, file) for name, file in files]


def _found(library: Library, name: str, file: Path) -> Found:
    operator = name.split("/", maxsplit=1)[0]
    try:
        way = library.get(operator, Choice(file.stem))
        refusal = usable(operator, way)
    except PlanError as error:
        return Found(name, file, None, str(error))
    except Exception as error:  # noqa: BLE001 - whatever a user's `refuses` does is said
        return Found(name, file, None, f"refuses raised {type(error).__name__}: {error}")
    if refusal is not None:
        return Found(name, file, None, f"it refuses the node of the checks: {refusal}")
    return Found(name, file, Way(operator, file.stem, way))
