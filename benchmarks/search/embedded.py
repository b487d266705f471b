"""Hybrid search in the embedded store beside its bare parts, in one run.

The bare parts are the minimum: one FTS5 query ordered by BM25, one product of a matrix with a
vector, and the rows of the hits by id; without partitions, ties, types or concurrent writers. The
query is embedded in advance. The two alternate, query by query, so that other load on the machine
affects both; times are wall time, with CPU time beside it.
"""

from __future__ import annotations

import asyncio
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from semgraph.logical.schema import Graph
from semgraph.stores.base import EdgeWrite, Method, NodeWrite, SearchQuery, WriteBatch
from semgraph.stores.sqlite.store import SqliteStore

K = 20
DIMENSIONS, QUERIES = 384, 100
GRAPH = Graph.build(
    {
        "nodes": {"Entity": {"properties": {"name": "string"}}},
        "edges": {
            "FACT": {
                "source": "Entity",
                "target": "Entity",
                "properties": {"fact": "string", "expired_at": "timestamp"},
                "derived": {"fact_embedding": {"embed": "fact"}},
                "fulltext": {"facts": ["fact"]},
            }
        },
    }
)


class Data(NamedTuple):
    """Synthetic facts: twelve words each, with frequencies by rank in a vocabulary of 20,000, and
    unit vectors.
    """

    facts: list[str]
    vectors: np.ndarray[Any, np.dtype[np.float32]]
    queries: dict[str, list[str]]
    asked: np.ndarray[Any, np.dtype[np.float32]]


def make(rows: int, dimensions: int, queries: int, seed: int) -> Data:
    """Facts and queries. Queries have six words: any, frequent ones included, or none of the 50
    most frequent.
    """
    rng = np.random.default_rng(seed)
    vocabulary = np.array([f"w{i:05}" for i in range(20_000)])
    weight = 1 / np.arange(1, 20_001)
    facts = [
        " ".join(row) for row in vocabulary[rng.choice(20_000, (rows, 12), p=weight / weight.sum())]
    ]

    def unit(count: int) -> np.ndarray[Any, np.dtype[np.float32]]:
        found = rng.standard_normal((count, dimensions), np.float32)
        found /= np.linalg.norm(found, axis=1, keepdims=True)
        return found

    def asked(first: int) -> list[str]:
        rest = weight[first:] / weight[first:].sum()
        return [
            " ".join(row)
            for row in vocabulary[first:][rng.choice(20_000 - first, (queries, 6), p=rest)]
        ]

    return Data(
        facts,
        unit(rows),
        {"no very frequent words": asked(50), "any words": asked(0)},
        unit(queries),
    )


async def load(store: SqliteStore, data: Data, groups: int) -> float:
    """Write the facts; rows per second."""
    await store.ensure(GRAPH, data.vectors.shape[1])
    people = pa.table(
        {
            "uuid": [f"p{i}" for i in range(1000)],
            "group_id": [f"g{i % groups}" for i in range(1000)],
        }
    )
    await store.commit(WriteBatch((NodeWrite("Entity", people),)))
    started, step = time.perf_counter(), 10_000
    for start in range(0, len(data.facts), step):
        facts = data.facts[start : start + step]
        number = range(start, start + len(facts))
        flat = pa.array(data.vectors[start : start + step].reshape(-1))
        columns = {
            "uuid": [f"f{i:08}" for i in number],
            "group_id": [f"g{i % groups}" for i in number],
            "source": [f"p{i % 1000}" for i in number],
            "target": [f"p{(i * 7 + 1) % 1000}" for i in number],
            "fact": facts,
            "fact_embedding": pa.FixedSizeListArray.from_arrays(flat, data.vectors.shape[1]),
        }
        await store.commit(WriteBatch((EdgeWrite("FACT", pa.table(columns)),)))
    return len(data.facts) / (time.perf_counter() - started)


class Bare:
    """The bare parts: a table, an FTS5 index, a matrix."""

    def __init__(self, data: Data) -> None:
        self.matrix = data.vectors
        self.con = sqlite3.connect(":memory:")
        self.con.execute(
            "CREATE TABLE facts (id INTEGER PRIMARY KEY, uuid TEXT, source TEXT, target TEXT, fact TEXT)"
        )
        self.con.execute(
            "CREATE VIRTUAL TABLE words USING fts5(fact, content='', tokenize='unicode61 remove_diacritics 0')"
        )
        rows = [
            (i, f"f{i:08}", f"p{i % 1000}", f"p{(i * 7 + 1) % 1000}", fact)
            for i, fact in enumerate(data.facts)
        ]
        self.con.executemany("INSERT INTO facts VALUES (?, ?, ?, ?, ?)", rows)
        self.con.executemany(
            "INSERT INTO words (rowid, fact) VALUES (?, ?)", ((row[0], row[4]) for row in rows)
        )

    def search(self, text: str, vector: np.ndarray[Any, np.dtype[np.float32]]) -> list[Any]:
        """The hits of one query, by words and by vector."""
        match = " OR ".join(f'"{word}"' for word in text.split())
        order = "SELECT rowid, bm25(words) AS s FROM words WHERE words MATCH ? ORDER BY s LIMIT ?"
        ids = [row for row, _ in self.con.execute(order, (match, K))]
        cosine = self.matrix @ vector
        ids += np.argpartition(-cosine, K)[:K].tolist()
        marks = ", ".join("?" * len(ids))
        return self.con.execute(f"SELECT * FROM facts WHERE id IN ({marks})", ids).fetchall()


def rows_of(
    texts: Sequence[str], vectors: np.ndarray[Any, np.dtype[np.float32]], groups: int
) -> pa.Table:
    """Rows that ask."""
    count = len(texts)
    return pa.table(
        {
            "_q": pa.array(range(count), pa.int64()),
            "group_id": [f"g{i % groups}" for i in range(count)],
            "words": list(texts),
            "vector": pa.FixedSizeListArray.from_arrays(
                pa.array(vectors.reshape(-1)), vectors.shape[1]
            ),
        }
    )


class Clock:
    """Wall and CPU time of the body of its `with`."""

    def __init__(self) -> None:
        self.wall: list[float] = []
        self.cpu: list[float] = []

    def __enter__(self) -> None:
        self._started = time.perf_counter(), time.process_time()

    def __exit__(self, *_: object) -> None:
        wall, cpu = self._started
        self.wall.append((time.perf_counter() - wall) * 1e3)
        self.cpu.append((time.process_time() - cpu) * 1e3)


async def measure(
    store: SqliteStore, bare: Bare, data: Data, kind: str, at_once: int
) -> dict[str, float]:
    """All queries of a kind, so many in one request; the first request of all warms up."""
    methods = (Method("fulltext", "fact", "words", k=K), Method("nearest", "fact", "vector", k=K))
    query, texts = SearchQuery("FACT", methods, ("fact",)), data.queries[kind]
    await store.search([query], rows_of(texts, data.asked, 1))
    alone, beside = Clock(), Clock()
    for first in range(0, len(texts), at_once):
        rows = rows_of(texts[first : first + at_once], data.asked[first : first + at_once], 1)
        with alone:
            bare.search(texts[first], data.asked[first])
        with beside:
            await store.search([query], rows)
    return line(alone, beside, at_once)


def line(bare: Clock, store: Clock, queries: int) -> dict[str, float]:
    """Medians and 95th percentiles, in milliseconds a query."""
    found: dict[str, float] = {"p50_ms": statistics.median(store.wall) / queries}
    found["p95_ms"] = sorted(store.wall)[int(0.95 * (len(store.wall) - 1))] / queries
    found |= {
        "bare_p50_ms": statistics.median(bare.wall),
        "cpu_ms": statistics.median(store.cpu) / queries,
    }
    found["of_bare"] = found["p50_ms"] / found["bare_p50_ms"]
    return {name: round(value, 3) for name, value in found.items()}


def measured(rows: int, kind: str, at_once: int, trial: int) -> dict[str, float]:
    """Search among so many facts, as many queries in one request; the bare parts take turns with
    it.
    """
    return asyncio.run(_measured(_kept(rows, trial), kind, at_once))


@dataclass(frozen=True)
class Kept:
    """The facts of a trial, in a store and in bare parts; `rate`: how many a second the store has
    taken.
    """

    data: Data
    bare: Bare
    file: Path
    rate: float
    folder: tempfile.TemporaryDirectory[str]


@lru_cache(maxsize=1)
def _kept(rows: int, trial: int) -> Kept:
    """Made once for all kinds of queries; its files go with the next, or with this process."""
    data = make(rows, DIMENSIONS, QUERIES, trial + 7)
    folder = tempfile.TemporaryDirectory()
    file = Path(folder.name) / "graph.db"
    rate = asyncio.run(_loaded(file, data))
    return Kept(data, Bare(data), file, rate, folder)


async def _loaded(file: Path, data: Data) -> float:
    store = SqliteStore(file)
    try:
        return await load(store, data, 1)
    finally:
        await store.aclose()


async def _measured(kept: Kept, kind: str, at_once: int) -> dict[str, float]:
    store = SqliteStore(kept.file)
    try:
        await store.ensure(GRAPH, DIMENSIONS)
        found = await measure(store, kept.bare, kept.data, kind, at_once)
    finally:
        await store.aclose()
    return found | {"loaded_per_s": round(kept.rate)}
