"""Calls of clients: one that waits holds nothing that others need, and what a caller's numbers make large
is made elsewhere.
"""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future

import duckdb
import pytest

from semgraph.expr.duckdb import value_of
from semgraph.expr.isolated import PROCESS, SqlProcess
from semgraph.serve.server import Aside
from tests.cli.conftest import Project
from tests.patience import HANGS
from tests.serve.conftest import Connect, note, text_of

WIDE = """
plan: wide
graph: graph.yaml
inputs: {notes: {group_id: string null, text: string, at: timestamp}}
params: {width: 3}
steps: {made: [{from: notes}, {add: {wide: "rpad(text, $width, '.')"}}]}
returns: [made]
"""


async def test_calls_that_wait_for_models_keep_no_other_client_waiting() -> None:
    aside, model = Aside(HANGS), Future[int]()

    async def asks() -> int:
        return await asyncio.wrap_future(model)

    async def computes() -> int:
        value: int = value_of("len(repeat('x', 3))")
        return value

    waiting = [asyncio.ensure_future(aside.run(n % 20, asks)) for n in range(100)]
    await asyncio.sleep(0)
    assert await aside.run("another", computes) == 3
    assert not any(task.done() for task in waiting)
    model.set_result(7)
    assert await asyncio.gather(*waiting) == [7] * 100
    aside.close()


async def test_a_call_that_is_cancelled_ends_what_is_computed_for_it_alone() -> None:
    place = SqlProcess(HANGS)
    one, other = SqlProcess(HANGS, place), SqlProcess(HANGS, place)
    assert one.call("value_of", "1 + 1") == 2
    other.end()
    assert one.call("value_of", "1 + 2") == 3
    with pytest.raises(duckdb.InterruptException, match="stopped after"):
        other.call("value_of", "1")
    place.close()


async def test_a_call_that_is_cancelled_behind_another_of_its_client_is_not_begun() -> None:
    aside, busy, free = Aside(HANGS), threading.Event(), threading.Event()
    begun: list[str] = []

    async def computes() -> None:
        busy.set()
        await asyncio.sleep(0)
        free.wait(HANGS)

    async def pays() -> None:
        begun.append("pays")

    first = asyncio.ensure_future(aside.run("client", computes))
    await asyncio.to_thread(busy.wait, HANGS)
    second = asyncio.ensure_future(aside.run("client", pays))
    await asyncio.sleep(0)
    second.cancel()
    await asyncio.sleep(0)
    free.set()
    with pytest.raises(asyncio.CancelledError):
        await second
    await first
    assert begun == []
    aside.close()


async def test_only_what_may_grow_is_computed_by_the_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    called: list[str] = []
    monkeypatch.setattr(SqlProcess, "call", lambda _self, name, *_rest: called.append(name))
    token = PROCESS.set(SqlProcess(HANGS))
    try:
        assert value_of("1 + 1") == 2
        value_of("repeat('x', 3)")
    finally:
        PROCESS.reset(token)
    assert called == ["value_of"]


async def test_a_caller_s_number_does_not_fill_the_server(
    connect: Connect, project: Project
) -> None:
    project.write("plans/wide.yaml", WIDE)
    notes = [note(f"n{n}", "g") for n in range(100)]
    async with connect("--plans", f"{project.folder}/plans/wide.yaml") as client:
        result = await client.call_tool("wide", {"notes": notes, "params": {"width": 1_000_000}})
        assert result.is_error
        assert "its rows have more than 64 MB" in text_of(result)
        few = await client.call_tool("wide", {"notes": notes[:2], "params": {"width": 200_000}})
        assert not few.is_error
