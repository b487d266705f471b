"""One database, two programs: semgraph and graphiti-core 0.31.2, on a real Neo4j, asking one model.
What either writes the other reads, searches, extends and cleans.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import neo4j
import pytest

from benchmarks.world import StandIn
from semgraph.stores.neo4j.store import Neo4jStore
from tests.conftest import without_schema
from tests.plans.conftest import Memory, at

os.environ["GRAPHITI_TELEMETRY_ENABLED"] = "false"
with warnings.catch_warnings():  # they are not ours to mend
    warnings.simplefilter("ignore")
    from graphiti_core import Graphiti
    from graphiti_core.cross_encoder.openai_reranker_client import OpenAIRerankerClient
    from graphiti_core.edges import EntityEdge, EpisodicEdge
    from graphiti_core.embedder.openai import OpenAIEmbedder, OpenAIEmbedderConfig
    from graphiti_core.llm_client.config import LLMConfig
    from graphiti_core.llm_client.openai_generic_client import OpenAIGenericClient
    from graphiti_core.nodes import CommunityNode, EntityNode, EpisodeType, EpisodicNode
    from graphiti_core.utils.bulk_utils import RawEpisode
    from graphiti_core.utils.maintenance.graph_data_operations import clear_data

pytestmark = pytest.mark.filterwarnings("default")
Run = Callable[..., list[dict[str, Any]]]
TURNS = [
    "Alice Chen(user): I work at TechCorp as a senior software engineer.",
    "Alice Chen(user): I am leading Project Phoenix, a major cloud migration.",
    "Alice Chen(user): The project deadline is February 15th.",
]
LATER = "Alice Chen(user): I have moved to Lisbon. Bob Fox works at TechCorp."
SHOW = """
SHOW INDEXES YIELD name, type, labelsOrTypes, properties
WHERE type <> 'LOOKUP' AND NOT labelsOrTypes[0] STARTS WITH '_Semgraph' RETURN * ORDER BY name
"""


@pytest.fixture
def cypher(neo4j_database: Any) -> Iterator[Run]:
    """Plain Cypher over a database without rows, indexes or constraints."""
    auth = (neo4j_database.user, neo4j_database.password)
    with neo4j.GraphDatabase.driver(neo4j_database.uri, auth=auth) as driver:

        def run(text: str, **values: Any) -> list[dict[str, Any]]:
            return [dict(record) for record in driver.execute_query(text, values).records]

        without_schema(driver)
        yield run
        without_schema(driver)


@pytest.fixture
async def model(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[StandIn]:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    async with StandIn() as server:
        yield server


@pytest.fixture
async def graphiti(cypher: Run, model: StandIn, neo4j_database: Any) -> AsyncIterator[Graphiti]:
    """graphiti-core as its users make it."""
    config = LLMConfig(
        api_key="none", model="gpt-4.1-mini", small_model="gpt-4.1-mini", base_url=model.base_url
    )
    vectors = OpenAIEmbedderConfig(
        api_key="none", base_url=model.base_url, embedding_model="stand-in", embedding_dim=256
    )
    made = Graphiti(
        neo4j_database.uri, neo4j_database.user, neo4j_database.password,
        llm_client=OpenAIGenericClient(config=config), embedder=OpenAIEmbedder(config=vectors),
        cross_encoder=OpenAIRerankerClient(config=config),
    )  # fmt: skip
    yield made
    await made.close()
    for part in (
        made.llm_client,
        made.embedder,
        made.cross_encoder,
    ):  # it leaves its connections open
        await part.client.close()


@pytest.fixture
async def memory(
    cypher: Run, model: StandIn, neo4j_database: Any, tmp_path: Path
) -> AsyncIterator[Memory]:
    """semgraph's plans over the same database."""
    store = Neo4jStore(neo4j_database.uri, neo4j_database.user, neo4j_database.password)
    made = Memory(store, model, tmp_path)
    yield made
    await made.session.aclose()
    await store.aclose()


async def tell(graphiti: Graphiti, text: str, minute: int, group: str = "g") -> Any:
    """Add an episode by graphiti-core."""
    return await graphiti.add_episode(
        name=f"turn {minute}", episode_body=text, source_description="chat", reference_time=at(minute),
        source=EpisodeType.message, group_id=group,
    )  # fmt: skip


@pytest.fixture
async def theirs(graphiti: Graphiti) -> Graphiti:
    """The three turns, told to graphiti-core."""
    await graphiti.build_indices_and_constraints()
    for minute, text in enumerate(TURNS):
        await tell(graphiti, text, minute)
    return graphiti


@pytest.fixture
async def ours(memory: Memory) -> Memory:
    """The three turns, told to semgraph."""
    await memory.hear(*(memory.episode(text, at(minute)) for minute, text in enumerate(TURNS)))
    return memory


async def seen_by_graphiti(
    graphiti: Graphiti, group: str = "g"
) -> tuple[list[Any], list[Any], list[Any], list[Any]]:
    """Episodes, entities, facts and mentions, as graphiti-core reads them."""
    driver = graphiti.driver
    return (
        await EpisodicNode.get_by_group_ids(driver, [group]),
        await EntityNode.get_by_group_ids(driver, [group]),
        await EntityEdge.get_by_group_ids(driver, [group]),
        await EpisodicEdge.get_by_group_ids(driver, [group]),
    )


def utc(value: Any) -> datetime | None:
    return value.astimezone(at(0).tzinfo) if value is not None else None


async def assert_alike(graphiti: Graphiti, memory: Memory) -> None:
    """Both programs see the same rows with the same values."""
    episodes, entities, facts, mentions = await seen_by_graphiti(graphiti)
    graph = await memory.graph()
    assert {
        e.uuid: (e.name, e.content, e.source.value, utc(e.valid_at), sorted(e.entity_edges))
        for e in episodes
    } == {
        e["uuid"]: (e["name"], e["content"], e["source"], e["valid_at"], sorted(e["entity_edges"]))
        for e in graph.episodes
    }
    assert {
        e.uuid: (e.name, e.group_id, e.summary, sorted({*e.labels} - {"Entity"})) for e in entities
    } == {e["uuid"]: (e["name"], e["group_id"], e["summary"], e["labels"]) for e in graph.entities}
    assert {
        f.uuid: (
            f.source_node_uuid,
            f.target_node_uuid,
            f.name,
            f.fact,
            sorted(f.episodes),
            utc(f.valid_at),
            utc(f.invalid_at),
        )
        for f in facts
    } == {
        f["uuid"]: (
            f["source"],
            f["target"],
            f["name"],
            f["fact"],
            sorted(f["episodes"]),
            f["valid_at"],
            f["invalid_at"],
        )
        for f in graph.facts
    }
    assert {(m.source_node_uuid, m.target_node_uuid) for m in mentions} == {
        (m["source"], m["target"]) for m in graph.mentions
    }


async def found_by_semgraph(memory: Memory, query: str) -> list[str]:
    """Facts, best first."""
    result = await memory.run("search", queries=[{"id": "q", "query": query, "group_ids": ["g"]}])
    return [row["fact"] for row in next(iter(result.tables.values())).to_pylist()]


def said_in_the_docs() -> str:
    """The notes of a run, as docs/graphiti.md shows them."""
    page = (Path(__file__).parents[2] / "docs" / "graphiti.md").read_text(encoding="utf-8")
    return " ".join(page.split("```")[1].split())


# -- what graphiti-core wrote
# --------------------------------------------------------------------------------------


async def test_what_graphiti_wrote_is_read(theirs: Graphiti, memory: Memory) -> None:
    await assert_alike(theirs, memory)
    graph = await memory.graph()
    assert graph.names == ["Alice Chen", "Project Phoenix", "TechCorp"]
    assert len(graph.episodes) == 3


async def test_what_graphiti_wrote_is_searched(theirs: Graphiti, memory: Memory) -> None:
    for query in ("Where does Alice Chen work?", "project deadline", "TechCorp"):
        by_graphiti = [edge.fact for edge in await theirs.search(query, group_ids=["g"])]
        by_semgraph = await found_by_semgraph(memory, query)
        assert by_semgraph
        assert {*by_semgraph} <= {*by_graphiti}, "0.6 is raw cosine here, and raw 0.2 there"


async def test_what_graphiti_wrote_is_extended(
    theirs: Graphiti, memory: Memory, cypher: Run
) -> None:
    before, indexes = await memory.graph(), cypher(SHOW)
    result = await memory.hear(memory.episode(LATER, at(10)))
    assert " ".join(result.notes) == said_in_the_docs()
    graph = await memory.graph()
    assert graph.names == ["Alice Chen", "Bob Fox", "Lisbon", "Project Phoenix", "TechCorp"]
    for name in before.names:
        assert graph.entity(name)["uuid"] == before.entity(name)["uuid"]
    assert graph.mentioned("TechCorp") == before.mentioned("TechCorp") + 1
    assert {f["uuid"] for f in before.facts} < {f["uuid"] for f in graph.facts}
    assert cypher(SHOW) == indexes
    await assert_alike(theirs, memory)


async def test_the_model_is_asked_no_more_than_on_a_database_of_semgraphs_own(
    theirs: Graphiti, memory: Memory, model: StandIn
) -> None:
    """Names that only memory has keys for resolve as names that are stored with them."""
    model.reset()
    await memory.hear(memory.episode(LATER, at(10)))
    asked = dict(model.calls)
    await memory.run("clear_data", groups=[{"group_id": "g"}])
    await memory.hear(*(memory.episode(text, at(minute)) for minute, text in enumerate(TURNS)))
    model.reset()
    await memory.hear(memory.episode(LATER, at(10)))
    assert asked == dict(model.calls)


async def test_what_is_missing_is_made_when_asked(
    theirs: Graphiti, memory: Memory, cypher: Run
) -> None:
    before = cypher(SHOW)
    result = await memory.run("build_indices_and_constraints")
    assert "filled: name_key of 3 Entity" in result.notes
    assert sum("not made, as the index" in note for note in result.notes) == 9
    assert [index for index in cypher(SHOW) if index in before] == before
    assert cypher("MATCH (n:Entity) RETURN n.name_key AS key ORDER BY key") == [
        {"key": "alice chen"}, {"key": "project phoenix"}, {"key": "techcorp"},
    ]  # fmt: skip
    await tell(theirs, LATER, 10)
    later = await memory.hear(memory.episode("Bob Fox(user): I live in Porto.", at(11)))
    assert (
        "2 Entity have no name_key: it is computed from name in memory, for this run" in later.notes
    )
    await assert_alike(theirs, memory)


async def test_what_graphiti_wrote_is_cleaned(
    theirs: Graphiti, memory: Memory, cypher: Run
) -> None:
    await tell(theirs, LATER, 10, group="h")
    indexes = cypher(SHOW)
    await memory.run("clear_data", groups=[{"group_id": "g"}])
    groups = cypher("MATCH (n) WHERE n.group_id IS NOT NULL RETURN DISTINCT n.group_id AS g")
    assert groups == [{"g": "h"}]
    assert [index for index in cypher(SHOW) if index in indexes] == indexes


async def test_an_episode_that_graphiti_wrote_is_removed(theirs: Graphiti, memory: Memory) -> None:
    first = next(
        episode for episode in (await memory.graph()).episodes if episode["content"] == TURNS[0]
    )
    await memory.run("remove_episode", episodes=[{"uuid": first["uuid"]}])
    graph = await memory.graph()
    assert graph.names == ["Alice Chen", "Project Phoenix"]
    assert len(graph.episodes) == 2
    assert not any("TechCorp" in fact["fact"] for fact in graph.facts)
    await assert_alike(theirs, memory)


async def test_communities_of_what_graphiti_wrote_are_read_by_it(
    theirs: Graphiti, memory: Memory
) -> None:
    await memory.run("build_communities", groups=[{"group_id": "g"}])
    communities = await CommunityNode.get_by_group_ids(theirs.driver, ["g"])
    around = await memory.around()
    assert {(c.uuid, c.name, c.summary) for c in communities} == {
        (c["uuid"], c["name"], c["summary"]) for c in around["communities"]
    }
    assert len(around["members"]) == 3


async def test_what_graphiti_reads_at_once_is_the_same_graph(
    graphiti: Graphiti, memory: Memory
) -> None:
    await graphiti.build_indices_and_constraints()
    raw = [
        RawEpisode(
            name=f"turn {i}",
            content=text,
            source_description="",
            source=EpisodeType.message,
            reference_time=at(i),
        )
        for i, text in enumerate(TURNS)
    ]
    await graphiti.add_episode_bulk(raw, group_id="g")
    assert (await memory.graph()).names == ["Alice Chen", "Project Phoenix", "TechCorp"]
    await assert_alike(graphiti, memory)


# -- what semgraph wrote
# -------------------------------------------------------------------------------------------


async def test_graphiti_sets_up_its_indexes_beside_ours(
    ours: Memory, graphiti: Graphiti, cypher: Run
) -> None:
    before = cypher(SHOW)
    await graphiti.build_indices_and_constraints()
    after = cypher(SHOW)
    assert [index for index in after if index in before] == before
    result = await ours.run("build_indices_and_constraints")
    assert result.notes == ("the store lacks nothing that the graph needs",)


async def test_what_semgraph_wrote_is_read_by_graphiti(ours: Memory, graphiti: Graphiti) -> None:
    await assert_alike(graphiti, ours)
    episodes = await graphiti.retrieve_episodes(at(60), last_n=3, group_ids=["g"])
    assert [episode.content for episode in episodes] == TURNS
    found = await graphiti.get_nodes_and_edges_by_episode([episodes[1].uuid])
    assert {node.name for node in found.nodes} == {"Alice Chen", "Project Phoenix"}
    assert all(edge.source_node_uuid and edge.fact for edge in found.edges)


async def test_what_semgraph_wrote_is_searched_by_graphiti(
    ours: Memory, graphiti: Graphiti
) -> None:
    edges = await graphiti.search("Where does Alice Chen work?", group_ids=["g"])
    assert any("TechCorp" in edge.fact for edge in edges)
    centre = next(n for n in (await seen_by_graphiti(graphiti))[1] if n.name == "Project Phoenix")
    near = await graphiti.search("deadline", center_node_uuid=centre.uuid, group_ids=["g"])
    assert any("deadline" in edge.fact for edge in near)


async def test_what_semgraph_wrote_is_extended_by_graphiti(
    ours: Memory, graphiti: Graphiti
) -> None:
    before = await ours.graph()
    await tell(graphiti, LATER, 10)
    graph = await ours.graph()
    assert graph.names == ["Alice Chen", "Bob Fox", "Lisbon", "Project Phoenix", "TechCorp"]
    for name in before.names:
        assert graph.entity(name)["uuid"] == before.entity(name)["uuid"]
    await assert_alike(graphiti, ours)


async def test_both_take_turns(memory: Memory, graphiti: Graphiti) -> None:
    await graphiti.build_indices_and_constraints()
    await memory.hear(memory.episode(TURNS[0], at(0)))
    await tell(graphiti, TURNS[1], 1)
    await memory.hear(memory.episode(TURNS[2], at(2)))
    await tell(graphiti, LATER, 3)
    graph = await memory.graph()
    assert graph.names == ["Alice Chen", "Bob Fox", "Lisbon", "Project Phoenix", "TechCorp"]
    assert len(graph.episodes) == 4
    assert graph.mentioned("Alice Chen") == 4
    await assert_alike(graphiti, memory)


async def test_what_semgraph_wrote_is_cleaned_by_graphiti(ours: Memory, graphiti: Graphiti) -> None:
    episodes, *_ = await seen_by_graphiti(graphiti)
    first = next(episode for episode in episodes if episode.content == TURNS[0])
    await graphiti.remove_episode(first.uuid)
    graph = await ours.graph()
    assert graph.names == ["Alice Chen", "Project Phoenix"]
    assert len(graph.episodes) == 2
    await assert_alike(graphiti, ours)
    await clear_data(graphiti.driver, group_ids=["g"])
    again = await ours.hear(ours.episode(TURNS[0], at(0)))
    assert (again.skipped, again.committed) == (0, 1), "a mark does not outlive its episode"
