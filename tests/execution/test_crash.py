"""Two runs of one group never mix."""

from __future__ import annotations

import asyncio

from semgraph.execution.result import Progress
from tests.execution.conftest import STORY, Watched, Work, declared, ended, said, wire


async def wipe(work: Work) -> None:
    store = work.place.look()
    await store.ensure(declared(), None)
    await store.clear()
    await store.aclose()


async def test_of_two_processes_on_one_group_one_goes_on_and_the_other_stops(simple: Work) -> None:
    episodes = said(STORY[:6])
    simple.model.gate.clear()
    both = [await simple.start(episodes, journal=f"journal{n}.db") for n in range(2)]
    await simple.model.until(
        lambda: len(simple.model.arrived) >= 2 and min(wire(simple.model.arrived).values()) >= 2
    )
    simple.model.gate.set()
    told = sorted(
        await asyncio.gather(*(ended(process) for process in both)), key=lambda t: t["exit_code"]
    )
    assert [t["exit_code"] for t in told] == [0, 1]
    (note,) = told[1]["notes"]
    assert note.startswith('group "g" was written by another run since this one began: stopped')
    assert told[0]["committed"] == len(episodes), (
        "only one of them has committed: the first window decides"
    )
    assert told[1]["committed"] == 0
    between = await simple.place.dump()
    again = await simple.run(episodes)
    assert (again.skipped, again.committed, again.exit_code) == (len(episodes), 0, 0)
    await wipe(simple)
    await simple.run(episodes)
    assert await simple.place.dump() == between


async def test_two_runs_of_two_groups_do_not_disturb_each_other(work: Work) -> None:
    work.model.gate.clear()
    both = [asyncio.create_task(work.run(said(STORY[:3], group))) for group in ("a", "b")]
    await work.model.until(lambda: len(work.model.arrived) >= 2)
    work.model.gate.set()
    told = await asyncio.gather(*both)
    assert [(t.committed, t.exit_code, t.notes) for t in told] == [(3, 0, ())] * 2
    graph = await work.place.dump()
    assert [sum(row["group_id"] == g for row in graph["Episodic"].values()) for g in "ab"] == [3, 3]


async def test_a_writer_that_comes_between_two_windows_stops_the_run_and_loses_nothing(
    work: Work,
) -> None:
    episodes = said(STORY[:5])
    late: list[asyncio.Task[None]] = []

    async def write_too() -> None:
        async with Watched() as model:
            other = Work(model, work.place, work.folder / "late")
            result = await other.run(said(["Ann(user): I work at Nox."], start=60))
        assert result.committed == 1
        work.model.gate.set()

    def hold_after_two(progress: Progress) -> None:
        if (progress.step, progress.done) == ("", 2):
            work.model.gate.clear()  # the next window cannot end before its contradictions are told
            late.append(asyncio.create_task(write_too()))

    first = await work.run(episodes, progress=hold_after_two)
    await late[0]
    assert (first.committed, first.exit_code) == (2, 1)
    last = await work.run(episodes)
    assert (last.skipped, last.committed) == (2, 3)
    assert len((await work.place.dump())["Episodic"]) == 6
