"""The base class of implementations, the classes that send items alone or packed, and their watched
calls.

The engine selects the rows and pairs, and handles `how`, `keep`, errors and assembly. An
implementation only answers items, by number.
"""

from __future__ import annotations

import logging
import math
import sys
import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import Coroutine, Generator, Sequence
from dataclasses import dataclass, field, fields
from numbers import Real
from pathlib import Path
from typing import Any, ClassVar, Generic, Literal, NamedTuple, TypeVar, get_args

import pyarrow as pa

from semgraph.errors import EngineError, SemgraphError
from semgraph.expr.types import python_rows
from semgraph.extras import lacking
from semgraph.llm.base import Limits
from semgraph.logical.semantic import VERDICTS, Semantic
from semgraph.semantic.answers import answer_table
from semgraph.semantic.context import Context
from semgraph.semantic.contract import (
    REFERENCES,
    Cost,
    Observed,
    Outcome,
    RowEstimate,
    Rows,
    answer_fields,
)

N = TypeVar("N", bound=Semantic)
T = TypeVar("T")
Risk = Literal["up", "down", "none"]


class Values(NamedTuple):
    """The values of a parameter that `tune` tries, as `tried` declares them."""

    listed: tuple[Any, ...]
    risk: Risk


def tried(*values: T, default: T, risk: Risk = "none") -> T:
    """A parameter with the values that `semgraph tune` tries.

    Args:
        values: The values, the default among them, from the lowest to the highest.
        default: The default.
        risk: Whether answers get worse as the value goes `up` or `down`; `none`: that is not known.

    Raises:
        ValueError: `risk` is none of these.
    """
    if risk not in get_args(Risk):
        raise ValueError(f'tried: risk is up, down or none, not "{risk}"')
    return field(default=default, metadata={"tried": Values(values, risk)})


def values_tried(kind: type[Any]) -> dict[str, Values]:
    """The values to try of each parameter of an implementation that declares them."""
    return {f.name: f.metadata["tried"] for f in fields(kind) if "tried" in f.metadata}


@dataclass(frozen=True)
class Implementation(ABC, Generic[N]):
    """An implementation of a semantic operator. Subclasses are frozen dataclasses; their fields are
    the parameters that users set.

    `same`: whether its answers equal those of the reference if the model is a function of the row;
    it selects the contract suite. `extra`: the extra of semgraph whose packages it needs, or "".
    `shows_examples`: whether its requests have the prompt's `examples`, as those of the context do.
    `learns`: whether its answer to a row depends on the others, as that of a threshold that it sets by a
    sample: a test on some rows then shows nothing of its answers to all.
    `version`: a text that its author changes with its answers: choices tuned before are then stale.
    The first line of the module's docstring is its description.
    """

    same: ClassVar[bool] = False
    extra: ClassVar[str] = ""
    shows_examples: ClassVar[bool] = True
    learns: ClassVar[bool] = False
    version: ClassVar[str] = ""

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
        if not self.shows_examples and any(prompt.shown for prompt in node.prompt.all):
            return f"it shows the model no examples; use {REFERENCES[node.keyword]}"
        return self.refuses(node, limits) or self.lacks()

    @abstractmethod
    def estimate(self, node: N, rows: RowEstimate, seen: Observed | None) -> Cost:
        """The estimated cost."""

    @abstractmethod
    async def answer(self, node: N, rows: Rows, ctx: Context) -> list[Outcome]:
        """Answer every item: an outcome for each of `rows.items` (for sem_agg: for each group), in
        order. Its values are, by operator:

        - sem_map and sem_agg: `node.answers`;
        - sem_filter: `keep`, true or false, and `node.answers`;
        - sem_join: `match`, true or false, and with a match `node.answers`;
        - sem_topk: the number `score` of every row; higher is better, ties are in row order.

        sem_filter and sem_join may add a number `score`, the evidence for the verdict; it is stored
        with the answers.
        """


@dataclass(frozen=True)
class PerItem(Implementation[N]):
    """Sends each item alone, in the prompt's words."""

    same = True

    def estimate(self, node: N, rows: RowEstimate, seen: Observed | None) -> Cost:  # noqa: ARG002
        """A call for each item, in one round."""
        return Cost.of_items(rows.items, rows.items, seen)

    async def answer(self, node: N, rows: Rows, ctx: Context) -> list[Outcome]:
        """Send each item alone."""
        return await ctx.ask_packed(node, rows, ([item] for item in range(len(rows.items))))


@dataclass(frozen=True)
class Packed(Implementation[N]):
    """Sends at most `rows` rows in a call, as numbered records; fewer if they exceed the model's
    context or may not share a request.
    """

    same = True
    rows: int = tried(1, 2, 5, 10, 20, 40, default=20, risk="up")

    def __post_init__(self) -> None:
        if self.rows < 1:
            raise ValueError("rows must be at least 1")

    def estimate(self, node: N, rows: RowEstimate, seen: Observed | None) -> Cost:  # noqa: ARG002
        """A call for each block, in one round."""
        return Cost.of_items(math.ceil(rows.items / self.rows), rows.items, seen)

    async def answer(self, node: N, rows: Rows, ctx: Context) -> list[Outcome]:
        """Send the rows in blocks."""
        return await ctx.ask_packed(node, rows, rows.blocks(node, left=self.rows))


def check_answer(node: Semantic, rows: Rows, answers: Any, implementation: object) -> list[Outcome]:
    """The outcomes that an implementation returned, with plain values of the declared types. Raises
    EngineError, which names the implementation and its file: there are more or fewer than items,
    one has neither an error nor its values, or a value has a wrong type.
    """
    wrong, found = _wrong(node, len(rows.units(node)), answers), list[dict[str, Any]]()
    try:
        found = [] if wrong else python_rows(answer_table(node, answers))
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        wrong = f"a value has a wrong type: {error}"
    if wrong:
        what = f"{named(implementation)} broke its contract: {wrong}. Correct its `answer`"
        raise EngineError(f"step {node.step}: {what}")
    each = ((row.pop("error"), tuple(row.pop("calls")), row) for row in found)
    return [Outcome(row if error is None else None, error, calls) for error, calls, row in each]


def _wrong(node: Semantic, count: int, answers: Any) -> str | None:
    if not isinstance(answers, Sequence):
        return f"it returned a {type(answers).__name__}, not a list of Outcome"
    if others := {type(each).__name__ for each in answers if not isinstance(each, Outcome)}:
        return f"it returned a list of {', '.join(sorted(others))}, not of Outcome"
    if len(answers) != count:
        return f"it returned {len(answers)} outcomes for {count} items"
    verdict, names = VERDICTS.get(node.keyword), [f.name for f in answer_fields(node)]
    for item, (values, error, _) in enumerate(answers):
        own = {**(values or {})}
        lacks = [n for n in names if n not in own or (n == verdict and own[n] is None)]
        apart = verdict == "match" and own.get("match") is not None and not own["match"]
        if error is None and lacks and not apart:
            return f'item {item} has neither "{lacks[0]}" nor an error'
    return None


LONGEST = 2.0  # the maximum seconds without an await in a check


_WARN_SECONDS = 5.0  # without an await: the tables of a run are larger than those of a check
_LOG = logging.getLogger("semgraph")


class Blocked(EngineError):
    """An implementation blocked the event loop."""


class Watched:
    """A coroutine of `answer` with the time of its longest step. Await it for the result. Errors
    name the implementation and the step.
    """

    def __init__(
        self, call: Coroutine[Any, Any, Any], implementation: object, step: str = ""
    ) -> None:
        self._call, self._implementation, self._step = call, implementation, step
        self.longest = 0.0

    def __await__(self) -> Generator[Any, Any, Any]:
        """Run the coroutine step by step, and time the steps. Raises EngineError for an error that
        is not semgraph's; the message names file and line.
        """
        if not hasattr(self._call, "send"):
            what = f"{named(self._implementation)}: answer must be written with async def"
            raise EngineError(f"{self._place()}{what}")
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
        """The result of a coroutine that ran without other tasks in the event loop. Raises Blocked
        if it blocked the event loop for longer than LONGEST.
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
        what = f"raised {type(error).__name__}" + (f": {error}" if str(error) else "")
        return EngineError(f"{self._place()}{named(self._implementation, error)} {what}")

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
) -> list[Outcome]:
    """The checked answers of an implementation; logs a warning if it blocked the event loop. Raises
    EngineError for an error that is not semgraph's; the message names step, file and line.
    """
    call = Watched(implementation.answer(node, rows, ctx), implementation, node.step)
    answers = await call
    if call.longest > _WARN_SECONDS:
        _LOG.warning(call.blocked())
    return check_answer(node, rows, answers, implementation)


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


def estimated(implementation: Implementation[Any], node: Semantic, rows: RowEstimate) -> Cost:
    """The implementation's estimate. Raises EngineError, which names the implementation and its
    file, if it raised, or if its result is no `Cost` of numbers of at least 0.
    """
    step = f"step {node.step}: " if node.step else ""
    try:
        cost = implementation.estimate(node, rows, None)
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
        number = isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)
        absent = value is None and name in {"tokens_in", "tokens_out", "least"}
        if not absent and not (number and value >= 0):
            return f"it estimated {name} {_short(value)}, not a number from 0 on"
    return None


def _short(value: object) -> str:
    text = repr(value)
    return f"{type(value).__name__} {text}" if len(text) <= 40 else f"a {type(value).__name__}"
