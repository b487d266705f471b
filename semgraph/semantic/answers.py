"""Answer tables: made from outcomes, and checked when an implementation returns them."""

from __future__ import annotations

import logging
import sys
import time
import traceback
from collections import Counter
from collections.abc import Coroutine, Generator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from semgraph.errors import EngineError, SemgraphError
from semgraph.logical.semantic import Semantic
from semgraph.semantic.contract import (
    SCORE,
    Context,
    Implementation,
    Outcome,
    Rows,
    answer_schema,
    verdict_field,
)

LONGEST = 2.0
"""The most seconds without an await in a check."""
_WARN_SECONDS = 5.0
"""Seconds without an await after which a run logs a warning: its tables are larger than those of a
check.
"""
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
    trace = traceback.extract_tb(error.__traceback__) if error is not None else []
    numbers = [frame.lineno for frame in trace if frame.filename == file]
    return f"{type(implementation).__name__} in {file}" + (f":{numbers[-1]}" if numbers else "")


def answer_table(node: Semantic, outcomes: Sequence[Outcome], *, scored: bool = False) -> pa.Table:
    """The table that `answer` returns, from an outcome for each item (for sem_agg: for each group),
    in order; `scored`: with the `score` of verdicts, for sem_filter and sem_join.
    """
    schema = answer_schema(node)
    columns: list[pa.Array[Any]] = [pa.array(range(len(outcomes)), pa.int64())]
    for i in range(1, len(schema) - 2):
        field = schema.field(i)
        values = [None if o.values is None else o.values.get(field.name) for o in outcomes]
        columns.append(pa.array(values, field.type))
    columns.append(pa.array([o.error for o in outcomes], pa.string()))
    columns.append(pa.array([list(o.calls) for o in outcomes], pa.list_(pa.string())))
    table = pa.Table.from_arrays(columns, schema=schema)
    if not scored:
        return table
    scores = [None if o.values is None else o.values.get(SCORE) for o in outcomes]
    return table.append_column(pa.field(SCORE, pa.float64()), pa.array(scores, pa.float64()))


def outcomes(node: Semantic, table: pa.Table) -> list[Outcome]:
    """The outcomes in a table of answers, by item: the reverse of `answer_table`."""
    names = [f.name for f in answer_schema(node)][1:-2]
    return [
        Outcome(
            None if row["error"] else {name: row[name] for name in names},
            row["error"],
            tuple(row["calls"]),
        )
        for row in table.sort_by("item").to_pylist()
    ]


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
