"""Relational operators as DuckDB computes them: rows, their order, NULLs, and partitions that never
mix.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semgraph.errors import Fault
from semgraph.expr import parse_scalar as sql
from semgraph.logical.node import Node, Sort
from semgraph.logical.relational import (
    Add,
    Aggregate,
    Distinct,
    Filter,
    GroupJoin,
    Input,
    Join,
    Limit,
    Ordered,
    Project,
    Union,
    Unnest,
)
from semgraph.relational.batch import Batch
from semgraph.relational.segments import column_of
from tests.relational.relations import relation, rows_of

PEOPLE = {"id": pa.int64(), "city": pa.string()}
ROWS = [
    {"id": 1, "city": "Rome"},
    {"id": 2, "city": None},
    {"id": 3, "city": "Oslo"},
    {"id": 4, "city": "Rome"},
]
TAGS = {"who": pa.int64(), "tag": pa.string()}
TAGGED = [
    {"who": 4, "tag": "x"},
    {"who": 1, "tag": "y"},
    {"who": 1, "tag": "x"},
    {"who": 9, "tag": "z"},
]


def people() -> Input:
    return relation("people", PEOPLE)


def tags() -> Input:
    return relation("tags", TAGS)


def test_a_filter_keeps_nothing_where_it_compares_with_null() -> None:
    kept = rows_of(Filter(input=people(), where=sql("city <> 'Oslo'")), people=ROWS)
    assert [row["id"] for row in kept] == [1, 4]


def test_a_projection_computes_and_renames_and_add_replaces() -> None:
    node = Add(
        input=Project(input=people(), columns=(("n", sql("id * 2")), ("city", sql("city")))),
        columns=(("city", sql("coalesce(city, '?')")), ("half", sql("n / 4"))),
    )
    assert rows_of(node, people=ROWS)[1] == {"n": 4, "city": "?", "half": 1.0}
    assert node.schema.field("half").type == pa.float64()


def test_an_inner_join_brings_the_other_row_as_one_struct_in_order_of_left_then_right() -> None:
    node = Join(input=people(), other=tags(), alias="t", using=(("id", "who"),))
    assert [(row["id"], row["t"]) for row in rows_of(node, people=ROWS, tags=TAGGED)] == [
        (1, {"who": 1, "tag": "y"}),
        (1, {"who": 1, "tag": "x"}),
        (4, {"who": 4, "tag": "x"}),
    ]


def test_a_left_join_gives_null_not_a_struct_of_nulls() -> None:
    node = Join(
        input=people(),
        other=tags(),
        alias="t",
        using=(("id", "who"),),
        where=sql("t.tag = 'x'"),
        how="left",
    )
    found = {row["id"]: row["t"] for row in rows_of(node, people=ROWS, tags=TAGGED)}
    assert found == {1: {"who": 1, "tag": "x"}, 2: None, 3: None, 4: {"who": 4, "tag": "x"}}
    empty = Filter(input=node, where=sql("t IS NULL"))
    assert [row["id"] for row in rows_of(empty, people=ROWS, tags=TAGGED)] == [2, 3]


@pytest.mark.parametrize(("how", "ids"), [("semi", [1, 4]), ("anti", [2, 3])])
def test_semi_and_anti_joins_keep_left_rows_once_and_bring_nothing(
    how: Any, ids: list[int]
) -> None:
    node = Join(input=people(), other=tags(), using=(("id", "who"),), how=how)
    assert rows_of(node, people=ROWS, tags=TAGGED) == [row for row in ROWS if row["id"] in ids]


def test_a_group_join_gives_each_left_row_once_with_aggregates_of_its_best_matches() -> None:
    node = GroupJoin(
        input=people(),
        other=tags(),
        alias="t",
        using=(("id", "who"),),
        order=(Sort(sql("t.tag")),),
        limit=1,
        add=(("first", sql("list(t.tag) FILTER (t IS NOT NULL)")), ("n", sql("count(t.tag)"))),
    )
    found = [(row["id"], row["first"], row["n"]) for row in rows_of(node, people=ROWS, tags=TAGGED)]
    assert found == [(1, ["x"], 1), (2, None, 0), (3, None, 0), (4, ["x"], 1)]


def test_a_group_join_aggregates_nothing_where_nothing_matches() -> None:
    added = {
        "n": "count(*)",
        "tags": "list(t.tag)",
        "some": "count(*) FILTER (t.tag = 'x')",
        "text": "coalesce(string_agg(t.tag, ' '), '-')",
        "any": "product(t.who)",
    }
    columns = tuple((name, sql(text)) for name, text in added.items())
    node = GroupJoin(input=people(), other=tags(), alias="t", using=(("id", "who"),), add=columns)
    found = [
        [row[name] for name in ("id", *added)]
        for row in rows_of(node, people=ROWS[:2], tags=TAGGED)
    ]
    assert found == [[1, 2, ["y", "x"], 1, "y x", 1.0], [2, 0, None, 0, "-", None]]


@pytest.mark.parametrize("alias", ["_t", "_r", "_g", "_j", "_u", "t", "n0", "n1", "m0"])
def test_an_alias_may_have_any_name_that_plans_can_write(alias: str) -> None:
    joined = Join(
        input=people(),
        other=people(),
        alias=alias,
        using=(("city", "city"),),
        where=sql(f"{alias}.id > 1"),
    )
    asked = Add(input=joined, columns=(("x", sql(f"{alias}.id = 4")),))
    assert [(row["id"], row["x"]) for row in rows_of(asked, people=ROWS)] == [
        (1, True),
        (3, False),
        (4, True),
    ]
    columns = (("n", sql(f"sum({alias}.id)")),)
    counted = GroupJoin(
        input=people(), other=people(), alias=alias, using=(("city", "city"),), add=columns
    )
    assert [row["n"] for row in rows_of(counted, people=ROWS)] == [5, None, 3, 5]


@pytest.mark.parametrize("alias", ["t", "l", "_t", "_rows"])
def test_a_scalar_reads_the_plans_columns_whatever_their_names(alias: str) -> None:
    struct = pa.struct([("id", pa.int64()), ("city", pa.string())])
    source = relation("people", {**PEOPLE, alias: struct})
    rows = [
        {"id": 1, "city": "Rome", alias: {"id": 3, "city": "Oslo"}},
        {"id": 5, "city": "Rome", alias: None},
    ]
    batch = Batch.of_table(pa.Table.from_pylist(rows, schema=source.schema))
    test = sql(f"length({alias}.city) = {alias}.id + 1")
    assert asyncio.run(column_of(test, source, batch, None)).column("x") == [True, None]
    number = asyncio.run(column_of(sql("round(0.6, 1)"), source, batch, None))
    assert number.column("x") == [0.6, 0.6]


def test_a_limit_takes_the_first_of_each_group_nulls_last_and_ties_in_row_order() -> None:
    rows = [
        {"id": 1, "city": "b"},
        {"id": 2, "city": None},
        {"id": 3, "city": "a"},
        {"id": 4, "city": "a"},
    ]
    for descending, best in ((False, 3), (True, 1)):
        node = Limit(input=people(), n=1, order=(Sort(sql("city"), descending),))
        assert [row["id"] for row in rows_of(node, people=rows)] == [best]
    node = Limit(input=people(), n=1, by=("city",))
    assert [row["id"] for row in rows_of(node, people=rows)] == [1, 2, 3]


def test_distinct_keeps_the_first_row_and_null_equals_null() -> None:
    rows = [*ROWS, {"id": 5, "city": None}]
    assert [row["id"] for row in rows_of(Distinct(input=people(), by=("city",)), people=rows)] == [
        1,
        2,
        3,
    ]
    assert len(rows_of(Distinct(input=people()), people=[*ROWS, *ROWS])) == 4


def test_an_aggregate_lists_in_row_order_and_comes_in_order_of_first_rows() -> None:
    node = Aggregate(
        input=people(),
        by=(("city", sql("city")),),
        add=(("ids", sql("list(id)")), ("total", sql("sum(id)"))),
        having=sql("total <> 3"),
    )
    assert rows_of(node, people=ROWS) == [
        {"city": "Rome", "ids": [1, 4], "total": 5},
        {"city": None, "ids": [2], "total": 2},
    ]
    assert node.schema.field("total").type == pa.int64()


def test_an_aggregate_of_distinct_values_goes_by_the_values() -> None:
    listed = Aggregate(input=people(), add=(("cities", sql("list(DISTINCT city)")),))
    assert rows_of(listed, people=ROWS) == [{"cities": ["Oslo", "Rome", None]}]
    joined = Aggregate(input=people(), add=(("cities", sql("string_agg(DISTINCT city, ', ')")),))
    assert rows_of(joined, people=ROWS) == [{"cities": "Oslo, Rome"}]


def test_a_union_matches_columns_by_name_and_refuses_unlike_relations() -> None:
    swapped = Project(input=people(), columns=(("city", sql("upper(city)")), ("id", sql("id"))))
    found = rows_of(Union(relations=(people(), swapped)), people=ROWS[:1])
    assert found == [{"id": 1, "city": "Rome"}, {"id": 1, "city": "ROME"}]
    with pytest.raises(Fault, match="lacks"):
        Union(relations=(people(), tags()))


def test_unnest_gives_a_row_for_each_element_with_its_position() -> None:
    lists = relation("lists", {"id": pa.int64(), "names": pa.list_(pa.string())})
    rows = [{"id": 1, "names": ["b", "a"]}, {"id": 2, "names": []}, {"id": 3, "names": None}]
    inner = Unnest(input=lists, column="names", alias="name", position="at")
    assert [(r["id"], r["name"], r["at"]) for r in rows_of(inner, lists=rows)] == [
        (1, "b", 1),
        (1, "a", 2),
    ]
    left = Unnest(input=lists, column="names", alias="name", how="left")
    assert [(r["id"], r["name"]) for r in rows_of(left, lists=rows)] == [
        (1, "b"),
        (1, "a"),
        (2, None),
        (3, None),
    ]


def windowed(kind: str) -> Node:
    """One operator of each kind that could mix partitions, over rows that an order cuts."""
    rows = relation("rows", {"k": pa.int64(), "v": pa.int64()}, windowed=True)
    plain = Project(input=rows, columns=(("k", sql("k")), ("w", sql("v"))))
    return {
        "join": lambda: Join(input=rows, other=plain, alias="o", using=(("k", "k"),), how="left"),
        "anti": lambda: Join(
            input=rows,
            other=Filter(input=plain, where=sql("w > 1 AND k < 3")),
            using=(("k", "k"),),
            how="anti",
        ),
        "group_join": lambda: GroupJoin(
            input=rows, other=plain, alias="o", using=(("k", "k"),), add=(("ws", sql("list(o.w)")),)
        ),
        "limit": lambda: Limit(input=rows, n=2, order=(Sort(sql("v"), descending=True),)),
        "distinct": lambda: Distinct(input=rows, by=("k",)),
        "aggregate": lambda: Aggregate(
            input=rows, add=(("n", sql("count(*)")), ("vs", sql("list(v)")))
        ),
        "window": lambda: Add(input=rows, columns=(("r", sql("row_number() OVER (ORDER BY v)")),)),
    }[kind]()


KINDS = ["join", "anti", "group_join", "limit", "distinct", "aggregate", "window"]


@settings(max_examples=15, deadline=None)
@given(
    rows=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(0, 3)), max_size=12),
    kind=st.sampled_from(KINDS),
)
def test_a_wave_of_partitions_computes_what_each_partition_would_alone(
    rows: list[tuple[int, int, int]], kind: str
) -> None:
    node = windowed(kind)
    table = [{"k": k, "v": v, "_p": p, "_m": i} for i, (p, k, v) in enumerate(rows)]
    together = rows_of(node, rows=table)
    alone = [
        row for p in range(4) for row in rows_of(node, rows=[r for r in table if r["_p"] == p])
    ]
    assert sorted(map(repr, together)) == sorted(map(repr, alone))


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_rows_give_the_same_result_in_the_same_order(kind: str) -> None:
    table = [{"k": i % 7, "v": i % 5, "_p": i % 2, "_m": i} for i in range(200)]
    node = windowed(kind)
    first = rows_of(node, rows=table)
    assert first
    assert all(rows_of(node, rows=table) == first for _ in range(5))


def test_sorted_rows_keep_their_order_where_it_does_not_tell_them_apart() -> None:
    ordered = Ordered(input=people(), by=(Sort(sql("city"), descending=True),))
    assert [row["id"] for row in rows_of(ordered, people=ROWS)] == [1, 4, 3, 2]
    numbered = Add(input=ordered, columns=(("place", sql("row_number() OVER ()")),))
    assert [(row["id"], row["place"]) for row in rows_of(numbered, people=ROWS)] == [
        (1, 1),
        (4, 2),
        (3, 3),
        (2, 4),
    ]
