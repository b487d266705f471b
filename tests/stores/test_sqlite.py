"""What is SQLite's alone: the file, its layout, what it costs, and what it says when something is
wrong with it.
"""

from __future__ import annotations

import math
import random
import sqlite3
import statistics
from contextlib import asynccontextmanager

import pytest

from semgraph.errors import DataError, EngineError, PlanError, StoreUnavailable
from semgraph.expr.functions import overlap
from semgraph.expr.scalar import parse_scalar
from semgraph.frontend.graph_files import graph_of
from semgraph.stores.base import Method, NewContent, ScanQuery, WriteBatch
from semgraph.stores.sqlite import fulltext
from semgraph.stores.sqlite.store import SqliteStore, check_library
from tests.inside import blocks_of, connection, memory


@pytest.fixture
def path(tmp_path):
    return tmp_path / "graph.db"


@pytest.fixture
async def file(path, world):
    """A store over a file."""
    store = SqliteStore(path)
    await store.ensure(world.graph, world.dimensions)
    yield store
    await store.aclose()


@asynccontextmanager
async def opened(path, graph, dimensions=4):
    store = SqliteStore(path)
    try:
        await store.ensure(graph, dimensions)
        yield store
    finally:
        await store.aclose()


async def refused(path, world, error=StoreUnavailable) -> str:
    """What is said of a file that cannot be used."""
    with pytest.raises(error) as said:
        async with opened(path, world.graph):
            pass
    return str(said.value)


def test_names(path):
    assert SqliteStore(path).name == f"sqlite:{path}"
    assert SqliteStore(":memory:").name == "memory"


async def test_making_a_store_opens_nothing(path, world):
    store = SqliteStore(path)
    assert not path.exists()
    with pytest.raises(EngineError, match="ensure"):
        await store.statistics()
    await store.aclose()
    assert not path.exists()


async def test_folders_are_made(tmp_path, world):
    async with opened(tmp_path / "a" / "b" / "graph.db", world.graph) as store:
        assert (await store.statistics()).counts["Note"] == 0


async def test_a_closed_store_says_so(file, world):
    await file.aclose()
    with pytest.raises(EngineError, match="closed"):
        await world.commit(file, world.write("Note", {"uuid": "n"}))


async def test_memory_starts_empty_each_time(world):
    for _ in range(2):
        async with opened(":memory:", world.graph) as store:
            assert (await store.statistics()).counts["Note"] == 0
            await world.commit(store, world.write("Note", {"uuid": "n"}))


async def test_a_file_that_is_no_database(path, world):
    path.write_text("Dear diary, " * 1000)
    said = await refused(path, world)
    assert "is not an SQLite file" in said
    assert str(path) in said
    assert path.read_text().startswith("Dear diary")


async def test_a_database_of_another_program(path, world):
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE things (name TEXT)")
    other.close()
    before = path.read_bytes()
    assert "another program" in await refused(path, world)
    assert path.read_bytes() == before


async def test_a_file_of_a_later_version(path, world):
    async with opened(path, world.graph):
        pass
    with sqlite3.connect(path) as other:
        other.execute("PRAGMA user_version = 99")
    other.close()
    assert "later version of semgraph (layout 99" in await refused(path, world)


async def test_a_path_that_cannot_be_created_is_rejected(tmp_path, world):
    (tmp_path / "file").write_text("x")
    assert "folder cannot be made" in await refused(tmp_path / "file" / "graph.db", world)
    (tmp_path / "folder").mkdir()
    assert "cannot be opened" in await refused(tmp_path / "folder", world)


@pytest.mark.parametrize(
    ("version", "modules", "said"),
    [("3.34.1", {"fts5"}, "3.34.1 .* too old"), ("3.40.1", {"fts3"}, "FTS5")],
)
def test_an_unsuitable_sqlite_library_is_rejected(version, modules, said):
    with pytest.raises(StoreUnavailable, match=rf"memory .*{said}.*another store"):
        check_library(version, modules, "memory")


async def test_a_damaged_file(path, world):
    async with opened(path, world.graph) as store:
        await world.commit(
            store,
            world.write("Note", *({"uuid": f"n{i}", "content": "x" * 500} for i in range(200))),
        )
    raw = bytearray(path.read_bytes())
    raw[4096:] = b"\xaa" * (len(raw) - 4096)
    path.write_bytes(raw)
    said = await refused(path, world)
    assert "is damaged" in said
    assert "Restore it from a copy" in said


async def test_a_full_disk_writes_nothing_and_the_store_goes_on(file, world):
    await world.commit(file, world.write("Note", {"uuid": "kept"}), marker=world.marker("h1"))
    pages = connection(file).execute("PRAGMA page_count").fetchone()[0]
    connection(file).execute(f"PRAGMA max_page_count = {pages + 4}")
    much = world.write("Note", *({"uuid": f"n{i}", "content": "x" * 5000} for i in range(100)))
    with pytest.raises(StoreUnavailable, match=r"disk is full.*Nothing was written"):
        await world.commit(file, much, marker=world.marker("h2", before="h1"))
    assert (await file.scan(ScanQuery("Note"))).column("uuid").to_pylist() == ["kept"]
    assert (await file.states("p", {"g": []}))["g"].head == "h1"
    connection(file).execute("PRAGMA max_page_count = 1000000")
    await world.commit(
        file, world.write("Note", {"uuid": "more"}), marker=world.marker("h2", before="h1")
    )


async def test_a_read_only_file_can_be_read(file, world):
    await world.commit(file, world.write("Note", {"uuid": "n"}))
    connection(file).execute("PRAGMA query_only = ON")
    with pytest.raises(StoreUnavailable, match="read-only"):
        await world.commit(file, world.write("Note", {"uuid": "m"}))
    assert (await file.statistics()).counts["Note"] == 1


async def test_half_a_surrogate_pair_is_refused(file, world):
    with pytest.raises(DataError, match="surrogate"):
        await file.states("p", {"\ud800": []})
    await world.commit(file, world.write("Note", {"uuid": "n"}))


async def test_names_that_differ_by_case_alone(path, world):
    graph = graph_of(
        {"nodes": {"Note": {"properties": {"name": "string", "Name": "string"}}, "note": {}}}
    )
    said = await refused(path, type(world)(graph=graph), PlanError)
    assert '"Note" and "note"' in said
    assert '"name" and "Name"' in said


async def test_names_that_mean_something_to_sqlite(path, world):
    words = ["rank", "rowid", "oid", "select", "table", "_rowid_", "q", "t", "key", "part"]
    graph = graph_of(
        {
            "nodes": {
                "Order": {
                    "properties": dict.fromkeys(words, "string"),
                    "fulltext": {"index": words},
                    "index": words,
                }
            },
            "edges": {
                "GROUP": {"source": "Order", "target": "Order", "properties": {"values": "string"}}
            },
        }
    )
    own = type(world)(graph=graph)
    async with opened(path, graph) as store:
        row = {name: f"{name} heron" for name in words}
        await own.commit(
            store,
            own.write("Order", {"uuid": "a", **row}),
            own.write("GROUP", {"uuid": "k", "source": "a", "target": "a"}),
        )
        query = own.query(
            "Order",
            Method("fulltext", "rank", "text"),
            properties=words[1:],
            where="hit.rowid = rowid AND hit.q = q",
        )
        [found] = await store.search(
            [query], own.rows(text=["heron"], rowid=[row["rowid"]], q=[row["q"]])
        )
        assert found.select(words[1:]).to_pylist() == [{name: row[name] for name in words[1:]}]


async def test_full_text_that_is_declared_otherwise_is_made_anew(path, world):
    def graph(*properties):
        body = {
            "properties": {"content": "string", "title": "string"},
            "fulltext": {"words": list(properties)},
        }
        return graph_of({"nodes": {"Note": body}})

    async def found(store):
        query = world.query("Note", Method("fulltext", "title", "text"))
        return (await store.search([query], world.rows(text=["heron"])))[0].num_rows

    own = type(world)(graph=graph("title"))
    async with opened(path, own.graph) as store:
        await own.commit(
            store, own.write("Note", {"uuid": "n", "content": "heron", "title": "stork"})
        )
        assert await found(store) == 0
    async with opened(path, graph("title", "content")) as store:
        assert await found(store) == 1
        await own.commit(store, own.write("Note", {"uuid": "n", "content": "crane"}))
        assert await found(store) == 0
    async with opened(path, graph("title")) as store:
        await own.commit(store, own.write("Note", {"uuid": "n", "title": "heron"}))
        assert await found(store) == 1


async def test_all_vectors_gone_another_embedder_may_come(path, world):
    async with opened(path, world.graph) as store:
        await world.commit(
            store, world.write("Person", {"uuid": "p", "name": "x", "name_embedding": [1, 0, 0, 0]})
        )
        await store.clear()
    longer = type(world)(dimensions=6)
    async with opened(path, world.graph, 6) as store:
        await longer.commit(
            store,
            longer.write(
                "Person", {"uuid": "p", "name": "x", "name_embedding": [1, 0, 0, 0, 0, 1]}
            ),
        )
        query = longer.query("Person", Method("nearest", "name", "vector"))
        assert (await store.search([query], longer.rows(vector=[[1, 0, 0, 0, 0, 0]])))[
            0
        ].num_rows == 1


async def test_a_row_that_is_made_anew_in_another_partition(file, world):
    person = {"uuid": "p", "name": "heron", "name_embedding": [1, 0, 0, 0]}
    query = world.query(
        "Person", Method("nearest", "name", "vector"), Method("fulltext", "name", "text")
    )
    rows = world.rows(vector=[[1, 0, 0, 0]] * 2, text=["heron"] * 2, group_id=["g", "h"])

    async def seen():
        [found] = await file.search([query], rows)
        return world.keys(found, 0), world.keys(found, 1)

    await world.commit(file, world.write("Person", person))
    assert await seen() == ({0: ["p"]}, {0: ["p"]})
    await world.commit(
        file, world.delete("Person", "p"), world.write("Person", {**person, "group_id": "h"})
    )
    assert await seen() == ({1: ["p"]}, {1: ["p"]})


async def test_a_row_without_vector_in_the_place_of_one_with_it(file, world):
    query, rows = (
        world.query("Person", Method("nearest", "name", "vector")),
        world.rows(vector=[[1, 0, 0, 0]]),
    )
    await world.commit(
        file, world.write("Person", {"uuid": "old", "name": "x", "name_embedding": [1, 0, 0, 0]})
    )
    assert world.keys((await file.search([query], rows))[0]) == {0: ["old"]}
    await world.commit(
        file, world.delete("Person", "old"), world.write("Person", {"uuid": "new", "name": "x"})
    )
    assert world.keys((await file.search([query], rows))[0]) == {}


async def test_little_memory_for_vectors_changes_no_answer(file, world):
    groups = [f"g{i}" for i in range(8)]
    rows = [
        {"uuid": f"{g}-{i}", "name": "x", "name_embedding": [1, i, 0, 0], "group_id": g}
        for g in groups
        for i in range(30)
    ]
    await world.commit(file, world.write("Person", *rows))
    query = world.query("Person", Method("nearest", "name", "vector", k=2))
    asked = world.rows(vector=[[1, 0, 0, 0]] * 8, group_id=groups)
    expected = {i: [f"{g}-0", f"{g}-1"] for i, g in enumerate(groups)}
    memory(file).vectors.limit = 1000
    for _ in range(3):
        assert world.keys((await file.search([query], asked))[0]) == expected
    assert len(blocks_of(memory(file).vectors)) < 3
    everywhere = world.query("Person", Method("nearest", "name", "vector", k=3), partition=None)
    [found] = await file.search([everywhere], asked.slice(0, 1))
    assert world.keys(found) == {0: ["g0-0", "g1-0", "g2-0"]}


def rounded(score):
    """A score to ten digits."""
    return float(f"{score:.9e}")


def bm25(query, texts, mean):
    """The scores of texts by key, best first, ties by key: BM25 over these texts alone."""
    listed = {key: text.split() for key, text in texts.items()}
    scores = dict.fromkeys(listed, 0.0)
    for word in set(query.split()):
        holding = sum(word in words for words in listed.values())
        weight = max(math.log((len(listed) - holding + 0.5) / (holding + 0.5)), 1e-6)
        for key, words in listed.items():
            count = words.count(word)
            saturated = count * 2.2 / (count + 1.2 * (0.25 + 0.75 * len(words) / mean))
            scores[key] += weight * saturated if count else 0.0
    return sorted((rounded(-score), key) for key, score in scores.items() if score)


@pytest.fixture(params=[0, 2_000], ids=["in postings", "in memory"])
def words_held(request, monkeypatch):
    """Of how many rows words are held in memory."""
    monkeypatch.setattr(fulltext, "_FEW", request.param)
    return request.param


@pytest.fixture
async def library(file, world, monkeypatch, words_held):
    """600 texts of words as frequent as their rank says, in three groups of different sizes."""
    draw = random.Random(5)
    words = [f"w{i}" for i in range(60)]
    weights = [1 / (i + 1) for i in range(60)]
    notes = [
        {"uuid": f"n{i:04}", "group_id": "aaabbc"[i % 6],
         "content": " ".join(draw.choices(words, weights, k=draw.randint(1, 9)))}
        for i in range(600)
    ]  # fmt: skip
    await world.commit(file, world.write("Note", *notes))
    monkeypatch.setattr(fulltext, "_SHORT", 50)
    monkeypatch.setattr(fulltext, "_SCORING", 0.1)
    return notes


QUERIES = ["w0 w1 w2 w30", "w0", "w0 w1", "w40 w41 w42 w3 w0", "w9 nothing", "w59 w58"]


@pytest.mark.parametrize("k", [1, 20, None])
@pytest.mark.parametrize("seen", [["a"], ["a", "b"], ["c"], None])
@pytest.mark.parametrize("where", [None, "hit.uuid >= least"])
@pytest.mark.parametrize("listed", [64, 1])
async def test_full_text_is_ranked_by_bm25_of_what_a_row_may_see(
    library, file, world, monkeypatch, k, seen, where, listed
):
    monkeypatch.setattr(fulltext, "_LISTED", listed)
    method = Method("fulltext", "content", "text", k=k)
    query = world.query("Note", method, where=where, partition=None if seen is None else "group_id")
    rows = world.rows(
        {"group_id": "list<string>"}, text=QUERIES, least=["n0100"] * len(QUERIES),
        group_id=[seen or []] * len(QUERIES),
    )  # fmt: skip
    mean = statistics.mean(len(note["content"].split()) for note in library)
    wide = seen is None or len(seen) > listed
    [found] = await file.search([query], rows)
    hits = list(
        zip(*(found.column(name).to_pylist() for name in ("_q", "score", "uuid")), strict=True)
    )
    for q, text in enumerate(QUERIES):
        texts = {n["uuid"]: n["content"] for n in library if wide or n["group_id"] in seen}
        groups = {n["uuid"]: n["group_id"] for n in library}
        expected = [
            hit
            for hit in bm25(text, texts, mean)
            if (where is None or hit[1] >= "n0100") and (seen is None or groups[hit[1]] in seen)
        ]
        assert [(rounded(-score), key) for n, score, key in hits if n == q] == expected[:k]


@pytest.mark.parametrize("k", [3, None])
async def test_overlap_ranks_the_best_by_bm25_anew(library, file, world, k):
    rows = world.rows(text=QUERIES, group_id=["a"] * len(QUERIES))
    queries = [
        world.query(
            "Note",
            Method("fulltext", "content", "text", k=most, rank=rank),
            properties=("content",),
        )
        for most, rank in ((k and 4 * k, "store"), (k, "overlap"))
    ]
    ranked, anew = [table.to_pylist() for table in await file.search(queries, rows)]
    for q, text in enumerate(QUERIES):
        first = [(hit["content"], hit["uuid"]) for hit in ranked if hit["_q"] == q]
        expected = sorted((-overlap(text, content), uuid) for content, uuid in first)
        assert [(-hit["score"], hit["uuid"]) for hit in anew if hit["_q"] == q] == expected[:k]


async def test_overlap_compares_words_as_the_index_has_them(file, world, words_held):
    await world.commit(file, world.write("Note", {"uuid": "n", "content": "ΟΔΟΣ fox"}))
    method = Method("fulltext", "content", "text", k=1, rank="overlap")
    query = world.query("Note", method, properties=("content",))
    [found] = await file.search([query], world.rows(text=["οδοσ fox", "οδος fox"]))
    assert found.column("score").to_pylist() == [1.0, 1.0]


@pytest.mark.parametrize("words_held", [0], indirect=True)
async def test_postings_of_very_frequent_words_are_not_read(library, file, world):
    read = []
    file.observe(read.append)
    query = world.query("Note", Method("fulltext", "content", "text", k=2))
    [found] = await file.search([query], world.rows(text=["w0 w50"], group_id=["a"]))
    assert found.num_rows == 2
    postings = [sql for sql in read if "bm25" in sql]
    assert [sql.split("MATCH")[1].split()[0] for sql in postings] == ["'\"w50_1\"'"]


async def test_a_write_is_seen_by_the_next_full_text_search(file, world):
    query, rows = (
        world.query("Note", Method("fulltext", "content", "text")),
        world.rows(text=["heron"]),
    )

    async def keys():
        return world.keys((await file.search([query], rows))[0])

    assert await keys() == {}
    for n in range(3):
        await world.commit(file, world.write("Note", {"uuid": f"n{n}", "content": "a heron"}))
        assert await keys() == {0: [f"n{i}" for i in range(n + 1)]}
    await world.commit(file, world.delete("Note", "n1"))
    assert await keys() == {0: ["n0", "n2"]}


@pytest.fixture
async def crowd(file, world):
    """1,000 people in a ring, each knowing two, with vectors."""
    people = [
        {
            "uuid": f"p{i:04}",
            "name": f"name {i}",
            "name_embedding": [1, i, 0, 0],
            "created_at": world.at(1, i % 60),
        }
        for i in range(1000)
    ]
    edges = [
        {"uuid": f"k{i:04}-{step}", "source": f"p{i:04}", "target": f"p{(i + step) % 1000:04}", "fact": f"fact {i}", "fact_embedding": [1, i, 0, 0]}
        for i in range(1000) for step in (1, 7)
    ]  # fmt: skip
    await world.commit(file, world.write("Person", *people), world.write("KNOWS", *edges))
    return file


ENDS = "hit.source = who AND hit.target = other OR hit.source = other AND hit.target = who"


@pytest.mark.parametrize("rows", [1, 20])
@pytest.mark.parametrize(
    "asks",
    [
        "equal", "key", "ends", "pair", "order", "(a:Person {uuid: who})-[k:KNOWS]-(b:Person)", "(a:Person)<-[k:KNOWS]-(b:Person {uuid: who})",
        "(a:Person)-[k:KNOWS {uuid: edge}]-(b:Person)", "(a:Person {uuid: who})-[j:KNOWS]-(m:Person)-[k:KNOWS]->(b:Person)",
    ],
)  # fmt: skip
async def test_statements_use_indexes(crowd, world, asks, rows):
    """SQLite counts its steps: it takes 5,000 to read a table once, and these ask for each row."""
    asked = world.rows(
        who=[f"p{i:04}" for i in range(rows)],
        other=[f"p{i + 7:04}" for i in range(rows)],
        edge=[f"k{i:04}-1" for i in range(rows)],
        name=[f"name {i}" for i in range(rows)],
        vector=[[1, 2, 0, 0]] * rows,
    )
    near = Method("nearest", "fact", "vector", k=3)
    queries = {
        "equal": world.query("Person", Method("equal", "name", "name")),
        "key": world.query("Person", Method("nearest", "name", "vector"), where="hit.uuid = who"),
        "ends": world.query(
            "KNOWS",
            near,
            Method("equal", "fact", "name"),
            Method("order"),
            where=ENDS,
            order=(("fact", True),),
        ),
        "pair": world.query(
            "KNOWS", near, where="list_sort([hit.source, hit.target]) = list_sort([who, other])"
        ),
        "order": world.query("Person", Method("order", k=3), order=(("created_at", True),)),
    }
    if asks in queries:
        await crowd.search([queries[asks]], asked)
    steps = 0

    def count():
        nonlocal steps
        steps += 1

    con = connection(crowd)
    con.set_progress_handler(count, 10)
    found = await (
        crowd.search([queries[asks]], asked)
        if asks in queries
        else crowd.match(world.pattern(asks), asked)
    )
    con.set_progress_handler(None, 0)
    assert (found[0] if asks in queries else found).num_rows >= rows
    assert steps * 10 < 500 + 700 * rows


async def test_vectors_are_read_once_and_then_only_what_is_new(crowd, world):
    read = []
    crowd.observe(lambda sql: read.append(sql) if "vector FROM" in sql else None)
    query, rows = (
        world.query("Person", Method("nearest", "name", "vector", k=1)),
        world.rows(vector=[[1, 5, 0, 0]]),
    )
    await crowd.search([query], rows)
    assert len(read) == 1
    await crowd.search([query], rows)
    assert len(read) == 1
    held = blocks_of(memory(crowd).vectors)["Person#vector#name_embedding", "g"]
    version = held.version
    await world.commit(
        crowd, world.write("Person", {"uuid": "new", "name_embedding": [1, 5, 0, 0]})
    )
    assert world.keys((await crowd.search([query], rows))[0]) == {0: ["new"]}
    assert len(read) == 2
    assert f"changed > {version}" in read[1]
    await world.commit(
        crowd, world.write("Person", {"uuid": "new", "name": "y", "name_embedding": [1, 5, 0, 0]})
    )
    newest = 'SELECT max(changed) FROM "Person#vector#name_embedding"'
    assert connection(crowd).execute(newest).fetchone()[0] == version + 1
    assert blocks_of(memory(crowd).vectors)["Person#vector#name_embedding", "g"] is held


async def test_words_are_read_once_and_then_only_what_is_new(crowd, world):
    read = []
    crowd.observe(lambda sql: read.append(sql) if '#rows" s CROSS JOIN' in sql else None)
    query = world.query("Person", Method("fulltext", "name", "text", k=1))
    rows = world.rows(text=["heron"])
    for _ in range(2):
        assert world.keys((await crowd.search([query], rows))[0]) == {}
    assert len(read) == 1
    [held] = blocks_of(memory(crowd).words).values()
    version = held.version
    await world.commit(crowd, world.write("Person", {"uuid": "new", "name": "a heron"}))
    assert world.keys((await crowd.search([query], rows))[0]) == {0: ["new"]}
    assert len(read) == 2
    assert f"changed > {version}" in read[1]
    await world.commit(crowd, world.write("Person", {"uuid": "new", "turn": 7}))
    newest = 'SELECT max(changed) FROM "Person#text#person_text#rows"'
    assert connection(crowd).execute(newest).fetchone()[0] == version + 1
    assert [held] == list(blocks_of(memory(crowd).words).values())


async def test_the_database_passes_an_integrity_check(crowd, world):
    await world.commit(
        crowd,
        world.write("Person", {"uuid": "p0001", "name": "another"}),
        world.write("Person", {"uuid": "h1", "group_id": "h"}),
    )
    await world.commit(crowd, world.delete("Person", "p0002", detach=True))
    await crowd.clear(["h"])
    con = connection(crowd)
    assert con.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    for table in ("Person#text#person_text", "KNOWS#text#knows_text"):
        con.execute(f'INSERT INTO "{table}" ("{table}") VALUES (\'integrity-check\')')
    counts = [
        con.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0]
        for name in ("Person", "Person#vector#name_embedding")
    ]
    assert counts == [999, 999]
    counts = [
        con.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0]
        for name in ("KNOWS", "KNOWS#vector#fact_embedding")
    ]
    assert counts[0] == counts[1] == (await crowd.statistics()).counts["KNOWS"]


async def test_only_supported_conditions_are_taken():
    store = SqliteStore(":memory:")
    assert store.takes(parse_scalar("hit.name = upper(name)"), "hit")
    assert not store.takes(parse_scalar("upper(hit.name) = name"), "hit")


async def test_one_new_row_is_looked_up_without_reading_the_markers_of_its_group(world):
    """SQLite counts the steps of its own programs."""
    steps = []
    for number in (10, 10_000):
        store = SqliteStore(":memory:")
        await store.ensure(world.graph, world.dimensions)
        rows = [f"n{i}" for i in range(number)]
        marker = world.marker("h1", rows=rows, witness="Note")
        await world.commit(store, world.write("Note", {"uuid": "n7"}), marker=marker)
        counted = 0

        def count() -> int:
            nonlocal counted
            counted += 1
            return 0

        con = connection(store)
        con.set_progress_handler(count, 1)
        states = await store.states("p", {"g": ["n7", "new"]})
        con.set_progress_handler(None, 0)
        assert list(states["g"].committed) == ["n7"]
        steps.append(counted)
        await store.aclose()
    assert 0 < steps[0] == steps[1]


async def test_nothing_of_a_window_stays_in_the_file_without_its_rows(tmp_path, world):
    path = tmp_path / "graph.db"
    store = SqliteStore(path)
    await store.ensure(world.graph, 4)

    def left():
        with sqlite3.connect(path) as con:
            tables = ("#marks", "#windows", "#window_parts")
            return [con.execute(f'SELECT count(*) FROM "{t}"').fetchone()[0] for t in tables]

    async def commit(head, before, *rows, **more):
        marker = world.marker(head, before, rows, witness="Note", contents=rows, **more)
        notes = world.write("Note", *({"uuid": row} for row in rows))
        await world.commit(store, notes, marker=marker)

    await commit("h1", None, "n1", "n2", parts={"model": "a"})
    await commit("h2", "h1", "n3", parts={"model": "a"})
    await commit("h3", "h2", "n4", parts={"model": "b"})
    assert left() == [4, 3, 2]
    await world.commit(store, world.delete("Note", "n1", "n4"))
    assert left() == [2, 2, 1]
    await commit("h4", "h3", "n3", parts={"model": "c"})
    assert left() == [2, 2, 2]
    await world.commit(store, world.delete("Note", "n2", "n3"))
    assert left() == [0, 0, 0]
    await commit("h5", "h4", "n5")
    await store.replace(NewContent(WriteBatch(()), "p", {"g": ("h5", "h6")}, ()))
    assert left() == [0, 0, 0]
    await commit("h7", "h6", "n6")
    await store.clear(["g"])
    assert left() == [0, 0, 0]
    await store.aclose()
