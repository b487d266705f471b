"""When facts repeat, end, and take up each other."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from benchmarks.world import Fault, StandIn
from tests.plans.conftest import Memory, at, both_stores, loaded

Remember = Callable[[StandIn], Memory]


@both_stores
async def test_a_fact_that_cannot_hold_beside_an_older_one_ends_it(memory: Memory) -> None:
    await memory.hear("I work at Luma.", "I work at Acme.")
    graph = await memory.graph()
    old, new = graph.fact("Ann works at Luma"), graph.fact("Ann works at Acme")
    assert (old["invalid_at"], new["invalid_at"]) == (new["valid_at"], None)
    assert old["expired_at"] is not None
    assert new["expired_at"] is None
    assert set(graph.episodes[1]["entity_edges"]) | set(graph.episodes[0]["entity_edges"]) == {
        old["uuid"],
        new["uuid"],
    }


async def test_what_ends_a_fact_is_on_the_record_of_its_episode(memory: Memory) -> None:
    await memory.hear("I work at Luma.")
    await memory.hear("I work at Acme.")
    graph = await memory.graph()
    (later,) = (e for e in graph.episodes if "Acme" in e["content"])
    assert set(later["entity_edges"]) == {f["uuid"] for f in graph.facts}


async def test_an_older_fact_that_arrives_late_is_ended_by_the_younger_one(memory: Memory) -> None:
    await memory.hear("I work at Luma.", "I worked at Acme in 2019.")
    graph = await memory.graph()
    young, late = graph.fact("Ann works at Luma"), graph.fact("Ann worked at Acme")
    assert late["valid_at"] == at(0, year=2019, month=1, day=1).replace(hour=0)
    assert late["invalid_at"] == young["valid_at"]
    assert late["expired_at"] is not None
    assert (young["invalid_at"], young["expired_at"]) == (None, None)


async def test_of_two_facts_that_end_the_same_one_the_earlier_end_stays(memory: Memory) -> None:
    await memory.hear(
        "I worked at Luma in 2020.", "I worked at Acme in 2023.", "I worked at Helios in 2022."
    )
    graph = await memory.graph()
    ends = {f["fact"].split()[3]: f["invalid_at"] and f["invalid_at"].year for f in graph.facts}
    assert ends == {"Luma": 2022, "Helios": 2023, "Acme": None}


async def test_a_job_taken_up_again_is_a_new_fact(memory: Memory) -> None:
    await memory.hear("I work at Luma.", "I work at Acme.", "I work at Luma.")
    graph = await memory.graph()
    luma = sorted((f for f in graph.facts if "Luma" in f["fact"]), key=lambda f: f["valid_at"])
    acme = graph.fact("Ann works at Acme")
    assert [f["invalid_at"] for f in luma] == [acme["valid_at"], None]
    assert acme["invalid_at"] == luma[1]["valid_at"]
    assert [len(f["episodes"]) for f in luma] == [1, 1]


async def test_without_revive_it_is_a_repetition_of_what_has_ended(memory: Memory) -> None:
    await memory.hear(
        "I work at Luma.", "I work at Acme.", "I work at Luma.", params={"revive": False}
    )
    graph = await memory.graph()
    luma, acme = graph.fact("Ann works at Luma"), graph.fact("Ann works at Acme")
    assert luma["invalid_at"] == acme["valid_at"]
    assert len(luma["episodes"]) == 2


async def test_the_same_words_again_are_a_repetition_without_asking(memory: Memory) -> None:
    await memory.hear("I work at Luma.", "I work at Luma.")
    graph = await memory.graph()
    fact = graph.fact("Ann works")
    assert memory.model.calls["verdict"] == 0
    assert fact["episodes"] == [
        e["uuid"] for e in sorted(graph.episodes, key=lambda e: e["valid_at"])
    ]
    assert fact["valid_at"] == min(e["valid_at"] for e in graph.episodes)


async def test_other_words_for_the_same_are_a_repetition_by_the_models_verdict(
    memory: Memory,
) -> None:
    await memory.hear("I am leading Project Kite.", "Bob(user): Ann leads Project Kite.")
    graph = await memory.graph()
    assert memory.model.calls["verdict"] == 1
    assert len(graph.fact("Ann is leading")["episodes"]) == 2
    assert graph.arrows == [("Ann", "LEADING_PROJECT", "Project Kite")]
    assert graph.entity("Ann")["summary"] == "Ann is leading Project Kite."


async def test_a_plan_holds_from_when_it_is_made_and_ends_nothing(memory: Memory) -> None:
    await memory.hear("I work at Acme.", "I will start at Luma in March.")
    graph = await memory.graph()
    plan, job = graph.fact("Ann will start"), graph.fact("Ann works")
    assert plan["valid_at"] == plan["reference_time"]
    assert (plan["invalid_at"], job["invalid_at"]) == (None, None)


async def test_a_fact_that_says_when_it_ended_is_expired_when_it_arrives(memory: Memory) -> None:
    await memory.hear("I worked at Luma from 2018 to 2020.")
    fact = (await memory.graph()).fact("Ann worked")
    assert (fact["valid_at"].year, fact["invalid_at"].year) == (2018, 2020)
    assert fact["expired_at"] is not None


@pytest.mark.parametrize("ends", [True, False])
async def test_a_fact_without_a_date_ends_when_one_contradicts_it_later(
    memory: Memory, ends: bool
) -> None:
    await memory.hear("I lived in Rome once.", "I live in Oslo.", params={"end_undated": ends})
    graph = await memory.graph()
    rome, oslo = graph.fact("Ann lived in Rome"), graph.fact("Ann lives in Oslo")
    assert rome["valid_at"] is None
    assert rome["invalid_at"] == (oslo["valid_at"] if ends else None)
    assert oslo["invalid_at"] is None
    assert memory.model.calls["since until"] == 1, "the undated one was asked about"


async def test_a_fact_without_a_date_ends_nothing(memory: Memory) -> None:
    await memory.hear("I live in Oslo.", "I lived in Rome once.")
    assert [f["invalid_at"] for f in (await memory.graph()).facts] == [None, None]


async def test_a_date_that_cannot_be_had_is_missing_and_the_fact_is_not(remember: Remember) -> None:
    async with StandIn(undated=True, faults=(Fault("refusal", on=(3,)),)) as model:
        memory = remember(model)
        result = await memory.hear("I work at Luma.")
        fact = (await memory.graph()).fact("Ann works")
    assert (fact["valid_at"], fact["invalid_at"]) == (None, None)
    assert result.committed == 1
    assert result.meter.step("settle/ask/dated").rows_failed == 1


@pytest.mark.parametrize("reach", ["group", "shared_end"])
async def test_a_fact_between_others_is_ended_too(memory: Memory, reach: str) -> None:
    said = ("I lead Project Kite.", "Bob(user): I lead Project Kite.")
    await memory.hear(*said, params={"reach": reach})
    graph = await memory.graph()
    assert graph.fact("Ann leads")["invalid_at"] == graph.fact("Bob leads")["valid_at"]


@pytest.mark.parametrize(("reach", "calls"), [("group", 1), ("shared_end", 0)])
async def test_reach_says_where_contradictions_are_looked_for(
    memory: Memory, reach: str, calls: int
) -> None:
    said = ("I work at Luma.", "Bob(user): Carl works at Acme.")
    await memory.hear(*said, params={"reach": reach})
    assert memory.model.calls["verdict"] == calls


def test_from_when_a_fact_without_a_date_holds_is_said_to_the_model(memory: Memory) -> None:
    undated = "when it was said if it is told as true now, else null"
    plan = loaded("add_episode", params={"undated": undated})
    shown = memory.session.explain(plan, format="prompts", width=1000)
    assert f"without a date in the message, {undated}." in shown


async def test_the_same_fact_twice_in_one_episode_is_one(memory: Memory) -> None:
    await memory.hear("I live in Rome. I live in Rome.")
    assert (await memory.graph()).arrows == [("Ann", "LIVES_IN", "Rome")]


async def test_a_loop_that_was_meant_stays(memory: Memory) -> None:
    await memory.hear("Narcissus loves Narcissus.")
    assert (await memory.graph()).arrows == [("Narcissus", "LOVES", "Narcissus")]


async def test_a_fact_whose_ends_turn_out_to_be_one_goes(memory: Memory) -> None:
    await memory.hear("Alice Chen(user): I live in Rome.")
    await memory.hear("Alice Chen(user): Alice Chen likes Alice.")
    graph = await memory.graph()
    assert graph.names == ["Alice Chen", "Rome"]
    assert graph.arrows == [("Alice Chen", "LIVES_IN", "Rome")]


async def test_all_verdicts_of_an_episode_are_one_call_and_the_answer_does_not_depend_on_it(
    remember: Remember,
) -> None:
    said = ("I live in Rome. I work at Luma.", "I live in Oslo. I work at Acme.")
    ends = []
    for use in ("block()", "nested_loop"):
        async with StandIn() as model:
            memory = remember(model)
            group = use[0]
            await memory.hear(
                *(memory.episode(f"Ann(user): {one}", at(i), group) for i, one in enumerate(said)),
                use={"verdicts": use},
            )
            graph = await memory.graph()
            ends.append(
                sorted(
                    (f["fact"], f["invalid_at"])
                    for f in graph.facts
                    if f["group_id"] == group and f["invalid_at"]
                )
            )
            assert (model.calls["verdict"] == 1) == (use == "block()")
    assert ends[0] == ends[1]
    assert len(ends[0]) == 2
