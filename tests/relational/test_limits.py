"""Relational work outside of the event loop: it ends with its task and at its time, and what a caller
wrote is computed by a process that has a time and a memory of its own.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator

import duckdb
import pyarrow as pa
import pytest

import semgraph as sg
from semgraph.errors import BudgetReached, DataError
from semgraph.expr import isolated
from semgraph.expr.duckdb import bind, constant, value_of
from semgraph.expr.isolated import PROCESS, SqlProcess
from semgraph.expr.row_functions import FallBack
from semgraph.expr.scalar import parse_scalar
from semgraph.logical.relational import Input, Join, Project
from semgraph.relational.batch import Batch
from semgraph.relational.segments import DEADLINE, Deadline, execute, run_segment
from tests.patience import HANGS
from tests.relational.executors import of_node

SCHEMA = pa.schema([("n", pa.int64())])
ENDLESS = "SELECT count(*) AS n FROM a, a AS b, a AS c WHERE a.n * b.n + c.n = -1"
A = Input(name="a", columns=SCHEMA)
B = Input(name="b", columns=SCHEMA)
FRUITLESS = [
    "len(list_reduce(range(60), lambda a, b: a || a, 'ab'))",
    "len(" + "replace(" * 12 + "'aaaaaaaaaa'" + ", 'a', 'aaaaaaaaaa')" * 12 + ")",
    "len(list_transform(range(1000 * 1000), lambda q: repeat('abc', 20000)))",
]


def numbers(count: int) -> pa.Table:
    return pa.table({"n": pa.array(range(count), pa.int64())})


@pytest.fixture
def worker() -> Iterator[SqlProcess]:
    """A process for the expressions of the test."""
    made = SqlProcess(HANGS)
    token = PROCESS.set(made)
    yield made
    PROCESS.reset(token)
    made.close()


def computing() -> list[threading.Thread]:
    """The threads that compute."""
    return [thread for thread in threading.enumerate() if thread.name == "semgraph functions"]


async def test_a_join_leaves_the_event_loop_and_ends_with_its_task() -> None:
    task = asyncio.ensure_future(execute(ENDLESS, {"a": numbers(9_000)}, SCHEMA, None, 10**12))
    while not computing():  # noqa: ASYNC110 - a thread begins
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    for thread in computing():
        await asyncio.to_thread(thread.join, HANGS)
    assert not computing()


async def test_a_statement_ends_when_its_time_is_up() -> None:
    token = DEADLINE.set(Deadline(lambda: 0.05))
    try:
        with pytest.raises(DataError, match=r"stopped after 0\.05 s"):
            await execute(ENDLESS, {"a": numbers(9_000)}, SCHEMA, None, 10**12)
    finally:
        DEADLINE.reset(token)


async def test_equal_small_statements_do_not_wait_for_a_large_one() -> None:
    sql = "SELECT count(*) AS n FROM a, a AS b, a AS c WHERE a.n * b.n + c.n = -1"
    large = asyncio.ensure_future(execute(sql, {"a": numbers(9_000)}, SCHEMA, None, 10**12))
    while not computing():  # noqa: ASYNC110 - a thread begins
        await asyncio.sleep(0)
    small = await execute(sql, {"a": numbers(3)}, SCHEMA, None, 27)
    assert small.column("n").to_pylist() == [0]
    assert not large.done()
    large.cancel()


async def test_large_joins_are_duckdbs_and_joins_of_few_pairs_are_not() -> None:
    few = of_node(Join(input=A, other=B, alias="b", using=(("n", "n"),), where=None, how="inner"))
    many = of_node(Join(input=A, other=B, alias="b", using=(), where=parse_scalar("n < b.n"), how="semi"))  # fmt: skip
    rows = Batch.of_table(numbers(2_000))
    assert len(few.function([rows.rows, rows.rows], None)) == 2_000
    with pytest.raises(FallBack):
        many.function([rows.rows, rows.rows], None)
    assert (await run_segment(many, [rows, rows], None)).num_rows == 1_999


@pytest.mark.parametrize("text", FRUITLESS)
def test_constants_that_make_much_have_no_value(text: str) -> None:
    with pytest.raises(duckdb.Error, match=r"[Mm]emory|stopped after 5 s"):
        value_of(parse_scalar(text).sql)
    assert constant(parse_scalar("1 + 2")) == 3


def test_a_process_ends_at_its_time_and_another_begins() -> None:
    one = SqlProcess(1)
    token = PROCESS.set(one)
    try:
        with pytest.raises(duckdb.InterruptException, match="stopped after 1 s"):
            value_of("damerau_levenshtein(repeat('a', 12000), repeat('b', 12000))")
        with pytest.raises(duckdb.InterruptException, match="stopped after 1 s"):
            value_of("repeat('x', 1)")
        assert SqlProcess(HANGS, one).call("value_of", "1 + 1") == 2
    finally:
        PROCESS.reset(token)
        one.close()


def test_a_process_has_a_memory_of_its_own(worker: SqlProcess) -> None:
    with pytest.raises(duckdb.OutOfMemoryException):
        value_of("len(replace(repeat('a', 100000), 'a', repeat('b', 100000)))")
    assert value_of("replace('xx', 'x', 'y')") == "yy"


def test_a_process_says_what_duckdb_says(worker: SqlProcess) -> None:
    assert bind("SELECT len(repeat('x', 2)) AS x, 2 AS unlike_others") == pa.int64()
    with pytest.raises(duckdb.CatalogException, match="no_such"):
        value_of("no_such(repeat('x', 1))")


async def test_statements_that_may_grow_are_computed_by_the_process(worker: SqlProcess, monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    called: list[str] = []
    call = SqlProcess.call
    monkeypatch.setattr(SqlProcess, "call", lambda self, name, *rest: called.append(name) or call(self, name, *rest))  # fmt: skip
    rows = [Batch.of_table(numbers(2))]
    for text, values in (("n + 1", [1, 2]), ("len(repeat('ab', n))", [0, 2])):
        assert not called
        segment = of_node(Project(input=A, columns=(("n", parse_scalar(text)),)))
        assert (await run_segment(segment, rows, None)).column("n") == values
    assert [name for name in called if name != "bind"] == ["rows_of"]
    many = of_node(Join(input=A, other=B, alias="b", using=(), where=parse_scalar("n < b.n"), how="semi"))  # fmt: skip
    half = Batch.of_table(numbers(2_000))
    assert (await run_segment(many, [half, half], None)).num_rows == 1_999
    assert [name for name in called if name != "bind"] == ["rows_of"] * 2


def test_a_process_does_not_outlive_its_parent(worker: SqlProcess) -> None:
    value_of("repeat('x', 1)")
    process = worker._place.process
    assert process is not None
    assert process.stdin is not None
    process.stdin.close()
    assert process.wait(HANGS) == 0


def test_seconds_of_a_process_are_counted_over_its_calls() -> None:
    one = SqlProcess(HANGS)
    token = PROCESS.set(one)
    began = time.monotonic()
    try:
        value_of("repeat('x', 1)")
        assert 0 < one._seconds - one._left <= time.monotonic() - began
    finally:
        PROCESS.reset(token)
        one.close()


def test_sql_that_may_grow_is_told_by_its_calls() -> None:
    assert isolated.grows("repeat('x', 9)")
    assert isolated.grows("[x || x FOR x IN labels]")
    assert isolated.grows("n = 1 OR " * 9_000)
    assert not isolated.grows("n = 'repeat(1)'")


def test_a_run_whose_time_is_up_stops_as_at_every_limit() -> None:
    rows = sg.table([{"id": str(n), "n": n} for n in range(20_001)])
    halves = rows.filter("n % 2 = 0").add(
        {"place": "row_number() OVER (PARTITION BY (id) ORDER BY (n))"}
    )
    with sg.Session(llm="recorded", store="memory", journal=False, runs="") as session:
        assert len(session.run(halves, progress=None).rows()) == 10_001
    with (
        sg.Session(
            llm="recorded", store="memory", journal=False, runs="", max_seconds=1e-6
        ) as session,
        pytest.raises(BudgetReached, match="max_seconds"),
    ):
        session.run(halves, progress=None)
