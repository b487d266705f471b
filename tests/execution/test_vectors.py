"""Plans that work with vectors: `embed`, stored vectors in hits, vectors in place of texts; and
whose rows a search sees.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

import semgraph
from benchmarks.world import StandIn
from semgraph.errors import PlanError, SemgraphError
from semgraph.execution.result import Result
from semgraph.frontend.load import dump, load_plan
from semgraph.stores.base import Store

GRAPH = """
graph: library
nodes:
  Book:
    properties: {title: string, year: int64}
    derived: {title_embedding: {embed: title}}
    fulltext: {books: [title]}
  Shelf: {properties: {name: string}}
edges:
  ON: {source: Book, target: Shelf, properties: {note: string}, fulltext: {notes: [note]}}
"""
FILL = """
plan: fill
graph: graph.yaml
inputs:
  books: {uuid: string, group_id: string, title: string, year: int64}
  shelves: {uuid: string, group_id: string, name: string}
  places: {uuid: string, group_id: string, source: string, target: string, note: string}
writes: [{merge: {from: books, node: Book}}, {merge: {from: shelves, node: Shelf}}, {merge: {from: places, edge: ON}}]
"""
BOOKS = [
    {"uuid": "b1", "group_id": "g", "title": "the red fox", "year": 1990},
    {"uuid": "b2", "group_id": "g", "title": "the red fox hunts", "year": 2000},
    {"uuid": "b3", "group_id": "h", "title": "the red fox sleeps", "year": 2010},
]
SHELVES = [
    {"uuid": f"s{n}", "group_id": "g", "name": name} for n, name in enumerate(("low", "high"))
]
PLACES = [
    {
        "uuid": f"p{n}",
        "group_id": "g",
        "source": "b1",
        "target": f"s{n}",
        "note": "put there in May",
    }
    for n in range(2)
]


@pytest.fixture
async def model() -> AsyncIterator[StandIn]:
    async with StandIn() as server:
        yield server


@pytest.fixture(params=["memory", "neo4j"])
def store(request: pytest.FixtureRequest) -> Iterator[str | Store]:
    """Each kind of store in turn, empty."""
    if request.param == "memory":
        yield "memory"
        return
    from semgraph.stores.neo4j.store import Neo4jStore

    server = request.getfixturevalue("neo4j_database")
    yield Neo4jStore(server.uri, server.user, server.password)


class Library:
    """A session over a graph of books."""

    def __init__(self, session: semgraph.Session, model: StandIn, folder: Path) -> None:
        self.session, self.model, self.folder = session, model, folder

    async def run(self, steps: str, head: str = "", **inputs: Any) -> Result:
        """Run a plan of some steps, the last of which is `found`."""
        asked = "asked: {text: string, group_id: string null, groups: list<string> null, vector: vector null}"
        text = f"plan: p\ngraph: graph.yaml\ninputs: {{{asked}}}\n{head}\nsteps:\n{steps}\nreturns: [found]\n"
        (self.folder / "p.yaml").write_text(text)
        return await self.session.arun(self.folder / "p.yaml", **inputs)

    async def rows(self, steps: str, head: str = "", **inputs: Any) -> list[dict[str, Any]]:
        """Its rows."""
        result = await self.run(steps, head, **inputs)
        found: list[dict[str, Any]] = result.tables["found"].to_pylist()
        return found


@pytest.fixture
async def library(
    store: str | Store, model: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Library]:
    """Three books on two shelves."""
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    (tmp_path / "graph.yaml").write_text(GRAPH)
    (tmp_path / "fill.yaml").write_text(FILL)
    session = semgraph.Session(
        llm=f"openai:gpt-4.1-mini@{model.base_url}", embedder=f"openai:stand-in@{model.base_url}?dimensions=256",
        store=store, journal=False, runs="", folder=tmp_path,
    )  # fmt: skip
    async with session:
        await session.arun(tmp_path / "fill.yaml", books=BOOKS, shelves=SHELVES, places=PLACES)
        model.reset()
        yield Library(session, model, tmp_path)
    if not isinstance(store, str):
        await store.aclose()


ASKED = [{"text": "red fox", "group_id": "g"}]
EMBED = "  found: [{from: asked}, {embed: {made: text}}]"
NEAR = "nearest: title, above: 0.1"


async def test_a_text_is_embedded_once_a_run_and_counted(library: Library) -> None:
    steps = f"""
  made: [{{from: asked}}, {{embed: {{made: text, again: text}}}}]
  found: [{{from: made}}, {{search: {{over: Book, alias: hit, k: 1, methods: {{{NEAR}, to: text}}}}}}]
"""
    rows = [{"text": t, "group_id": "g"} for t in ("red fox", "red fox", "blue hen")]
    result = await library.run(steps, asked=rows)
    assert library.model.counters.embedding_texts == 2
    step = result.meter.step("made")
    assert (step.operator, step.embeddings, step.rows_in) == ("embed", 1, 3)
    found = result.tables["found"].to_pylist()
    assert found[0]["made"] == found[0]["again"]
    assert len(found[0]["made"]) == 256


async def test_null_is_not_embedded_nor_what_nobody_reads(library: Library) -> None:
    steps = "  found: [{from: asked}, {embed: {made: \"CASE WHEN text <> 'a' THEN text END\", idle: text}}, {project: {made}}]"
    [row] = await library.rows(steps, asked=[{"text": "a"}])
    assert row == {"made": None}
    assert library.model.counters.embedding_texts == 0


async def test_what_a_later_condition_leaves_out_is_not_embedded(library: Library) -> None:
    steps = "  found: [{from: asked}, {embed: {made: text}}, {filter: text <> 'red fox'}]"
    found = await library.rows(steps, asked=[{"text": "red fox"}, {"text": "blue hen"}])
    assert [row["text"] for row in found] == ["blue hen"]
    assert library.model.counters.embedding_texts == 1


async def test_a_vector_stands_for_a_text(library: Library) -> None:
    [made] = await library.rows(EMBED, asked=ASKED)
    by_text = f"  found: [{{from: asked}}, {{search: {{over: Book, alias: hit, k: 9, methods: {{{NEAR}, to: text}}}}}}]"
    first = await library.rows(by_text, asked=ASKED)
    library.model.reset()
    given = [
        {**ASKED[0], "vector": made["made"]},
        {"text": "none", "group_id": "g", "vector": None},
    ]
    second = await library.rows(by_text.replace("to: text", "to: vector"), asked=given)
    assert library.model.counters.embedding_texts == 0
    assert [row["hit"] for row in second] == [row["hit"] for row in first]
    assert {row["text"] for row in second} == {"red fox"}


async def test_a_vector_of_another_length_is_refused(library: Library) -> None:
    near = f"  found: [{{from: asked}}, {{search: {{over: Book, alias: hit, k: 9, methods: {{{NEAR}, to: vector}}}}}}]"
    with pytest.raises(SemgraphError, match="256-dimensional vectors"):
        await library.rows(near, asked=[{**ASKED[0], "vector": [1.0, 0.0]}])
    mixed = [{**ASKED[0], "vector": [1.0] * n} for n in (2, 3)]
    with pytest.raises(SemgraphError, match="vectors of 2 and of 3 numbers"):
        await library.rows(near, asked=mixed)


async def test_hits_bring_stored_vectors_and_those_of_a_step(library: Library) -> None:
    steps = f"""
  new: [{{from: asked}}, {{project: {{uuid: "'n'", group_id, title: "'the red fox barks'", year: 1}}}}]
  found:
    - from: asked
    - search: {{over: [Book, new], alias: hit, k: 9, vectors: title_embedding, methods: {{{NEAR}, to: text}}}}
    - add: {{key: hit.uuid}}
    - match: {{pattern: "(b:Book {{uuid: key}})", vectors: title_embedding, how: left}}
"""
    found = await library.rows(steps, asked=ASKED)
    vectors = {row["key"]: row["hit"]["title_embedding"] for row in found}
    assert {uuid: len(vector) for uuid, vector in vectors.items()} == {
        "n": 256,
        "b1": 256,
        "b2": 256,
    }
    stored = {row["key"]: row["b"]["title_embedding"] for row in found if row["b"]}
    assert stored == {uuid: vectors[uuid] for uuid in ("b1", "b2")}


async def test_a_row_that_names_no_partition_sees_all_where_the_plan_says_so(
    library: Library,
) -> None:
    words = "{fulltext: title, to: text}"
    search = f"  found: [{{from: asked}}, {{search: {{over: Book, alias: hit, k: 9, methods: {words}, partition: [groups, all]}}}}]"
    asked = [{"text": "fox", "groups": groups} for groups in (["h"], None, [], ["g", "h"], None)]
    result = await library.run(search, asked=asked)
    assert result.meter.total().round_trips == 1
    hits = [row["hit"]["uuid"] for row in result.tables["found"].to_pylist()]
    alone = [[r["hit"]["uuid"] for r in await library.rows(search, asked=[row])] for row in asked]
    assert [sorted(found) for found in alone] == [
        ["b3"],
        ["b1", "b2", "b3"],
        [],
        ["b1", "b2", "b3"],
        ["b1", "b2", "b3"],
    ]
    assert hits == [uuid for found in alone for uuid in found]
    ordered = search.replace(f"methods: {words}", "order: hit.year desc")
    assert [r["hit"]["uuid"] for r in await library.rows(ordered, asked=asked[:2])] == [
        "b3",
        "b3",
        "b2",
        "b1",
    ]


async def test_the_ends_of_an_edge_come_along_and_can_be_asked_about(library: Library) -> None:
    search = "search: {over: ON, alias: hit, source: book, target: shelf, k: 1, methods: {fulltext: note, to: text}, where: WHERE}"
    steps = f"  found: [{{from: asked}}, {{{search}}}, {{project: {{t: book.title, s: shelf.name, n: hit.note}}}}]"
    for where in ("shelf.name = 'high'", '"length(shelf.name) = 4 AND book.year < 1995"'):
        found = await library.rows(
            steps.replace("WHERE", where), asked=[{"text": "May", "group_id": "g"}]
        )
        assert found == [{"t": "the red fox", "s": "high", "n": "put there in May"}]
    left = steps.replace("WHERE", "shelf.name = 'none', how: left")
    assert await library.rows(left, asked=[{"text": "May", "group_id": "g"}]) == [
        {"t": None, "s": None, "n": None}
    ]


async def test_parameters_choose_methods_steps_and_numbers(library: Library) -> None:
    head = "params: {by: words, more: false, n: 2, since: null}"
    steps = """
  old: {if: $more, do: [{from: asked}, {add: {title: text}}, {project: {title}}]}
  new:
    - from: asked
    - search:
        over: Book
        alias: hit
        k: $n - 1
        methods: [{fulltext: title, to: text, if: {$by: words}}, {nearest: title, to: text, if: {$by: meaning}}]
        where: ["hit.year > 1000", $since IS NULL OR hit.year > $since]
    - project: {title: hit.title}
  found: [{union: [old, new]}]
"""
    assert len(await library.rows(steps, head, asked=ASKED)) == 1
    assert library.model.counters.embedding_texts == 0
    result = await library.session.arun(
        library.folder / "p.yaml",
        asked=ASKED,
        params={"by": "meaning", "more": True, "since": 1995, "n": 3},
    )
    assert result.tables["found"].to_pylist() == [
        {"title": "red fox"},
        {"title": "the red fox hunts"},
    ]
    with pytest.raises(PlanError, match="no method is left"):
        load_plan(library.folder / "p.yaml", params={"by": "smell"})


@pytest.mark.parametrize(
    ("step", "said"),
    [
        ("embed: {made: year}", 'no column "year"'),
        ("embed: {text: text}", '"text" is a column already'),
        ("embed: {made: vector}", "expected string"),
        (
            "search: {over: Book, alias: hit, k: 1, methods: {equal: title, to: text}, vectors: year}",
            'Book has no vector "year"',
        ),
        (
            "search: {over: Book, alias: hit, k: 1, methods: {equal: title, to: text}, source: s}",
            "only of stored edges",
        ),
        (
            "search: {over: Book, alias: hit, k: 1, methods: {equal: title, to: text}, partition: [groups, none]}",
            "[COLUMN, all]",
        ),
        (
            'match: {pattern: "(s:Shelf)", vectors: title_embedding}',
            'no variable has a vector "title_embedding"',
        ),
    ],
)
def test_what_is_wrong_is_told(tmp_path: Path, step: str, said: str) -> None:
    (tmp_path / "graph.yaml").write_text(GRAPH)
    head = "plan: p\ngraph: graph.yaml\ninputs: {asked: {text: string, group_id: string, groups: list<string>, vector: vector}}\n"
    (tmp_path / "p.yaml").write_text(
        f"{head}steps:\n  found:\n    - from: asked\n    - {step}\nreturns: [found]\n"
    )
    with pytest.raises(PlanError) as caught:
        load_plan(tmp_path / "p.yaml")
    assert said in str(caught.value)


def test_yaml_and_frames_say_the_same(tmp_path: Path) -> None:
    (tmp_path / "graph.yaml").write_text(GRAPH)
    asked = semgraph.table(
        [{"text": "a", "groups": ["g"]}], name="asked", graph=tmp_path / "graph.yaml"
    )
    near = [{"nearest": "title", "to": "made"}]
    found = asked.embed({"made": "text"}).search(
        "Book",
        "hit",
        2,
        near,
        partition=["groups", "all"],
        vectors="title_embedding",
        where=["hit.year > 1", "hit.year < 9"],
    )
    plan = found.step("found").to_plan("p")
    (tmp_path / "p.yaml").write_text(dump(plan))
    assert load_plan(tmp_path / "p.yaml").fingerprint == plan.fingerprint


async def test_a_later_search_asks_the_store_only_for_rows_with_new_values(
    library: Library,
) -> None:
    search = f"{{search: {{over: Book, alias: hit, k: 2, methods: [{{fulltext: title, to: text}}, {{{NEAR}, to: text}}]}}}}"
    steps = f"""
  first:
    - from: asked
    - {search}
    - project: {{text, group_id, uuid: hit.uuid}}
  texts:
    - from: first
    - project: {{text: EXPRESSION, group_id}}
    - distinct: [text]
  found:
    - from: texts
    - {search}
    - project: {{text, uuid: hit.uuid, title: hit.title}}
"""
    same = await library.run(steps.replace("EXPRESSION", "text"), asked=ASKED)
    other = await library.run(
        steps.replace("EXPRESSION", "CASE WHEN uuid = 'b1' THEN text ELSE 'hunts' END"), asked=ASKED
    )
    assert [r.meter.total().round_trips for r in (same, other)] == [1, 2]
    alone = f"  found: [{{from: asked}}, {search}, {{project: {{text, uuid: hit.uuid, title: hit.title}}}}]"
    fox, hunts = [
        await library.rows(alone, asked=[{"text": text, "group_id": "g"}])
        for text in ("red fox", "hunts")
    ]
    assert same.tables["found"].to_pylist() == fox
    assert other.tables["found"].to_pylist() == fox + hunts
