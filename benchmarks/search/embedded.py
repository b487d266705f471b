"""Hybrid search in the embedded store beside its bare parts, in one run.

The bare parts are the minimum: one FTS5 query ordered by BM25, one product of a matrix with a
vector in float32, and the rows of the hits by id; without partitions, ties, types or concurrent
writers. The query is embedded in advance. The two alternate, query by query, so that other load on
the machine affects both.
"""

from __future__ import annotations

import asyncio
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Sequence
from contextlib import aclosing
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from benchmarks.frame.processes import Watch
from semgraph.frontend.graph_files import graph_of
from semgraph.stores.base import EdgeWrite, Method, NodeWrite, SearchQuery, WriteBatch
from semgraph.stores.sqlite.store import SqliteStore

K, NEAREST = 20, 10
DIMENSIONS, QUERIES = 384, 100
KINDS = {"no very frequent words": 50, "any words": 0}
"""Queries of six words: without so many of the most frequent."""
GRAPH = graph_of({
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
})  # fmt: skip
Singles = np.ndarray[Any, np.dtype[np.float32]]


class Data(NamedTuple):
    """Synthetic facts: twelve words each, with frequencies by rank in a vocabulary of 20,000, and
    unit vectors; queries by kind, and their vectors.
    """

    facts: list[str]
    vectors: Singles
    queries: dict[str, list[str]]
    asked: Singles


def make(rows: int, dimensions: int, queries: int, seed: int) -> Data:
    """Facts and queries."""
    rng = np.random.default_rng(seed)
    vocabulary = np.array([f"w{i:05}" for i in range(20_000)])
    weight = 1 / np.arange(1, 20_001)

    def texts(count: int, words: int, first: int = 0) -> list[str]:
        share = weight[first:] / weight[first:].sum()
        chosen = vocabulary[first:][rng.choice(20_000 - first, (count, words), p=share)]
        return [" ".join(row) for row in chosen]

    def unit(count: int) -> Singles:
        found = rng.standard_normal((count, dimensions), np.float32)
        found /= np.linalg.norm(found, axis=1, keepdims=True)
        return found

    facts, vectors = texts(rows, 12), unit(rows)
    asked = {kind: texts(queries, 6, first) for kind, first in KINDS.items()}
    return Data(facts, vectors, asked, unit(queries))


async def load(store: SqliteStore, data: Data) -> float:
    """Write the facts; rows per second."""
    await store.ensure(GRAPH, data.vectors.shape[1])
    people = pa.table({"uuid": [f"p{i}" for i in range(1000)], "group_id": ["g0"] * 1000})
    await store.commit(WriteBatch((NodeWrite("Entity", people),)))
    started, step = time.perf_counter(), 10_000
    for start in range(0, len(data.facts), step):
        facts = data.facts[start : start + step]
        number = range(start, start + len(facts))
        columns = {
            "uuid": [f"f{i:08}" for i in number],
            "group_id": ["g0"] * len(facts),
            "source": [f"p{i % 1000}" for i in number],
            "target": [f"p{(i * 7 + 1) % 1000}" for i in number],
            "fact": facts,
            "fact_embedding": _column(data.vectors[start : start + step]),
        }
        await store.commit(WriteBatch((EdgeWrite("FACT", pa.table(columns)),)))
    return len(data.facts) / (time.perf_counter() - started)


def _column(vectors: Singles) -> pa.Array:
    return pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1)), vectors.shape[1])


class Bare:
    """The bare parts: a table, an FTS5 index, a matrix."""

    def __init__(self, data: Data) -> None:
        self.matrix = data.vectors
        self.con = sqlite3.connect(":memory:")
        self.con.executescript(
            """CREATE TABLE facts (id INTEGER PRIMARY KEY, uuid TEXT, source TEXT, target TEXT, fact TEXT);
            CREATE VIRTUAL TABLE words USING fts5(fact, content='', tokenize='unicode61 remove_diacritics 0')"""
        )
        ends = ((f"p{i % 1000}", f"p{(i * 7 + 1) % 1000}") for i in range(len(data.facts)))
        rows = (
            (i, f"f{i:08}", *end, fact)
            for i, (end, fact) in enumerate(zip(ends, data.facts, strict=True))
        )
        self.con.executemany("INSERT INTO facts VALUES (?, ?, ?, ?, ?)", rows)
        self.con.executemany("INSERT INTO words (rowid, fact) VALUES (?, ?)", enumerate(data.facts))

    def search(self, text: str, vector: Singles) -> list[Any]:
        """The hits of one query, by words and by vector."""
        match = " OR ".join(f'"{word}"' for word in text.split())
        order = "SELECT rowid, bm25(words) AS s FROM words WHERE words MATCH ? ORDER BY s LIMIT ?"
        ids = [row for row, _ in self.con.execute(order, (match, K))]
        ids += self.nearest(vector, K)
        marks = ", ".join("?" * len(ids))
        return self.con.execute(f"SELECT * FROM facts WHERE id IN ({marks})", ids).fetchall()

    def nearest(self, vector: Singles, k: int) -> list[int]:
        """The rows nearest to a vector, in no order: one product."""
        found: list[int] = np.argpartition(-(self.matrix @ vector), k)[:k].tolist()
        return found


def rows_of(texts: Sequence[str], vectors: Singles) -> pa.Table:
    """Rows that ask."""
    columns = {"_q": pa.array(range(len(texts)), pa.int64()), "group_id": ["g0"] * len(texts)}
    return pa.table({**columns, "words": list(texts), "vector": _column(vectors)})


async def measure(
    store: SqliteStore, bare: Bare, data: Data, kind: str, at_once: int
) -> dict[str, float]:
    """All queries of a kind, so many in one request, then by vector alone; the first request of all
    warms up.
    """
    words, near = Method("fulltext", "fact", "words", k=K), Method("nearest", "fact", "vector", k=K)
    query, texts = SearchQuery("FACT", (words, near), ("fact",)), data.queries[kind]
    alone = SearchQuery("FACT", (Method("nearest", "fact", "vector", k=NEAREST),), ("fact",))
    await store.search([query], rows_of(texts, data.asked))
    parts, hybrid, product, by_vector = watches = tuple(list[Watch]() for _ in range(4))
    found = 0
    for first in range(0, len(texts), at_once):
        rows = rows_of(texts[first : first + at_once], data.asked[first : first + at_once])
        turn = [Watch() for _ in watches]
        with turn[0]:
            bare.search(texts[first], data.asked[first])
        with turn[1]:
            await store.search([query], rows)
        with turn[2]:
            exact = bare.nearest(data.asked[first], NEAREST)
        with turn[3]:
            [hits] = await store.search([alone], rows.slice(0, 1))
        for watch, one in zip(watches, turn, strict=True):
            watch.append(one)
        found += len({f"f{row:08}" for row in exact} & set(hits["uuid"].to_pylist()))
    requests = len(parts)
    figures = {
        "p50_ms": _median(hybrid) / at_once,
        "p95_ms": 1e3 * sorted(one.seconds for one in hybrid)[int(0.95 * (requests - 1))] / at_once,
        "bare_p50_ms": _median(parts),
        "cpu_ms": 1e3 * statistics.median(one.cpu for one in hybrid) / at_once,
        "of_product": _median(by_vector) / _median(product),
        "recall": found / (NEAREST * requests),
    }
    figures["of_bare"] = figures["p50_ms"] / figures["bare_p50_ms"]
    return {name: round(value, 3) for name, value in figures.items()}


def _median(watches: Sequence[Watch]) -> float:
    return 1e3 * statistics.median(watch.seconds for watch in watches)


class Kept(NamedTuple):
    """The facts of a trial, in a store and in bare parts, and how many a second the store took."""

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
    return Kept(data, Bare(data), file, asyncio.run(_loaded(file, data)), folder)


async def _loaded(file: Path, data: Data) -> float:
    async with aclosing(SqliteStore(file)) as store:
        return await load(store, data)


def measured(rows: int, kind: str, at_once: int, trial: int) -> dict[str, float]:
    """Search among so many facts, as many queries in one request."""
    return asyncio.run(_measured(_kept(rows, trial), kind, at_once))


async def _measured(kept: Kept, kind: str, at_once: int) -> dict[str, float]:
    async with aclosing(SqliteStore(kept.file)) as store:
        await store.ensure(GRAPH, DIMENSIONS)
        found = await measure(store, kept.bare, kept.data, kind, at_once)
    return found | {"loaded_per_s": round(kept.rate)}
