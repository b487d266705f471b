"""Partitioning algorithms of `cluster`: a function in a file `cluster/<name>.py`, with its
parameters.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import field, fields, make_dataclass
from operator import index
from pathlib import Path
from types import ModuleType, NoneType
from typing import Any, NamedTuple, get_args, get_type_hints

import numpy as np
import numpy.typing as npt

from semgraph.errors import (
    DataError,
    EngineError,
    PlanError,
    Problem,
    SemgraphError,
    did_you_mean,
)
from semgraph.extras import lacking, requirements
from semgraph.logical.plan import Choice
from semgraph.semantic.implementation import line_in

Edges = Sequence[tuple[int, int, float]]
"""Edges between keys by their places: `(a, b, weight)` with a < b, sorted, each pair once."""
Vectors = npt.NDArray[np.floating[Any]]
"""The vectors of the keys, a row for each."""
SEED = 0
_READS = ("edges", "vectors")
_GIVEN = ("keys", *_READS, "seed")
_SIGNATURE = "def cluster(keys, edges, vectors, seed, size: int = 8) -> list[int]"


class ClusterFile(NamedTuple):
    """A file with a partitioning algorithm, checked without calling it.

    Args:
        file: The file.
        function: Its function `cluster`.
        parameters: A dataclass with a field for each parameter after the first four.
        needs: `edges`, `vectors`: those that it cannot do without, by its type hints.
        refuses: Its function `refuses`, which takes the parameters; None without one.
        extra: Its `EXTRA`: the extra of semgraph that it needs; "" without one.
    """

    file: Path
    function: Callable[..., Sequence[int]]
    parameters: type[Any]
    needs: tuple[str, ...]
    refuses: Callable[..., str | None] | None
    extra: str = ""

    @classmethod
    def of(cls, file: Path, module: ModuleType) -> ClusterFile:
        """The algorithm of a module. Raises PlanError if its function cannot be called."""
        function = getattr(module, "cluster", None)
        if not inspect.isfunction(function) or inspect.iscoroutinefunction(function):
            raise PlanError(Problem(f"{file}: it has no function cluster", hint=_SIGNATURE))
        listed = inspect.signature(function).parameters
        if tuple(listed)[: len(_GIVEN)] != _GIVEN:
            what = f"{file}: cluster must take {', '.join(_GIVEN)}, then its parameters"
            raise PlanError(Problem(what, hint=_SIGNATURE))
        try:
            hints = get_type_hints(function)
        except Exception as error:
            what = f"{file}: a type of cluster is unknown: {error}"
            raise PlanError(Problem(what, hint="import it where the file is run")) from error
        own = [each for name, each in listed.items() if name not in _GIVEN]
        needs = tuple(name for name in _READS if name in hints and not _optional(hints[name]))
        parameters = _parameters(file, module, own, hints)
        extra = check_extra(file, getattr(module, "EXTRA", ""))
        return cls(file, function, parameters, needs, getattr(module, "refuses", None), extra)


def check_extra(file: Path, extra: object) -> str:
    """The extra of semgraph that a file names, or "". Raises PlanError if there is no such extra."""
    if isinstance(extra, str) and (not extra or extra in requirements()):
        return extra
    hint = did_you_mean(str(extra), requirements()) or "a package of your own is named by refuses"
    raise PlanError(Problem(f'{file}: semgraph has no extra "{extra}"', hint=hint))


def _parameters(
    file: Path, module: ModuleType, own: Sequence[inspect.Parameter], hints: dict[str, Any]
) -> type[Any]:
    columns: list[Any] = []
    for each in own:
        if each.kind in {each.VAR_POSITIONAL, each.VAR_KEYWORD} or each.name not in hints:
            what = f"{file}: the parameter {each} of cluster needs a name and a type"
            raise PlanError(Problem(what, hint=_SIGNATURE))
        default = {} if each.default is each.empty else {"default": each.default}
        columns.append((each.name, hints[each.name], field(kw_only=True, **default)))
    return make_dataclass(
        file.stem, columns, frozen=True, namespace={"__module__": module.__name__}
    )


def _optional(hint: Any) -> bool:
    return hint is Any or NoneType in (hint, *get_args(hint))


class Algorithm(NamedTuple):
    """A partitioning algorithm with the values of its parameters.

    Args:
        choice: How it is written in plans.
        source: Its file.
        values: The parameters, an object of `source.parameters`.
    """

    choice: Choice
    source: ClusterFile
    values: Any

    @property
    def arguments(self) -> dict[str, Any]:
        """The values of all parameters by name."""
        return {f.name: getattr(self.values, f.name) for f in fields(self.values)}

    @property
    def place(self) -> str:
        """The algorithm with its file."""
        return f"{self.choice} in {self.source.file}"

    def refuses(self) -> str | None:
        """The reason why it cannot run, or None: a missing package, a parameter out of range.

        Raises EngineError if its function `refuses` raises.
        """
        try:
            reason = self.source.refuses(**self.arguments) if self.source.refuses else None
        except Exception as error:
            raise EngineError(self._raised(error)) from error
        return reason or (lacking(self.source.extra) if self.source.extra else None)

    def labels(
        self, keys: Sequence[Any], edges: Edges, vectors: Vectors | None, seed: int = SEED
    ) -> list[int]:
        """A number for each key, equal for keys of one cluster.

        Raises:
            DataError: It raised a ValueError: it cannot cluster these keys.
            EngineError: It raised another error, or returned something else.
        """
        try:
            numbers = self.source.function(keys, edges, vectors, seed, **self.arguments)
        except SemgraphError:
            raise
        except ValueError as error:
            raise DataError(f"cluster by {self.choice}: {error}") from error
        except Exception as error:
            raise EngineError(self._raised(error)) from error
        try:
            labels = [index(number) for number in numbers]
        except TypeError as error:
            raise EngineError(self._broken(f"it returned no list of int: {error}")) from error
        if len(labels) != len(keys):
            raise EngineError(self._broken(f"it returned {len(labels)} for {len(keys)} keys"))
        return labels

    def _raised(self, error: Exception) -> str:
        line = line_in(str(self.source.file), error)
        return f"{self.place}{line} raised {type(error).__name__}: {error}"

    def _broken(self, what: str) -> str:
        return f"{self.place} broke its contract: {what}"
