"""Check the checker: with each of these faults put into the engine, one at a time, 3,000 random
plans must find it.

`python -m tests.fuzz.check_the_checker [FAULT ...]`; each fault has a process of its own.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

PLANS = 3000


def _replace(module: str, name: str, change: Callable[[Any], Any]) -> None:
    """Put a changed function in place of one, in every module that has it."""
    import importlib

    old = getattr(importlib.import_module(module), name)
    new = change(old)
    for each in list(sys.modules.values()):
        if (
            getattr(each, "__name__", "").startswith("semgraph")
            and getattr(each, name, None) is old
        ):
            setattr(each, name, new)


def constants_are_places() -> None:
    """A number in an order is the place of a column."""
    from semgraph.relational.sql import scalar_sql

    def order_sql(order: Any, node: Any, *last: str) -> str:
        terms = (
            f"{scalar_sql(t.by, node.windowed)} {'DESC' if t.descending else 'ASC'} NULLS LAST"
            for t in order
        )
        return ", ".join([*terms, *last])

    _replace("semgraph.relational.sql", "order_sql", lambda _: order_sql)


def aggregates_stand_anywhere() -> None:
    """An aggregate in a filter or an order is no error."""
    _replace("semgraph.expr.duckdb", "check_over_rows", lambda _: lambda *_args, **_more: None)


def pairs_of_two_partitions() -> None:
    """A sem_join compares rows of two partitions."""
    from semgraph.semantic.ask import partition_names
    from semgraph.semantic.pairs import Pair, _joined

    async def kept(node: Any, left: Any, right: Any, asking: Any) -> list[Pair]:
        own = partition_names(left, asking)
        return [Pair(a, b, own[a]) for a, b in await _joined(node, left, right, asking.now)]

    _replace("semgraph.semantic.pairs", "_pairs", lambda _: kept)


def ties_in_no_order() -> None:
    """Rows that an aggregate's own order leaves equal go in any order."""

    def change(old: Any) -> Any:
        def order_call(call: Any, rest: Any) -> None:
            before = call.copy()
            old(call, rest)
            if " ORDER BY " in before.sql():
                call.set("this", before.this)

        return order_call

    _replace("semgraph.relational.sql", "_order_call", change)


def windows_in_input_order() -> None:
    """The rows of a window stand as they were given."""
    from semgraph.execution.windows import InputRows

    InputRows.rows = property(lambda self: self.table)  # type: ignore[assignment, method-assign]


def failed_rows_stay() -> None:
    """What runs ahead holds a failed row beside the others of its window."""
    _replace("semgraph.execution.executor", "_rows_interact", lambda _: lambda _nodes: False)


def replaced_columns_move() -> None:
    """Pruning moves a column that a later step replaces."""
    from semgraph.logical.relational import Add

    del Add.first_needs


def equal_questions_are_checked_once() -> None:
    """Rows of one question share the check of the first."""
    _replace("semgraph.semantic.ask", "check_texts", lambda _: lambda _node, rows: [""] * len(rows))


def reasons_are_those_of_other_rows() -> None:
    """What was wrong with an answer is told to the row behind it."""
    from semgraph.semantic.contract import Rows

    again = Rows.again

    def turned(rows: Rows, reasons: Any) -> Rows:
        places = list(reasons)
        return again(
            rows, dict(zip(places, map(reasons.get, places[1:] + places[:1]), strict=True))
        )

    Rows.again = turned  # type: ignore[method-assign]


FAULTS = (
    constants_are_places,
    aggregates_stand_anywhere,
    pairs_of_two_partitions,
    ties_in_no_order,
    windows_in_input_order,
    failed_rows_stay,
    replaced_columns_move,
    equal_questions_are_checked_once,
    reasons_are_those_of_other_rows,
)


def main() -> int:
    """Run all faults, or put in the named one; the exit code is 1 if one is not found."""
    if len(sys.argv) == 1:
        command = [sys.executable, "-m", "tests.fuzz.check_the_checker"]
        return max(
            subprocess.run([*command, fault.__name__], check=False).returncode for fault in FAULTS
        )
    (fault,) = (fault for fault in FAULTS if fault.__name__ == sys.argv[1])
    from tests.fuzz.checking import check
    from tests.fuzz.engine import Engine

    fault()
    with tempfile.TemporaryDirectory() as folder, Engine(Path(folder)) as engine:
        report = check(engine, range(PLANS), shrunken=0)
    plans = sum(report.outcomes.values())
    print(
        f"{fault.__name__}: {f'found in {plans} plans' if report.failures else 'NOT FOUND'}",
        flush=True,
    )
    return 0 if report.failures else 1


if __name__ == "__main__":
    sys.exit(main())
