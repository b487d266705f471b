"""Adding episodes: what the graph holds afterwards, and what it took."""

from __future__ import annotations

import json
from collections.abc import Callable

from benchmarks.world import Fault, StandIn
from tests.plans.conftest import Memory, at, both_stores

Remember = Callable[[StandIn], Memory]


def heard(memory: Memory) -> list[str]:
    """What the model was told when it was asked for the names in each episode."""
    return [
        r["messages"][-1]["content"]
        for r in memory.model.requests
        if '"entities"' in json.dumps(r["response_format"])
    ]


async def the_example(memory: Memory, **options: object):
    return await memory.run("add_episode", **options)


@both_stores
async def test_the_example_becomes_the_graph_that_it_tells(memory: Memory) -> None:
    await the_example(memory)
    graph = await memory.graph()
    assert graph.names == ["Alice Chen", "Project Phoenix", "TechCorp"]
    assert graph.arrows == [
        ("Alice Chen", "LEADING_PROJECT", "Project Phoenix"),
        ("Alice Chen", "PROJECT_DEADLINE", "Project Phoenix"),
        ("Alice Chen", "WORKS_AT", "TechCorp"),
    ]
    assert (len(graph.episodes), len(graph.mentions)) == (3, 6)
    assert len(graph.fact("Alice Chen is currently leading")["episodes"]) == 2


@both_stores
async def test_a_window_makes_at_most_six_round_trips_to_the_store(memory: Memory) -> None:
    await memory.hear(
        "I work at Luma."
    )  # the first vectors of a database are written behind a lock: two more
    result = await memory.hear(
        "I lead Project Kite.", "The project deadline is May 3rd.", "I live in Rome."
    )
    assert result.meter.total().round_trips <= 6 * 3


async def test_names_that_are_no_mentions_cost_a_round_trip_only_where_there_are_any(
    memory: Memory,
) -> None:
    known = await memory.hear("I work at Luma.")
    assert known.meter.step("resolve/strayed/candidates").round_trips == 0
    stray = await memory.hear("I work at acme labs.")
    assert stray.meter.step("resolve/strayed/candidates").round_trips == 1
    assert (await memory.graph()).names == ["Ann", "Luma", "acme labs"]


async def test_dates_that_are_asked_for_are_those_that_the_facts_could_have_come_with(
    remember: Remember,
) -> None:
    async with StandIn(undated=True) as model:
        memory = remember(model)
        await the_example(memory)
        graph = await memory.graph()
    assert [f["valid_at"] for f in sorted(graph.facts, key=lambda f: f["valid_at"])] == [
        at(0),
        at(1),
        at(2),
    ]


async def test_facts_have_the_properties_that_the_graph_declares(memory: Memory) -> None:
    await memory.hear("I work at Luma.")
    graph = await memory.graph()
    (episode,), fact = graph.episodes, graph.fact("Ann works")
    assert fact["reference_time"] == fact["valid_at"] == episode["valid_at"]
    assert fact["episodes"] == [episode["uuid"]]
    assert episode["entity_edges"] == [fact["uuid"]]
    assert (fact["invalid_at"], fact["expired_at"]) == (None, None)
    assert fact["created_at"] is not None
    assert {e["name_key"] for e in graph.entities} == {"ann", "luma"}


async def test_new_facts_are_appended_to_the_summaries_of_both_ends(memory: Memory) -> None:
    await memory.hear("I work at Luma.", "I live in Rome.")
    graph = await memory.graph()
    assert graph.entity("Ann")["summary"] == "Ann works at Luma.\nAnn lives in Rome."
    assert graph.entity("Rome")["summary"] == "Ann lives in Rome."
    assert memory.model.calls["summary"] == 0


async def test_a_name_without_facts_is_summarised_from_what_was_said(memory: Memory) -> None:
    await memory.hear("Bob is here. Carl is too.")
    graph = await memory.graph()
    assert "Bob is here" in graph.entity("Bob")["summary"]
    assert memory.model.calls["summary"] == 1, "all three in one call"


async def test_a_long_summary_is_written_anew_and_cut(memory: Memory) -> None:
    places = ["Rome", "Oslo", "Bern", "Riga", "Kyiv"]
    await memory.hear(*(f"I moved to {place}." for place in places), params={"summary_chars": 30})
    summary = (await memory.graph()).entity("Ann")["summary"]
    assert len(summary) <= 60
    assert memory.model.calls["summary"] > 0


async def test_a_second_run_of_the_same_episodes_asks_and_writes_nothing(memory: Memory) -> None:
    said = [
        memory.episode("Ann(user): I work at Luma."),
        memory.episode("Ann(user): I live in Rome."),
    ]
    await memory.hear(*said)
    before = await memory.graph()
    calls = memory.model.calls.total()
    result = await memory.hear(*said)
    assert (result.skipped, result.committed, memory.model.calls.total()) == (2, 0, calls)
    assert await memory.graph() == before


async def test_episodes_read_again_on_purpose_change_nothing(memory: Memory) -> None:
    said = [
        memory.episode("Ann(user): I work at Luma."),
        memory.episode("Ann(user): I live in Rome."),
    ]
    await memory.hear(*said)
    before = await memory.graph()
    await memory.hear(*said, again=True)
    after = await memory.graph()
    assert (after.names, after.arrows, len(after.mentions)) == (
        before.names,
        before.arrows,
        len(before.mentions),
    )
    assert [e["summary"] for e in after.entities] == [e["summary"] for e in before.entities]


async def test_the_same_text_at_the_same_time_twice_is_two_episodes(memory: Memory) -> None:
    once = memory.episode("Ann(user): I live in Rome.", at(5))
    await memory.hear(once, dict(once))
    graph = await memory.graph()
    assert len(graph.episodes) == 2
    assert len(graph.fact("Ann lives")["episodes"]) == 2


async def test_groups_never_see_each_other(memory: Memory) -> None:
    said = "Ann(user): I work at Luma."
    await memory.hear(
        memory.episode(said, at(1), "a"),
        memory.episode(said, at(1), "b"),
        memory.episode(said, at(2), None),
    )
    graph = await memory.graph()
    assert graph.names == ["Ann", "Ann", "Ann", "Luma", "Luma", "Luma"]
    assert sorted(f["group_id"] for f in graph.facts) == ["", "a", "b"]


async def test_history_is_what_was_said_before_oldest_first_and_never_the_episode_itself(
    memory: Memory,
) -> None:
    await memory.hear("one.", "two.")
    await memory.hear("three.")
    asked = heard(memory)
    assert '["Ann(user): one.","Ann(user): two."]' in asked[-1]
    assert "three" not in asked[-1].partition("Earlier")[2]


async def test_of_episodes_of_one_time_the_earlier_given_is_the_history_of_the_later(
    memory: Memory,
) -> None:
    await memory.hear(
        memory.episode("Ann(user): one.", at(1)), memory.episode("Ann(user): two.", at(1))
    )
    asked = heard(memory)
    one, two = sorted(asked, key=lambda text: "Message: Ann(user): two" in text)
    assert "two" not in one
    assert '["Ann(user): one."]' in two


async def test_history_is_of_the_same_source_unless_all_sources_are_wanted(memory: Memory) -> None:
    notes = [memory.episode("Bob owns Rex.", source="text"), "Ann(user): I like Rex."]
    await memory.hear(*notes)
    await memory.hear("Ann(user): I love Rex.", params={"same_source": False})
    asked = heard(memory)
    assert "Bob owns" not in next(text for text in asked if "I like Rex" in text)
    assert "Bob owns" in asked[-1]


async def test_history_has_a_length(memory: Memory) -> None:
    await memory.hear("one.", "two.", "three.", params={"history": 1})
    asked = heard(memory)
    assert any('["Ann(user): two."]' in text and "three" in text for text in asked)


async def test_content_that_is_not_kept_is_read_but_not_stored_and_not_told_again(
    memory: Memory,
) -> None:
    await memory.hear("I work at Luma.", "I live in Rome.", params={"keep_content": False})
    graph = await memory.graph()
    assert {e["content"] for e in graph.episodes} == {""}
    assert graph.names == ["Ann", "Luma", "Rome"]
    assert not any("Luma" in text for text in heard(memory) if "Rome" in text)


async def test_episodes_are_stored_before_the_model_is_asked(remember: Remember) -> None:
    async with StandIn(faults=(Fault("refusal", rate=1.0),)) as model:
        memory = remember(model)
        result = await memory.hear("I work at Luma.")
        graph = await memory.graph()
    assert [e["content"] for e in graph.episodes] == ["Ann(user): I work at Luma."]
    assert (graph.entities, graph.facts, result.committed) == ([], [], 0)
    assert result.failed
    assert result.exit_code == 3


async def test_an_episode_that_failed_is_read_by_the_next_run(remember: Remember) -> None:
    async with StandIn(faults=(Fault("refusal", on=(1,)),)) as model:
        memory = remember(model)
        said = [
            memory.episode("Ann(user): I work at Luma."),
            memory.episode("Ann(user): I live in Rome."),
        ]
        first = await memory.hear(*said)
        second = await memory.hear(*said)
        graph = await memory.graph()
    assert (first.committed, second.committed, second.skipped) == (1, 1, 1)
    assert graph.names == ["Ann", "Luma", "Rome"]


async def test_faults_that_pass_leave_no_trace(remember: Remember) -> None:
    kinds = (
        Fault("429", on=(1, 4)),
        Fault("500", on=(2,)),
        Fault("prose", on=(6,)),
        Fault("drop", on=(8,)),
    )
    async with StandIn(faults=kinds) as model:
        memory = remember(model)
        result = await the_example(memory)
        graph = await memory.graph()
        assert model.counters.attempts > model.counters.calls
    assert not result.failed
    assert (graph.names, len(graph.facts), len(graph.mentions)) == (
        ["Alice Chen", "Project Phoenix", "TechCorp"],
        3,
        6,
    )


async def test_a_run_returns_nodes_edges_repeated_facts_and_mentions(memory: Memory) -> None:
    result = await memory.hear("I work at Luma.", "I work at Luma.", "I work at Acme.")
    tables = {name: table.to_pylist() for name, table in result.tables.items()}
    assert [(n["name"], n["new"]) for n in tables["nodes"]] == [
        ("Ann", True), ("Luma", True), ("Ann", False), ("Luma", False), ("Ann", False), ("Acme", True),
    ]  # fmt: skip
    assert [(e["fact"], e["change"]) for e in tables["edges"]] == [
        ("Ann works at Luma.", "new"), ("Ann works at Acme.", "new"), ("Ann works at Luma.", "ended"),
    ]  # fmt: skip
    assert [r["fact"] for r in tables["repeated"]] == ["Ann works at Luma."]
    assert len(tables["mentions"]) == 6
