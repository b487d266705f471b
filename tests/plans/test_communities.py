"""Communities: who belongs together, what is told of them, what it costs, and how they are kept up
to date.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from benchmarks.world import StandIn
from tests.plans.conftest import Memory, both_stores

Remember = Callable[[StandIn], Memory]
PAIRS = (
    "Ann(user): I work at Luma.",
    "Bob(user): I work at Luma.",
    "Cleo(user): I live in Oslo.",
    "Dan(user): I live in Oslo.",
)


async def cliques(memory: Memory, sizes: Iterable[int], group: str = "g") -> int:
    """Entities in circles of so many, stored without a call; returns how many."""
    entities: list[dict[str, Any]] = []
    facts: list[dict[str, Any]] = []
    for c, size in enumerate(sizes):
        names = [f"{group}{c:02}-{i:03}" for i in range(size)]
        entities += [
            {"uuid": n, "group_id": group, "name": f"P{n}", "summary": f"P{n} works at C{c}."}
            for n in names
        ]
        facts += [
            {
                "uuid": f"{a}>{b}",
                "group_id": group,
                "source": a,
                "target": b,
                "name": "KNOWS",
                "fact": f"{a} knows {b}.",
            }
            for i, a in enumerate(names)
            for b in names[i + 1 :]
        ]
    await memory.run(memory.here("planted.yaml"), entities=entities, facts=facts)
    return len(entities)


async def found(memory: Memory) -> set[frozenset[str]]:
    """The communities, as sets of names."""
    around, graph = await memory.around(), await memory.graph()
    names = {e["uuid"]: e["name"] for e in graph.entities}
    sets: dict[str, set[str]] = {c["uuid"]: set() for c in around["communities"]}
    for edge in around["members"]:
        sets[edge["source"]].add(names[edge["target"]])
    return {frozenset(members) for members in sets.values()}


async def test_those_that_facts_hold_together_are_a_community(memory: Memory) -> None:
    await memory.hear(*PAIRS)
    result = await memory.run("build_communities", groups=[{"group_id": "g"}])
    assert await found(memory) == {
        frozenset({"Ann", "Bob", "Luma"}),
        frozenset({"Cleo", "Dan", "Oslo"}),
    }
    told = {
        c["name"]: sorted(c["summary"].rstrip(".").split(". "))
        for c in (await memory.around())["communities"]
    }
    assert told == {
        "Around Luma": ["Ann works at Luma", "Bob works at Luma"],
        "Around Oslo": ["Cleo lives in Oslo", "Dan lives in Oslo"],
    }
    assert result.tables["communities"].num_rows == 2
    assert result.tables["community_edges"].num_rows == 6
    assert result.meter.total().calls_issued == 2


async def test_an_entity_without_facts_is_a_community_of_one_and_costs_nothing(
    memory: Memory,
) -> None:
    await cliques(memory, [1, 1])
    result = await memory.run("build_communities", groups="all")
    assert await found(memory) == {frozenset({"Pg00-000"}), frozenset({"Pg01-000"})}
    assert {(c["name"], c["summary"]) for c in (await memory.around())["communities"]} == {
        ("Pg00-000", "Pg00-000 works at C0."),
        ("Pg01-000", "Pg01-000 works at C1."),
    }
    assert result.meter.total().calls_issued == 0


async def test_without_groups_all_are_built_and_a_named_one_leaves_the_others_alone(
    memory: Memory,
) -> None:
    for group in ("g", "h", ""):
        await cliques(memory, [2], group)
    await memory.run("build_communities", groups="all")
    first = (await memory.around())["communities"]
    assert sorted(c["group_id"] for c in first) == ["", "g", "h"]
    await cliques(memory, [2, 3], "h")
    result = await memory.run("build_communities", groups=[{"group_id": "h"}, {"group_id": "h"}])
    assert {c["group_id"] for c in result.tables["communities"].to_pylist()} == {"h"}
    rest = (await memory.around())["communities"]
    assert [c for c in rest if c["group_id"] != "h"] == [c for c in first if c["group_id"] != "h"]
    assert sum(c["group_id"] == "h" for c in rest) == 2
    result = await memory.run("build_communities", groups=[])
    assert result.tables["communities"].num_rows == 0
    await memory.run("build_communities", groups=[{"group_id": ""}])
    assert sorted(c["group_id"] for c in (await memory.around())["communities"]) == [
        "",
        "g",
        "h",
        "h",
    ]


async def test_a_group_that_is_not_there_has_no_communities(memory: Memory) -> None:
    await cliques(memory, [2])
    result = await memory.run("build_communities", groups=[{"group_id": "nowhere"}])
    assert result.tables["communities"].num_rows == 0
    assert await found(memory) == set()


async def test_building_communities_twice_gives_the_same_communities(memory: Memory) -> None:
    await cliques(memory, [3, 2, 1])
    await memory.run("build_communities", groups="all")
    before = await memory.around()
    await memory.run("build_communities", groups="all")
    after = await memory.around()
    assert after["communities"] == before["communities"], "when they were made too"
    assert {(e["uuid"], e["source"], e["target"]) for e in after["members"]} == {
        (e["uuid"], e["source"], e["target"]) for e in before["members"]
    }


async def test_communities_that_are_no_longer_there_go(memory: Memory) -> None:
    await cliques(memory, [2, 2])
    await memory.run("build_communities", groups="all")
    fact = {
        "uuid": "bridge",
        "group_id": "g",
        "source": "g00-000",
        "target": "g01-000",
        "name": "KNOWS",
        "fact": "x",
    }
    more = [fact | {"uuid": f"bridge{i}"} for i in range(3)]
    await memory.run(memory.here("planted.yaml"), entities=[], facts=more)
    await memory.run("build_communities", groups="all")
    around = await memory.around()
    assert len(around["communities"]) < 3
    assert {e["source"] for e in around["members"]} == {c["uuid"] for c in around["communities"]}
    assert len(around["members"]) == 4


@pytest.mark.parametrize("algorithm", ["label_propagation", "louvain", "leiden(resolution=1.1)"])
async def test_either_algorithm_finds_circles(memory: Memory, algorithm: str) -> None:
    await cliques(memory, [4, 4])
    await memory.run("build_communities", groups="all", params={"algorithm": algorithm})
    assert sorted(len(one) for one in await found(memory)) == [4, 4]


async def test_with_a_fan_in_of_eight_it_takes_an_eighth_of_the_calls(memory: Memory) -> None:
    n = await cliques(memory, [8, 8, 8, 8, 5, 5, 1, 1, 1, 1, 1, 1])
    ours = await memory.run("build_communities", groups="all")
    assert ours.meter.total().calls_issued == 6 == n // 8
    first = {frozenset(one) for one in await found(memory)}
    theirs = await memory.run("build_communities", groups="all", preset="graphiti")
    assert theirs.meter.total().calls_issued == n == 48
    assert await found(memory) == first


async def test_a_large_community_is_told_by_a_tree(memory: Memory) -> None:
    await cliques(memory, [20])
    result = await memory.run("build_communities", groups="all")
    assert result.meter.total().calls_issued == 4, "of seven, of seven, of six, and of these three"
    (told,) = (await memory.around())["communities"]
    assert told["summary"].count("works at C0.") == 20


@both_stores
async def test_it_takes_as_many_round_trips_however_many_entities_there_are(memory: Memory) -> None:
    await cliques(memory, [3])
    await memory.run(
        "build_communities", groups=[{"group_id": "g"}]
    )  # the first vectors take two more
    few = (
        (await memory.run("build_communities", groups=[{"group_id": "g"}]))
        .meter.total()
        .round_trips
    )
    await cliques(memory, [9] * 5)
    many = (
        (await memory.run("build_communities", groups=[{"group_id": "g"}]))
        .meter.total()
        .round_trips
    )
    assert few == many <= 4


@both_stores
async def test_what_is_new_about_a_member_is_put_into_its_community(memory: Memory) -> None:
    await memory.hear(*PAIRS)
    await memory.run("build_communities", groups="all")
    ann = (await memory.graph()).entity("Ann")
    news = [
        {"uuid": ann["uuid"], "group_id": "g", "name": "Ann", "summary": "Ann leads Project Kite."}
    ]
    result = await memory.run("update_communities", entities=news)
    assert result.meter.total().calls_issued == 1
    told = {c["name"]: c["summary"] for c in (await memory.around())["communities"]}
    assert told["Around Ann"].endswith("Ann leads Project Kite.")
    assert "Bob works at Luma." in told["Around Ann"]
    assert result.tables["community_edges"].num_rows == 0


async def test_what_a_community_says_already_costs_nothing(memory: Memory) -> None:
    await memory.hear(*PAIRS)
    await memory.run("build_communities", groups="all")
    before = await memory.around()
    ann = (await memory.graph()).entity("Ann")
    rows = [
        {"uuid": ann["uuid"], "group_id": "g", "name": "Ann", "summary": text}
        for text in ("Ann works at Luma.",)
    ]
    result = await memory.run("update_communities", entities=rows)
    assert result.meter.total().calls_issued == 0
    assert await memory.around() == before


async def test_entities_of_one_community_are_told_in_one_call_and_none_is_lost(
    memory: Memory,
) -> None:
    await cliques(memory, [3])
    await memory.run("build_communities", groups="all")
    rows = [
        {
            "uuid": f"g00-00{i}",
            "group_id": "g",
            "name": f"Pg00-00{i}",
            "summary": f"Pg00-00{i} lives in Oslo.",
        }
        for i in range(3)
    ]
    result = await memory.run("update_communities", entities=rows)
    assert result.meter.total().calls_issued == 1
    (told,) = (await memory.around())["communities"]
    assert told["summary"].count("lives in Oslo") == 3
    assert told["summary"].count("works at C0") == 3


@both_stores
async def test_as_in_graphiti_pairs_are_merged_and_the_name_is_asked_apart(memory: Memory) -> None:
    await cliques(memory, [3, 2])
    await memory.run("build_communities", groups="all")
    rows = [
        {"uuid": uuid, "group_id": "g", "name": f"P{uuid}", "summary": f"P{uuid} lives in Oslo."}
        for uuid in ("g00-000", "g00-001", "g01-000")
    ]
    result = await memory.run("update_communities", entities=rows, preset="graphiti")
    calls = {name: step.calls_issued for name, step in result.meter.steps.items()}
    assert (calls["texts"], calls["named"]) == (3, 2), "one an entity, one a community"
    small, large = sorted(
        (await memory.around())["communities"], key=lambda c: c["summary"].count("works at")
    )
    assert small["summary"].count("lives in Oslo") == 1
    assert large["summary"].count("lives in Oslo") == 2
    assert large["summary"].count("works at C0") == 3
    assert {small["name"], large["name"]} == {"Around C0", "Around C1"}


async def test_an_entity_without_one_joins_that_of_most_of_its_facts(memory: Memory) -> None:
    await cliques(memory, [3, 3])
    await memory.run("build_communities", groups="all")
    new = {"uuid": "new", "group_id": "g", "name": "New", "summary": "New knows them."}
    tie = {"group_id": "g", "name": "KNOWS", "fact": "x"}
    stored = [
        tie | {"uuid": "t1", "source": "new", "target": "g00-000"},
        tie | {"uuid": "t2", "source": "g01-000", "target": "new"},
    ]
    await memory.run(memory.here("planted.yaml"), entities=[new], facts=stored)
    soon = [{"group_id": "g", "source": "g01-001", "target": "new"}]
    result = await memory.run("update_communities", entities=[new], ties=soon)
    names = {
        frozenset({"Pg00-000", "Pg00-001", "Pg00-002"}),
        frozenset({"New", "Pg01-000", "Pg01-001", "Pg01-002"}),
    }
    assert await found(memory) == names
    assert result.meter.total().calls_issued == 1


async def test_one_that_knows_nobody_joins_nothing(memory: Memory) -> None:
    await cliques(memory, [2])
    await memory.run("build_communities", groups="all")
    new = {"uuid": "new", "group_id": "g", "name": "New", "summary": "New."}
    await memory.run(memory.here("planted.yaml"), entities=[new], facts=[])
    result = await memory.run("update_communities", entities=[new])
    assert result.meter.total().calls_issued == 0
    assert len(await found(memory)) == 1


async def test_an_update_sees_the_communities_of_its_own_group_alone(memory: Memory) -> None:
    await cliques(memory, [2], "g")
    await cliques(memory, [2], "h")
    await memory.run("build_communities", groups="all")
    before = await memory.around()
    wrong = [{"uuid": "h00-000", "group_id": "g", "name": "x", "summary": "Not theirs."}]
    result = await memory.run(
        "update_communities",
        entities=wrong,
        ties=[{"group_id": "g", "source": "h00-000", "target": "h00-001"}],
    )
    assert result.meter.total().calls_issued == 0
    assert await memory.around() == before
