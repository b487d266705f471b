"""A window of many rows finds among them what the same rows find by all pairs."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from semgraph.expr import parse_scalar as sql
from semgraph.frontend.graph_files import graph_of
from semgraph.llm.base import Embeddings
from semgraph.logical.node import Sort
from semgraph.logical.relational import Input
from semgraph.logical.search import Search, SearchMethod
from semgraph.physical import search_rows, shortlist
from semgraph.physical.search import run_searches
from semgraph.physical.search_spec import SearchSpec
from semgraph.relational.batch import Batch, runtime_schema
from semgraph.stores.sqlite.store import SqliteStore

GRAPH = graph_of(
    {
        "nodes": {
            "Person": {
                "properties": {"name": "string", "note": "string"},
                "derived": {"name_key": "key(name)", "name_embedding": {"embed": "name"}},
                "fulltext": {"person": ["name", "note"]},
            }
        }
    }
)
TYPES: dict[str, pa.DataType] = {
    name: pa.string() for name in ("uuid", "group_id", "name", "note", "name_key", "asked")
}
ROWS = Input(
    name="rows",
    columns=pa.schema({**TYPES, "turn": pa.int64()}),
    windowed=True,
)
WORDS = ["ann", "bob", "cy", "lee", "ray", "of", "the", "north"]
EQUAL = SearchMethod("equal", "name_key", sql("name_key"))
SHARED = SearchMethod("fulltext", "name", sql("asked"), rank="overlap")
NEAR = SearchMethod("nearest", "name", sql("name"), above=0.5)


async def embed(texts: Sequence[str], _partition: str = "") -> Embeddings:
    """A vector for each text: which letters it has; none has a direction that is zero but the blank
    one.
    """
    rows = [[float(text.count(letter)) for letter in "anbolerycthu"] for text in texts]
    return Embeddings(np.array(rows, np.float32))


def some_rows(seed: int, groups: int = 1, count: int = 60) -> pa.Table:
    """Rows of a few words, many of them equal, some without a name or without anything asked."""
    draw = random.Random(seed)

    def text(least: int) -> str:
        return " ".join(draw.choice(WORDS) for _ in range(draw.randint(least, 3)))

    rows = []
    for n in range(count):
        name = text(1) if draw.random() < 0.9 else None
        more = {
            "note": text(0) or None,
            "asked": text(0) if draw.random() < 0.9 else None,
            "name_key": name,
        }
        whose = n % groups
        rows.append(
            {
                "uuid": f"u{draw.random()}",
                "group_id": f"g{whose}",
                "name": name,
                "turn": n // 2,
                **more,
            }
        )
        rows[-1] |= {"_p": whose, "_m": n}
    return pa.Table.from_pylist(rows, schema=runtime_schema(ROWS))


def found(
    rows: pa.Table,
    many: int,
    monkeypatch: pytest.MonkeyPatch,
    **options: Any,
) -> list[dict[str, Any]]:
    own: dict[str, Any] = {
        "graph": GRAPH,
        "input": ROWS,
        "label": "Person",
        "within": ROWS,
        "alias": "hit",
        "k": 3,
    }
    node = Search(**own | {"methods": (SHARED,)} | options)
    monkeypatch.setattr(search_rows, "MANY", many)

    async def go() -> Batch:
        store = SqliteStore(":memory:")
        await store.ensure(GRAPH, 12)
        spec, batch = SearchSpec.compile(node, store), Batch.of_table(rows)
        (result,) = await run_searches([spec], batch, [batch], store.search, embed, None)
        await store.aclose()
        return result

    return asyncio.run(go()).table.to_pylist()


@pytest.mark.parametrize("methods", [(EQUAL,), (SHARED,), (NEAR,), (EQUAL, SHARED, NEAR)])
@pytest.mark.parametrize(
    "where", [None, "coalesce(hit.turn < turn, TRUE)", "hit.name_key <> name_key"]
)
@pytest.mark.parametrize("groups", [1, 3])
def test_the_pairs_of_a_shortlist_are_enough(
    methods: tuple[SearchMethod, ...],
    where: str | None,
    groups: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for seed in range(3):
        rows = some_rows(seed, groups)
        options = {"methods": methods, "where": sql(where) if where else None}
        assert found(rows, 0, monkeypatch, **options) == found(rows, 10**9, monkeypatch, **options)


@pytest.mark.parametrize(
    "options",
    [{"how": "left"}, {"fuse": "none", "k": 5}, {"order": (Sort(sql("hit.turn")),), "methods": ()}],
)
def test_whatever_is_done_with_hits_afterwards(
    options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = some_rows(7)
    assert found(rows, 0, monkeypatch, **options) == found(rows, 10**9, monkeypatch, **options)


@pytest.mark.parametrize("many", [0, 10**9])
def test_a_vector_of_zeros_is_near_to_nothing(many: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = some_rows(3).slice(0, 6)
    names = pa.array(["ann", "ann", "", "", None, "bob"])
    rows = rows.set_column(rows.schema.get_field_index("name"), rows.schema.field("name"), names)
    hits = found(rows, many, monkeypatch, methods=(NEAR,))
    assert hits
    assert {row["hit"]["name"] for row in hits} == {"ann", "bob"}


def test_rows_are_looked_at_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = some_rows(9)
    whole = found(rows, 0, monkeypatch, methods=(EQUAL, SHARED, NEAR))
    monkeypatch.setattr(shortlist, "_BLOCK", 7 * rows.num_rows)
    assert found(rows, 0, monkeypatch, methods=(EQUAL, SHARED, NEAR)) == whole


def test_equal_rows_are_told_apart_by_their_keys_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [
        {
            "uuid": key,
            "group_id": "g",
            "name": "ann",
            "name_key": "ann",
            "asked": "ann",
            "turn": 0,
            "_p": 0,
            "_m": n,
        }
        for n, key in enumerate(["d", "b", "e", "a", "c"])
    ]
    table = pa.Table.from_pylist(rows, schema=runtime_schema(ROWS))
    hits = found(table, 0, monkeypatch, k=2, where=sql("hit.uuid <> uuid"))
    assert [(row["uuid"], row["hit"]["uuid"]) for row in hits] == [
        ("d", "a"), ("d", "b"), ("b", "a"), ("b", "c"), ("e", "a"), ("e", "b"), ("a", "b"), ("a", "c"), ("c", "a"),
        ("c", "b"),
    ]  # fmt: skip


def test_few_pairs_are_compared_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    listed = []
    own = shortlist.shortlist

    async def noted(*given: Any) -> list[list[shortlist.Pair]]:
        listed.append(given)
        return await own(*given)

    monkeypatch.setattr("semgraph.physical.search_rows.shortlist", noted)
    found(some_rows(1), 60 * 60, monkeypatch)
    assert not listed
    found(some_rows(1), 60 * 60 - 1, monkeypatch)
    assert len(listed) == 1
    found(some_rows(1, groups=60), 60, monkeypatch)  # many groups, each of few
    assert len(listed) == 1
