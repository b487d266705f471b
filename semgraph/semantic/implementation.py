"""Implementations of semantic operators: the base class, and those that send items alone or packed;
and the algorithms of `cluster`, each a function with its parameters in a file `cluster/<name>.py`.

The engine selects the rows and pairs, and handles `how`, `keep`, errors and assembly; an
implementation only answers items, by their numbers.
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
from collections.abc import Callable, Coroutine, Generator, Sequence
from dataclasses import dataclass, field, fields, make_dataclass
from operator import index
from pathlib import Path
from types import ModuleType, NoneType
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar, get_args, get_type_hints

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from semgraph.errors import (
    DataError,
    EngineError,
    PlanError,
    Problem,
    SemgraphError,
    did_you_mean,
)
from semgraph.extras import lacking, requirements
from semgraph.llm.base import Limits
from semgraph.logical.plan import Choice
from semgraph.logical.semantic import Semantic
from semgraph.semantic.context import Context
from semgraph.semantic.contract import (
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

    `same`: whether it answers as the reference does, provided that the model is a function of the
    row. It selects the contract suite. `extra`: the extra of semgraph whose packages it needs; "" if
    none. The first line of the module's docstring is its description.
    """

    same: ClassVar[bool] = False
    extra: ClassVar[str] = ""

    def refuses(self, node: N, limits: Limits) -> str | None:  # noqa: ARG002
        """The reason why it cannot answer this node, or None."""
        return None

    def lacks(self) -> str | None:
        """The reason why `extra` cannot be used, with the command that installs it, or None."""
        return lacking(self.extra) if self.extra else None

    def refusal(self, node: N, limits: Limits) -> str | None:
        """The reason why it cannot be used for this node, or None: what `refuses` says, then what
        is not installed.
        """
        return self.refuses(node, limits) or self.lacks()

    @abstractmethod
    def estimate(self, node: N, rows: RowEstimate, seen: Observed | None) -> Cost:
        """The estimated cost."""

    @abstractmethod
    async def answer(self, node: N, rows: Rows, ctx: Context) -> pa.Table:
        """Answer every item once.

        Returns a table with `item` int64 (index into `rows.items`; for sem_agg: the group), the
        answers, `error` string (NULL: answered) and `calls` list<string> (ids of the calls that the
        answer is based on). Answers by operator: sem_map and sem_agg `node.answers`; sem_filter
        `keep` boolean and `node.answers`; sem_join `match` boolean and `node.answers` (NULL without
        a match); sem_topk
        `score` double, higher is better, ties in row order (every row needs a score). sem_filter
        and sem_join may have a last column `score` double, the evidence for the verdict; it is
        stored with the answers.
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
    """Sends at most `rows` rows in a call, as numbered records; fewer, if they do not fit the model
    or may not share a request.
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
    """Check the table of an implementation; `implementation` is named in the error, with its file.

    Raises:
        EngineError: The schema is wrong, an item is missing, unknown or twice, or an item has
            neither verdict nor error.
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


LONGEST = 2.0
"""The most seconds without an await in a check."""


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
        """Run it step by step, and time the steps.

        Raises:
            EngineError: It raised an error that is not semgraph's; names file and line.
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
        """The result, if nothing else ran in the event loop.

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
    """How long this thread has been ready to run without a processor. 0 except on Linux."""
    try:
        return int(Path("/proc/thread-self/schedstat").read_text().split()[1]) / 1e9
    except OSError:
        return 0.0


async def watched(
    implementation: Implementation[Any], node: Semantic, rows: Rows, ctx: Context
) -> pa.Table:
    """The answers of an implementation; logs a warning if it blocked the event loop.

    Raises:
        EngineError: It raised an error that is not semgraph's; names step, file and line.
    """
    call = Watched(implementation.answer(node, rows, ctx), implementation, node.step)
    table: pa.Table = await call
    if call.longest > _WARN_SECONDS:
        _LOG.warning(call.blocked())
    return table


def named(implementation: object, error: BaseException | None = None) -> str:
    """An implementation with its file, and the line in it that raised the error."""
    file = getattr(sys.modules.get(type(implementation).__module__), "__file__", None)
    if not file:
        return type(implementation).__name__
    return f"{type(implementation).__name__} in {file}{line_in(file, error)}"


def line_in(file: str, error: BaseException | None) -> str:
    """The line of a file that raised an error, as `:12`; "" if none did."""
    trace = traceback.extract_tb(error.__traceback__) if error is not None else []
    numbers = [frame.lineno for frame in trace if frame.filename == file]
    return f":{numbers[-1]}" if numbers else ""


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
