"""Shards as tasks of Ray: `.venv-graphiti/bin/python -m pytest tests/on_ray`, or `make test-ray`."""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import resource
import signal
import socket
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import psutil
import pytest
from ray.cluster_utils import Cluster

from semgraph.engine import on_ray
from semgraph.engine.on_ray import RayEngine
from semgraph.errors import PlanError, SemgraphError, StoreUnavailable
from semgraph.execution.result import Result
from semgraph.llm.settings import Setting
from semgraph.session import sharded
from semgraph.session.sharded import Job, run_shard
from semgraph.stores.sqlite.store import SqliteStore
from tests.engine.test_shards import alone, assert_same, rows_of_groups, visible
from tests.execution.conftest import PLAN, ROOT, Work, said, wire
from tests.inside import resources
from tests.on_ray.clusters import DRIVER, lives, workers
from tests.patience import HANGS, default_signals

pytestmark = pytest.mark.usefixtures("cluster")
SHARDS, IN_FLIGHT = 4, 4
PART = 36  # requests, after which something happens


async def graph_of(work: Work):
    """The graph that all shards wrote."""
    store = partial(SqliteStore, work.folder / "shared.db")
    return await replace(work.place, look=store).dump()


def settings(work: Work, workers: int = 2, **more) -> dict:
    """Of a run in shards; as few requests are in flight as limits allow."""
    (work.folder / "semgraph.toml").write_text(f"[limits]\nin_flight = {IN_FLIGHT}\n")
    store = f"sqlite:{work.folder}/shared.db"
    return {"engine": f"ray?shards={SHARDS}&workers={workers}", "store": store, **more}


async def in_shards(work: Work, rows, workers: int = 2, **more) -> Result:
    return await work.run(rows, session=settings(work, workers, **more))


async def begun(work: Work, rows, workers: int = 2) -> asyncio.Task[Result]:
    """A run in shards that has sent a part of its requests."""
    running = asyncio.create_task(in_shards(work, rows, workers))
    waiting = asyncio.create_task(work.model.until(lambda: len(work.model.arrived) >= PART))
    await asyncio.wait({running, waiting}, return_when=asyncio.FIRST_COMPLETED)
    assert not running.done(), running.exception()
    await waiting
    return running


async def test_a_run_on_several_processes_is_one_run(simple: Work):
    rows = [*rows_of_groups(), said(["\0"], "group1", 60)[0]]
    whole, graph, asked = await alone(simple, rows)
    result = await in_shards(simple, rows)
    assert_same(result, whole)
    assert wire(simple.model.requests) == asked
    assert await graph_of(simple) == graph


ROWS = """
plan: moves
inputs: {said: {text: string, who: string}}
steps:
  moved: [{from: said}, {sem_filter: "Does “{text}” say that somebody moved?"}]
  counts: [{from: moved}, {aggregate: {by: who, add: {moves: count(*)}}}, {sort: who}]
returns: [moved, counts]
"""


async def test_a_plan_without_windows_runs_by_rows(simple: Work):
    (simple.folder / "moves.yaml").write_text(ROWS)
    texts = [
        f"Ann moved to City{n % 20}." if n % 3 else f"It rained {n % 20} days." for n in range(60)
    ]
    rows = [{"text": text, "who": f"p{n % 4}"} for n, text in enumerate(texts)]
    async with simple.session() as session:
        whole = await session.arun("moves", said=rows, fresh=True)
    asked = wire(simple.model.requests)
    simple.model.requests.clear()
    async with simple.session(engine="ray?shards=4&workers=2") as session:
        result = await session.arun("moves", said=rows, fresh=True)
    assert wire(simple.model.requests) == asked
    assert result.count("moved") == 40
    assert {name: result.rows(name) for name in result.tables} == {
        name: whole.rows(name) for name in whole.tables
    }


NEWER = "async def run_shard(job, task, link, report): ..."


async def test_workers_that_lack_code_of_the_run_are_told_of(simple: Work, monkeypatch):
    """As those with an older semgraph do."""
    (simple.folder / "newer_semgraph.py").write_text(NEWER)
    monkeypatch.syspath_prepend(simple.folder)  # workers have another path
    newer = importlib.import_module("newer_semgraph")
    monkeypatch.setattr(sharded, "run_shard", newer.run_shard)
    with pytest.raises(PlanError) as refused:
        await in_shards(simple, rows_of_groups())
    assert "a worker could not begin shard" in str(refused.value)
    assert "No module named 'newer_semgraph'" in str(refused.value)
    assert "Install the same version" in str(refused.value)
    assert not simple.model.requests


async def test_a_limit_of_calls_holds_for_all_processes_together(simple: Work):
    result = await in_shards(simple, rows_of_groups(texts=28), max_calls=40)
    assert len([body for body in simple.model.requests if "messages" in body]) == 40
    assert result.stopped == "stopped before call 41: it would pass max_calls 40 (spent 40)"
    assert simple.model.most_waiting <= IN_FLIGHT


async def test_a_killed_worker_costs_what_it_had_in_flight_and_nothing_else(simple: Work):
    rows = rows_of_groups(texts=28)
    whole, graph, asked = await alone(simple, rows)
    simple.model.arrived.clear()
    running = await begun(simple, rows)
    workers()[0].send_signal(signal.SIGKILL)
    result = await running
    assert await graph_of(simple) == graph
    sent = wire(simple.model.requests)
    assert sent.keys() == asked.keys()
    assert (sent - asked).total() <= IN_FLIGHT
    assert result.exit_code == 0
    assert result.committed + result.skipped == whole.committed == len(rows)
    for name in whole.tables:
        assert visible(result, name) == visible(whole, name)
    calls = sum("messages" in body for body in simple.model.requests)
    assert calls - IN_FLIGHT <= result.meter.total().calls_issued <= calls
    records = sorted(p.name for p in (result.record / "shards").iterdir())
    assert len(records) == SHARDS + 1  # one was run again


async def test_a_node_that_is_removed_costs_what_it_had_in_flight(simple: Work, cluster: Cluster):
    rows = rows_of_groups(texts=28)
    _, graph, asked = await alone(simple, rows)
    simple.model.arrived.clear()
    node = cluster.add_node(num_cpus=2)
    running = await begun(simple, rows, 4)
    await asyncio.to_thread(cluster.remove_node, node, allow_graceful=False)
    result = await running
    assert await graph_of(simple) == graph
    sent = wire(simple.model.requests)
    assert sent.keys() == asked.keys()
    assert (sent - asked).total() <= IN_FLIGHT
    assert result.exit_code == 0


async def assert_resumed(work: Work, run: str, graph, asked) -> None:
    """A resumed run ends with the graph of one run, and pays twice for what was in flight at most."""
    async with work.session(**settings(work)) as session:
        last = await session.arun(PLAN, resume=run)
    assert last.exit_code == 0
    assert await graph_of(work) == graph
    sent = wire(work.model.requests)
    assert sent.keys() == asked.keys()
    assert (sent - asked).total() <= IN_FLIGHT


async def test_an_interrupted_run_is_resumed(simple: Work):
    rows = rows_of_groups(texts=28)
    _, graph, asked = await alone(simple, rows)
    simple.model.arrived.clear()
    running = await begun(simple, rows)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    first = simple.records[-1]
    assert first["status"] == "interrupted"
    await assert_resumed(simple, first["run"], graph, asked)


async def driver(work: Work, rows, script: str = DRIVER, **more) -> Process:
    """A run as a process of its own."""
    endpoints = {"llm": f"openai:gpt-4.1-mini@{work.model.base_url}?timeout={HANGS:.0f}"}
    endpoints["embedder"] = f"openai:stand-in@{work.model.base_url}?dimensions=256"
    session = {**settings(work), **endpoints, "folder": str(work.folder), **more}
    task = json.dumps({"session": session, "plan": str(PLAN), "rows": rows}, default=str)
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    return await asyncio.create_subprocess_exec(
        sys.executable, "-c", script, task, env=env, cwd=work.folder, preexec_fn=default_signals, stderr=PIPE, stdout=DEVNULL
    )  # fmt: skip


async def in_a_process(work: Work, rows, **more) -> tuple[int | None, str]:
    """The exit code of a run in a process of its own, and what it printed."""
    process = await driver(work, rows, **more)
    _, said = await process.communicate()
    return process.returncode, said.decode()


async def test_a_run_whose_own_process_is_killed_is_resumed(simple: Work):
    rows = rows_of_groups(texts=28)
    _, graph, asked = await alone(simple, rows)
    simple.model.arrived.clear()
    process = await driver(simple, rows)
    await simple.model.until(lambda: len(simple.model.arrived) >= PART or process.returncode)
    children = psutil.Process(process.pid).children(recursive=True)
    process.kill()
    await process.wait()
    await simple.model.until(lambda: not any(map(lives, children)))  # those that could write
    async with simple.session(**settings(simple)) as opened:
        last = await opened.arun(PLAN, resume=simple.records[-1]["run"])
    assert last.exit_code == 0
    assert last.skipped + last.committed == len(rows)
    assert await graph_of(simple) == graph
    sent = wire(simple.model.requests)
    assert sent.keys() == asked.keys()
    assert (sent - asked).total() <= IN_FLIGHT


async def full_disk(job, task, link, report):
    """A worker whose disk takes files of 200 kB at most."""
    if task.number != 1:
        return await run_shard(job, task, link, report)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, before[1]))
    try:
        return await run_shard(job, task, link, report)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


async def test_a_shard_on_a_full_disk_fails_and_is_resumed(simple: Work, monkeypatch):
    rows = rows_of_groups(texts=28)
    _, graph, asked = await alone(simple, rows)
    monkeypatch.setattr(sharded, "run_shard", full_disk)
    with pytest.raises(SemgraphError) as failed:
        await in_shards(simple, rows)
    assert "disk" in str(failed.value)
    assert failed.value.__notes__ == ["shard 2 of 4 failed so; what the others wrote stays"]
    monkeypatch.undo()
    async with simple.session(**settings(simple)) as session:
        last = await session.arun(PLAN, resume=simple.records[-1]["run"])
    assert last.exit_code == 0
    assert last.skipped >= len(rows) // 2
    assert await graph_of(simple) == graph
    assert wire(simple.model.requests).keys() == asked.keys()


async def test_a_file_on_one_of_several_machines_is_refused(simple: Work, monkeypatch):
    monkeypatch.setattr(RayEngine, "machines", {"one", "two"})
    with pytest.raises(
        PlanError, match="is on one machine, and the cluster has 2. Machines: one, two"
    ):
        await in_shards(simple, rows_of_groups())
    assert not simple.model.requests


async def test_workers_with_other_code_are_refused(simple: Work, monkeypatch):
    monkeypatch.setattr(on_ray, "code_here", lambda settings: "semgraph 9.9, code 0123456789")
    with pytest.raises(
        PlanError, match="the run was begun with semgraph 9.9, code 01234567"
    ) as refused:
        await in_shards(simple, rows_of_groups())
    assert "install the same version" in str(refused.value).lower()
    assert not simple.model.requests


def on_workers(monkeypatch: pytest.MonkeyPatch, change: Callable[[Job], Job]) -> None:
    """Give workers another job than the process of the run has."""
    started = RayEngine.started
    monkeypatch.setattr(
        RayEngine, "started", lambda own, work, job, *more: started(own, work, change(job), *more)
    )


def with_store(job: Job, store: str) -> Job:
    values = {**job.settings.values, "store": Setting(store, "option")}
    return replace(job, settings=replace(job.settings, values=values))


@pytest.mark.parametrize(
    ("store", "server", "what"),
    [
        ("neo4j://graph.invalid:7687", True, "neo4j://graph.invalid:7687  no answer in 5 s (unknown host)"),
        ("sqlite:/proc/nowhere/g.db", False, "its folder cannot be made"),
    ],
)  # fmt: skip
async def test_a_store_that_workers_do_not_reach_is_told(
    simple: Work, monkeypatch, store, server, what
):
    on_workers(monkeypatch, lambda job: with_store(job, store))
    with pytest.raises(StoreUnavailable) as failed:
        await in_shards(simple, rows_of_groups())
    here = socket.gethostname()
    assert what in str(failed.value)
    assert str(failed.value).endswith(f"(on {here})")
    notes = "\n".join(failed.value.__notes__)
    assert (f"{here} reached the store as the run began: if it is up, name it" in notes) == server
    assert not simple.model.requests


async def test_a_folder_that_workers_do_not_see_is_told(simple: Work, monkeypatch):
    on_workers(monkeypatch, lambda job: replace(job, folder=Path("/nowhere") / job.run))
    with pytest.raises(SemgraphError, match="the worker does not see /nowhere/") as failed:
        await in_shards(simple, rows_of_groups())
    assert "Run in a folder that all machines share" in str(failed.value)
    assert not simple.model.requests


async def test_models_that_are_objects_are_refused(simple: Work):
    async with simple.session() as session:
        opened = resources(session)
        llm = (await opened.owned.here()).endpoints.opened(
            session.settings.model(), session.settings
        )[0]
    with pytest.raises(PlanError, match="models that are objects are in this process"):
        await in_shards(simple, rows_of_groups(), llm=llm)


async def test_a_cluster_that_does_not_answer_is_told(tmp_path: Path):
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", "from semgraph.cli import main; main()", "run", str(PLAN), "--llm", "recorded", "--store", "sqlite:g.db",
               "--engine", "ray://127.0.0.1:9?shards=2"]  # fmt: skip
    process = await asyncio.create_subprocess_exec(
        *command, cwd=tmp_path, env=env, stdout=PIPE, stderr=PIPE
    )
    _, err = await process.communicate()
    assert process.returncode == 5
    assert "no cluster of Ray answers at ray://127.0.0.1:9" in err.decode()


async def test_ray_is_imported_for_runs_that_name_it_alone(simple: Work):
    check = "\nimport semgraph.session.sharded\nassert not {name.split('.')[0] for name in sys.modules} & {'ray', 'grpc'}"
    process = await driver(
        simple,
        rows_of_groups(texts=2),
        script=DRIVER + check,
        engine=None,
        store=f"sqlite:{simple.folder}/graph.db",
    )
    _, said = await process.communicate()
    assert process.returncode == 0, said.decode()
