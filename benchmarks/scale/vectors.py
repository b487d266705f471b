"""Hybrid search among a million facts of one group in one SQLite file, of which the vectors are held in int8."""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import tempfile
import time
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.scale.memory import peak_mib
from benchmarks.search.embedded import DIMENSIONS, GRAPH, Clock, load, make, rows_of
from benchmarks.suite.children import last_line_of
from semgraph.stores.base import Method, SearchQuery
from semgraph.stores.sqlite.store import SqliteStore

Figures = dict[str, float | int]
Singles = np.ndarray[Any, np.dtype[np.float32]]
QUERIES, AT_ONCE, K = 100, 50, 20
RARE, ANY = "no very frequent words", "any words"
AROUND, UNIFORM = "around 1,000 centres", "of any direction"
KINDS = (AROUND, UNIFORM)
_CENTRES = 1_000
_NEAREST = 10


def measured(rows: int, kind: str, words: str, _: int) -> Figures:
    """Searches in a process of its own. A file of so many facts is filled once, for both kinds of
    words.
    """
    folder, figures = _filled(rows, kind)
    found: Figures = json.loads(last_line_of(__name__, "search", folder, words))
    return {**figures, **found}


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="semgraph-vectors-")


@cache
def _filled(rows: int, kind: str) -> tuple[str, Figures]:
    folder = tempfile.mkdtemp(dir=_folder().name)
    figures: Figures = {}
    for step in (("fill", folder, str(rows), kind), ("first", folder)):
        figures |= json.loads(last_line_of(__name__, *step))
    return folder, figures


def vectors(kind: str, count: int, seed: int) -> Singles:
    """Vectors of length 1: of any direction, or around centres."""
    rng = np.random.default_rng(seed)
    found = rng.standard_normal((count, DIMENSIONS), np.float32)
    if kind == AROUND:
        centres = np.random.default_rng(9).standard_normal((_CENTRES, DIMENSIONS), np.float32)
        found *= 0.7
        found += centres[rng.integers(0, _CENTRES, count)]
    found /= np.linalg.norm(found, axis=1, keepdims=True)
    return found


def fill(folder: Path, rows: int, kind: str) -> Figures:
    """Write the facts to a file, and beside it the queries and the hits of an exact search."""
    data = make(rows, 1, QUERIES, 7)._replace(
        vectors=vectors(kind, rows, 7), asked=vectors(kind, QUERIES, 8)
    )
    exact = _nearest(data.vectors, data.asked)
    np.savez(folder / "asked.npz", asked=data.asked, exact=exact)
    (folder / "asked.json").write_text(json.dumps(data.queries))
    rate = asyncio.run(_loaded(folder, data))
    return {"loaded_per_s": round(rate)}


def _nearest(stored: Singles, asked: Singles) -> Any:
    """The rows nearest to each query, by cosine."""
    cosines = asked @ stored.T
    return np.argsort(-cosines, axis=1, kind="stable")[:, :_NEAREST]


async def _loaded(folder: Path, data: Any) -> float:
    store = SqliteStore(folder / "graph.db")
    try:
        return await load(store, data, 1)
    finally:
        await store.aclose()


async def _opened(folder: Path) -> SqliteStore:
    store = SqliteStore(folder / "graph.db")
    await store.ensure(GRAPH, DIMENSIONS)
    return store


def first(folder: Path) -> Figures:
    """Seconds and memory of the first search, which reads the vectors; size of the file."""
    seconds = asyncio.run(_first(folder))
    return {
        "first_s": round(seconds, 1), "first_mib": round(peak_mib()),
        "file_mib": round((folder / "graph.db").stat().st_size / 2**20),
    }  # fmt: skip


async def _first(folder: Path) -> float:
    store = await _opened(folder)
    asked = np.load(folder / "asked.npz")["asked"][:1]
    began = time.perf_counter()
    try:
        await store.search([_query(_NEAREST, fulltext=False)], rows_of([""], asked, 1))
    finally:
        await store.aclose()
    return time.perf_counter() - began


def _query(k: int, *, fulltext: bool = True) -> SearchQuery:
    nearest = Method("nearest", "fact", "vector", k=k)
    words = (Method("fulltext", "fact", "words", k=k),) if fulltext else ()
    return SearchQuery("FACT", (*words, nearest), ("fact",))


async def search(folder: Path, words: str) -> Figures:
    """Times of hybrid queries one by one and fifty at once, and recall of the nearest alone."""
    held = np.load(folder / "asked.npz")
    asked, exact = held["asked"], held["exact"]
    texts: list[str] = json.loads((folder / "asked.json").read_text())[words]
    store = await _opened(folder)
    alone, by_vector, together = Clock(), Clock(), Clock()
    try:
        await store.search([_query(K)], rows_of(texts[:2], asked[:2], 1))
        for at_once, clock, hybrid in (
            (1, alone, True),
            (1, by_vector, False),
            (AT_ONCE, together, True),
        ):
            for first in range(0, QUERIES, at_once):
                rows = rows_of(texts[first : first + at_once], asked[first : first + at_once], 1)
                with clock:
                    await store.search([_query(K, fulltext=hybrid)], rows)
        [hits] = await store.search([_query(_NEAREST, fulltext=False)], rows_of(texts, asked, 1))
    finally:
        await store.aclose()
    return {
        "p50_ms": round(statistics.median(alone.wall), 2),
        "p95_ms": round(sorted(alone.wall)[int(0.95 * (len(alone.wall) - 1))], 2),
        "cpu_ms": round(statistics.median(alone.cpu), 2),
        "vector_p50_ms": round(statistics.median(by_vector.wall), 2),
        "each_ms": round(statistics.median(together.wall) / AT_ONCE, 2),
        "recall": round(_recall(hits.to_pylist(), exact), 4), "peak_mib": round(peak_mib()),
    }  # fmt: skip


def _recall(hits: list[dict[str, Any]], exact: Any) -> float:
    """The share of the exact hits that were found."""
    found = {(hit["_q"], hit["uuid"]) for hit in hits}
    wanted = {(query, f"f{row:08}") for query, rows in enumerate(exact) for row in rows}
    return len(found & wanted) / len(wanted)


def main() -> None:
    """Run a step of the command line: fill FOLDER ROWS KIND, first FOLDER, search FOLDER WORDS."""
    step, folder, *rest = sys.argv[1:]
    path = Path(folder)
    if step == "fill":
        figures = fill(path, int(rest[0]), rest[1])
    elif step == "first":
        figures = first(path)
    else:
        figures = asyncio.run(search(path, rest[0]))
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
