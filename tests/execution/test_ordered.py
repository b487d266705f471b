"""A plan with windows: what is done already is left alone, what is new is added, and the record
says so.
"""

from __future__ import annotations

import pytest

from semgraph.errors import InputError
from tests.execution.conftest import PLAN, STORY, Work, declared, said


async def test_the_example_is_the_graph_that_it_tells_in_eight_calls(simple: Work) -> None:
    async with simple.session() as session:
        result = await session.arun(PLAN)
    assert (result.committed, result.meter.total().calls_issued, len(simple.model.requests)) == (
        3,
        8,
        8,
    )
    assert await simple.place.counts() == {
        "Episodic": 3,
        "Entity": 3,
        "MENTIONS": 6,
        "RELATES_TO": 3,
    }
    facts = (await simple.place.dump())["RELATES_TO"].values()
    assert sorted(len(f["episodes"]) for f in facts) == [1, 1, 2]
    assert dict(result.written) == await simple.place.counts()


async def test_a_finished_input_costs_nothing_and_writes_nothing(simple: Work) -> None:
    await simple.run(said(STORY[:4]))
    before = await simple.place.dump(times=True)
    simple.model.reset()
    result = await simple.run(said(STORY[:4]), session={"journal": False})
    assert (result.members, result.skipped, result.committed, dict(result.written)) == (4, 4, 0, {})
    assert (len(simple.model.requests), simple.model.counters.embedding_calls) == (0, 0)
    assert await simple.place.dump(times=True) == before
    assert (result.exit_code, result.notes) == (0, ())


async def test_a_longer_input_goes_on_where_the_shorter_ended(simple: Work) -> None:
    await simple.run(said(STORY[:5]))
    asked = len(simple.model.requests)
    result = await simple.run(said(STORY[:8]))
    assert (result.skipped, result.committed) == (5, 3)
    grown = await simple.place.dump()
    async with simple.session(store="memory", journal=False) as session:
        whole = await session.arun(PLAN, episodes=said(STORY[:8]))
    assert {name: len(grown[name]) for name in whole.written} == dict(whole.written)
    assert len(simple.model.requests) - asked > whole.meter.total().calls_issued, "both asked anew"


async def test_what_was_said_before_is_context_also_across_runs(simple: Work) -> None:
    for n in range(3):
        await simple.run(said(STORY[n : n + 1], start=n))
    apart = await simple.place.dump()
    asked = [body["messages"] for body in simple.model.requests]
    simple.model.reset()
    async with simple.session(store="memory", journal=False) as session:
        await session.arun(PLAN, episodes=said(STORY[:3]))
    together = [body["messages"] for body in simple.model.requests]
    assert sorted(map(str, asked)) == sorted(map(str, together))
    assert len(apart["Episodic"]) == 3


async def test_read_again_on_purpose_a_graph_stays_as_it_is(simple: Work) -> None:
    await simple.run(said(STORY[:6]))
    before = await simple.place.dump()
    result = await simple.run(said(STORY[:6]), again=True)
    after = await simple.place.dump()
    assert (result.skipped, result.committed) == (0, 6)
    assert {name: set(rows) for name, rows in after.items()} == {
        name: set(rows) for name, rows in before.items()
    }
    assert after["Entity"] == before["Entity"]


async def test_rows_of_another_version_of_the_plan_are_left_and_told(simple: Work) -> None:
    await simple.run(said(STORY[:2]))
    result = await simple.run(said(STORY[:3]), params={"candidates": 7})
    (note,) = result.notes
    assert note.startswith(
        "the plan, its parameters or its implementations changed since 2 of these rows were written"
    )
    assert (result.skipped, result.committed) == (2, 1)
    assert simple.records[-1]["notes"] == [note]


async def test_another_way_of_asking_is_another_version_too(simple: Work) -> None:
    await simple.run(said(STORY[:1]))
    result = await simple.run(said(STORY[:1]), use={"matches": "nested_loop"})
    assert result.notes


async def test_a_row_with_a_name_is_known_by_it_whatever_it_says(simple: Work) -> None:
    (first,), (second,) = said(STORY[:1]), said(STORY[1:2])
    await simple.run([first | {"uuid": "e1"}])
    result = await simple.run([second | {"uuid": "e1"}])
    assert (result.skipped, result.committed) == (1, 0)
    assert (await simple.place.dump())["Episodic"]["e1"]["content"] == STORY[0]


async def test_one_name_for_two_rows_is_refused_before_anything_is_spent(simple: Work) -> None:
    rows = [row | {"uuid": "e1"} for row in said(STORY[:2])]
    with pytest.raises(InputError, match='row 2, column uuid: "e1" names row 1 already'):
        await simple.run(rows)
    assert simple.model.requests == []
    assert not (simple.folder / "graph.db").exists()


async def test_rows_made_alike_keep_their_names_however_the_input_grows(simple: Work) -> None:
    twice = said([STORY[0], STORY[0]])
    twice[1]["valid_at"] = twice[0]["valid_at"]
    first = await simple.run(twice)
    again = await simple.run([*twice, dict(twice[0])])
    assert (first.committed, again.skipped, again.committed) == (2, 2, 1)
    assert again.keys[:2] == first.keys
    assert len(set(again.keys)) == 3


async def test_a_row_whose_node_was_deleted_is_read_anew(work: Work) -> None:
    first = await work.run(said(STORY[:2]))
    store = work.place.look()
    await store.ensure(declared(), None)
    await store.clear(["g"])
    await store.aclose()
    again = await work.run(said(STORY[:2]))
    assert (again.skipped, again.committed, again.keys) == (0, 2, first.keys)
    assert again.meter.total().calls_issued == 0, "all answers are in the journal"
