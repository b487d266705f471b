"""Which episodes are read, with what history, and what of a wrong one is said."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from benchmarks.world import Fault, StandIn
from tests.plans.conftest import Memory, at
from tests.plans.test_add_episode import heard

Remember = Callable[[StandIn], Memory]


async def test_a_stored_episode_is_read_again_by_its_uuid(memory: Memory) -> None:
    await memory.hear(memory.episode("Ann(user): I work at Luma.", uuid="e1"))
    before, calls = await memory.graph(), memory.model.counters.calls
    result = await memory.hear({"uuid": "e1", "group_id": "g"})
    after = await memory.graph()
    assert (result.committed, result.skipped, result.failed) == (1, 0, ()), (
        "its mark does not hold it back"
    )
    assert memory.model.counters.calls == 2 * calls
    assert (after.names, after.arrows, after.episodes) == (
        before.names,
        before.arrows,
        before.episodes,
    )


async def test_an_episode_whose_reading_failed_needs_no_text_to_be_read(remember: Remember) -> None:
    async with StandIn(faults=(Fault("refusal", on=(1,)),)) as model:
        memory = remember(model)
        first = await memory.hear(memory.episode("Ann(user): I work at Luma.", uuid="e1"))
        second = await memory.hear({"uuid": "e1", "group_id": "g"})
        graph = await memory.graph()
    assert (len(first.failed), len(second.failed), second.committed) == (1, 0, 1)
    assert graph.names == ["Ann", "Luma"]


async def test_what_is_read_again_has_its_own_time_and_history(memory: Memory) -> None:
    await memory.hear(
        memory.episode("Ann(user): one.", at(1), uuid="e1"),
        memory.episode("Ann(user): two.", at(2), uuid="e2"),
    )
    await memory.hear({"uuid": "e2", "group_id": "g"})
    asked = heard(memory)
    assert asked[-1] == asked[-2]
    assert '["Ann(user): one."]' in asked[-1]


@pytest.mark.parametrize("group", ["g", "other"])
async def test_an_unknown_uuid_and_one_of_another_group_are_told_and_nothing_is_written(
    memory: Memory, group: str
) -> None:
    await memory.hear(memory.episode("Ann(user): I work at Luma.", uuid="e1"))
    calls = memory.model.counters.calls
    uuid = "e9" if group == "g" else "e1"
    result = await memory.hear({"uuid": uuid, "group_id": group})
    assert [f.error for f in result.failed] == [
        f'no episode {uuid} is stored in group "{group}": an episode without content refers to a stored one'
    ]
    assert result.exit_code == 3
    assert memory.model.counters.calls == calls
    assert len((await memory.graph()).episodes) == 1


async def test_others_go_on_where_one_is_wrong(memory: Memory) -> None:
    result = await memory.hear({"uuid": "e9", "group_id": "g"}, "I work at Luma.")
    assert (len(result.failed), result.committed) == (1, 1)
    assert (await memory.graph()).names == ["Ann", "Luma"]


async def test_an_episode_without_text_is_stored_and_nothing_is_asked(memory: Memory) -> None:
    result = await memory.hear(memory.episode("  ", at(1)), memory.episode("", at(2)))
    graph = await memory.graph()
    assert (len(graph.episodes), graph.entities, result.failed, memory.model.counters.calls) == (
        2,
        [],
        (),
        0,
    )


async def test_an_episode_needs_its_time(memory: Memory) -> None:
    result = await memory.hear({"content": "Ann(user): I work at Luma.", "group_id": "g"})
    assert [f.error for f in result.failed] == ["an episode needs valid_at, its time"]
    assert (await memory.graph()).episodes == []


@pytest.mark.parametrize(
    "group",
    [
        "a b",
        "ä",
        *(pytest.param(one, marks=pytest.mark.nightly) for one in ("a.b", "a/b", "a'b", "a:b")),
    ],
)
async def test_a_group_id_of_other_characters(memory: Memory, group: str) -> None:
    result = await memory.hear(
        memory.episode("Ann(user): I work at Luma.", group=group), "I live in Rome."
    )
    assert [f.error for f in result.failed] == [
        f'invalid group_id "{group}": use letters, digits, "-" and "_"'
    ]
    graph = await memory.graph()
    assert (graph.names, len(graph.episodes)) == (["Ann", "Rome"], 1)


async def test_history_is_exactly_what_previous_names(memory: Memory) -> None:
    await memory.hear(
        *(
            memory.episode(f"Ann(user): {n}.", at(i), uuid=n)
            for i, n in enumerate(("one", "two", "three"))
        )
    )
    await memory.hear(
        memory.episode("Ann(user): four.", at(9), previous=["three", "one"]), params={"history": 1}
    )
    await memory.hear(memory.episode("Ann(user): five.", at(10), previous=[]))
    asked = heard(memory)
    assert '["Ann(user): one.","Ann(user): three."]' in asked[-2], "oldest first, however many"
    assert asked[-1].endswith("[]")


async def test_previous_may_be_of_the_same_run(memory: Memory) -> None:
    await memory.hear(
        memory.episode("Ann(user): one.", at(1), uuid="e1"),
        memory.episode("Ann(user): two.", at(2), uuid="e2"),
        memory.episode("Ann(user): three.", at(3), uuid="e3", previous=["e1"]),
    )
    assert any("three" in text and '["Ann(user): one."]' in text for text in heard(memory))


@pytest.mark.parametrize(("before", "group"), [("e9", "g"), ("e1", "h")])
async def test_previous_that_is_not_there_or_of_another_group(
    memory: Memory, before: str, group: str
) -> None:
    await memory.hear(memory.episode("Ann(user): one.", uuid="e1"))
    result = await memory.hear(memory.episode("Ann(user): two.", group=group, previous=[before]))
    assert [f.error for f in result.failed] == [
        f'previous: no earlier episode {before} in group "{group}"'
    ]


async def test_a_time_with_a_shift_is_the_moment_that_it_names(memory: Memory) -> None:
    await memory.hear(
        memory.episode(
            "Ann(user): I live in Rome.", datetime.fromisoformat("2025-01-15T10:30:00+01:00")
        ),
        memory.episode(
            "Ann(user): I moved to Oslo.", datetime.fromisoformat("2025-01-15T09:45:00+00:00")
        ),
    )
    rome = (await memory.graph()).fact("Ann lives")
    assert rome["valid_at"] == datetime(2025, 1, 15, 9, 30, tzinfo=UTC)
    assert rome["invalid_at"] == datetime(2025, 1, 15, 9, 45, tzinfo=UTC)


async def test_the_first_and_the_last_year(memory: Memory) -> None:
    first, last = datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
    result = await memory.hear(
        memory.episode("Ann(user): I live in Rome.", first),
        memory.episode("Ann(user): I moved to Oslo.", last),
    )
    graph = await memory.graph()
    assert not result.failed
    assert (graph.fact("Ann lives")["valid_at"], graph.fact("Ann lives")["invalid_at"]) == (
        first,
        last,
    )


async def test_episodes_of_a_saga_stand_in_their_order(memory: Memory) -> None:
    await memory.hear(
        memory.episode("Ann(user): I work at Luma.", at(1), uuid="e1", saga="Work"),
        memory.episode("Ann(user): I live in Rome.", at(2), uuid="e2"),
        memory.episode("Ann(user): I lead Project Kite.", at(3), uuid="e3", saga="Work"),
    )
    await memory.hear(
        memory.episode("Ann(user): I moved to Oslo.", at(4), uuid="e4", saga="Work", follows="e1")
    )
    around = await memory.around()
    assert [s["name"] for s in around["sagas"]] == ["Work"]
    assert sorted((n["source"], n["target"]) for n in around["follows"]) == [
        ("e1", "e3"),
        ("e1", "e4"),
    ]


async def test_communities_are_told_what_is_new_where_they_are_wanted(memory: Memory) -> None:
    await memory.hear("I work at Luma.")
    await memory.run("build_communities", groups=[{"group_id": "g"}])
    result = await memory.hear("I live in Rome.", params={"update_communities": True})
    assert not result.failed
    communities: list[Any] = result.tables["communities"].to_pylist()
    assert len(communities) == 1
    assert "Rome" in communities[0]["summary"]
    assert "communities" not in (await memory.hear("I like Rome.")).tables
