"""A run that is broken off stops at once, leaves nothing half-written, and is taken up again."""

from __future__ import annotations

import asyncio
import signal

import pytest

from semgraph.execution.result import Progress
from tests.execution.conftest import STORY, Work, ended, said
from tests.patience import HANGS


async def held_after(work: Work, windows: int, count: int) -> asyncio.Task[object]:
    """A run of which so many windows are committed and the next waits for the model."""
    reached = asyncio.Event()

    def hold(progress: Progress) -> None:
        if (progress.step, progress.done) == ("", windows):
            work.model.gate.clear()
            reached.set()

    task = asyncio.create_task(work.run(said(STORY[:count]), progress=hold))
    before = len(work.model.arrived)
    await asyncio.wait(
        [task, asyncio.create_task(reached.wait())], return_when=asyncio.FIRST_COMPLETED
    )
    await work.model.until(
        lambda: len(work.model.arrived) > len(work.model.requests) > before or task.done()
    )
    return task


@pytest.mark.parametrize(
    ("place", "windows"), [("sqlite", 0), ("sqlite", 2), ("neo4j", 2)], indirect=["place"]
)
async def test_a_cancelled_run_stops_though_the_model_hangs(work: Work, windows: int) -> None:
    if windows:
        task = await held_after(work, windows, 5)
    else:
        work.model.gate.clear()
        task = asyncio.create_task(work.run(said(STORY[:5])))
        await work.model.until(lambda: work.model.arrived)
    task.cancel()
    async with asyncio.timeout(HANGS):
        with pytest.raises(asyncio.CancelledError):
            await task
    others = asyncio.all_tasks() - {asyncio.current_task()}
    assert not [t for t in others if "semgraph" in str(t.get_coro())], "nothing of it still runs"
    (record,) = work.records
    assert (record["status"], record["members"]["committed"]) == ("interrupted", windows)
    graph = await work.place.dump()
    complete = {m["source"] for m in graph.get("MENTIONS", {}).values()}
    assert len(complete) == windows, "a window is whole or not there"
    work.model.gate.set()
    rest = await work.run(said(STORY[:5]))
    assert (rest.skipped, rest.committed) == (windows, 5 - windows)


async def test_a_run_can_be_taken_up_by_its_name(simple: Work) -> None:
    task = await held_after(simple, 1, 3)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    simple.model.gate.set()
    (record,) = simple.records
    async with simple.session() as session:
        result = await session.arun("add_episode", resume=record["run"])
    assert (result.members, result.skipped, result.committed) == (3, 1, 2)


async def test_a_keyboard_interrupt_stops_a_script_that_waits_for_run(simple: Work) -> None:
    simple.model.gate.clear()
    process = await simple.start(said(STORY[:3]))
    await simple.model.until(lambda: simple.model.arrived)
    process.send_signal(signal.SIGINT)
    async with asyncio.timeout(HANGS):
        assert await ended(process) == {"interrupted": True}
    (record,) = simple.records
    assert record["status"] == "interrupted"
    simple.model.gate.set()
    assert (await simple.run(said(STORY[:3]))).committed == 3


async def test_a_failing_run_cancels_what_it_had_asked(simple: Work) -> None:
    """An error of one step ends the requests of all others."""

    def break_down(progress: Progress) -> None:
        if (progress.step, progress.done) == ("", 1):
            raise ZeroDivisionError("a fault of the caller's own")

    with pytest.raises(ZeroDivisionError):
        await simple.run(said(STORY[:6]), progress=break_down)
    await simple.model.until(lambda: simple.model.counters.in_flight == 0)
    (record,) = simple.records
    assert (record["status"], record["members"]["committed"]) == ("failed", 1)
    assert (await simple.run(said(STORY[:6]))).committed == 5
