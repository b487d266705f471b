"""Hybrid search in the embedded store beside its bare parts, in one run.

    python benchmarks/search_embedded/run.py --rows 100000

The bare parts are what nobody can leave out: one FTS5 query ordered by BM25, one product of a matrix with a vector, and the
rows of the hits by id; without partitions, ties, types or anybody else who writes. The query is embedded already. They take
turns, query by query, so that what else the machine does falls on both; times are wall time, and CPU time beside it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from semgraph.logical.schema import Graph
from semgraph.stores.base import Batch, EdgeWrite, Method, NodeWrite, SearchQuery
from semgraph.stores.sqlite import SqliteStore

K = 20
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
    """Synthetic facts: twelve words each, as frequent as their rank in a vocabulary of 20,000 says, and unit vectors."""

    facts: list[str]
    vectors: np.ndarray[Any, np.dtype[np.float32]]
    queries: dict[str, list[str]]
    asked: np.ndarray[Any, np.dtype[np.float32]]


def make(rows: int, dimensions: int, queries: int, seed: int) -> Data:
    """Facts and queries. Queries have six words: any, frequent ones included, or none of the 50 most frequent."""
    rng = np.random.default_rng(seed)
    vocabulary = np.array([f"w{i:05}" for i in range(20_000)])
    weight = 1 / np.arange(1, 20_001)
    facts = [" ".join(row) for row in vocabulary[rng.choice(20_000, (rows, 12), p=weight / weight.sum())]]

    def unit(count: int) -> np.ndarray[Any, np.dtype[np.float32]]:
        found = rng.standard_normal((count, dimensions), np.float32)
        found /= np.linalg.norm(found, axis=1, keepdims=True)
        return found

    def asked(first: int) -> list[str]:
        rest = weight[first:] / weight[first:].sum()
        return [" ".join(row) for row in vocabulary[first:][rng.choice(20_000 - first, (queries, 6), p=rest)]]

    return Data(facts, unit(rows), {"no very frequent words": asked(50), "any words": asked(0)}, unit(queries))


async def load(store: SqliteStore, data: Data, groups: int) -> float:
    """Write the facts; rows per second."""
    await store.ensure(GRAPH, data.vectors.shape[1])
    people = pa.table({"uuid": [f"p{i}" for i in range(1000)], "group_id": [f"g{i % groups}" for i in range(1000)]})
    await store.commit(Batch((NodeWrite("Entity", people),)))
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
        await store.commit(Batch((EdgeWrite("FACT", pa.table(columns)),)))
    return len(data.facts) / (time.perf_counter() - started)


class Bare:
    """The bare parts: a table, an FTS5 index, a matrix."""

    def __init__(self, data: Data) -> None:
        self.matrix = data.vectors
        self.con = sqlite3.connect(":memory:")
        self.con.execute("CREATE TABLE facts (id INTEGER PRIMARY KEY, uuid TEXT, source TEXT, target TEXT, fact TEXT)")
        self.con.execute(
            "CREATE VIRTUAL TABLE words USING fts5(fact, content='', tokenize='unicode61 remove_diacritics 0')"
        )
        rows = [(i, f"f{i:08}", f"p{i % 1000}", f"p{(i * 7 + 1) % 1000}", fact) for i, fact in enumerate(data.facts)]
        self.con.executemany("INSERT INTO facts VALUES (?, ?, ?, ?, ?)", rows)
        self.con.executemany("INSERT INTO words (rowid, fact) VALUES (?, ?)", ((row[0], row[4]) for row in rows))

    def search(self, text: str, vector: np.ndarray[Any, np.dtype[np.float32]]) -> list[Any]:
        """The hits of one query, by words and by vector."""
        match = " OR ".join(f'"{word}"' for word in text.split())
        order = "SELECT rowid, bm25(words) AS s FROM words WHERE words MATCH ? ORDER BY s LIMIT ?"
        ids = [row for row, _ in self.con.execute(order, (match, K))]
        cosine = self.matrix @ vector
        ids += np.argpartition(-cosine, K)[:K].tolist()
        marks = ", ".join("?" * len(ids))
        return self.con.execute(f"SELECT * FROM facts WHERE id IN ({marks})", ids).fetchall()


def rows_of(texts: Sequence[str], vectors: np.ndarray[Any, np.dtype[np.float32]], groups: int) -> pa.Table:
    """Rows that ask."""
    count = len(texts)
    return pa.table(
        {
            "_q": pa.array(range(count), pa.int64()),
            "group_id": [f"g{i % groups}" for i in range(count)],
            "words": list(texts),
            "vector": pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1)), vectors.shape[1]),
        }
    )


class Clock:
    """Wall and CPU time of what runs inside."""

    def __init__(self) -> None:
        self.wall: list[float] = []
        self.cpu: list[float] = []

    def __enter__(self) -> None:
        self._started = time.perf_counter(), time.process_time()

    def __exit__(self, *_: object) -> None:
        wall, cpu = self._started
        self.wall.append((time.perf_counter() - wall) * 1e3)
        self.cpu.append((time.process_time() - cpu) * 1e3)


async def measure(store: SqliteStore, bare: Bare, data: Data, groups: int) -> list[dict[str, Any]]:
    """A line per kind of query and per way to ask; milliseconds."""
    methods = (Method("fulltext", "fact", "words", k=K), Method("nearest", "fact", "vector", k=K))
    query = SearchQuery("FACT", methods, ("fact",))
    found = []
    for kind, texts in data.queries.items():
        await store.search([query], rows_of(texts, data.asked, groups))
        alone, beside, at_once = Clock(), Clock(), Clock()
        for i, text in enumerate(texts):
            rows = rows_of([text], data.asked[i : i + 1], groups)
            with alone:
                bare.search(text, data.asked[i])
            with beside:
                await store.search([query], rows)
        found.append(line(f"one at a time, {kind}", alone, beside, 1))
        for _ in range(3):
            with at_once:
                await store.search([query], rows_of(texts, data.asked, groups))
        found.append(line(f"{len(texts)} at once, {kind}, each", alone, at_once, len(texts)))
    return found


def line(what: str, bare: Clock, store: Clock, queries: int) -> dict[str, Any]:
    """Medians."""
    found: dict[str, Any] = {"what": what}
    for name in ("wall", "cpu"):
        found[f"bare {name}"] = statistics.median(getattr(bare, name))
        found[f"store {name}"] = statistics.median(getattr(store, name)) / queries
        found[f"ratio {name}"] = found[f"store {name}"] / found[f"bare {name}"]
    return found


async def main() -> None:
    """Run and print, a line of JSON per measurement at the end."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--dimensions", type=int, default=384)
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--groups", type=int, default=1, help="the bare parts always search all rows")
    parser.add_argument("--seed", type=int, default=7)
    given = parser.parse_args()
    data = make(given.rows, given.dimensions, given.queries, given.seed)
    with tempfile.TemporaryDirectory() as folder:
        store = SqliteStore(Path(folder) / "graph.db")
        rate = await load(store, data, given.groups)
        print(
            f"{given.rows:,} facts, {given.dimensions} dimensions, {given.groups} groups; loaded {rate:,.0f} rows a second"
        )
        lines = await measure(store, Bare(data), data, given.groups)
        await store.aclose()
    names = [f"{name} {kind}" for kind in ("wall", "cpu") for name in ("bare", "store", "ratio")]
    print(f"{'p50 in ms':47}" + "".join(f"{name:>12}" for name in names))
    for one in lines:
        print(f"{one['what']:47}" + "".join(f"{one[name]:12.2f}" for name in names))
    for one in lines:
        print(json.dumps({**vars(given), **one}))


if __name__ == "__main__":
    asyncio.run(main())
