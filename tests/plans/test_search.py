"""Searching what is remembered."""

from __future__ import annotations

from typing import Any

import pytest

from tests.plans.conftest import Memory, both_stores


async def found(
    memory: Memory, params: dict[str, Any] | None = None, **query: Any
) -> tuple[list[Any], list[Any]]:
    result = await memory.run("search", queries=[query], params=params)
    return result.tables["edges"].to_pylist(), result.tables["nodes"].to_pylist()


@pytest.fixture
async def told(memory: Memory) -> Memory:
    await memory.hear("I lead Project Kite.", "I work at Luma.", "I work at Acme.")
    await memory.hear(memory.episode("Bob(user): I lead Project Kestrel.", group="h"))
    memory.model.reset()
    return memory


async def test_the_best_fact_is_first_with_the_names_of_its_ends(told: Memory) -> None:
    edges, _ = await found(told, query="Who leads Project Kite?", group_id="g")
    first = edges[0]
    assert (first["source"], first["name"], first["target"]) == ("Ann", "LEADS", "Project Kite")
    assert first["fact"] == "Ann leads Project Kite."
    assert (first["rank"], first["query"]) == (0, "Who leads Project Kite?")
    assert [e["score"] for e in edges] == sorted((e["score"] for e in edges), reverse=True)


async def test_entities_are_found_by_name_and_by_what_is_known_of_them(told: Memory) -> None:
    _, nodes = await found(told, query="Project Kite", group_id="g")
    assert nodes[0]["name"] == "Project Kite"
    assert "Ann leads Project Kite." in nodes[0]["summary"]
    assert {n["name"] for n in nodes} >= {"Project Kite", "Ann"}


async def test_what_has_ended_is_found_with_its_end(told: Memory) -> None:
    edges, _ = await found(told, query="Ann works at Luma", group_id="g")
    luma = next(e for e in edges if e["target"] == "Luma")
    acme = next(e for e in edges if e["target"] == "Acme")
    assert luma["invalid_at"] == acme["valid_at"]
    assert acme["invalid_at"] is None


GROUPS: list[tuple[dict[str, Any], set[str]]] = [
    ({"group_id": "g"}, {"g"}), ({"group_ids": ["h"]}, {"h"}), ({"group_ids": ["g", "h"]}, {"g", "h"}), ({}, {"g", "h"}),
    ({"group_ids": []}, {"g", "h"}), ({"group_ids": [""]}, set()), ({"group_id": "nobody"}, set()),
]  # fmt: skip


@both_stores
async def test_a_query_sees_the_groups_that_it_names_and_without_any_all(told: Memory) -> None:
    for query, groups in GROUPS:
        edges, nodes = await found(told, query="Who leads the Project?", **query)
        assert {e["group_id"] for e in edges} == groups, query
        assert {n["group_id"] for n in nodes} == groups, query


async def test_a_parameter_selects_the_search_methods(told: Memory) -> None:
    for by, embedded in (("fulltext", 0), ("nearest", 1), ("hybrid", 1)):
        told.model.reset()
        edges, _ = await found(
            told, {"by": by, "similar": 0.3}, query="Ann leads Project Kite", group_id="g"
        )
        assert edges[0]["fact"] == "Ann leads Project Kite.", by
        assert told.model.counters.embedding_texts == embedded, by


async def test_nothing_is_near_that_is_not_similar(told: Memory) -> None:
    edges, nodes = await found(told, {"by": "nearest"}, query="zebra crossing", group_id="g")
    assert (edges, nodes) == ([], [])


async def test_a_query_without_words_finds_nothing_and_asks_nothing(told: Memory) -> None:
    assert await found(told, query="  ") == ([], [])
    assert told.model.counters.embedding_texts == 0


async def test_the_number_of_results_has_a_limit(told: Memory) -> None:
    edges, nodes = await found(told, {"limit": 1}, query="Ann Project Luma", group_id="g")
    assert (len(edges), len(nodes)) == (1, 1)


async def test_many_queries_make_as_many_round_trips_as_one(told: Memory) -> None:
    one = await told.run("search", queries=[{"query": "Luma", "group_id": "g"}])
    many = await told.run(
        "search", queries=[{"query": q, "group_id": "g"} for q in ("Luma", "Kite", "Acme", "Ann")]
    )
    assert many.meter.total().round_trips == one.meter.total().round_trips <= 3


async def test_the_example_finds_who_leads_project_phoenix(memory: Memory) -> None:
    result = await memory.run("search")
    assert "Alice Chen" in {e["source"] for e in result.tables["edges"].to_pylist()}
