"""What a search finds in each scope, by which way, and what its filters, times and groups leave
out.
"""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from semgraph.errors import PlanError
from semgraph.execution.result import Result
from semgraph.frontend.load import load_plan
from tests.examples import examples
from tests.plans.conftest import PLANS, Memory, both_stores, loaded

Row = dict[str, Any]


def day(n: int, month: int = 1) -> datetime:
    return datetime(2025, month, n, tzinfo=UTC)


def entity(uuid: str, name: str, *labels: str, group: str = "g", **more: Any) -> Row:
    given = {
        "uuid": uuid,
        "group_id": group,
        "name": name,
        "summary": f"about {name}",
        "labels": labels,
    }
    return {**given, "created_at": day(1), "attributes": None, **more}


def fact(uuid: str, source: str, target: str, text: str, *, group: str = "g", **more: Any) -> Row:
    given = {
        "uuid": uuid,
        "group_id": group,
        "source": source,
        "target": target,
        "name": "KNOWS",
        "fact": text,
    }
    return {**given, "episodes": ["e1"], "created_at": day(1), "attributes": None, **more}


ENTITIES = [
    entity("ann", "Ann Lee", "Person"), entity("bob", "Bob Ray", "Person", "Singer"), entity("kite", "Project Kite"),
    entity("luma", "Luma", "Company", created_at=day(1, 3)), entity("zoe", "Zoe Lee", "Person", group="h"),
    entity("hub", "Project Hub", group="h"), entity("none", "Lee", group=""),
]  # fmt: skip
FACTS = [
    fact("leads", "ann", "kite", "Ann Lee leads Project Kite", name="LEADS", episodes=["e1", "e2"], valid_at=day(10),
         attributes='{"role":"lead"}'),
    fact("works", "ann", "luma", "Ann Lee works at Luma", name="WORKS_AT", valid_at=day(5), invalid_at=day(20),
         expired_at=day(1, 3), attributes='{"role":"clerk"}'),
    fact("sings", "bob", "kite", "Bob Ray sings for Project Kite", created_at=day(1, 2), valid_at=day(15)),
    fact("owns", "luma", "kite", "Luma owns Project Kite", name="OWNS"),
    fact("zoes", "zoe", "hub", "Zoe Lee leads Project Hub", group="h", name="LEADS"),
]  # fmt: skip
EPISODES = [
    {
        "uuid": f"e{n}",
        "group_id": "g",
        "content": text,
        "source": "message",
        "valid_at": day(n),
        "created_at": day(n),
    }
    for n, text in enumerate(
        ("Ann talks of Project Kite", "Bob talks of the project", "It rains"), 1
    )
]
MENTIONS = [
    {"uuid": f"m{n}", "group_id": "g", "source": source, "target": target}
    for n, (source, target) in enumerate(
        [("e1", "ann"), ("e1", "kite"), ("e2", "kite"), ("e3", "ann"), ("e2", "ann")]
    )
]
COMMUNITIES = [
    {
        "uuid": "c1",
        "group_id": "g",
        "name": "People of Project Kite",
        "summary": "s",
        "created_at": day(1),
    },
    {
        "uuid": "c2",
        "group_id": "h",
        "name": "Project Hub and its people",
        "summary": "s",
        "created_at": day(1),
    },
]


@pytest.fixture
async def graph(memory: Memory) -> Memory:
    tables = {
        "episodes": EPISODES,
        "entities": ENTITIES,
        "facts": FACTS,
        "mentions": MENTIONS,
        "communities": COMMUNITIES,
    }
    await memory.run(memory.here("library.yaml"), **tables)
    memory.model.reset()
    return memory


async def search(
    graph: Memory, query: str = "Project Kite", *, preset: str | None = None, **given: Any
) -> Result:
    """One query; what is no column of it is a parameter."""
    columns = ("group_id", "group_ids", "center", "origins", "vector")
    row = {
        "query": query,
        "group_id": "g",
        **{name: given.pop(name) for name in columns if name in given},
    }
    return await graph.run("search", queries=[row], params=given, preset=preset)


def uuids(result: Result, scope: str = "edges") -> list[str]:
    return [row["uuid"] for row in result.tables[scope].to_pylist()]


def trips_of(result: Result) -> dict[str, int]:
    """Round trips to the store, by scope."""
    scopes = {"episode_hits": "episodes", "grouped": "communities"}
    found = dict.fromkeys(result.tables, 0)
    for step, metrics in result.meter.steps.items():
        if metrics.round_trips:
            found[scopes.get(step, step.split("/")[0])] += metrics.round_trips
    assert sum(found.values()) == result.meter.total().round_trips
    return found


async def edges(graph: Memory, query: str = "Ann Bob Luma Project Kite", **given: Any) -> set[str]:
    return set(uuids(await search(graph, query, nodes=None, **given)))


@both_stores
async def test_every_preset_finds_its_scopes_in_two_round_trips_each(graph: Memory) -> None:
    scopes = {
        "COMBINED": ["edges", "nodes", "episodes", "communities"],
        "EDGE": ["edges"],
        "NODE": ["nodes"],
    }
    best = {"edges": "leads", "nodes": "kite", "episodes": "e1", "communities": "c1"}
    for preset in sorted(loaded("search").document["presets"]):
        result = await search(graph, "Ann Lee leads Project Kite", preset=preset, center="kite")
        expected = scopes.get(preset.split("_")[0], ["communities"])
        first = {name: table.to_pylist()[0] for name, table in result.tables.items()}
        assert result.exit_code == 0, preset
        assert list(first) == expected, preset
        assert [row["rank"] for row in first.values()] == [0] * len(expected), preset
        models = preset.endswith("CROSS_ENCODER")
        if not models and "MENTIONS" not in preset and "EDGE_HYBRID_SEARCH_NODE" not in preset:
            found = {
                name: row["uuid"]
                for name, row in first.items()
                if (name, row["uuid"]) != ("nodes", "ann")
            }
            assert found.items() <= best.items(), preset
        assert max(trips_of(result).values()) <= 2, preset
        assert bool(result.meter.total().calls_issued) == models, preset


async def test_a_walk_is_one_round_trip_for_any_number_of_queries(graph: Memory) -> None:
    """What is found, and in one more what is on the paths: from the origins that are given, or else
    from what is found.
    """
    queries = [{"query": text, "group_id": "g"} for text in ("Ann leads", "Luma", "Bob Ray sings")]
    presets = loaded("search").document["presets"].items()
    walks = [name for name, preset in presets if "breadth_first" in str(preset)]
    assert walks
    for preset, origins in product(walks, (["ann", "e2"], [], None)):
        rows = [query | {"origins": origins} for query in queries]
        result = await graph.run("search", queries=rows, preset=preset)
        trips = trips_of(result)
        assert {trips[scope] for scope in result.tables.keys() & {"edges", "nodes"}} == {2}
        assert max(trips.values()) == 2


async def test_the_nearer_to_the_center_comes_first(graph: Memory) -> None:
    found = await search(
        graph,
        "Project Kite",
        preset="NODE_HYBRID_SEARCH_NODE_DISTANCE",
        center="luma",
        by="fulltext",
    )
    assert [(row["uuid"], row["score"]) for row in found.tables["nodes"].to_pylist()] == [
        ("kite", 1.0)
    ]
    found = await search(
        graph,
        "Lee Ray Project",
        edges="node_distance",
        nodes="node_distance",
        center="ann",
        by="fulltext",
    )
    assert [(row["uuid"], row["score"]) for row in found.tables["nodes"].to_pylist()] == [
        ("ann", 10.0), ("kite", 1.0), ("bob", 0.0)
    ]  # fmt: skip
    scores = {row["uuid"]: row["score"] for row in found.tables["edges"].to_pylist()}
    assert scores == {"leads": 10.0, "works": 10.0, "owns": 1.0, "sings": 0.0}


async def test_a_center_that_is_missing_is_an_error_and_one_that_is_unknown_is_near_to_nothing(
    graph: Memory,
) -> None:
    missing = await search(graph, edges="node_distance", nodes=None)
    assert missing.exit_code == 3
    assert "has no center: give" in str(missing.failed[0].error)
    found = await search(graph, edges="node_distance", nodes=None, center="nobody")
    assert {row["score"] for row in found.tables["edges"].to_pylist()} == {0.0}


async def test_what_more_episodes_speak_of_comes_first(graph: Memory) -> None:
    found = await search(
        graph, "Lee Kite Luma", edges="episode_mentions", nodes="episode_mentions", by="fulltext"
    )
    assert [(row["uuid"], row["score"]) for row in found.tables["nodes"].to_pylist()] == [
        ("ann", 3.0), ("kite", 2.0), ("luma", 0.0)
    ]  # fmt: skip
    first = found.tables["edges"].to_pylist()[0]
    assert (first["uuid"], first["score"]) == ("leads", 2.0)


async def test_breadth_first_walks_from_the_origins_or_from_what_was_found(graph: Memory) -> None:
    walk = {"by": "none", "breadth_first": True}
    one = await search(graph, **walk, origins=["ann"], depth=1)
    assert (set(uuids(one)), set(uuids(one, "nodes"))) == ({"leads", "works"}, {"kite", "luma"})
    two = await search(graph, **walk, origins=["ann"], depth=2)
    assert (set(uuids(two)), set(uuids(two, "nodes"))) == (
        {"leads", "works", "owns"},
        {"kite", "luma"},
    )
    heard = await search(graph, **walk, origins=["e2", "nobody"])
    assert (set(uuids(heard)), set(uuids(heard, "nodes"))) == (
        {"leads", "works", "owns"},
        {"ann", "kite", "luma"},
    )
    assert uuids(await search(graph, **walk, origins=["nobody"])) == []
    words = await search(graph, "works", by="fulltext", breadth_first=True, depth=1)
    assert uuids(words)[0] == "works"
    assert set(uuids(words)) == {"works", "leads"}
    assert uuids(await search(graph, **walk, origins=["zoe"], group_id="g")) == []


FILTERS = {
    "hit.name IN ('LEADS', 'OWNS')": {"leads", "owns"},
    "hit.uuid IN ('works', 'zoes')": {"works"},
    "source.uuid = 'ann'": {"leads", "works"},
    "target.uuid IN ('luma')": {"works"},
    "list_has_any(source.labels, ['Singer', 'Company']) AND len(target.labels) = 0": {
        "owns",
        "sings",
    },
    "(hit.valid_at >= '2025-01-10' AND hit.valid_at < '2025-01-12') OR (hit.valid_at > '2025-01-14')": {
        "leads",
        "sings",
    },
    "hit.valid_at IS NULL": {"owns"},
    "hit.invalid_at IS NOT NULL AND hit.invalid_at <> '2025-01-21' AND hit.expired_at <= '2025-03-01'": {
        "works"
    },
    "hit.created_at > '2025-01-15'": {"sings"},
    "hit.attributes->>'role' = 'lead'": {"leads"},
    "hit.attributes->>'role' <> 'lead' OR hit.attributes->>'rank' IS NOT NULL": {"works"},
    "hit.name = $values[1] OR hit.name = $values[2]": {"owns"},
}


def test_no_way_to_search_is_refused_with_the_parameters_that_are_missing() -> None:
    with pytest.raises(PlanError) as caught:
        load_plan(PLANS / "search_edges.yaml", params={"by": "none"})
    (problem,) = caught.value.problems
    assert 'reads "found" and "walked", which their "if" has pruned' in str(problem)
    assert 'by is "none" and breadth_first is false' in str(problem)


async def test_facts_are_filtered_before_they_are_counted(graph: Memory) -> None:
    values = ["OWNS", "x' OR 'x' = 'x"]
    walk = {"by": "none", "breadth_first": True, "origins": ["ann", "bob"]}
    for expression, expected in FILTERS.items():
        assert await edges(graph, filter=expression, values=values) == expected, expression
        assert await edges(graph, filter=expression, values=values, **walk) == expected, expression
        assert len(await edges(graph, filter=expression, values=values, limit=1)) == 1, expression


async def test_entities_have_a_filter_of_their_own(graph: Memory) -> None:
    found = await search(
        graph, "Lee Ray Luma Project", node_filter="list_has_any(hit.labels, ['Singer', 'Company'])"
    )
    assert set(uuids(found, "nodes")) == {"bob", "luma"}
    walk = {"by": "none", "breadth_first": True, "origins": ["ann"]}
    assert uuids(await search(graph, node_filter="hit.name = 'Luma'", **walk), "nodes") == ["luma"]


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("hit.valid_att IS NULL", 'Did you mean "hit.valid_at"'),
        ("start.name = 'x'", 'no column "start.name"'),
        ("source.labls IS NULL", 'Did you mean "source.labels"'),
        ("hit.name = ", "cannot read the expression"),
        ("hit.name", "expected boolean"),
        ("hit.name = (SELECT 1)", "holds a sub-query"),
    ],
)
def test_a_wrong_filter_is_told_before_anything_runs(expression: str, said: str) -> None:
    with pytest.raises(PlanError) as caught:
        load_plan(PLANS / "search.yaml", params={"filter": expression})
    assert said in str(caught.value)


async def test_as_of_is_what_held_then_as_far_as_it_was_known(graph: Memory) -> None:
    """ "works" held from the 5th to the 20th of January, and its end was learnt in March; "sings"
    was learnt in February.
    """
    everything = {"leads", "works", "sings", "owns"}
    assert await edges(graph) == everything
    assert await edges(graph, as_of="2025-01-12") == {"leads", "works", "owns"}
    assert await edges(graph, as_of=day(12)) == {"leads", "works", "owns"}
    assert await edges(graph, as_of="2025-01-25") == {"leads", "sings", "owns"}
    assert await edges(graph, known_at="2025-01-15") == everything - {"sings"}
    assert await edges(graph, as_of="2025-01-25", known_at="2025-02-15") == everything
    assert await edges(graph, as_of="2025-01-25", known_at="2025-03-02") == {
        "leads",
        "sings",
        "owns",
    }
    assert await edges(graph, as_of="2025-01-01T00:00:00+01:00") == {"owns"}
    then = await search(graph, "works", known_at="2025-02-15", by="fulltext")
    assert [
        row["invalid_at"] for row in then.tables["edges"].to_pylist() if row["uuid"] == "works"
    ] == [None]
    assert "luma" not in uuids(await search(graph, "Luma", known_at="2025-02-15"), "nodes")
    heard = await search(graph, episodes="rrf", as_of="2025-01-01", edges=None, nodes=None)
    assert uuids(heard, "episodes") == ["e1"]


async def connected(graph: Memory, **given: Any) -> Row:
    """The ends, the episodes, the times and the texts of the one fact that is searched for."""
    row = (
        (await search(graph, "works", by="fulltext", nodes=None, **given))
        .tables["edges"]
        .to_pylist()[0]
    )
    names = ("source_uuid", "target_uuid", "episodes", "created_at", "expired_at", "texts")
    return {name: row[name] for name in names}


@both_stores
async def test_a_fact_is_found_with_its_ends_its_episodes_and_its_times(graph: Memory) -> None:
    known = {
        "source_uuid": "ann",
        "target_uuid": "luma",
        "episodes": ["e1"],
        "created_at": day(1),
        "expired_at": day(1, 3),
        "texts": None,
    }
    assert await connected(graph) == known
    assert await connected(graph, known_at="2025-02-15") == {**known, "expired_at": None}
    assert await connected(graph, texts=True) == {**known, "texts": ["Ann talks of Project Kite"]}


@both_stores
async def test_texts_are_those_of_the_group_in_the_order_of_the_episodes(graph: Memory) -> None:
    theirs = {"uuid": "x1", "group_id": "h", "content": "A secret.", "valid_at": day(1)}
    await graph.run("save_nodes", episodes=[theirs])
    of_both = [
        row | {"episodes": ["e3", "x1", "gone", "e1"]} for row in FACTS if row["uuid"] == "works"
    ]
    await graph.run("save_edges", facts=of_both)
    texts = ["It rains", "Ann talks of Project Kite"]
    assert (await connected(graph, texts=True))["texts"] == texts
    assert (await connected(graph, texts=True, known_at="2025-01-02"))["texts"] == texts[1:]
    plain = await search(graph)
    cited = await search(graph, texts=True)
    assert trips_of(cited) == {**trips_of(plain), "edges": trips_of(plain)["edges"] + 1}


async def test_a_query_is_words_whatever_else_stands_in_it(graph: Memory) -> None:
    for text in (
        '"AND (OR',
        "name:Kite*~2^3",
        "\\+-!{}[]Kite/",
        "NOT",
        "kite?",
        "'; DROP",
        "Ünï Kite 🪁",
    ):
        found = await search(graph, text, by="fulltext", episodes=True, communities=True)
        assert found.exit_code == 0, text
        assert ("kite" in uuids(found, "nodes")) == ("kite" in text.lower()), text


async def test_many_queries_find_what_each_finds_alone_in_as_many_round_trips(
    graph: Memory,
) -> None:
    rows: list[Row] = [
        {"id": "1", "query": "Project Kite", "group_id": "g", "center": "ann", "origins": ["ann"]},
        {"id": "2", "query": "Lee leads", "group_ids": ["g", "h"], "center": "zoe"},
        {"id": "3", "query": "Project Hub", "center": "hub", "origins": []},
        {"id": "4", "query": "  ", "center": "hub"},
        {"id": "5", "query": "Lee", "group_ids": [""], "center": "none"},
        {"id": "6", "query": "Project Kite", "group_id": "g", "center": "luma"},
    ]
    scopes = {
        "edges": "node_distance",
        "nodes": "mmr",
        "episodes": "rrf",
        "communities": "mmr",
        "similar": 0.2,
    }
    together = await graph.run("search", queries=rows, params=scopes)
    assert together.meter.total().round_trips <= 6
    for scope, table in together.tables.items():
        alone: list[Row] = []
        for row in rows:
            one = await graph.run("search", queries=[row], params=scopes)
            alone += one.tables[scope].to_pylist()
        assert table.to_pylist() == alone
    assert {row["id"] for row in together.tables["nodes"].to_pylist()} == {"1", "2", "3", "5", "6"}


async def test_a_vector_that_is_given_is_not_made(graph: Memory) -> None:
    asked = Path(__file__).with_name("embedded.yaml")
    made = (
        (await graph.session.arun(asked, texts=[{"text": "Ann Lee leads Project Kite"}]))
        .tables["made"]
        .to_pylist()
    )
    graph.model.reset()
    found = await search(
        graph, "something else", by="nearest", nodes=None, vector=made[0]["vector"], similar=0.9
    )
    assert uuids(found) == ["leads"]
    assert graph.model.counters.embedding_texts == 0


async def test_a_rule_that_a_scope_does_not_have_is_told(graph: Memory) -> None:
    for scope, rule in (("episodes", "mmr"), ("communities", "node_distance")):
        result = await search(graph, **{scope: rule})
        assert result.exit_code == 3
        assert f"{scope} are ranked by" in str(result.failed[0].error)


@pytest.mark.parametrize("time", ["yesterday", 2025])
def test_a_time_that_is_none_is_told_before_anything_runs(time: object) -> None:
    with pytest.raises(PlanError, match=f"CAST.*{time}.* AS TIMESTAMPTZ"):
        load_plan(PLANS / "search.yaml", params={"as_of": time})


def test_an_unknown_rule_is_told() -> None:
    with pytest.raises(PlanError, match='switch has no form for "rff". .* Did you mean "rrf"'):
        load_plan(PLANS / "search.yaml", params={"edges": "rff"})


GROUPS = ["g", "h", "", "nobody"]


@settings(
    max_examples=examples(6, 12),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    wanted=st.one_of(st.none(), st.lists(st.sampled_from(GROUPS), max_size=3)),
    edges=st.sampled_from(["rrf", "mmr", "node_distance", "episode_mentions"]),
    by=st.sampled_from(["hybrid", "fulltext", "nearest", "none"]),
    origins=st.one_of(st.none(), st.lists(st.sampled_from(["ann", "zoe", "e1"]), max_size=2)),
)
async def test_nothing_of_another_group_is_found(
    graph: Memory, wanted: list[str] | None, edges: str, by: str, origins: list[str] | None
) -> None:
    query = {"query": "Lee Project leads", "group_ids": wanted, "origins": origins, "center": "ann"}
    params = {
        "edges": edges,
        "nodes": edges,
        "episodes": "rrf",
        "communities": "rrf",
        "by": by,
        "similar": 0.0,
    }
    result = await graph.run(
        "search",
        queries=[query],
        params={**params, "breadth_first": by == "none" or origins is not None},
    )
    seen = {row["group_id"] for table in result.tables.values() for row in table.to_pylist()}
    assert seen <= set(wanted or GROUPS)
    if by in {"hybrid", "fulltext"}:
        assert seen == set(wanted or GROUPS) - {"nobody"}
