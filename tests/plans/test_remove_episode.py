"""Taking episodes back: what goes with them, what stays, and that the graph is then as it was."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from benchmarks.world import Fault, StandIn
from tests.plans.conftest import Graph, Memory, at, both_stores
from tests.plans.test_join_saga import chain, join, stored

SAID = (
    "Ann(user): I work at Luma.",
    "Ann(user): I live in Rome. I work at Luma.",
    "Bob(user): I lead Project Kite.",
    "Ann(user): I work at Acme.",
    "Ann(user): I live in Oslo.",
    "Bob(user): Ann leads Project Kite.",
)


async def hear(memory: Memory, *minutes: int, **more: Any) -> None:
    """Some of what was said, each a run, with its minute for a uuid."""
    for m in minutes:
        await memory.hear(memory.episode(SAID[m], at(m), uuid=f"e{m}", **more))


def plain(graph: Graph, around: dict[str, Any]) -> dict[str, Any]:
    """What a graph holds, in an order that stores agree in."""
    rows = {
        "episodes": graph.episodes,
        "entities": graph.entities,
        "facts": graph.facts,
        "mentions": graph.mentions,
    }
    return {name: sorted(map(str, found)) for name, found in (rows | around).items()}


async def remove(memory: Memory, *uuids: str, **options: Any) -> Any:
    """Remove episodes."""
    return await memory.run(
        "remove_episode", episodes=[{"uuid": uuid} for uuid in uuids], **options
    )


async def test_removing_what_was_added_last_restores_the_graph(memory: Memory) -> None:
    await hear(memory, 0, saga="tour")
    for last in range(1, 6):
        before = plain(await memory.graph(), await memory.around())
        calls = memory.model.calls.total()
        await hear(memory, last, saga="tour")
        added = memory.model.calls.total() - calls
        result = await remove(memory, f"e{last}")
        assert plain(await memory.graph(), await memory.around()) == before, last
        assert result.meter.total().calls_issued == 0
        assert added > 0
        await hear(memory, last, saga="tour")


@both_stores
async def test_facts_go_that_no_other_episode_states_and_the_others_forget_it(
    memory: Memory,
) -> None:
    await hear(memory, 0, 1)
    result = await remove(memory, "e0")
    graph = await memory.graph()
    assert graph.arrows == [("Ann", "LIVES_IN", "Rome"), ("Ann", "WORKS_AT", "Luma")]
    assert graph.fact("Ann works")["episodes"] == ["e1"]
    assert [e["uuid"] for e in graph.episodes] == ["e1"]
    assert (result.tables["edges"].num_rows, result.tables["kept"].num_rows) == (0, 1)
    await remove(memory, "e1")
    graph = await memory.graph()
    assert (graph.episodes, graph.entities, graph.facts, graph.mentions) == ([], [], [], [])


async def test_what_an_episode_ended_holds_again(memory: Memory) -> None:
    await hear(memory, 0, 3)
    await remove(memory, "e3")
    fact = (await memory.graph()).fact("Ann works at Luma")
    assert (fact["invalid_at"], fact["expired_at"]) == (None, None)
    assert (await memory.graph()).names == ["Ann", "Luma"]


async def test_as_in_graphiti_what_an_episode_ended_stays_ended(memory: Memory) -> None:
    await hear(memory, 0, 3)
    await remove(memory, "e3", preset="graphiti")
    assert (await memory.graph()).fact("Ann works at Luma")["invalid_at"] == at(3)


HOMES = ("Rome", "Oslo", "Rome", "Rome", "Bern")


async def live(memory: Memory, *texts: str, dated: str = "") -> None:
    """Homes that are told one after the other, each a run, with its place for a uuid."""
    for n, home in enumerate(texts):
        text = f"Ann(user): I live in {home}{dated if n == 0 else ''}."
        await memory.hear(memory.episode(text, at(n), uuid=f"e{n}"))


async def lived(memory: Memory) -> list[tuple[str, Any, Any, list[str]]]:
    """Where Ann lived, from when until when, and the episodes that say so."""
    facts = [f for f in (await memory.graph()).facts if f["name"] == "LIVES_IN"]
    return sorted((f["fact"][13:-1], f["valid_at"], f["invalid_at"], f["episodes"]) for f in facts)


@both_stores
async def test_a_home_that_is_removed_unites_those_before_and_after(memory: Memory) -> None:
    await live(memory, *HOMES)
    assert await lived(memory) == [
        ("Bern", at(4), None, ["e4"]),
        ("Oslo", at(1), at(2), ["e1"]),
        ("Rome", at(0), at(1), ["e0"]),
        ("Rome", at(2), at(4), ["e2", "e3"]),
    ]
    await remove(memory, "e2")  # Rome is told later, and Oslo ends later
    assert await lived(memory) == [
        ("Bern", at(4), None, ["e4"]),
        ("Oslo", at(1), at(3), ["e1"]),
        ("Rome", at(0), at(1), ["e0"]),
        ("Rome", at(3), at(4), ["e3"]),
    ]
    await remove(memory, "e1")
    assert await lived(memory) == [
        ("Bern", at(4), None, ["e4"]), ("Rome", at(0), at(4), ["e0", "e3"]),
    ]  # fmt: skip
    graph = await memory.graph()
    (uuid,) = (f["uuid"] for f in graph.facts if f["fact"] == "Ann lives in Rome.")
    assert {e["uuid"] for e in graph.episodes if uuid in e["entity_edges"]} == {"e0", "e3"}
    await remove(memory, "e4", "e0")
    assert await lived(memory) == [("Rome", at(3), None, ["e3"])]


async def test_a_removed_home_gives_way_to_the_one_after_it(memory: Memory) -> None:
    """Nobody was asked about the other two: what ended the removed one ends the one before it."""
    await live(memory, "Rome", "Oslo", "Bern")
    await remove(memory, "e1")
    assert await lived(memory) == [
        ("Bern", at(2), None, ["e2"]), ("Rome", at(0), at(2), ["e0"]),
    ]  # fmt: skip


async def test_a_day_that_a_removed_episode_named_stays(memory: Memory) -> None:
    """An exception: the graph does not know which of its episodes named the day of a fact."""
    await live(memory, "Rome", "Rome", dated=" since 2024-03-01")
    await remove(memory, "e0")
    ((_, since, until, episodes),) = await lived(memory)
    assert (f"{since:%Y-%m-%d}", until, episodes) == ("2024-03-01", None, ["e1"])


async def test_an_entity_stays_that_another_episode_mentions_or_a_fact_holds(
    memory: Memory,
) -> None:
    await hear(memory, 0)
    luma = (await memory.graph()).entity("Luma")["uuid"]
    bern = {
        "uuid": "bern",
        "group_id": "g",
        "name": "Bern",
        "summary": "",
        "fact": "Luma is in Bern.",
    }
    fact = {**bern, "name": "IS_IN", "source": luma, "target": "bern"}
    await memory.run(memory.here("planted.yaml"), entities=[bern], facts=[fact])
    await remove(memory, "e0")
    graph = await memory.graph()
    assert graph.names == ["Bern", "Luma"]
    assert graph.arrows == [("Luma", "IS_IN", "Bern")]


async def test_what_was_appended_is_cut_out_of_a_summary_without_asking(memory: Memory) -> None:
    await hear(memory, 0, 1)
    result = await remove(memory, "e1")
    assert (await memory.graph()).entity("Ann")["summary"] == "Ann works at Luma."
    assert result.meter.total().calls_issued == 0


async def test_a_summary_that_a_model_wrote_is_written_anew_from_what_is_left(
    memory: Memory,
) -> None:
    await hear(memory, 0, 1)
    ann = (await memory.graph()).entity("Ann")
    told = [
        {
            "uuid": ann["uuid"],
            "group_id": "g",
            "name": "Ann",
            "summary": "Ann lives in Rome, and works.",
        }
    ]
    await memory.run(memory.here("planted.yaml"), entities=told, facts=[])
    result = await remove(memory, "e1")
    assert (await memory.graph()).entity("Ann")["summary"] == "Ann works at Luma."
    assert result.meter.total().calls_issued == 1


async def test_a_summary_that_cannot_be_told_stays(remember: Callable[[StandIn], Memory]) -> None:
    async with StandIn(faults=(Fault("refusal", on=(6, 7, 8, 9)),)) as model:
        memory = remember(model)
        await hear(memory, 0, 1)
        result = await remove(memory, "e1", params={"retell": "all"})
        graph = await memory.graph()
    assert result.meter.step("rewritten").rows_failed == 2
    assert {e["summary"] for e in graph.entities} == {"Ann works at Luma."}


async def test_as_graphiti_does_every_summary_is_written_anew(memory: Memory) -> None:
    await hear(memory, 0, 1)
    result = await remove(memory, "e1", preset="graphiti")
    assert result.meter.total().calls_issued == 2
    assert (await memory.graph()).entity("Luma")["summary"] == "Ann works at Luma."


async def test_a_saga_closes_the_gap(memory: Memory) -> None:
    await hear(memory, 0, 1, 2, 4, saga="tour")
    await hear(memory, 5)
    await remove(memory, "e1", "e2", "e5")
    around = await memory.around()
    assert {(e["source"], e["target"]) for e in around["follows"]} == {("e0", "e4")}
    await remove(memory, "e0")
    (saga,) = (await memory.around())["sagas"]
    assert (saga["first_episode_uuid"], saga["last_episode_uuid"]) == ("e4", "e4")
    await remove(memory, "e4")
    assert not any((await memory.around()).values())


async def test_the_gap_of_one_saga_is_closed_beside_another(memory: Memory) -> None:
    """An edge of another saga is not of the gap, though both its ends are in this one, too."""
    await stored(memory, 0, 1, 2, 3, 4)
    await join(memory, 0, 1, 3, 4)
    await join(memory, 2)
    await join(memory, 1, 2, saga="other")
    await join(memory, 0, 3, saga="third")
    await remove(memory, "g1")
    assert await chain(memory) == {("g0", "g3"), ("g3", "g4"), ("g4", "g2")}
    await stored(memory, 5)
    await join(memory, 5)
    await join(memory, 3, 2, saga="fourth")
    await remove(memory, "g2")
    assert await chain(memory) == {("g0", "g3"), ("g3", "g4"), ("g4", "g5")}


async def test_all_that_follow_a_removed_episode_follow_the_one_before(memory: Memory) -> None:
    await stored(memory, 1, 2, 3, 4)
    await join(memory, 1, 2)
    for minute in (3, 4):
        await join(memory, minute, previous="g2")
    await remove(memory, "g2")
    assert await chain(memory) == {("g1", "g3"), ("g1", "g4")}


@pytest.mark.parametrize("gone", [["g2", "g1"], ["g1", "g3"]])
async def test_behind_a_fork_what_remains_begins_and_ends_a_saga(
    memory: Memory, gone: list[str]
) -> None:
    await stored(memory, 1, 2, 3)
    await join(memory, 1, 2)
    await join(memory, 3, previous="g1")
    for uuid in gone:
        await remove(memory, uuid)
    (left,) = {"g1", "g2", "g3"} - set(gone)
    (saga,) = (await memory.around())["sagas"]
    assert (saga["first_episode_uuid"], saga["last_episode_uuid"]) == (left, left)


async def test_no_episode_follows_itself_where_two_sagas_tell_two_orders(memory: Memory) -> None:
    await stored(memory, 2, 3)
    await join(memory, 2, 3)
    for minute in (3, 2):
        await join(memory, minute, saga="other")
    await remove(memory, "g2")
    assert await chain(memory) == set()


async def test_a_removed_episode_can_be_told_again(memory: Memory) -> None:
    await hear(memory, 0)
    await remove(memory, "e0")
    await hear(memory, 0)
    assert (await memory.graph()).arrows == [("Ann", "WORKS_AT", "Luma")]


ROME, PORTO = "Ann(user): I live in Rome.", "Ann(user): I live in Porto."
TOLD = (
    ((ROME, 3), (ROME, 6), (PORTO, 1)),
    ((ROME, 8), (ROME, 2), (PORTO, 4), (PORTO, 13)),
)


@pytest.mark.parametrize(
    ("told", "preset"),
    [
        (TOLD[1], None),
        (TOLD[0], "lean"),
        pytest.param(TOLD[0], None, marks=pytest.mark.nightly),
        pytest.param(TOLD[1], "lean", marks=pytest.mark.nightly),
    ],
)
async def test_an_episode_told_again_states_what_it_stated(
    memory: Memory, told: tuple[tuple[str, int], ...], preset: str | None
) -> None:
    """Also if its fact stayed without it, because another episode states the same, and holds at another
    time now.
    """
    episodes = [memory.episode(text, at(m), uuid=f"e{n}") for n, (text, m) in enumerate(told)]
    options = {"preset": preset} if preset else {}
    for episode in episodes:
        await memory.hear(episode, **options)
    before = [one[:3] for one in await lived(memory)]
    for n, episode in enumerate(episodes):
        await remove(memory, f"e{n}")
        await memory.hear(episode, **options)
        assert [one[:3] for one in await lived(memory)] == before, n


@pytest.mark.parametrize("group", [None, "h"])
async def test_an_episode_that_is_not_there_or_of_another_group_is_set_aside(
    memory: Memory, group: str | None
) -> None:
    await hear(memory, 0)
    before = await memory.graph()
    result = await memory.run(
        "remove_episode", episodes=[{"uuid": "e0" if group else "nowhere", "group_id": group}]
    )
    assert [f.error.split(" in ")[0] for f in result.failed] == [
        f"there is no episode {'e0' if group else 'nowhere'}"
    ]
    assert await memory.graph() == before
