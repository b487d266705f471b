"""Facts that somebody states: how their ends are found, what they end, and what of the caller's
stands.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.plans.conftest import Memory, at, both_stores


def triplet(source: str, name: str, target: str, **more: Any) -> dict[str, Any]:
    """A fact, said in words that the stand-in reads."""
    verb = {"WORKS_AT": "works at", "LIVES_IN": "lives in", "KNOWS": "knows"}[name]
    return {"group_id": "g", "source": source, "name": name, "target": target, "fact": f"{source} {verb} {target}.",
            "valid_at": at(0), **more}  # fmt: skip


async def test_a_fact_is_put_in_with_its_ends_and_nothing_is_asked_of_an_empty_graph(
    memory: Memory,
) -> None:
    result = await memory.run(
        "add_triplet", triplets=[triplet("Ann", "WORKS_AT", "Luma", attributes={"since": 2020})]
    )
    graph = await memory.graph()
    assert graph.arrows == [("Ann", "WORKS_AT", "Luma")]
    fact = graph.fact("Ann works")
    assert (fact["valid_at"], fact["invalid_at"], fact["episodes"], fact["group_id"]) == (
        at(0),
        None,
        [],
        "g",
    )
    assert "2020" in str(fact["attributes"])
    assert (graph.episodes, graph.mentions) == ([], [])
    assert result.meter.total().calls_issued == 0
    assert [(e["fact"], e["change"]) for e in result.tables["edges"].to_pylist()] == [
        ("Ann works at Luma.", "new")
    ]


@both_stores
async def test_ends_are_resolved_as_mentions_are(memory: Memory) -> None:
    await memory.hear("Ann Hill(user): I work at Luma.")
    known = triplet("ann  hill", "LIVES_IN", "Rome")
    await memory.run(
        "add_triplet", triplets=[known, triplet("Bob", "LIVES_IN", "rome", said_at=at(5))]
    )
    graph = await memory.graph()
    assert graph.names == ["Ann Hill", "Bob", "Luma", "Rome"]
    assert ("Ann Hill", "LIVES_IN", "Rome") in graph.arrows
    assert ("Bob", "LIVES_IN", "Rome") in graph.arrows


async def test_an_end_given_by_uuid_is_that_entity_whatever_it_is_called(memory: Memory) -> None:
    await memory.hear("I work at Luma.")
    ann = (await memory.graph()).entity("Ann")
    await memory.run(
        "add_triplet",
        triplets=[
            triplet(
                "The boss",
                "LIVES_IN",
                "Rome",
                source_uuid=ann["uuid"],
                source_labels=["Person"],
                target_uuid="rome",
            )
        ],
    )
    graph = await memory.graph()
    assert graph.names == ["Ann", "Luma", "Rome"]
    assert ("Ann", "LIVES_IN", "Rome") in graph.arrows
    assert graph.entity("Rome")["uuid"] == "rome", "one that is not there is made with it"
    assert graph.entity("Ann")["labels"] == ["Person"]


async def test_what_the_caller_says_of_an_end_is_laid_over_what_is_known(memory: Memory) -> None:
    first = triplet(
        "Ann",
        "WORKS_AT",
        "Luma",
        source_summary="A pilot.",
        source_attributes={"age": 30, "city": "Rome"},
    )
    await memory.run("add_triplet", triplets=[first])
    second = triplet("Ann", "KNOWS", "Bob", source_summary="  ", source_attributes={"age": 31})
    await memory.run("add_triplet", triplets=[second])
    ann = (await memory.graph()).entity("Ann")
    assert ann["summary"] == "A pilot."
    assert "31" in str(ann["attributes"])
    assert "Rome" in str(ann["attributes"])


async def test_a_fact_ends_what_cannot_hold_beside_it(memory: Memory) -> None:
    await memory.hear("I work at Luma.")
    result = await memory.run(
        "add_triplet", triplets=[triplet("Ann", "WORKS_AT", "Acme", valid_at=at(9))]
    )
    graph = await memory.graph()
    assert graph.fact("Ann works at Luma")["invalid_at"] == at(9)
    assert [(e["fact"], e["change"]) for e in result.tables["edges"].to_pylist()] == [
        ("Ann works at Acme.", "new"),
        ("Ann works at Luma.", "ended"),
    ]


async def test_stated_again_it_is_the_same_fact(memory: Memory) -> None:
    rows = [triplet("Ann", "WORKS_AT", "Luma"), triplet("Ann", "WORKS_AT", "Luma")]
    await memory.run("add_triplet", triplets=rows)
    before = await memory.graph()
    again = await memory.run("add_triplet", triplets=rows[:1])
    assert await memory.graph() == before
    assert len(before.facts) == 1
    assert again.meter.total().calls_issued == 0


async def test_a_uuid_that_a_fact_between_others_has_makes_a_new_fact(memory: Memory) -> None:
    await memory.run("add_triplet", triplets=[triplet("Ann", "WORKS_AT", "Luma", uuid="f")])
    await memory.run("add_triplet", triplets=[triplet("Bob", "LIVES_IN", "Rome", uuid="f")])
    graph = await memory.graph()
    assert graph.fact("Ann works")["uuid"] == "f"
    assert graph.fact("Bob lives")["uuid"] != "f"
    await memory.run(
        "add_triplet",
        triplets=[
            {**triplet("Ann", "WORKS_AT", "Luma", uuid="f"), "fact": "Ann is a pilot at Luma."}
        ],
    )
    assert [f["fact"] for f in (await memory.graph()).facts if f["uuid"] == "f"] == [
        "Ann is a pilot at Luma."
    ]


async def test_a_loop_is_one_entity(memory: Memory) -> None:
    await memory.run("add_triplet", triplets=[triplet("Narcissus", "KNOWS", "Narcissus")])
    assert (await memory.graph()).arrows == [("Narcissus", "KNOWS", "Narcissus")]


@pytest.mark.parametrize("wrong", [{"source": " "}, {"fact": ""}, {"group_id": "a b"}])
async def test_a_triplet_that_lacks_something_is_set_aside_and_the_others_go_on(
    memory: Memory, wrong: dict[str, str]
) -> None:
    rows = [{**triplet("Ann", "WORKS_AT", "Luma"), **wrong}, triplet("Bob", "LIVES_IN", "Rome")]
    result = await memory.run("add_triplet", triplets=rows)
    (failed,) = result.failed
    lacks = "invalid group_id" if "group_id" in wrong else "a triplet needs a source, a target"
    assert failed.error.startswith(lacks)
    assert (await memory.graph()).arrows == [("Bob", "LIVES_IN", "Rome")]


async def test_an_entity_of_another_group_is_not_taken_for_an_end(memory: Memory) -> None:
    await memory.run(
        "add_triplet",
        triplets=[triplet("Ann", "WORKS_AT", "Luma", group_id="h", source_uuid="ann")],
    )
    before = await memory.graph()
    with pytest.raises(Exception, match="ann"):
        await memory.run(
            "add_triplet", triplets=[triplet("Ann", "LIVES_IN", "Rome", source_uuid="ann")]
        )
    assert await memory.graph() == before
