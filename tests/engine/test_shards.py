"""Shards, with workers in this process: whatever their number and that of the workers, one run."""

from __future__ import annotations

import asyncio
import random
import resource
import signal
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from semgraph.engine.on_ray import EngineSpec, Task, WorkerLost, code_here
from semgraph.errors import PlanError, SemgraphError
from semgraph.execution import executor
from semgraph.execution.record import (
    Run,
    all_runs,
    exchanges,
    find_run,
    read_input,
    read_lines,
    recorded_inputs,
    records_of,
)
from semgraph.execution.result import RecordedTables, Result
from semgraph.llm.base import Reply
from semgraph.llm.journal import Journal
from semgraph.llm.settings import Settings
from semgraph.provenance import explain
from semgraph.session import sharded
from semgraph.session.sharded import run_shard
from tests.engine.here import EngineHere, sent_to
from tests.execution.conftest import PLAN, STORY, Work, said, wire
from tests.execution.test_costs import assert_sums

GROUPS = 7


def rows_of_groups(groups: int = GROUPS, texts: int = 14):
    """Messages of several groups, one after the other's, so that their places interleave."""
    return [said([f"{STORY[n % len(STORY)]}"], f"group{n % groups}", n)[0] for n in range(texts)]


async def alone(work: Work, rows, **options) -> tuple[Result, dict, dict]:
    """The same rows in one process and a folder of its own: result, graph, requests."""
    folder = work.folder / "alone"
    folder.mkdir()
    place = replace(work.place, spec=f"sqlite:{folder}/graph.db", look=_sqlite(folder / "graph.db"))
    one = Work(work.model, place, folder)
    result = await one.run(rows, **options)
    asked = wire(work.model.requests)
    work.model.requests.clear()
    return result, await place.dump(), asked


def _sqlite(file: Path):
    from semgraph.stores.sqlite.store import SqliteStore

    return lambda: SqliteStore(file)


def visible(result: Result, name: str):
    hidden = {"created_at", "expired_at"}
    return [{k: v for k, v in row.items() if k not in hidden} for row in result.rows(name)]


def assert_same(result: Result, whole: Result) -> None:
    """What a run in shards gives is what one run gives."""
    for name in ("exit_code", "members", "committed", "skipped", "written", "stopped"):
        assert getattr(result, name) == getattr(whole, name), name
    assert set(result.notes) == set(whole.notes)
    assert sorted((f.input_row, f.step) for f in result.failed) == sorted(
        (f.input_row, f.step) for f in whole.failed
    )
    assert whole.tables
    for name in whole.tables:
        assert visible(result, name) == visible(whole, name)
    assert result.meter.total().calls_issued == whole.meter.total().calls_issued


@pytest.mark.parametrize(
    "engine",
    [
        "ray?shards=1",
        pytest.param("ray?shards=3&workers=2", marks=pytest.mark.nightly),
        "ray?shards=8&workers=8",
    ],
)
async def test_any_number_of_shards_and_workers_is_one_run(simple: Work, engine: str):
    rows = [*rows_of_groups(), said(["\0"], "group1", 60)[0]]
    whole, graph, asked = await alone(simple, rows)
    result = await simple.run(rows, session={"engine": engine})
    assert_same(result, whole)
    assert wire(simple.model.requests) == asked
    assert await simple.place.dump() == graph


async def test_shards_cost_each_row_what_one_run_costs_it(simple: Work):
    rows = rows_of_groups()
    whole, _, _ = await alone(simple, rows)
    result = await simple.run(rows, session={"engine": "ray?shards=3&workers=2"})
    assert_sums(result)

    def calls(one: Result) -> dict[int | None, float]:
        return {part["row"]: part["calls"] for part in one.costs(by="row")}

    assert calls(result) == pytest.approx(calls(whole))


async def test_shards_note_together_that_all_answers_are_alike(simple: Work):
    rows = [said([f"Ann(user): I work at Firm{n // 3}."], f"group{n % 3}", n)[0] for n in range(45)]
    whole, _, _ = await alone(simple, rows)
    [expected] = [note for note in whole.notes if "matched" in note]
    result = await simple.run(rows, session={"engine": "ray?shards=8&workers=2"})
    assert [note for note in result.notes if "matched" in note] == [
        expected.replace(whole.run, result.run)
    ]


async def test_large_results_of_shards_are_read_from_their_records(
    simple: Work, monkeypatch: pytest.MonkeyPatch
):
    rows = rows_of_groups()
    whole, _, _ = await alone(simple, rows)
    monkeypatch.setattr(executor, "RETAINED", 0)
    result = await simple.run(rows, session={"engine": "ray?shards=3&workers=2"})
    assert isinstance(result.tables, RecordedTables)
    assert {name: result.count(name) for name in result.tables} == {
        name: table.num_rows for name, table in whole.tables.items()
    }
    assert_same(result, whole)


async def test_a_limit_of_calls_holds_for_all_shards_together(simple: Work):
    result = await simple.run(
        rows_of_groups(texts=28), session={"engine": "ray?shards=3&workers=3", "max_calls": 40}
    )
    asked = [body for body in simple.model.requests if "messages" in body]
    assert len(asked) == 40
    assert result.exit_code == 4
    assert result.stopped == "stopped before call 41: it would pass max_calls 40 (spent 40)"


async def test_a_resumed_run_ends_what_a_limit_stopped_and_pays_for_nothing_twice(simple: Work):
    rows = rows_of_groups(texts=28)
    whole, graph, asked = await alone(simple, rows)
    engine = "ray?shards=3&workers=2"
    first = await simple.run(rows, session={"engine": engine, "max_calls": 40})
    async with simple.session() as session:
        last = await session.arun(PLAN, resume=first.run)
    assert wire(simple.model.requests) == asked
    assert await simple.place.dump() == graph
    assert first.committed + last.committed == whole.committed == len(rows)
    assert last.skipped == first.committed
    for name in whole.tables:
        assert visible(last, name) == visible(whole, name)
    facts = simple.records[-1]
    assert (facts["engine"], facts["shards"], facts["status"]) == (engine, 3, "done")


async def test_a_run_is_resumed_in_as_many_shards_as_it_had(simple: Work):
    rows = rows_of_groups(texts=28)
    _, graph, asked = await alone(simple, rows)
    first = await simple.run(rows, session={"engine": "ray?shards=3", "max_calls": 40})
    async with simple.session(engine="ray?shards=4") as session:
        with pytest.raises(PlanError, match=f"run {first.run} had 3 shards, and the engine has 4"):
            await session.arun(PLAN, resume=first.run)
    async with simple.session(engine="ray?workers=1") as session:
        await session.arun(PLAN, resume=first.run)
    assert simple.records[-1]["shards"] == 3
    assert wire(simple.model.requests) == asked
    assert await simple.place.dump() == graph


class Killing(EngineHere):
    """Workers that die when they have committed: at once, with what they have in flight.

    Args:
        deaths: How many.
    """

    def __init__(self, workers: int, deaths: int, seed: int) -> None:
        super().__init__(EngineSpec(workers=workers))
        self.deaths, self.random = deaths, random.Random(seed)

    async def attempt(self, task: Task) -> Result:
        dead = asyncio.get_running_loop().create_future()

        def report(number, progress):
            if progress.step or not progress.done or dead.done():
                return
            if self.deaths and self.random.random() < 0.3:
                self.deaths -= 1
                dead.set_result(None)

        working = asyncio.create_task(self.work(self.job, task, sent_to(self.ledger), report))
        await asyncio.wait({working, dead}, return_when=asyncio.FIRST_COMPLETED)
        if not dead.done():
            return await working
        await self.ended(task.holder)  # nothing that it still sends is heard
        working.cancel()
        await asyncio.wait({working})
        raise WorkerLost("killed")


@pytest.mark.parametrize(
    ("shards", "seed"),
    [
        (1, 1),
        (8, 2),
        *(
            pytest.param(*one, marks=pytest.mark.nightly)
            for one in ((1, 2), (3, 1), (3, 2), (8, 1))
        ),
    ],
)
async def test_workers_that_die_change_nothing(simple: Work, shards, seed, monkeypatch):
    rows = rows_of_groups(texts=28)
    whole, graph, asked = await alone(simple, rows)
    (simple.folder / "semgraph.toml").write_text("[limits]\nin_flight = 4\n")
    engine = Killing(3, 3, seed)
    monkeypatch.setattr(sharded, "RayEngine", lambda spec: engine)
    result = await simple.run(rows, session={"engine": f"ray?shards={shards}"})
    assert engine.deaths == 0
    assert await simple.place.dump() == graph
    sent = wire(simple.model.requests)
    assert sent.keys() == asked.keys()
    assert (sent - asked).total() <= 3 * 4  # those in flight at a death
    assert result.exit_code == whole.exit_code == 0
    assert result.members == whole.members
    for name in whole.tables:
        assert visible(result, name) == visible(whole, name)
    assert result.committed + result.skipped == whole.committed
    assert_all_is_counted(result, simple)
    assert_sums(result)


def assert_all_is_counted(result: Result, work: Work) -> None:
    """A run counts the answers that its workers got, those that died among them."""
    run, answers = find_run(result.run, work.folder / ".semgraph" / "runs"), list[Reply]()
    for path in {Path(Run(part).facts["journal"]) for part in records_of(run.folder)[1:]}:
        with closing(Journal(path, keep_days=None)) as journal:
            answers += [reply for _, reply in journal.issued_since(0.0)]
    total = result.meter.total()
    assert total.calls_issued == len(answers)
    assert total.tokens_out == sum(reply.usage.completion for reply in answers)
    assert run.metrics["total"]["calls_issued"] == total.calls_issued
    assert total.calls_issued <= sum("messages" in body for body in work.model.requests)


async def test_a_shard_whose_workers_always_die_fails_the_run_and_the_others_end(
    simple: Work, monkeypatch
):
    rows, ended = rows_of_groups(texts=28), []

    async def run(job, task, link, report):
        if task.number == 1:
            raise WorkerLost("gone")
        ended.append(task.number)
        return await run_shard(job, task, link, report)

    monkeypatch.setattr(sharded, "run_shard", run)
    with pytest.raises(SemgraphError, match="4 workers died at it; the last one: gone") as failed:
        await simple.run(rows, session={"engine": "ray?shards=3&workers=1"})
    assert sorted(ended) == [0, 2]
    assert failed.value.__notes__ == ["shard 2 of 3 failed so; what the others wrote stays"]
    monkeypatch.undo()
    run_id = simple.records[-1]["run"]
    async with simple.session() as session:
        last = await session.arun(PLAN, resume=run_id)
    assert last.exit_code == 0
    assert last.skipped + last.committed == len(rows)
    assert last.skipped


async def test_the_record_is_read_as_that_of_one_run(simple: Work):
    rows = [*rows_of_groups(), said(["\0"], "group1", 60)[0]]
    result = await simple.run(rows, session={"engine": "ray?shards=4&workers=2"})
    run = find_run(result.run, simple.folder / ".semgraph" / "runs")
    assert all_runs(simple.folder / ".semgraph" / "runs") == [run]
    assert run.facts["status"] == "done"
    assert run.facts["members"] == {"given": 15, "skipped": 0, "committed": 14}
    assert run.metrics["total"]["calls_issued"] == result.meter.total().calls_issued
    [failed] = read_lines(run.folder, "failed.jsonl")
    assert failed["group_id"] == "group1"
    assert read_input(recorded_inputs(run.folder)["episodes"])["content"].to_pylist() == [
        row["content"] for row in rows
    ]
    async with simple.session() as session:
        page = session.report(to="report.html")
    assert "group3" in page.read_text(encoding="utf-8")
    with exchanges(run) as lookup:
        chain = explain(run, result.rows("nodes")[-1]["name"], lookup)
        questions = [asked for link in chain.links for asked in link.asked]
        assert questions
        assert all(exchange for asked in questions for _, exchange in asked.calls)


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"store": "memory"}, "an engine needs a store that all shards can open by its address"),
        ({"runs": ""}, "an engine keeps the rows of its shards in the record of the run"),
        ({"engine": "spark"}, 'unknown engine "spark"'),
        (
            {"engine": "local"},
            'no engine "local" any more. Write ray .processes here., also to resume',
        ),
        ({"engine": "ray?shards=0"}, 'shards is "0". It must be a number above 0'),
        ({"engine": "ray?nodes=2"}, 'unknown option "nodes". Options: shards, workers'),
    ],
)
async def test_what_cannot_be_sharded_is_refused_before_anything_is_spent(simple, change, what):
    with pytest.raises(PlanError, match=what.replace("?", ".")):
        await simple.run(rows_of_groups(), session={"engine": "ray?shards=2", **change})
    assert not simple.model.requests
    assert not list(simple.folder.glob(".semgraph/runs/*"))


ALL_READ = """
plan: everybody
graph: {graph}
inputs: {{said: {{id: string, at: timestamp, text: string, group_id: string}}}}
windows: {{input: said, partition: group_id, order: [at], key: id}}
steps:
  others:
    - from: {{label: Entity, partition: all}}
  told:
    - from: said
    - join: {{other: others, alias: o, how: inner, where: "o.name = text"}}
returns: [told]
"""


async def test_a_step_that_reads_all_partitions_is_refused_with_its_place(simple: Work):
    file = simple.folder / "everybody.yaml"
    file.write_text(ALL_READ.format(graph=PLAN.parent / "graph.yaml"), encoding="utf-8")
    async with simple.session(engine="ray?shards=2") as session:
        rows = [{"id": "1", "at": "2025-01-01", "text": "Ann", "group_id": "g"}]
        with pytest.raises(PlanError) as refused:
            await session.arun(file, said=rows)
    text = str(refused.value)
    assert "everybody.yaml:8" in text
    assert "others" in text
    assert "partition: all reads groups of other shards" in text


async def test_a_plan_that_cannot_be_sharded_runs_here_if_only_a_setting_names_the_engine(
    simple: Work,
):
    (simple.folder / "semgraph.toml").write_text('engine = "ray?shards=2"\n')
    await simple.run(rows_of_groups())
    async with simple.session() as session:
        found = await session.arun(PLAN.parent / "search.yaml", queries=[{"query": "Luma"}])
    assert found.to_arrow("edges").num_rows
    assert any("run in this process, not by ray?shards=2" in note for note in found.notes)


async def test_forgetting_a_group_deletes_its_answers_from_the_journals_of_shards(simple: Work):
    await simple.run(rows_of_groups(), session={"engine": "ray?shards=3&workers=2"})
    journals = list((simple.folder / ".semgraph" / "journal-shards" / "3").glob("?????.db"))
    assert len(journals) == 3

    def text() -> bytes:
        return b"".join(path.read_bytes() for path in journals)

    async with simple.session() as session:
        assert b"group1" in text()
        assert session.forget(["group1"])
        assert b"group1" not in text()
        assert b"group2" in text()
        assert not session.forget(["group1"])


async def test_a_run_that_ended_as_it_laid_out_its_rows_says_so(simple: Work):
    rows, engine = rows_of_groups(), {"engine": "ray?shards=3&workers=2"}
    await simple.run(rows, session=engine)
    run = find_run("last", simple.folder / ".semgraph" / "runs")
    file = max((run.folder / "inputs" / "episodes").iterdir())
    file.write_bytes(file.read_bytes()[:100])
    async with simple.session() as session:
        with pytest.raises(PlanError, match=f"run {run.name} ended before its rows were recorded"):
            await session.arun(PLAN, resume=run.name)


async def test_a_disk_that_does_not_take_the_rows_fails_the_run(simple: Work):
    await simple.run(rows_of_groups(), session={"engine": "ray?shards=3"})
    long = random.Random(0).randbytes(3_000_000).hex()
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2_000_000, before[1]))
    try:
        with pytest.raises(SemgraphError, match="the disk does not take the record of this run"):
            await simple.run(said([long]), session={"engine": "ray?shards=3"})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)
    assert simple.records[-1]["status"] == "failed"


async def test_each_shard_that_fails_is_told_with_its_error(simple: Work, monkeypatch):
    async def run(job, task, link, report):
        errors = {0: "the disk is full", 1: "the disk is full", 2: "the file is damaged"}
        if task.number in errors:
            raise SemgraphError(errors[task.number])
        return await run_shard(job, task, link, report)

    monkeypatch.setattr(sharded, "run_shard", run)
    rows = rows_of_groups(groups=30, texts=30)
    with pytest.raises(SemgraphError) as failed:
        await simple.run(rows, session={"engine": "ray?shards=4&workers=1"})
    alike = {"shards 1, 2 of 4 failed so", "shards 2, 1 of 4 failed so", "shard 3 of 4 failed so"}
    first, *others = failed.value.__notes__
    assert first.split(";")[0] in alike
    assert len(others) in {1, 2}
    assert {str(failed.value), *(note.partition(": ")[2] for note in others)} == {
        "the disk is full",
        "the file is damaged",
    }


def test_code_that_changes_between_two_runs_is_other_code(tmp_path: Path):
    (tmp_path / "mine.py").write_text("A = 1")
    settings = Settings.load({"operators": (tmp_path,)}, {}, tmp_path)
    before = code_here(settings)
    assert code_here(settings) == before
    (tmp_path / "mine.py").write_text("A = 2")
    assert code_here(settings) != before
