"""The library that finds implementations of semantic operators and algorithms of `cluster`: files
`<operator>/<name>.py` in the shipped folder and in the user's folders. A file is loaded by its path,
on first use. Code is run from these folders only.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, Field, field, fields, make_dataclass, replace
from functools import cached_property
from operator import index
from pathlib import Path
from types import ModuleType, NoneType, UnionType
from typing import Any, Literal, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np
import numpy.typing as npt

from semgraph.errors import (
    DataError,
    EngineError,
    PlanError,
    Problem,
    SemgraphError,
    among,
    did_you_mean,
)
from semgraph.expr.functions import canonical_json
from semgraph.extras import install, lacking, missing, requirements
from semgraph.folders import code_folders, files_by_name, module_of, operators_folder
from semgraph.llm.base import Limits
from semgraph.logical.cluster import EXACT, Cluster
from semgraph.logical.node import Node, walk
from semgraph.logical.plan import Choice, LogicalPlan
from semgraph.logical.semantic import SemAgg, Semantic, SemFilter, SemJoin, SemMap, SemTopk
from semgraph.optimizer import check_choices, optimized
from semgraph.semantic.contract import OPERATORS, REFERENCES
from semgraph.semantic.implementation import Implementation, line_in, values_tried

# Edges between keys, by index: `(a, b, weight)` with a < b, sorted, each pair once.
Edges = Sequence[tuple[int, int, float]]
Vectors = npt.NDArray[np.floating[Any]]  # the vectors of the keys, a row for each
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
        needs: Which of `edges` and `vectors` it requires, by its type hints.
        refuses: Its function `refuses`, which takes the parameters, or None.
        extra: Its `EXTRA`: the extra of semgraph that it needs, or "".
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
            raise PlanError(f"{file}: it has no function cluster", hint=_SIGNATURE)
        listed = inspect.signature(function).parameters
        if tuple(listed)[: len(_GIVEN)] != _GIVEN:
            what = f"{file}: cluster must take {', '.join(_GIVEN)}, then its parameters"
            raise PlanError(what, hint=_SIGNATURE)
        try:
            hints = get_type_hints(function)
        except Exception as error:
            what = f"{file}: a type of cluster is unknown: {error}"
            raise PlanError(what, hint="import it where the file is run") from error
        own = [each for name, each in listed.items() if name not in _GIVEN]
        needed = {
            n: h for n, h in hints.items() if h is not Any and NoneType not in (h, *get_args(h))
        }
        needs = tuple(name for name in _READS if name in needed)
        parameters = _dataclass_of(file, module, own, hints)
        extra = check_extra(file, getattr(module, "EXTRA", ""))
        return cls(file, function, parameters, needs, getattr(module, "refuses", None), extra)


def check_extra(file: Path, extra: object) -> str:
    """The extra of semgraph that a file names, or "". Raises PlanError if the extra is unknown."""
    if isinstance(extra, str) and (not extra or extra in requirements()):
        return extra
    hint = did_you_mean(str(extra), requirements()) or "a package of your own is named by refuses"
    raise PlanError(f'{file}: semgraph has no extra "{extra}"', hint=hint)


def _dataclass_of(
    file: Path, module: ModuleType, own: Sequence[inspect.Parameter], hints: dict[str, Any]
) -> type[Any]:
    columns: list[Any] = []
    for each in own:
        if each.kind in {each.VAR_POSITIONAL, each.VAR_KEYWORD} or each.name not in hints:
            what = f"{file}: the parameter {each} of cluster needs a name and a type"
            raise PlanError(what, hint=_SIGNATURE)
        default = {} if each.default is each.empty else {"default": each.default}
        columns.append((each.name, hints[each.name], field(kw_only=True, **default)))
    made = make_dataclass(file.stem, columns, frozen=True)
    made.__module__ = module.__name__
    return made


class Algorithm(NamedTuple):
    """A partitioning algorithm with the values of its parameters.

    Args:
        choice: Its name and parameters as in plans.
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
            DataError: The algorithm cannot cluster these keys: it raised a ValueError.
            EngineError: It raised another error, or its result is invalid.
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


_NODES: dict[str, type[Semantic]] = {
    kind.keyword: kind for kind in (SemMap, SemFilter, SemJoin, SemAgg, SemTopk)
}
FOLDERS = (*OPERATORS, Cluster.keyword)  # the operators that have implementations in files
T = TypeVar("T")


class Listed(NamedTuple):
    """An implementation, for tables. `extra` is the extra of semgraph that it needs; `install` is
    the command that installs a missing extra. Either may be "".
    """

    name: str
    signature: str
    doc: str
    same: bool
    reference: bool
    extra: str
    install: str
    file: Path


class Library:
    """All implementations in the shipped folder and in `folders`.

    Raises:
        PlanError: A folder does not exist, or two files have one name.
    """

    def __init__(self, folders: Iterable[Path | str] = ()) -> None:
        form = "<operator>/<implementation>.py"
        self._folders = code_folders(operators_folder(), folders, "operators", form)
        self._loaded: dict[Path, Any] = {}
        self._files  # noqa: B018  # raises early

    @cached_property
    def _files(self) -> dict[str, dict[str, Path]]:
        return {
            keyword: files_by_name((folder / keyword for folder in self._folders), keyword)
            for keyword in FOLDERS
        }

    @staticmethod
    def reference(operator: str) -> Choice:
        """The implementation that defines an operator's answers, which is the default."""
        return Choice(REFERENCES[operator])

    def names(self, operator: str) -> list[str]:
        """The implementations of an operator, its reference first."""
        reference = REFERENCES.get(operator)
        return sorted(self._files[operator], key=lambda name: (name != reference, name))

    def list(self, operator: str) -> list[Listed]:
        """The implementations of an operator with their parameters. Loads their files.

        Raises PlanError.
        """
        return [self._listed(operator, name) for name in self.names(operator)]

    def _listed(self, operator: str, name: str) -> Listed:
        file, reference = self._files[operator][name], name == REFERENCES.get(operator)
        kind, extra = self._parameters(operator, file), self._load(operator, file).extra
        text = inspect.getdoc(sys.modules[kind.__module__]) or ""
        doc, same = " ".join(text.split("\n\n", 1)[0].split()), getattr(kind, "same", False)
        command = install(extra) if extra and missing(extra) else ""
        return Listed(name, signature(name, kind), doc, same, reference, extra, command, file)

    def get(self, operator: str, choice: Choice, step: str = "") -> Implementation[Any]:
        """The implementation for a choice, with its parameters.

        Args:
            operator: Such as `sem_join`.
            choice: A name, or the path of a file in one of the folders, with parameters.
            step: The step, named in errors.

        Raises:
            PlanError: No such implementation, no such parameter, a value of a wrong type, or a file that
                cannot be used.
        """
        try:
            return _made(self._load(operator, self._find(operator, choice.name)), choice)
        except PlanError as error:
            raise PlanError(*(replace(p, step=step or p.step) for p in error.problems)) from None

    def algorithm(self, choice: Choice) -> Algorithm:
        """The partitioning algorithm of `cluster` for a choice. Raises PlanError as `get`."""
        file = self._find(Cluster.keyword, choice.name)
        source: ClusterFile = self._load(Cluster.keyword, file)
        return Algorithm(choice, source, _made(source.parameters, choice))

    def _find(self, operator: str, name: str) -> Path:
        files = self._files[operator]
        if name in files:
            return files[name]
        if name.endswith(".py"):
            path = Path(name).resolve()
            if path in files.values():
                return path
            there = f"folders: {', '.join(map(str, self._folders))}"
            where = f"it must be <folder>/{operator}/<name>.py, and the folder named: --operators, or in semgraph.toml"
            what = f'"{name}" is in no folder that code is run from'
            raise PlanError(what, there=there, hint=where)
        clusters = operator == Cluster.keyword
        exact, what = (EXACT, "algorithm") if clusters else ((), "implementation")
        known = [*exact, *(self._short(operator, n) for n in self.names(operator))]
        there = f"{what.capitalize()}s: {', '.join(known)}"
        hint = did_you_mean(name, [*exact, *files])
        raise PlanError(f'unknown {what} "{name}" of {operator}', there=there, hint=hint)

    def _short(self, operator: str, name: str) -> str:
        try:
            return signature(
                name, self._parameters(operator, self._files[operator][name]), short=True
            )
        except PlanError:  # reported when this one is chosen
            return name

    def _parameters(self, operator: str, file: Path) -> type[Any]:
        """The dataclass whose fields are the parameters of a file."""
        loaded = self._load(operator, file)
        return loaded.parameters if isinstance(loaded, ClusterFile) else loaded

    def _load(self, operator: str, file: Path) -> Any:
        """The implementation in a file; for `cluster`, its `ClusterFile`."""
        if file not in self._loaded:
            module = module_of("operators", file, f"{operator}_{file.stem}")
            if operator == Cluster.keyword:
                self._loaded[file] = ClusterFile.of(file, module)
            else:
                self._loaded[file] = _implementation(operator, file, module)
        return self._loaded[file]


def signature(name: str, kind: type[Any], *, short: bool = False) -> str:
    """An implementation with its parameters: `block(left=null, right=null)`; short:
    `block(left, right)`.
    """
    parameters = [
        f.name if short or f.default is MISSING else f"{f.name}={canonical_json(f.default)}"
        for f in _parameters(kind)
    ]
    return f"{name}({', '.join(parameters)})" if parameters else name


def _parameters(kind: type[Any]) -> tuple[Field[Any], ...]:
    return tuple(f for f in fields(kind) if f.init)


def _implementation(operator: str, file: Path, module: ModuleType) -> type[Implementation[Any]]:
    """The one implementation in a module, checked without calling it."""
    own = [
        kind
        for kind in vars(module).values()
        if isinstance(kind, type)
        and issubclass(kind, Implementation)
        and kind.__module__ == module.__name__
    ]
    wanted = _NODES[operator]
    if len(own) != 1:
        names = ", ".join(kind.__name__ for kind in own) or "none"
        raise PlanError(
            f"{file}: a file holds one implementation, this one holds {names}",
            hint=f"write class Name(Implementation[{wanted.__name__}])",
        )
    (kind,) = own
    bases = (get_args(base) for base in getattr(kind, "__orig_bases__", ()))
    node = next((arguments[0] for arguments in bases if arguments), None)
    what = hint = ""
    if isinstance(node, type) and node is not wanted:
        what = f"is for {node.__name__}, but its folder is {operator}"
        hint = f"move it, or write Implementation[{wanted.__name__}]"
    elif lacks := sorted(getattr(kind, "__abstractmethods__", ())):
        what = f"lacks the method {', '.join(lacks)}"
    elif "__dataclass_params__" not in vars(kind):
        what = "is no dataclass, so it has no parameters"
        hint = "write @dataclass(frozen=True) above the class"
    if what:
        raise PlanError(f"{file}: {kind.__name__} {what}", hint=hint or None)
    check_extra(file, kind.extra)
    return kind


def _made(kind: type[T], choice: Choice) -> T:
    known, hints = {f.name: f for f in _parameters(kind)}, get_type_hints(kind)
    given, problems = dict(choice.params), []
    for name, value in given.items():
        if name not in known:
            what = f'{choice.name} has no parameter "{name}"'
            problems.append(Problem(what, **among(name, known, "its parameters")))
        elif not _fits(hints[name], value):
            must = f"{name} must be {_type_name(hints[name])}, not {canonical_json(value)}"
            problems.append(Problem(f"{choice.name}: {must}"))
    needed = [n for n, f in known.items() if f.default is MISSING and f.default_factory is MISSING]
    if absent := [name for name in needed if name not in given]:
        hint = f"write {choice.name}({absent[0]}=...)"
        problems.append(Problem(f"{choice.name} needs {', '.join(absent)}", hint=hint))
    if problems:
        raise PlanError(*problems)
    try:
        return kind(**given)
    except ValueError as error:
        raise PlanError(f"{choice}: {error}") from None


def wrong_values(name: str, kind: type[Any]) -> str | None:
    """What is wrong with the values to try that an implementation declares, or None."""
    defaults = {f.name: f.default for f in fields(kind)}
    for parameter, (values, risk) in values_tried(kind).items():
        listed = ", ".join(map(canonical_json, values)) or "none"
        if (default := defaults[parameter]) not in values:
            return f"{parameter}={canonical_json(default)} is its default, and not among {listed}"
        numbers = [value for value in values if isinstance(value, int | float)]
        if risk != "none" and numbers != sorted(numbers):
            return f"{parameter} must have its values from the lowest to the highest, not {listed}"
        for value in values:
            try:
                _made(kind, Choice(name, ((parameter, value),)))
            except PlanError as error:
                return f"it does not accept {parameter}={canonical_json(value)}: {error}"
    return None


def _fits(hint: Any, value: Any) -> bool:
    origin = get_origin(hint)
    if origin in {Union, UnionType}:
        return any(_fits(option, value) for option in get_args(hint))
    if origin is Literal:
        return value in get_args(hint)
    if hint in {int, float}:
        return isinstance(value, (int, hint)) and not isinstance(value, bool)
    return value is None if hint is NoneType else isinstance(value, hint)


def _type_name(hint: Any) -> str:
    if get_args(hint) and get_origin(hint) is not Literal:
        return " or ".join(_type_name(option) for option in get_args(hint))
    if get_origin(hint) is Literal:
        return " or ".join(canonical_json(value) for value in get_args(hint))
    return _TYPE_NAMES.get(hint, str(hint))


_TYPE_NAMES = {int: "a whole number", float: "a number", str: "text", bool: "true or false"}
_TYPE_NAMES |= {NoneType: "null"}


Implementations = Mapping[Node, tuple[Implementation[Any], Choice]]


class Chosen(NamedTuple):
    """The implementations of the semantic nodes of a plan, and the algorithms of its clusters."""

    implementations: Implementations
    algorithms: Mapping[Node, Algorithm]


def choose(
    plan: LogicalPlan, nodes: Iterable[Node], library: Library, limits: Mapping[str, Limits]
) -> Chosen:
    """The implementation of each semantic node and the algorithm of each cluster.

    The plan's choice for the step comes first, then the operator's reference or the algorithm that
    the cluster names. Raises PlanError.
    """
    implementations: dict[Node, tuple[Implementation[Any], Choice]] = {}
    algorithms: dict[Node, Algorithm] = {}
    problems: list[Problem] = []
    for node in nodes:
        try:
            if isinstance(node, Semantic):
                implementations[node] = _implementation_of(node, plan, library, limits)
            elif isinstance(node, Cluster) and node.swappable:
                choice = plan.choice(node.step) or node.choice
                algorithms[node] = algorithm_of(node, choice, library)
        except PlanError as error:
            position = node.origin
            if isinstance(node, Cluster) and node.origin and not plan.choice(node.step):
                position = node.origin.algorithm or position  # the node itself chooses it
            problems += [
                Problem(p.what, node.step, position, p.there, p.hint) for p in error.problems
            ]
    if problems:
        raise PlanError(*problems)
    return Chosen(implementations, algorithms)


def _implementation_of(
    node: Semantic, plan: LogicalPlan, library: Library, limits: Mapping[str, Limits]
) -> tuple[Implementation[Any], Choice]:
    reference = library.reference(node.keyword)
    choice = (plan.choice(node.step) or reference).over(reference)
    implementation = library.get(node.keyword, choice)
    role = node.prompt.first.role
    role_limits = limits.get(role) or limits.get("default") or Limits()
    refusal = implementation.refusal(node, role_limits)
    if refusal is not None:
        raise PlanError(f"{choice} cannot do this: {refusal}")
    return implementation, choice


_READ_BY = {"edges": "source and target of edges", "vectors": "vector: a column of vectors"}


def algorithm_of(node: Cluster, choice: Choice, library: Library) -> Algorithm:
    """The algorithm of a choice for a node. Raises PlanError if it is unknown, exact, or refuses
    the node.
    """
    if choice.model:
        raise PlanError(f"{choice}: clustering calls no model", hint=choice.name or None)
    if choice.name in EXACT:
        what = f"{choice.name} is exact: use replaces a partitioning algorithm by another"
        raise PlanError(what, hint=f"write algorithm: {choice.name} in the plan")
    algorithm = library.algorithm(choice)
    known = {"edges": bool(node.source), "vectors": bool(node.vector)}
    for name in algorithm.source.needs:
        if not known[name]:
            what = f"{choice} cannot do this: it needs {_READ_BY[name]}"
            raise PlanError(what)
    refusal = algorithm.refuses()
    if refusal is not None:
        raise PlanError(f"{choice} cannot do this: {refusal}")
    return algorithm


def check_implementations(plan: LogicalPlan, library: Library) -> None:
    """Check the implementations of a plan, without a store or models. Raises PlanError.

    Implementations depend only on prompts and numbers, which exact rules preserve. So a plan
    without approximate rules is checked unoptimized.
    """
    check_choices(plan)
    rewritten = optimized(plan, {}) if plan.allow else plan
    choose(plan, walk(*rewritten.roots), library, {})
