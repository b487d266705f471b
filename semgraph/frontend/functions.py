"""The user functions that plans may call: files `<name>.py` in the shipped folder and in the user's
folders.

A file is run, by its path, when a plan first calls its function. Plans cannot name folders.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from semgraph.errors import Fault, PlanError, Problem
from semgraph.expr.own_functions import OwnFunction, own_function
from semgraph.folders import code_folders, content_of, files_by_name, functions_folder, module_of
from semgraph.frontend.document import notice


class ListedFunction(NamedTuple):
    """A function, for tables; `problem` is why it cannot be called."""

    name: str
    signature: str
    doc: str
    file: Path
    problem: str | None = None


@dataclass(frozen=True)
class Functions(Mapping[str, OwnFunction]):
    """The functions of the shipped folder and of `folders`, by name. Raises PlanError if a folder does
    not exist, or a name is taken.
    """

    folders: tuple[Path, ...] = ()

    def __post_init__(self) -> None:
        self.files  # noqa: B018  # raises early

    @cached_property
    def files(self) -> dict[str, Path]:
        """The files, by the names of their functions."""
        shipped = functions_folder()
        files = files_by_name(
            code_folders(shipped, self.folders, "functions", "<name>.py"), "function"
        )
        problems = [
            Problem(f"{file}: {reason}", hint="rename the file and its function")
            for name, file in files.items()
            if self.folders and (reason := _refused(name))
        ]
        if problems:
            raise PlanError(*problems)
        return files

    def __contains__(self, name: object) -> bool:
        return name in self.files

    def __iter__(self) -> Iterator[str]:
        return iter(self.files)

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, name: str) -> OwnFunction:
        """A function, ready to be called in SQL. Raises Fault."""
        from semgraph.expr.duckdb import register_function

        try:
            function = loaded(self.files[name])
        except PlanError as error:
            [problem] = error.problems
            raise Fault(problem.what, there=problem.there, hint=problem.hint) from None
        register_function(function)
        return function

    def list(self) -> list[ListedFunction]:
        """All functions, with their signatures. Runs their files."""
        return [_listed(name, file) for name, file in sorted(self.files.items())]


def _refused(name: str) -> str | None:
    from semgraph.expr.duckdb import taken_names

    if not name.isidentifier() or name != name.lower() or not name.isascii():
        return f'"{name}" is no name of a function: use lower-case letters, digits and _'
    if "__" in name:
        return f'"{name}" is no name of a function: it has two underscores in a row'
    return f'"{name}" is a function or a word of SQL already' if name in taken_names() else None


def loaded(file: Path) -> OwnFunction:
    """The function of a file. Raises PlanError."""
    notice(file)
    content = content_of(file)
    module = module_of("functions", file, file.stem)
    try:
        return own_function(file.stem, content.digest, file, getattr(module, file.stem, None))
    except Fault as fault:
        problem = Problem(f"{file}: {fault.what}", there=fault.there, hint=fault.hint)
        raise PlanError(problem) from None


def _listed(name: str, file: Path) -> ListedFunction:
    try:
        function = loaded(file)
    except PlanError as error:
        return ListedFunction(name, name, "", file, str(error))
    doc = " ".join((inspect.getdoc(function.python) or "").split("\n\n", 1)[0].split())
    return ListedFunction(name, function.signature, doc, file)
