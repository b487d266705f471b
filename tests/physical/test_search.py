"""Searches: what the store's hits and a step's rows make together."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from semgraph.expr import parse_scalar as sql
from semgraph.expr.functions import overlap
from semgraph.frontend.graph_files import graph_of
from semgraph.llm.base import Embeddings
from semgraph.logical.node import Sort
from semgraph.logical.relational import Input
from semgraph.logical.search import Search, SearchMethod
from semgraph.physical import search_rows
from semgraph.physical.search import method_values, run_searches
from semgraph.physical.search_rows import RowSearch
from semgraph.physical.search_spec import SearchInput, SearchSpec
from semgraph.physical.vectors import vectors_of
from semgraph.relational.batch import Batch, runtime_schema
from semgraph.stores.base import NodeWrite, WriteBatch
from semgraph.stores.sqlite.store import SqliteStore

GRAPH = graph_of(
    {
        "graph": "people",
        "nodes": {
            "Person": {
                "properties": {"name": "string", "age": "int64"},
                "derived": {"name_key": "key(name)", "name_embedding": {"embed": "name"}},
                "fulltext": {"person_name": ["name"]},
            }
        },
    }
)
ROWS = Input(
    name="rows",
    columns=pa.schema(
        [
            ("uuid", pa.string()),
            ("group_id", pa.string()),
            ("name", pa.string()),
            ("name_key", pa.string()),
            ("turn", pa.int64()),
        ]
    ),
    windowed=True,
)
NAMES = ["ann lee", "bob lee", "ann ray", "cy"]


async def embed(texts: Sequence[str], _partition: str = "") -> Embeddings:
    """A vector for each text: which of eight letters it has."""
    rows = [[float(text.count(letter)) + 0.1 for letter in "anbolery"] for text in texts]
    return Embeddings(np.array(rows, np.float32))


def search(**options: Any) -> Search:
    methods = (
        SearchMethod("equal", "name_key", sql("name_key")),
        SearchMethod("fulltext", "name", sql("name"), rank="overlap"),
        SearchMethod("nearest", "name", sql("name"), above=0.9),
    )
    return Search(
        **{
            "graph": GRAPH,
            "input": ROWS,
            "label": "Person",
            "alias": "hit",
            "k": 3,
            "methods": methods,
        }
        | options
    )


def given_rows(*names: str, turn: int = 0) -> pa.Table:
    rows = [
        {
            "uuid": f"r{i}",
            "group_id": "g",
            "name": n,
            "name_key": n,
            "turn": turn + i,
            "_p": 0,
            "_m": i,
        }
        for i, n in enumerate(names)
    ]
    return pa.Table.from_pylist(rows, schema=runtime_schema(ROWS))


async def store_with(names: Sequence[str]) -> SqliteStore:
    store = SqliteStore(":memory:")
    await store.ensure(GRAPH, 8)
    if names:
        numbers = (await embed(names)).vectors.reshape(-1)
        vectors = pa.FixedSizeListArray.from_arrays(pa.array(numbers), 8)
        table = pa.table(
            {
                "uuid": [f"s{i}" for i in range(len(names))], "group_id": ["g"] * len(names), "name": list(names),
                "name_key": list(names), "age": pa.array(range(len(names)), pa.int64()), "name_embedding": vectors,
            }
        )  # fmt: skip
        await store.commit(WriteBatch((NodeWrite("Person", table),)))
    return store


def run(node: Search, rows: pa.Table, stored: Sequence[str]) -> list[dict[str, Any]]:
    async def go() -> Batch:
        store = await store_with(stored)
        spec, left = SearchSpec.compile(node, store), Batch.of_table(rows)
        within = left if node.within is not None else None
        (result,) = await run_searches([spec], left, [within], store.search, embed, None)
        await store.aclose()
        return result

    return asyncio.run(go()).table.to_pylist()


def test_hits_are_ranked_by_each_method_and_fused_by_reciprocal_ranks() -> None:
    (first, *rest) = run(search(), given_rows("ann lee"), NAMES)
    assert (first["hit"]["uuid"], first["hit"]["rank"], first["hit"]["score"]) == ("s0", 0, 3.0)
    assert [row["hit"]["rank"] for row in rest] == list(range(1, len(rest) + 1))


def test_where_acts_before_k() -> None:
    found = run(search(k=1, where=sql("hit.age > 0")), given_rows("ann lee"), NAMES)
    assert [row["hit"]["uuid"] for row in found] == ["s1"]


def test_what_a_store_does_not_take_is_filtered_here_before_k_too() -> None:
    found = run(
        search(k=1, where=sql("length(hit.name) = length(name) AND hit.name <> name")),
        given_rows("ann lee"),
        NAMES,
    )
    assert [row["hit"]["uuid"] for row in found] == ["s1"]


def test_rows_of_a_step_are_hits_of_later_rows_only_where_where_says_so() -> None:
    node = search(within=ROWS, where=sql("coalesce(hit.turn < turn, TRUE)"))
    found = run(node, given_rows("dee", "dee"), [])
    assert [(row["uuid"], row["hit"]["uuid"], row["hit"]["turn"]) for row in found] == [
        ("r1", "r0", 0)
    ]


def test_on_equal_keys_the_row_of_the_step_wins_over_the_stored_one() -> None:
    rows = given_rows("ann lee", "ann lee")
    rows = rows.set_column(0, "uuid", pa.array(["s0", "new"]))
    node = search(within=ROWS, where=sql("coalesce(hit.turn < turn, TRUE)"), k=9)
    found = [
        (row["uuid"], row["hit"]["uuid"], row["hit"]["age"]) for row in run(node, rows, NAMES[:1])
    ]
    assert found == [("new", "s0", None)]


def test_how_left_keeps_rows_without_a_hit() -> None:
    found = run(search(how="left"), given_rows("zzz", "ann lee"), NAMES[:1])
    assert [(row["uuid"], row["hit"] and row["hit"]["uuid"]) for row in found] == [
        ("r0", None),
        ("r1", "s0"),
    ]


def test_fuse_none_gives_a_row_for_each_method_and_hit() -> None:
    found = run(search(fuse="none"), given_rows("cy"), ["cy"])
    assert [row["hit"]["via"] for row in found] == ["equal", "fulltext", "nearest"]


@pytest.mark.parametrize("within", [None, ROWS])
def test_a_single_method_gives_its_own_score(within: Input | None) -> None:
    shared = SearchMethod("fulltext", "name", sql("name"), rank="overlap")
    found = run(search(methods=(shared,), within=within), given_rows("ann lee"), NAMES)
    assert found
    assert all(row["hit"]["score"] == overlap("ann lee", row["hit"]["name"]) for row in found)
    near = SearchMethod("nearest", "name", sql("name"), above=0.9)
    first = run(search(methods=(near,)), given_rows("cy"), NAMES)[0]["hit"]
    assert (first["name"], round(first["score"], 6)) == ("cy", 1.0)
    equal = SearchMethod("equal", "name_key", sql("name_key"))
    assert [r["hit"]["score"] for r in run(search(methods=(equal,)), given_rows("cy"), NAMES)] == [
        1.0
    ]


def test_several_methods_have_a_fused_score_and_without_fusion_their_own() -> None:
    fused = run(search(), given_rows("cy"), ["cy"])
    assert [row["hit"]["score"] for row in fused] == [3.0]
    apart = run(search(fuse="none"), given_rows("cy"), ["cy"])
    assert [row["hit"]["score"] for row in apart][:2] == [1.0, 1.0]


def test_rows_of_a_step_may_be_named_by_a_key_of_their_own() -> None:
    shared = SearchMethod("fulltext", "name", sql("name"), rank="overlap")
    node = search(label="", within=ROWS, methods=(shared,), key="name_key", k=5)
    found = run(node, given_rows("ann lee", "lee"), [])
    assert [(row["name"], row["hit"]["name_key"]) for row in found] == [
        ("ann lee", "ann lee"), ("ann lee", "lee"), ("lee", "lee"), ("lee", "ann lee"),
    ]  # fmt: skip


def test_hits_among_rows_of_a_step_have_vectors_of_their_texts() -> None:
    node = search(within=ROWS, vectors=("name_embedding",), where=sql(BEFORE), how="left")
    (first, *found) = run(node, given_rows("ann lee", "ann lee"), [])
    assert first["hit"] is None
    expected = asyncio.run(embed(["ann lee"])).vectors[0].tolist()
    assert [row["hit"]["name_embedding"] for row in found] == [expected]


@pytest.mark.parametrize("alias", ["l", "s", "w", "t", "_w", "ranked", "fused", "score"])
def test_an_alias_may_have_any_name_that_plans_can_write(alias: str) -> None:
    node = search(
        alias=alias,
        where=sql(f"length({alias}.name) = 7 AND coalesce({alias}.turn < turn, TRUE)"),
        within=ROWS,
    )
    found = run(node, given_rows("ann lee", "ann lee"), NAMES[:1])
    assert [(row["uuid"], row[alias]["uuid"]) for row in found] == [
        ("r0", "s0"),
        ("r1", "r0"),
        ("r1", "s0"),
    ]


def test_a_row_may_have_columns_named_as_what_ranks_hits() -> None:
    names = {"score": pa.float64(), "method": pa.int64(), "rank": pa.int64(), "via": pa.string()}
    source = Input(name="rows", columns=pa.schema([*ROWS.columns, *names.items()]), windowed=True)
    rows = (
        given_rows("ann lee")
        .append_column("score", pa.array([9.0]))
        .append_column("method", pa.array([7]))
    )
    rows = rows.append_column("rank", pa.array([8])).append_column("via", pa.array(["x"]))
    node = search(input=source, where=sql("length(hit.name) = method AND score > 8"), k=1)
    (found,) = run(node, rows.select(runtime_schema(source).names), NAMES)
    assert (found["score"], found["via"], found["hit"]["uuid"], found["hit"]["score"]) == (
        9.0,
        "x",
        "s0",
        3.0,
    )


@pytest.mark.parametrize("within", [None, ROWS])
@pytest.mark.parametrize(
    ("order", "best"),
    [("length(hit.name)", "cy"), ("abs(hit.age - length(name))", "cy"), ("hit.age % 2", "ann lee")],
)
def test_an_order_may_be_any_expression_over_row_and_hit(
    order: str, best: str, within: Input | None
) -> None:
    where = sql("hit.uuid <> uuid")
    node = search(methods=(), order=(Sort(sql(order)),), k=1, within=within, where=where)
    assert [row["hit"]["name"] for row in run(node, given_rows("dee"), NAMES)] == [best]


def test_hits_by_order_are_k_though_rows_of_the_step_stand_for_stored_ones() -> None:
    order = (Sort(sql("hit.name"), descending=True), Sort(sql("hit.turn"), descending=True))
    node = search(
        methods=(), order=order, k=2, within=ROWS, where=sql("coalesce(hit.turn < turn, TRUE)")
    )
    rows = given_rows("x0", "x1", "x2", "x3", "x4", "x5").set_column(
        0, "uuid", pa.array([f"s{i}" for i in range(6)])
    )
    hits: dict[str, list[str]] = {}
    for row in run(node, rows, [f"x{i}" for i in range(6)] + ["old", "older"]):
        hits.setdefault(row["uuid"], []).append(row["hit"]["name"])
    assert hits == {
        "s0": ["older", "old"],
        "s1": ["x0", "older"],
        **{f"s{i}": [f"x{i - 1}", f"x{i - 2}"] for i in range(2, 6)},
    }


def test_hits_by_order_whose_rows_in_the_step_come_later_are_sought_further() -> None:
    node = search(
        methods=(),
        order=(Sort(sql("hit.age")),),
        k=1,
        within=ROWS,
        where=sql("coalesce(hit.turn < turn, TRUE)"),
    )
    rows = given_rows("x", "y").set_column(
        0, "uuid", pa.array(["s0", "new"])
    )  # rows of the step have no age
    assert [(r["uuid"], r["hit"]["uuid"]) for r in run(node, rows, ["x", "z"])] == [
        ("s0", "s1"),
        ("new", "s1"),
    ]


@pytest.mark.parametrize(("asked", "other"), [(None, "ann lee"), ("ann lee", None), (None, None)])
def test_what_has_no_text_is_near_to_nothing(asked: str | None, other: str | None) -> None:
    node = search(
        methods=(SearchMethod("nearest", "name", sql("name"), above=0.1),),
        within=ROWS,
        where=sql("hit.uuid <> uuid"),
    )
    rows = given_rows("a", "b").set_column(2, "name", pa.array([asked, other], pa.string()))
    assert run(node, rows, []) == []
    assert [r["uuid"] for r in run(node, rows, NAMES[:1])] == [
        f"r{i}" for i, n in enumerate((asked, other)) if n
    ]


def test_texts_of_two_partitions_are_embedded_apart() -> None:
    told: list[tuple[tuple[str, ...], str]] = []

    async def embedding(texts: Sequence[str], partition: str) -> Embeddings:
        told.append((tuple(texts), partition))
        return await embed(texts)

    names = ["ann", None, "bob", "ann", "ann"]
    rows = Batch.of_table(pa.table({"name": names, "group_id": ["g", "g", "h", "h", "g"]}))
    found = asyncio.run(vectors_of(rows, "vector", names, embedding, "group_id")).to_pylist()
    assert told == [(("ann",), "g"), (("bob", "ann"), "h")]
    assert found[0] == found[3] == found[4] != found[2]
    assert found[1] is None


EQUAL = SearchMethod("equal", "name_key", sql("name_key"))
SHARED = SearchMethod("fulltext", "name", sql("name"), rank="overlap")
STORE_RANKED = SearchMethod("fulltext", "name", sql("name"))
NEAR = SearchMethod("nearest", "name", sql("name"), above=0.9)
BEFORE = "coalesce(hit.turn < turn, TRUE)"
NULLABLE = [*NAMES, "zed", "", None]


def some_rows(draw: random.Random, prefix: str, count: int) -> Batch:
    """Rows of a step in one or two windows; some keys are those of stored nodes."""
    rows = []
    for i in range(count):
        key = f"s{i}" if draw.random() < 0.3 else f"{prefix}{i}"
        name, window = draw.choice(NULLABLE), draw.choice((0, 0, 1))
        turn = draw.choice((0, 1, 2, None))
        rows.append((key, draw.choice(("g", "h", None)), name, name, turn, window, window))
    return Batch.of_tuples(rows, runtime_schema(ROWS))


def some_hits(draw: random.Random, node: Search, asked: int) -> Batch:
    """Hits as a store might return them, with equal scores and NULLs; each of a row and method
    once.
    """
    ages = [draw.choice((1, 2, 3, None)) for _ in range(7)]
    names = [draw.choice(NULLABLE) for _ in range(7)]
    hits = []
    for q in range(asked):
        for method in range(max(len(node.methods), 1)):
            for rank, i in enumerate(draw.sample(range(7), draw.randrange(7))):
                score = draw.choice((1.0, 0.5, 0.25, -0.5))
                hits.append((q, method, rank, score, f"s{i}", "g", names[i], names[i], ages[i]))
    kinds = [
        ("_q", pa.int64()),
        ("method", pa.int32()),
        ("rank", pa.int64()),
        ("score", pa.float64()),
    ]
    kinds += [(name, pa.string()) for name in ("uuid", "group_id", "name", "name_key")] + [
        ("age", pa.int64())
    ]
    return Batch.of_table(Batch.of_tuples(hits, pa.schema(kinds)).table)


def result(
    spec: SearchSpec, left: Batch, within: Batch | None, hits: Batch | None
) -> list[dict[str, Any]]:
    """The rows of a search; those by all pairs, which equal those by a shortlist."""

    async def of(many: int) -> tuple[Any, Any]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(search_rows, "MANY", many)
            asked = SearchInput(
                spec, left, within, await method_values(spec.node, left, embed, None)
            )
            batch, rows = await RowSearch(asked, embed, None).result(hits)
        return batch.table.to_pylist(), rows

    found, places = asyncio.run(of(10**9))
    assert asyncio.run(of(-1)) == (found, places)
    own = left.table.to_pylist()
    assert [row["uuid"] for row in found] == [own[place]["uuid"] for place in places]
    return found


def different(row: dict[str, Any], hit: dict[str, Any]) -> bool:
    return None not in (row["name"], hit["name"]) and row["name"] != hit["name"]


HOLDS: dict[str | None, Any] = {
    None: lambda row, hit: True,
    BEFORE: lambda row, hit: None in (row["turn"], hit["turn"]) or hit["turn"] < row["turn"],
    "hit.age > 1": lambda row, hit: (hit["age"] or 0) > 1,
    "hit.name <> name OR turn IS NULL": lambda row, hit: different(row, hit) or row["turn"] is None,
}


def expected(
    node: Search, where: str | None, left: Batch, step: Batch | None, stored: Batch
) -> list[tuple[str, Any]]:
    """By definition: each row with the key, the rank and the score of its hits."""
    lacking = dict.fromkeys((*ROWS.columns.names, "age"))
    steps = step.table.to_pylist() if step else []
    of_store = stored.table.to_pylist()
    result: list[tuple[str, Any]] = []
    for q, row in enumerate(left.table.to_pylist()):
        near = [{**lacking, **other} for other in steps if other["_p"] == row["_p"]]
        keys = {other["uuid"] for other in near}
        found = []  # method, its hits by rank
        for method, by in enumerate(node.methods):
            of_method = [hit for hit in of_store if (hit["_q"], hit["method"]) == (q, method)]
            hits = [
                (hit["score"], {**lacking, **hit}) for hit in of_method if hit["uuid"] not in keys
            ]
            if any(each.rank == "overlap" for each in node.methods):
                hits = [hit for hit in hits if hit[0] > 0]
            for other in near if by.via != "nearest" else ():
                text, own = row["name"], other["name"]
                score = float(text is not None and text == own)
                score = score if by.via == "equal" else overlap(text or "", own or "")
                hits += [(score, other)] * (score > 0)
            held = [hit for hit in hits if HOLDS[where](row, hit[1])]
            held.sort(key=lambda hit: (-hit[0], hit[1]["uuid"]))
            found += [(rank, method, *hit) for rank, hit in enumerate(held[: node.k])]
        best: list[tuple[str, int, float]] = []
        if node.fuse == "none":
            found.sort(key=lambda hit: hit[:2])
            best = [(hit["uuid"], rank, score) for rank, _, score, hit in found]
        else:
            fused: dict[str, list[Any]] = {}
            for rank, method, score, hit in found:
                fused.setdefault(hit["uuid"], []).append(((rank, method), score))
            scores = {
                key: round(sum(1 / (rank + 1) for (rank, _), _ in each), 12)
                if node.fused
                else each[0][1]
                for key, each in fused.items()
            }
            order = sorted(fused, key=lambda key: (-scores[key], min(fused[key])[0]))
            best = [(key, rank, scores[key]) for rank, key in enumerate(order[: node.k])]
        if best or node.how == "left":
            result += [(row["uuid"], hit) for hit in best or [None]]
    return result


@pytest.mark.parametrize("fuse", ["rrf", "none"])
@pytest.mark.parametrize(
    "methods", [(EQUAL,), (SHARED,), (STORE_RANKED, EQUAL), (NEAR,), (EQUAL, SHARED, NEAR)]
)
@pytest.mark.parametrize("seed", range(12))
def test_random_searches_find_what_their_definition_says(
    seed: int, methods: tuple[SearchMethod, ...], fuse: str
) -> None:
    draw = random.Random(f"{seed} {methods} {fuse}")
    where = draw.choice((None, BEFORE, "hit.age > 1", "hit.name <> name OR turn IS NULL"))
    within = None if STORE_RANKED in methods else draw.choice((None, ROWS))
    node = search(
        methods=methods,
        fuse=fuse,
        k=draw.choice((1, 2, 3, 20)),
        how=draw.choice(("inner", "left")),
        within=within,
        where=sql(where) if where and (within or "turn" not in where) else None,
    )
    left = some_rows(draw, "l", draw.randrange(1, 5))
    spec = SearchSpec(node, (), tuple(node.where.conjuncts()) if node.where else ())
    step = some_rows(draw, "r", draw.randrange(6)) if within else None
    hits = some_hits(draw, node, left.num_rows)
    found = result(spec, left, step, hits)
    if NEAR not in methods:
        of = ((row["uuid"], row["hit"]) for row in found)
        shown = [(key, hit and (hit["uuid"], hit["rank"], hit["score"])) for key, hit in of]
        held = where if node.where is not None else None
        assert shown == expected(node, held, left, step, hits)


@pytest.mark.parametrize("seed", range(30))
def test_searches_by_order_find_the_same_by_all_pairs_and_by_a_shortlist(seed: int) -> None:
    draw = random.Random(seed)
    within = draw.choice((None, ROWS))
    terms = ["hit.age", "hit.name", "length(hit.name)", "length(hit.name) - length(name)"]
    chosen = [*draw.sample(terms, 2), *(["hit.turn"] if within else [])]
    node = search(
        methods=(),
        order=tuple(Sort(sql(term), descending=draw.random() < 0.5) for term in chosen),
        k=draw.choice((1, 3)),
        how=draw.choice(("inner", "left")),
        within=within,
        where=sql(BEFORE) if within else None,
    )
    left = some_rows(draw, "l", draw.randrange(1, 5))
    step = some_rows(draw, "r", draw.randrange(6)) if within else None
    spec = SearchSpec(node, (), ())
    result(spec, left, step, some_hits(draw, node, left.num_rows))


def test_the_nodes_at_the_ends_of_edges_come_along() -> None:
    graph = graph_of(
        {
            "nodes": {"Person": {"properties": {"name": "string"}}},
            "edges": {
                "KNOWS": {
                    "source": "Person",
                    "target": "Person",
                    "properties": {"since": "int64"},
                }
            },
        }
    )
    node = Search(
        graph=graph, input=ROWS, label="KNOWS", alias="hit", k=2, source="a", how="left",
        order=(Sort(sql("hit.since")),), where=sql("a.name <> name"),
    )  # fmt: skip
    end = pa.struct([("uuid", pa.string()), ("group_id", pa.string()), ("name", pa.string())])
    schema = pa.schema(
        [("_q", pa.int64()), ("method", pa.int32()), ("rank", pa.int64()), ("score", pa.float64()),
         *((name, pa.string()) for name in ("uuid", "group_id", "source", "target")), ("since", pa.int64()),
         ("#source", end)]
    )  # fmt: skip
    ann = {"uuid": "p1", "group_id": "g", "name": "ann"}
    hits = [
        (0, 0, 0, 1.0, "e1", "g", "p1", "p2", 3, ann),
        (0, 0, 1, 1.0, "e2", "g", "p2", "p1", None, None),
        (1, 0, 0, 1.0, "e1", "g", "p1", "p2", 3, ann),
    ]
    left = Batch.of_table(given_rows("ann", "bob"))
    spec = SearchSpec(node, (), tuple(node.where.conjuncts()) if node.where else ())
    stored = Batch.of_table(Batch.of_tuples(hits, schema).table)
    assert [row["a"] for row in result(spec, left, None, stored)] == [None, ann]


NAN = "CAST(CASE hit.age WHEN 1 THEN 'NaN' WHEN 2 THEN '7' ELSE 'inf' END AS DOUBLE)"


@pytest.mark.parametrize("falls", [False, True])
@pytest.mark.parametrize("term", [NAN, "[hit.age, NULL]", "{'a': hit.name, 'b': [hit.age]}"])
def test_orders_are_those_of_duckdb(term: str, falls: bool) -> None:
    node = search(methods=(), order=(Sort(sql(term), descending=falls),), k=9)
    draw = random.Random(3)
    left, spec = some_rows(draw, "l", 1), SearchSpec(node, (), ())
    hits = some_hits(draw, node, 1)
    relation = duckdb.arrow(hits.table).set_alias("hit")
    by = f"{term} {'DESC' if falls else 'ASC'} NULLS LAST, hit.uuid"
    keys = relation.query("hit", f"SELECT uuid FROM hit ORDER BY {by}").fetchall()
    assert [(row["hit"]["uuid"],) for row in result(spec, left, None, hits)] == keys


@pytest.mark.parametrize(
    ("where", "sent"),
    [
        ("coalesce(hit.turn < turn, TRUE)", []),
        ("coalesce(hit.turn < turn, FALSE)", ["FALSE"]),
        ("coalesce(hit.turn < turn, hit.age < 9)", ['COALESCE(NULL, "hit"."age" < 9)']),
        ("hit.age > 3 AND coalesce(hit.turn < turn, TRUE)", ['"hit"."age" > 3']),
    ],
)
def test_what_only_a_step_has_is_settled_before_the_store_is_asked(
    where: str, sent: list[str]
) -> None:
    spec = SearchSpec.compile(search(within=ROWS, where=sql(where)), SqliteStore(":memory:"))
    assert [part.sql for part in (*spec.taken, *spec.residual)] == sent


@pytest.mark.parametrize("many", [0, 4_096])
@pytest.mark.parametrize(
    ("kind", "found"),
    [
        (pa.float64(), [float("nan"), 1.0, None]),
        (pa.list_(pa.int64()), [[1, None], [], None]),
        (pa.struct([("a", pa.float64())]), [{"a": float("nan")}, {"a": None}, None]),
    ],
)
def test_values_of_any_type_are_equal_as_in_sql(
    kind: pa.DataType, found: list[Any], many: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search_rows, "MANY", many)
    columns = pa.schema([("uuid", pa.string()), ("group_id", pa.string()), ("value", kind)])
    rows = replace(ROWS, columns=columns)
    given = [
        {"uuid": f"r{i}", "group_id": "g", "value": value, "_p": 0, "_m": i}
        for i, value in enumerate(found)
    ]
    methods = (SearchMethod("equal", "value", sql("value")),)
    node = search(input=rows, label="", within=rows, methods=methods)
    pairs = run(node, pa.Table.from_pylist(given, schema=runtime_schema(rows)), [])
    assert [(row["uuid"], row["hit"]["uuid"]) for row in pairs] == [("r0", "r0"), ("r1", "r1")]
