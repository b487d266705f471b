"""Partitions with many vectors in an SQLite file: held in int8, ranked by the stored vectors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from semgraph.expr.scalar import parse_scalar
from semgraph.frontend.graph_files import graph_of
from semgraph.stores.base import Deletion, Method, NodeWrite, SearchQuery, WriteBatch
from semgraph.stores.cosine import Int8Block
from semgraph.stores.sqlite.store import SqliteStore
from tests.inside import blocks_of, memory

SIZE, ROWS, LIMIT = 64, 3_000, 1_000
GRAPH = graph_of(
    {
        "graph": "notes",
        "key": "uuid",
        "partition": "group_id",
        "nodes": {
            "Note": {
                "properties": {"text": "string", "turn": "int64"},
                "derived": {"embedding": {"embed": "text"}},
            }
        },
    }
)


def vectors(kind: str, count: int, seed: int = 1) -> np.ndarray:
    """Vectors of any direction, around 60 centres, or with one large number."""
    rng = np.random.default_rng(seed)
    noise = rng.standard_normal((count, SIZE)).astype(np.float32)
    if kind == "spiked":
        noise[:, 0] *= 20
    if kind == "clustered":
        centres = np.random.default_rng(9).standard_normal((60, SIZE)).astype(np.float32)
        return centres[rng.integers(0, 60, count)] + 0.3 * noise
    return noise


def column(values: np.ndarray) -> pa.Array:
    flat = pa.array(values.reshape(-1).astype(np.float32))
    return pa.FixedSizeListArray.from_arrays(flat, SIZE)


def notes(values: np.ndarray, first: int = 0) -> WriteBatch:
    number = range(first, first + len(values))
    columns = {
        "uuid": [f"n{i:06}" for i in number],
        "group_id": ["g"] * len(values),
        "text": [f"note {i}" for i in number],
        "turn": pa.array([i % 10 for i in number], pa.int64()),
        "embedding": column(values),
    }
    return WriteBatch((NodeWrite("Note", pa.table(columns)),))


async def opened(path: Path, limit: int) -> SqliteStore:
    store = SqliteStore(path, exact_up_to=limit)
    await store.ensure(GRAPH, SIZE)
    return store


async def near(store, asked, k=10, where="", above=-1.0) -> list[list[tuple[str, float]]]:
    """Keys and scores of each question's hits."""
    groups = pa.array(["g"] * len(asked))
    rows = pa.table({"_q": range(len(asked)), "group_id": groups, "vector": column(asked)})
    conjuncts = parse_scalar(where).conjuncts() if where else ()
    method = Method("nearest", "text", "vector", k=k, above=above)
    [hits] = await store.search([SearchQuery("Note", (method,), (), where=conjuncts)], rows)
    found: list[list[tuple[str, float]]] = [[] for _ in asked]
    for hit in hits.to_pylist():
        found[hit["_q"]].append((hit["uuid"], hit["score"]))
    return found


def held(store) -> set[bool]:
    """Whether the blocks in memory are in int8."""
    return {isinstance(one.block, Int8Block) for one in blocks_of(memory(store).vectors).values()}


@pytest.fixture
async def stores(tmp_path):
    """The same file, with its vectors in int8 and in float32."""
    small, large = [await opened(tmp_path / "graph.db", limit) for limit in (LIMIT, 10**9)]
    yield small, large
    await small.aclose()
    await large.aclose()


@pytest.mark.parametrize("kind", ["clustered", "uniform", "spiked"])
async def test_recall_against_float64(stores, kind):
    store, _ = stores
    values, asked = vectors(kind, ROWS), vectors(kind, 40, seed=5)
    await store.commit(notes(values))
    wide, queries = values.astype(np.float64), asked.astype(np.float64)
    cosines = (queries @ wide.T) / np.linalg.norm(wide, axis=1)
    cosines /= np.linalg.norm(queries, axis=1)[:, None]
    for k in (1, 10, 40):
        found = await near(store, asked, k)
        best = np.argsort(-cosines, axis=1)[:, :k]
        pairs = zip(found, best, strict=True)
        same = sum(len({key for key, _ in hits} & {f"n{i:06}" for i in of}) for hits, of in pairs)
        assert same >= 0.99 * best.size
        for hits, row in zip(found, cosines, strict=True):
            assert [score for _, score in hits] == pytest.approx(
                [row[int(key[1:])] for key, _ in hits], abs=1e-12
            )
    assert held(store) == {True}


@pytest.mark.parametrize(
    "search",
    [
        {"k": None, "above": 0.5},
        {"k": 10, "where": "hit.turn = 3"},
        {"k": 10, "where": "hit.text = 'note 77'"},
        {"k": 10, "where": "hit.uuid = 'n000007'"},
    ],
)
async def test_searches_find_what_float32_finds(stores, search):
    store, exact = stores
    await store.commit(notes(vectors("clustered", ROWS)))
    asked = vectors("clustered", 10, seed=5)
    assert await near(store, asked, **search) == await near(exact, asked, **search)
    assert (held(store), held(exact)) == ({True}, {False})


async def test_a_partition_that_grows_and_changes(stores):
    store, exact = stores
    asked = vectors("clustered", 1, seed=5)
    await store.commit(notes(vectors("clustered", LIMIT)))
    assert await near(store, asked) == await near(exact, asked)
    assert held(store) == {False}
    await store.commit(notes(vectors("clustered", LIMIT, seed=2), LIMIT))
    await near(store, asked)
    [[(first, _), (second, _), *_]] = await near(store, asked)
    assert held(store) == {True}
    await store.commit(notes(-asked, int(first[1:])))
    await store.commit(notes(asked, ROWS))
    await near(store, asked)
    await store.commit(WriteBatch((Deletion("Note", pa.table({"uuid": [second]})),)))
    [found] = await near(store, asked)
    assert found[0] == (f"n{ROWS:06}", pytest.approx(1.0))
    assert {first, second}.isdisjoint(key for key, _ in found)
    assert [found] == await near(exact, asked)


async def test_files_of_an_earlier_index_are_left_alone(stores, tmp_path):
    store, _ = stores
    folder = tmp_path / "graph.db.vectors"
    folder.mkdir()
    (folder / "a.faiss").write_bytes(b"x")
    await store.commit(notes(vectors("uniform", LIMIT + 1)))
    assert len((await near(store, vectors("uniform", 1)))[0]) == 10
    await store.clear()
    assert (folder / "a.faiss").read_bytes() == b"x"
