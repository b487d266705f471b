"""Implementations of semantic operators.

This module holds the base class, the classes that send items alone or packed, the algorithms of
`cluster`, and the library that finds implementations: files `<operator>/<name>.py` in the shipped
folder and in the user's folders.

The engine selects the rows and pairs, and handles `how`, `keep`, errors and assembly. An
implementation only answers items, by number. A file is loaded by its path, on first use. Code is
run from these folders only.
"""

from __future__ import annotations

import inspect
import logging
import math
import sys
import time
import traceback
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Coroutine, Generator, Iterable, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields, make_dataclass, replace
from functools import cached_property
from numbers import Real
from operator import index
from pathlib import Path
from types import ModuleType, NoneType, UnionType
from typing import (
    Any,
    ClassVar,
    Generic,
    Literal,
    NamedTuple,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from semgraph.errors import (
    DataError,
    EngineError,
    PlanError,
    Position,
    Problem,
    SemgraphError,
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
from semgraph.semantic.context import Context
from semgraph.semantic.contract import (
    OPERATORS,
    REFERENCES,
    Cost,
    Observed,
    RowEstimate,
    Rows,
    answer_schema,
    verdict_field,
)

N = TypeVar("N", bound=Semantic)


@dataclass(frozen=True)
class Implementation(ABC, Generic[N]):
    """An implementation of a semantic operator. Subclasses are frozen dataclasses; their fields are
    the parameters that users set.

    `same`: whether its answers equal those of the reference if the model is a function of the row;
    it selects the contract suite. `extra`: the extra of semgraph whose packages it needs, or "".
    The first line of the module's docstring is its description.
    """

    same: ClassVar[bool] = False
    extra: ClassVar[str] = ""

    def refuses(self, node: N, limits: Limits) -> str | None:  # noqa: ARG002
        """The reason why the implementation cannot answer this node, or None."""
        return None

    def lacks(self) -> str | None:
        """The reason why `extra` cannot be used, with the command that installs it, or None."""
        return lacking(self.extra) if self.extra else None

    def refusal(self, node: N, limits: Limits) -> str | None:
        """The reason why the implementation cannot run this node, or None: the result of `refuses`,
        otherwise the missing package.
        """
        return self.refuses(node, limits) or self.lacks()

    @abstractmethod
    def estimate(self, node: N, rows: RowEstimate, seen: Observed | None) -> Cost:
        """The estimated cost."""

    @abstractmethod
    async def answer(self, node: N, rows: Rows, ctx: Context) -> pa.Table:
        """Answer every item once.

        Returns a table with `item` int64 (index into `rows.items`; for sem_agg: the group), the
        answers, `error` string (NULL: answered) and `calls` list<string> (ids of the calls on which
        the answer is based). The answers are, by operator:

        - sem_map and sem_agg: `node.answers`;
        - sem_filter: `keep` boolean and `node.answers`;
        - sem_join: `match` boolean and `node.answers` (NULL without a match);
        - sem_topk: `score` double for every row; higher is better, ties are in row order.

        sem_filter and sem_join may add a last column `score` double, the evidence for the verdict;
        it is stored with the answers.
        """


@dataclass(frozen=True)
class PerItem(Implementation[N]):
    """Sends each item alone, in the prompt's words."""

    same = True

    def estimate(self, node: N, rows: RowEstimate, seen: Observed | None) -> Cost:  # noqa: ARG002
        """A call for each item, in one round."""
        return Cost.of_items(rows.items, rows.items, seen)

    async def answer(self, node: N, rows: Rows, ctx: Context) -> pa.Table:
        """Send each item alone."""
        return await ctx.ask_packed(node, rows, ([item] for item in range(rows.items.num_rows)))


@dataclass(frozen=True)
class Packed(Implementation[N]):
    """Sends at most `rows` rows in a call, as numbered records; fewer if they exceed the model's
    context or may not share a request.
    """

    same = True
    rows: int = 20

    def __post_init__(self) -> None:
        if self.rows < 1:
            raise ValueError("rows must be at least 1")

    def estimate(self, node: N, rows: RowEstimate, seen: Observed | None) -> Cost:  # noqa: ARG002
        """A call for each block, in one round."""
        return Cost.of_items(math.ceil(rows.items / self.rows), rows.items, seen)

    async def answer(self, node: N, rows: Rows, ctx: Context) -> pa.Table:
        """Send the rows in blocks."""
        return await ctx.ask_packed(node, rows, rows.blocks(node, left=self.rows))


def check_answer(
    node: Semantic, rows: Rows, table: pa.Table, implementation: object = None
) -> None:
    """Check the table of an implementation. Errors name `implementation` and its file.

    Raises:
        EngineError: The schema is wrong, an item is missing, unknown or duplicated, or an item
            lacks both verdict and error.
    """
    expected = answer_schema(node)
    wrong: str | None
    if not isinstance(table, pa.Table):
        wrong = f"it returned a {type(table).__name__}, not a pyarrow.Table"
    elif not table.schema.equals(expected) and not _scored(node, table):
        wrong = f"it returned columns ({_columns(table.schema)}), expected ({_columns(expected)})"
    else:
        wrong = _wrong_items(node, rows, table.column("item").to_pylist()) or _no_verdict(
            node, table
        )
    if wrong:
        who = "its implementation" if implementation is None else named(implementation)
        raise EngineError(
            f"step {node.step}: {who} broke its contract: {wrong}. Correct its `answer`"
        )


def _scored(node: Semantic, table: pa.Table) -> bool:
    return node.keyword in {"sem_filter", "sem_join"} and table.schema.equals(
        answer_schema(node, scored=True)
    )


def _wrong_items(node: Semantic, rows: Rows, items: Sequence[Any]) -> str | None:
    count = len(rows.groups()) if node.keyword == "sem_agg" else rows.items.num_rows
    seen = Counter(items)
    missing = [i for i in range(count) if i not in seen]
    invalid = [i for i, n in seen.items() if n > 1 or i is None or not 0 <= i < count]
    if not missing and not invalid:
        return None
    parts = [f"missing: {_first(missing)}"] * bool(missing) + [
        f"twice or unknown: {_first(invalid)}"
    ] * bool(invalid)
    return f"each of the {count} items must come once; {'; '.join(parts)}"


def _no_verdict(node: Semantic, table: pa.Table) -> str | None:
    verdict = verdict_field(node)
    if verdict is None:
        return None
    import pyarrow.compute as pc

    bare = pc.and_(pc.is_null(table.column("error")), pc.is_null(table.column(verdict.name)))
    item = pc.index(bare, True).as_py()
    return (
        None
        if item < 0
        else f'item {table.column("item")[item].as_py()} has neither "{verdict.name}" nor an error'
    )


def _first(items: Sequence[Any]) -> str:
    return ", ".join(map(str, items[:5])) + (", ..." if len(items) > 5 else "")


def _columns(schema: pa.Schema) -> str:
    return ", ".join(f"{schema.field(i).name}: {schema.field(i).type}" for i in range(len(schema)))


LONGEST = 2.0  # the maximum seconds without an await in a check


_WARN_SECONDS = 5.0  # without an await: the tables of a run are larger than those of a check
_LOG = logging.getLogger("semgraph")


class Blocked(EngineError):
    """An implementation blocked the event loop."""


class Watched:
    """A coroutine of `answer` with the time of its longest step. Await it for the result.

    Args:
        call: The coroutine.
        implementation: The implementation, for errors.
        step: The step, for errors.
    """

    def __init__(
        self, call: Coroutine[Any, Any, Any], implementation: object, step: str = ""
    ) -> None:
        self._call, self._implementation, self._step = call, implementation, step
        self.longest = 0.0

    def __await__(self) -> Generator[Any, Any, Any]:
        """Run the coroutine step by step, and time the steps.

        Raises:
            EngineError: It raised an error that is not semgraph's; the message names file and line.
        """
        if not hasattr(self._call, "send"):
            raise EngineError(
                f"{self._place()}{named(self._implementation)}: answer must be written with async def"
            )
        began, waited = time.perf_counter(), seconds_without_processor()
        send: Any = None
        throw: BaseException | None = None
        while True:
            try:
                awaited = self._call.send(send) if throw is None else self._call.throw(throw)
            except StopIteration as end:
                return end.value
            except EngineError as error:
                raise self._named(error) from error
            except SemgraphError:
                raise
            except Exception as error:
                raise self._broken(error) from error
            finally:
                seconds = time.perf_counter() - began
                if seconds > LONGEST:
                    before, waited = waited, seconds_without_processor()
                    seconds -= waited - before
                self.longest = max(self.longest, seconds)
            send, throw = None, None
            try:
                send = yield awaited
            except BaseException as error:  # noqa: BLE001 - thrown errors, also cancellation, go to the coroutine
                throw = error
            began = time.perf_counter()

    async def ended(self) -> Any:
        """The result of a coroutine that ran without other tasks in the event loop.

        Raises:
            Blocked: It blocked the event loop for longer than LONGEST.
        """
        result = await self
        if self.longest > LONGEST:
            raise Blocked(self.blocked())
        return result

    def blocked(self) -> str:
        """The message about a blocked event loop."""
        return (
            f"{self._place()}{named(self._implementation)} blocked the event loop for "
            f"{self.longest:.1f} s: no other call could run. "
            "Await something meanwhile, or compute in a thread: await asyncio.to_thread(...)"
        )

    def _named(self, error: EngineError) -> EngineError:
        """An error of the context, with the place in the implementation."""
        message = str(error).removeprefix(self._place())
        return EngineError(f"{self._place()}{named(self._implementation, error)}: {message}")

    def _broken(self, error: Exception) -> EngineError:
        message = f": {error}" if str(error) else ""
        return EngineError(
            f"{self._place()}{named(self._implementation, error)} raised {type(error).__name__}{message}"
        )

    def _place(self) -> str:
        return f"step {self._step}: " if self._step else ""


def seconds_without_processor() -> float:
    """The seconds that this thread was ready to run but had no processor. 0 except on Linux."""
    try:
        return int(Path("/proc/thread-self/schedstat").read_text().split()[1]) / 1e9
    except OSError:
        return 0.0


async def watched(
    implementation: Implementation[Any], node: Semantic, rows: Rows, ctx: Context
) -> pa.Table:
    """The answers of an implementation; logs a warning if it blocked the event loop.

    Raises:
        EngineError: It raised an error that is not semgraph's; the message names step, file and
            line.
    """
    call = Watched(implementation.answer(node, rows, ctx), implementation, node.step)
    table: pa.Table = await call
    if call.longest > _WARN_SECONDS:
        _LOG.warning(call.blocked())
    return table


def named(implementation: object, error: BaseException | None = None) -> str:
    """The name of an implementation, its file, and the line that raised the error."""
    file = getattr(sys.modules.get(type(implementation).__module__), "__file__", None)
    if not file:
        return type(implementation).__name__
    return f"{type(implementation).__name__} in {file}{line_in(file, error)}"


def line_in(file: str, error: BaseException | None) -> str:
    """The line of a file that raised an error, as `:12`; "" if none did."""
    trace = traceback.extract_tb(error.__traceback__) if error is not None else []
    numbers = [frame.lineno for frame in trace if frame.filename == file]
    return f":{numbers[-1]}" if numbers else ""


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
        parameters = _dataclass_of(file, module, own, hints)
        extra = check_extra(file, getattr(module, "EXTRA", ""))
        return cls(file, function, parameters, needs, getattr(module, "refuses", None), extra)


def check_extra(file: Path, extra: object) -> str:
    """The extra of semgraph that a file names, or "". Raises PlanError if the extra is unknown."""
    if isinstance(extra, str) and (not extra or extra in requirements()):
        return extra
    hint = did_you_mean(str(extra), requirements()) or "a package of your own is named by refuses"
    raise PlanError(Problem(f'{file}: semgraph has no extra "{extra}"', hint=hint))


def _dataclass_of(
    file: Path, module: ModuleType, own: Sequence[inspect.Parameter], hints: dict[str, Any]
) -> type[Any]:
    columns: list[Any] = []
    for each in own:
        if each.kind in {each.VAR_POSITIONAL, each.VAR_KEYWORD} or each.name not in hints:
            what = f"{file}: the parameter {each} of cluster needs a name and a type"
            raise PlanError(Problem(what, hint=_SIGNATURE))
        default = {} if each.default is each.empty else {"default": each.default}
        columns.append((each.name, hints[each.name], field(kw_only=True, **default)))
    made = make_dataclass(file.stem, columns, frozen=True)
    made.__module__ = module.__name__
    return made


def _optional(hint: Any) -> bool:
    return hint is Any or NoneType in (hint, *get_args(hint))


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
            raise PlanError(Problem(what, there=there, hint=where))
        exact = EXACT if operator == Cluster.keyword else ()
        what = "algorithm" if operator == Cluster.keyword else "implementation"
        known = [*exact, *(self._short(operator, n) for n in self.names(operator))]
        there = f"{what.capitalize()}s: {', '.join(known)}"
        hint = did_you_mean(name, [*exact, *files])
        raise PlanError(Problem(f'unknown {what} "{name}" of {operator}', there=there, hint=hint))

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
            self._loaded[file] = (
                ClusterFile.of(file, module)
                if operator == Cluster.keyword
                else _implementation(operator, file, module)
            )
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
            Problem(
                f"{file}: a file holds one implementation, this one holds {names}",
                hint=f"write class Name(Implementation[{wanted.__name__}])",
            )
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
        raise PlanError(Problem(f"{file}: {kind.__name__} {what}", hint=hint or None))
    check_extra(file, kind.extra)
    return kind


def _made(kind: type[T], choice: Choice) -> T:
    known, hints = {f.name: f for f in _parameters(kind)}, get_type_hints(kind)
    given, problems = dict(choice.params), []
    for name, value in given.items():
        if name not in known:
            there = f"Its parameters: {', '.join(known) or 'none'}"
            what, hint = f'{choice.name} has no parameter "{name}"', did_you_mean(name, known)
            problems.append(Problem(what, there=there, hint=hint))
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
        raise PlanError(Problem(f"{choice}: {error}")) from None


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


def estimated(
    implementation: Implementation[Any], node: Semantic, rows: RowEstimate, seen: Observed | None
) -> Cost:
    """The implementation's estimate.

    Raises:
        EngineError: The implementation raised, or its result is no `Cost` of numbers of at least 0.
            The message names the implementation and its file.
    """
    step = f"step {node.step}: " if node.step else ""
    try:
        cost = implementation.estimate(node, rows, seen)
    except SemgraphError:
        raise
    except Exception as error:
        what = f"raised {type(error).__name__}: {error}"
        raise EngineError(f"{step}{named(implementation, error)} {what}") from error
    if wrong := invalid_cost(cost):
        what = f"broke its contract: {wrong}. Correct its `estimate`"
        raise EngineError(f"{step}{named(implementation)} {what}")
    return cost


def invalid_cost(cost: object) -> str | None:
    """What is wrong with an estimate, or None."""
    if not isinstance(cost, Cost):
        return f"it estimated {_short(cost)}, not a Cost"
    for name, value in cost._asdict().items():
        optional = name in {"tokens_in", "tokens_out", "least"}
        if (value is None and optional) or (_is_number(value) and value >= 0):
            continue
        return f"it estimated {name} {_short(value)}, not a number from 0 on"
    return None


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)


def _short(value: object) -> str:
    text = repr(value)
    return f"{type(value).__name__} {text}" if len(text) <= 40 else f"a {type(value).__name__}"


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
            place = _place(node, plan)
            problems += [Problem(p.what, node.step, place, p.there, p.hint) for p in error.problems]
    if problems:
        raise PlanError(*problems)
    return Chosen(implementations, algorithms)


def _place(node: Node, plan: LogicalPlan) -> Position | None:
    """The position of a cluster's `algorithm` if the node itself chooses it, else of the node."""
    if isinstance(node, Cluster) and node.origin and not plan.choice(node.step):
        return node.origin.algorithm or node.origin
    return node.origin


def _implementation_of(
    node: Semantic, plan: LogicalPlan, library: Library, limits: Mapping[str, Limits]
) -> tuple[Implementation[Any], Choice]:
    choice = plan.choice(node.step) or library.reference(node.keyword)
    implementation = library.get(node.keyword, choice)
    role = node.prompt.first.role
    role_limits = limits.get(role) or limits.get("default") or Limits()
    refusal = implementation.refusal(node, role_limits)
    if refusal is not None:
        raise PlanError(Problem(f"{choice} cannot do this: {refusal}"))
    return implementation, choice


_READ_BY = {
    "edges": "source and target of edges",
    "vectors": "vector: a column of vectors",
}


def algorithm_of(node: Cluster, choice: Choice, library: Library) -> Algorithm:
    """The algorithm of a choice for a node. Raises PlanError if it is unknown, exact, or refuses
    the node.
    """
    if choice.name in EXACT:
        what = f"{choice.name} is exact: use replaces a partitioning algorithm by another"
        raise PlanError(Problem(what, hint=f"write algorithm: {choice.name} in the plan"))
    algorithm = library.algorithm(choice)
    known = {"edges": bool(node.source), "vectors": bool(node.vector)}
    for name in algorithm.source.needs:
        if not known[name]:
            what = f"{choice} cannot do this: it needs {_READ_BY[name]}"
            raise PlanError(Problem(what))
    refusal = algorithm.refuses()
    if refusal is not None:
        raise PlanError(Problem(f"{choice} cannot do this: {refusal}"))
    return algorithm


def check_implementations(plan: LogicalPlan, library: Library) -> None:
    """Check the implementations of a plan, without a store or models. Raises PlanError.

    Implementations depend only on prompts and numbers, which exact rules preserve. So a plan
    without approximate rules is checked unoptimized.
    """
    check_choices(plan)
    rewritten = optimized(plan, {}) if plan.allow else plan
    choose(plan, walk(*rewritten.roots), library, {})
