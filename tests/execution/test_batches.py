"""Runs whose requests ahead go into batches: the graph and the requests are those of a direct run."""

from __future__ import annotations

import asyncio
import json
import re
import signal
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import semgraph
from benchmarks.world import BatchFault
from semgraph.errors import ModelUnavailable, PlanError
from semgraph.llm.openai import OpenAI
from semgraph.llm.tokens import FlatPrice
from tests.execution.conftest import STORY, Graph, Watched, Work, said, wire
from tests.llm.server import ModelServer
from tests.patience import HANGS

GOING_ON = r"\d batch(es go| goes) on at the endpoint: batch_1 \(\d+ requests?\)"
TICKETS = """
plan: tickets
inputs: {tickets: {id: int64, text: string}}
steps:
  about: [{from: tickets}, {sem_map: {prompt: "Echo {text}", returns: {said: string}}}]
returns: [about]
"""


def batching(model: Watched | ModelServer) -> str:
    """A model that sends batches, and looks at them all the time."""
    return f"openai:gpt-4.1-mini@{model.base_url}?timeout={HANGS:.0f}&batch=true&poll=0.05"


async def direct(work: Work) -> tuple[Graph, Mapping[str, int], Any]:
    """The graph, the requests and the result of a direct run of `STORY`, made once for all tests;
    the store is empty.
    """
    if not _DIRECT:
        result = await work.run(said(STORY), session={"journal": False})
        _DIRECT.append((await work.place.dump(), wire(work.model.requests), result))
        (work.folder / "graph.db").unlink()
        work.model.reset()
    return _DIRECT[0]


_DIRECT: list[tuple[Graph, Mapping[str, int], Any]] = []


async def test_the_graph_and_the_requests_are_those_of_a_direct_run(simple: Work) -> None:
    graph, requests, before = await direct(simple)
    result = await simple.run(said(STORY), session={"llm": batching(simple.model)})
    assert await simple.place.dump() == graph
    assert wire(simple.model.requests) == requests
    total, batched = result.meter.total(), simple.model.counters.batched
    assert total.calls_issued == before.meter.total().calls_issued == sum(requests.values())
    assert 0 < batched < total.calls_issued
    assert simple.model.counters.attempts == total.calls_issued


async def test_more_windows_run_ahead_than_of_direct_calls(simple: Work) -> None:
    texts = [f"Ann(user): I work at Company{n}." for n in range(68)]
    result = await simple.run(said(texts), session={"llm": batching(simple.model)})
    assert result.committed == 68
    assert max(map(len, simple.model.batches.submitted)) > 64


async def test_faults_of_batches_change_nothing(simple: Work) -> None:
    graph, requests, _ = await direct(simple)
    simple.model.batches.faults = (
        BatchFault("upload", (1,), 429), BatchFault("lost_create", (2,)), BatchFault("look", (2, 3), 500),
        BatchFault("read", (1,)), BatchFault("expired", (1,)), BatchFault("line_500", (3,)),
    )  # fmt: skip
    result = await simple.run(said(STORY), session={"llm": batching(simple.model)})
    assert result.failed == ()
    assert await simple.place.dump() == graph
    assert wire(simple.model.requests) == requests  # each was answered once


async def killed(work: Work, until: Any) -> None:
    """A run that is killed at some point of its first batch."""
    process = await work.start(said(STORY), llm=batching(work.model))
    async with asyncio.timeout(HANGS):
        while not until() and process.returncode is None:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    await process.communicate()


@pytest.mark.parametrize("point", [pytest.param("look", marks=pytest.mark.nightly), "create"])
async def test_a_run_killed_while_a_batch_is_under_way_pays_for_nothing_twice(
    point: str, simple: Work
) -> None:
    graph, requests, _ = await direct(simple)
    batches = simple.model.batches
    batches.gate.clear()
    await killed(simple, lambda: batches.calls[point])
    batches.gate.set()
    await simple.run(said(STORY), session={"llm": batching(simple.model)})
    assert await simple.place.dump() == graph
    assert wire(simple.model.requests) == requests
    assert set(batches.answered.values()) == {1}


@pytest.mark.nightly
async def test_a_run_killed_before_its_file_was_uploaded_sends_it_again(simple: Work) -> None:
    graph, requests, _ = await direct(simple)
    batches = simple.model.batches
    batches.faults = (BatchFault("upload", tuple(range(1, 1000))),)
    await killed(simple, lambda: batches.calls["upload"])
    batches.faults = ()
    assert not batches.submitted
    await simple.run(said(STORY), session={"llm": batching(simple.model)})
    assert await simple.place.dump() == graph
    assert wire(simple.model.requests) == requests


async def test_a_run_that_was_stopped_names_its_batches_and_the_next_collects_them(
    simple: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, requests, _ = await direct(simple)
    simple.model.batches.gate.clear()
    options = {"llm": batching(simple.model)}
    run = asyncio.create_task(simple.run(said(STORY), session=options | {"max_seconds": HANGS}))
    await simple.model.until(lambda: simple.model.batches.calls["look"])
    loop = asyncio.get_running_loop()
    monkeypatch.setattr(loop, "time", lambda now=loop.time: now() + 2 * HANGS)  # the time is up
    stopped = await run
    assert stopped.stopped is not None
    assert "max_seconds" in stopped.stopped
    [note] = [note for note in stopped.notes if "batch" in note]
    assert re.match(GOING_ON, note)
    assert note.endswith("A resumed run collects the answers")
    simple.model.batches.gate.set()
    async with simple.session(**options) as session:
        result = await session.arun("add_episode", resume=stopped.run)
    assert result.committed == len(STORY)
    assert await simple.place.dump() == graph
    assert wire(simple.model.requests) == requests


async def test_an_interrupted_run_records_its_batches(simple: Work) -> None:
    simple.model.batches.gate.clear()
    run = asyncio.create_task(simple.run(said(STORY[:3]), session={"llm": batching(simple.model)}))
    await simple.model.until(lambda: simple.model.batches.calls["look"])
    run.cancel()
    with suppress(asyncio.CancelledError):
        await run
    [record] = simple.records
    assert record["status"] == "interrupted"
    assert re.match(GOING_ON, record["batches"])


async def test_a_plan_that_asks_in_order_only_says_that_batches_have_no_effect(
    simple: Work,
) -> None:
    result = await simple.run(
        said(STORY[:2]), "add_episode", session={"llm": batching(simple.model)}, preset="lean"
    )
    assert simple.model.batches.submitted == []
    [note] = [note for note in result.notes if "batch=true had no effect" in note]
    assert "add_episode" in note


async def test_a_limit_of_calls_holds_and_a_resumed_run_ends_the_rest(simple: Work) -> None:
    graph, requests, _ = await direct(simple)
    options = {"llm": batching(simple.model)}
    stopped = await simple.run(said(STORY), session=options | {"max_calls": 10})
    assert stopped.stopped is not None
    assert stopped.meter.total().calls_issued == len(simple.model.requests) == 10
    await simple.run(said(STORY), session=options)
    assert await simple.place.dump() == graph
    assert wire(simple.model.requests) == requests


async def echo(body: dict[str, Any]) -> str:
    return json.dumps({"said": body["messages"][-1]["content"][-8:]})


async def answers(folder: Path, llm: Any, **options: Any) -> Any:
    (folder / "tickets.yaml").write_text(TICKETS)
    tickets = [{"id": n, "text": f"number {n:04}"} for n in range(300)]
    given = {"embedder": "openai:nobody@http://127.0.0.1:9/v1", "store": "memory"} | options
    async with semgraph.Session(llm=llm, folder=folder, **given) as session:
        return await session.arun(folder / "tickets.yaml", tickets=tickets)


async def test_a_plan_without_windows_is_asked_in_one_batch_for_half_the_price(
    tmp_path: Path,
) -> None:
    async with ModelServer(echo) as server:
        price = FlatPrice(1.0, 10.0)
        model = OpenAI("m", server.base_url, timeout=HANGS, price=price)
        before = await answers(tmp_path, model, journal=False)
        await model.aclose()
        direct, server.requests = wire(server.requests), []
        model = OpenAI("m", server.base_url, timeout=HANGS, price=price, batch=True, poll=0.05)
        result = await answers(tmp_path, model)
        await model.aclose()
        assert server.requests == []
        assert wire(body for batch in server.batches.submitted for body in batch) == direct
    assert result["about"].to_pylist() == before["about"].to_pylist()
    assert result.meter.total().calls_issued == 300
    dollars = before.meter.total().dollars
    assert dollars is not None
    assert result.meter.total().dollars == pytest.approx(dollars / 2)


async def test_runs_of_a_session_share_its_connections(tmp_path: Path) -> None:
    async with ModelServer(echo) as server:
        (tmp_path / "tickets.yaml").write_text(TICKETS)
        options = {"embedder": "openai:nobody@http://127.0.0.1:9/v1", "store": "memory"}
        async with semgraph.Session(llm=batching(server), folder=tmp_path, **options) as session:
            for text in ("one", "two"):
                tickets = [{"id": 1, "text": f"number {text}"}]
                result = await session.arun(tmp_path / "tickets.yaml", tickets=tickets)
                assert result["about"].to_pylist()[0]["said"] == f"mber {text}"
    assert len(server.batches.submitted) == 2


async def test_estimates_of_batches_are_half_of_those_of_direct_calls(tmp_path: Path) -> None:
    async with ModelServer(echo) as server:
        url, price = server.base_url, FlatPrice(1.0, 10.0)
        direct = OpenAI("m", url, timeout=HANGS, price=price)
        batches = OpenAI("m", url, timeout=HANGS, price=price, batch=True, poll=0.05)
        paid = (await answers(tmp_path, batches)).meter.total().dollars
        plan = semgraph.load_plan(tmp_path / "tickets.yaml")
        rows = {"tickets": [{"id": n, "text": f"number {n:04}"} for n in range(300)]}
        told, trees = [], []
        for llm in (batches, direct):
            with semgraph.Session(llm=llm, store="memory", folder=tmp_path) as session:
                told.append(
                    json.loads(
                        await asyncio.to_thread(session.explain, plan, format="json", inputs=rows)
                    )
                )
                trees.append(await asyncio.to_thread(session.explain, plan, inputs=rows))
            await llm.aclose()
    half, full = (each["estimate"]["dollars"]["value"] for each in told)
    assert half == pytest.approx(paid)
    assert full == pytest.approx(2 * half)
    asked = [[one for step in each["steps"] for one in step["semantic"]] for each in told]
    assert [[one.get("batch") for one in each] for each in asked] == [[True], [None]]
    assert ["(batch)" in tree for tree in trees] == [True, False]


async def test_an_endpoint_without_batches_stops_the_run(tmp_path: Path) -> None:
    server = ModelServer(echo)
    server.has_batches = False
    async with server:
        with pytest.raises(ModelUnavailable, match="has no batch endpoint"):
            await answers(tmp_path, batching(server))


async def test_batches_need_a_journal(tmp_path: Path) -> None:
    async with ModelServer(echo) as server:
        with pytest.raises(PlanError, match="there is no journal to record them"):
            await answers(tmp_path, batching(server), journal=False)
        assert server.batches.calls.total() == 0
