"""Results of a large run are read from its record, and are those of a run that keeps them."""

from __future__ import annotations

import json
import signal
from typing import Any

import pyarrow as pa
import pytest

from semgraph.display import as_html
from semgraph.execution import executor
from semgraph.execution.record import recorded_parts
from semgraph.execution.result import RecordedTables, Result
from semgraph.frontend.load import load_plan
from semgraph.render.outcome import outcome
from tests.execution.conftest import PLAN, STORY, Work, said
from tests.partial import maybe_partial

EPISODES = [
    {**row, "uuid": f"{group}-{number}"}
    for group in ("g", "h")
    for number, row in enumerate(said(STORY[:4], group))
]
TIMES = {"created_at", "expired_at"}


def shown(result: Result) -> dict[str, list[dict[str, Any]]]:
    """The rows of all results, without times of writing."""
    return {
        name: [
            {column: value for column, value in row.items() if column not in TIMES}
            for row in table.to_pylist()
        ]
        for name, table in result.tables.items()
    }


@pytest.fixture(params=[pytest.param(0, marks=pytest.mark.nightly), 2_000], ids=["all", "late"])
def limit(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Bytes above which results are read from the record."""
    monkeypatch.setattr(executor, "RETAINED", request.param)
    return int(request.param)


def recalled(work: Work, result: Result) -> Result:
    """The result of a run as it is loaded from its record."""
    loaded = work.session().load(result.run)
    assert isinstance(loaded, Result)
    assert loaded.record == result.record
    return loaded


async def both(work: Work) -> tuple[Result, Result]:
    """A run that keeps its results, as it has no record, and one that does not."""
    kept = await work.run(EPISODES, session={"store": "memory", "runs": "", "journal": False})
    read = await work.run(EPISODES, session={"store": "memory", "journal": False})
    assert isinstance(kept.tables, dict)
    assert isinstance(read.tables, RecordedTables)
    return kept, read


async def test_results_are_the_same_rows_in_the_same_order(simple: Work, limit: int) -> None:
    kept, read = await both(simple)
    assert list(read.tables) == list(kept.tables)
    assert shown(read) == shown(kept)
    for name, table in kept.tables.items():
        assert read[name].schema == table.schema
        assert read.count(name) == kept.count(name) == table.num_rows
        for rows in (0, 1, 3, 1_000):
            assert read.head(name, rows).equals(read[name].slice(0, rows))
            assert kept.head(name, rows).num_rows == min(rows, table.num_rows)
        frame = read.to_pandas(name)
        again = pa.Table.from_pandas(frame, table.schema, preserve_index=False)
        assert read.rows(name) == again.to_pylist()
    loaded = recalled(simple, read)
    assert shown(loaded) == shown(read)
    assert loaded["nodes"].schema == read["nodes"].schema
    assert (loaded.cost, loaded.written) == (read.cost, read.written)
    assert (loaded.committed, loaded.exit_code) == (read.committed, read.exit_code)
    assert json.dumps(read.to_json(), default=str).count("uuid") > 10
    assert repr(read).split(";")[1:2] == repr(kept).split(";")[1:2]
    with pytest.raises(KeyError):
        read["other"]
    with pytest.raises(KeyError):
        read.count("other")


async def test_a_window_that_was_not_committed_is_in_no_result(
    simple: Work, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    from semgraph.errors import ConcurrentWrite
    from semgraph.stores.sqlite.store import SqliteStore

    commit = SqliteStore.commit

    async def refusing(self: SqliteStore, batch: Any, marker: Any = None) -> Any:
        if marker is not None and marker.rows == ("h-2",):
            raise ConcurrentWrite("h")
        return await commit(self, batch, marker)

    monkeypatch.setattr(SqliteStore, "commit", refusing)
    kept, read = await both(simple)
    assert read.committed == kept.committed == 6
    assert shown(read) == shown(kept)
    recorded = recorded_parts(read.record, "results", "nodes") if read.record else []
    assert read.count("nodes") < sum(table.num_rows for table in recorded)
    assert read.head("nodes", 1_000).equals(read["nodes"])
    assert shown(recalled(simple, read)) == shown(read)


async def test_a_summary_and_a_notebook_read_the_first_rows_only(
    simple: Work, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, read = await both(simple)
    monkeypatch.setattr("semgraph.render.outcome._DRAWN", 0)
    monkeypatch.setattr(RecordedTables, "__getitem__", None)
    lines = list(outcome(read, load_plan(PLAN), 100, 1.0))
    assert any(line.startswith(f"nodes: {read.count('nodes')} rows") for line in lines)
    assert f"{read.count('nodes')} rows" in as_html(read)


async def whole(work: Work) -> Result:
    """The result of a run that nothing disturbs."""
    return await work.run(EPISODES, session={"store": "memory", "runs": "", "journal": False})


async def test_runs_that_limits_stop_and_that_are_resumed_end_with_the_whole_result(
    simple: Work,
) -> None:
    first = result = await simple.run(EPISODES, session={"max_calls": 9})
    runs = 1
    while result.stopped:
        async with simple.session(max_calls=9) as session:
            result = await maybe_partial(session.arun(PLAN, resume=result.run))
        runs += 1
    assert runs > 2
    assert 0 < result.committed < len(EPISODES)
    assert shown(result) == shown(await whole(simple))
    async with simple.session() as session:
        again = await session.arun(PLAN, resume=result.run)
    assert (again.committed, again.skipped) == (0, len(EPISODES))
    assert shown(again) == shown(result) == shown(recalled(simple, again))
    stopped = recalled(simple, first)
    assert (stopped.stopped, stopped.exit_code) == (first.stopped, 4)
    assert shown(stopped) == shown(first)


async def test_a_killed_run_that_is_resumed_gives_the_whole_result(simple: Work) -> None:
    expected = shown(await whole(simple))
    simple.model.reset()
    process = await simple.start(EPISODES)
    await simple.model.until(lambda: len(simple.model.requests) >= 18)
    process.send_signal(signal.SIGKILL)
    await process.communicate()
    [facts] = simple.records
    assert facts["status"] == "running"
    async with simple.session() as session:
        result = await session.arun(PLAN, resume=facts["run"])
    assert 0 < result.skipped < len(EPISODES)
    assert shown(result) == expected


async def test_rows_that_other_runs_committed_and_other_rows_have_no_results(simple: Work) -> None:
    await simple.run(EPISODES[:2])
    stopped = await simple.run(EPISODES, session={"max_calls": 9})
    assert stopped.stopped
    async with simple.session() as session:
        resumed = await session.arun(PLAN, resume=stopped.run)
        given = await session.arun(PLAN, resume=stopped.run, episodes=EPISODES[1:])
    keys = {row["uuid"] for row in EPISODES[2:]}
    assert {row["source"] for row in resumed.rows("mentions")} == keys
    assert given.count("mentions") == 0
