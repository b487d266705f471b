"""The lineage of segments: which rows of the inputs each row is made of."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence
from typing import Literal

import pyarrow as pa
import pytest

from semgraph.errors import DataError, Fault
from semgraph.expr.scalar import parse_scalar as sql
from semgraph.logical.node import Node, Sort
from semgraph.logical.relational import (
    Add,
    Aggregate,
    Distinct,
    Except,
    Filter,
    GroupJoin,
    Input,
    Intersect,
    Join,
    Limit,
    Ordered,
    Project,
    Union,
    Unnest,
)
from semgraph.relational import segments
from semgraph.relational.batch import Batch, Row, Sources, runtime_schema
from semgraph.relational.segments import run_segment, run_traced
from tests.relational.executors import NOW, drawn_rows, of_node
from tests.relational.relations import relation
from tests.relational.test_rows import LEFT, RIGHT, SHARED, Segments

WORDS = relation("words", {"id": pa.int64(), "text": pa.string(), "tags": pa.list_(pa.string())})
TAGS = relation("tags", {"tag": pa.string(), "word": pa.int64()})
ROWS: dict[str, list[Row]] = {
    "words": [(1, "a", ["x", "y"]), (2, "b", []), (3, "a", ["x"])],
    "tags": [("x", 1), ("y", 1), ("x", 3)],
}
FIRST = {"words": 10, "tags": 20, "left": 100, "right": 200, "shared": 300}
"""The id of the first row of each input."""


class Traced:
    """The rows of a node, and for each the ids of the input rows that it is made of."""

    def __init__(self, node: Node, rows: Mapping[str, list[Row]], executor: str) -> None:
        self._next, self._made = 1_000, dict[int, tuple[int, ...]]()
        segment = of_node(node)
        inputs = [self._input(source, rows) for _, source in segment.inputs]
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("SEMGRAPH_SEGMENTS", executor)
            self.plain = asyncio.run(run_segment(segment, inputs, NOW)).rows
            batch = asyncio.run(run_traced(segment, inputs, NOW, self._numbered))
        self.rows, self.sources = batch.rows, self._inputs_of(batch.sources or ())

    @staticmethod
    def _input(source: Node, rows: Mapping[str, list[Row]]) -> Batch:
        assert isinstance(source, Input)
        own, first = rows[source.name], FIRST[source.name]
        ids = range(first, first + len(own))
        return Batch(runtime_schema(source), own, ids=ids)

    def _numbered(self, batch: Batch) -> Batch:
        assert batch.sources is not None
        ids = range(self._next, self._next + batch.num_rows)
        self._next = ids.stop
        self._made |= dict(zip(ids, batch.sources, strict=True))
        return batch.with_ids(ids)

    def _inputs_of(self, sources: Sources) -> list[set[int]]:
        return [
            set().union(*(self._inputs_of([self._made[i]])[0] if i in self._made else {i} for i in own))
            for own in sources
        ]  # fmt: skip


def lineage(node: Node) -> list[set[int]]:
    """Of the rows of a node over `ROWS`, by both executors, which must agree."""
    return Traced(node, ROWS, "both").sources


def test_operators_over_one_relation_pass_the_row_that_stays() -> None:
    by_text = (Sort(sql("text"), True),)
    assert lineage(Filter(input=WORDS, where=sql("text = 'a'"))) == [{10}, {12}]
    assert lineage(Add(input=WORDS, columns=(("n", sql("id + 1")),))) == [{10}, {11}, {12}]
    assert lineage(Limit(input=WORDS, n=1, order=by_text)) == [{11}]
    assert lineage(Ordered(input=WORDS, by=by_text)) == [{11}, {10}, {12}]
    assert lineage(Distinct(input=WORDS, by=("text",))) == [{10}, {11}]
    unnest = Unnest(input=WORDS, column="tags", alias="tag", how="left")
    assert lineage(unnest) == [{10}, {10}, {11}, {12}]


@pytest.mark.parametrize(
    ("how", "sources"),
    [
        ("inner", [{10, 20}, {10, 21}, {12, 22}]),
        ("left", [{10, 20}, {10, 21}, {11}, {12, 22}]),
        ("semi", [{10}, {12}]),
        ("anti", [{11}]),
    ],
)
def test_a_join_makes_a_row_of_both_rows_where_there_are_two(
    how: Literal["inner", "left", "semi", "anti"], sources: Sequence[set[int]]
) -> None:
    node = Join(input=WORDS, other=TAGS, alias="t", using=(("id", "word"),), how=how)
    assert lineage(node) == list(sources)


def test_a_group_is_made_of_all_its_rows_and_a_group_join_of_the_matches_in_its_limit() -> None:
    counted = (("n", sql("count(*)")),)
    by_text = Aggregate(input=WORDS, by=(("text", sql("text")),), add=counted)
    assert lineage(by_text) == [{10, 12}, {11}]
    assert lineage(Aggregate(input=WORDS, by=(), add=counted)) == [{10, 11, 12}]
    nothing = Filter(input=WORDS, where=sql("id > 9"))
    assert lineage(Aggregate(input=nothing, by=(), add=counted)) == [set()]
    matches = GroupJoin(input=WORDS, other=TAGS, alias="t", using=(("id", "word"),), add=counted)
    assert lineage(matches) == [{10, 20, 21}, {11}, {12, 22}]
    last = (Sort(sql("t.tag"), True),)
    best = GroupJoin(
        input=WORDS, other=TAGS, alias="t", using=(("id", "word"),), add=counted, order=last, limit=1
    )  # fmt: skip
    assert lineage(best) == [{10, 21}, {11}, {12, 22}]


def test_a_union_keeps_equal_rows_of_its_branches_apart() -> None:
    assert lineage(Union(relations=(WORDS, WORDS))) == [{10}, {11}, {12}] * 2


def test_a_row_that_a_set_operation_keeps_is_the_first_of_its_equals() -> None:
    texts = Project(input=WORDS, columns=(("text", sql("text")),))
    tagged = Filter(input=texts, where=sql("text = 'a'"))
    assert lineage(Intersect(relations=(texts, tagged))) == [{10}]
    assert lineage(Except(relations=(texts, tagged))) == [{11}]


def test_groups_that_are_joined_have_ids_so_that_lineage_is_no_longer_than_the_rows() -> None:
    total = Aggregate(input=WORDS, by=(), add=(("n", sql("count(*)")),))
    node = Join(input=WORDS, other=total, alias="all", where=sql("TRUE"))
    assert [piece.root for piece in of_node(node).pieces] == [total, node]
    assert lineage(node) == [{10, 11, 12}] * 3
    twice = Join(
        input=Filter(input=WORDS, where=sql("id > 1")), other=total, alias="all", where=sql("TRUE")
    )
    assert lineage(twice) == [{10, 11, 12}] * 2


def test_what_two_groups_read_is_computed_once() -> None:
    some = Add(input=WORDS, columns=(("r", sql("id + 1")),))
    most = Aggregate(input=some, by=(), add=(("most", sql("max(r)")),))
    node = Join(input=some, other=most, alias="of", where=sql("r = of.most"))
    assert [piece.root for piece in of_node(node).pieces] == [some, most, node]
    (sources,) = lineage(node)
    assert sources == {10, 11, 12}


@pytest.mark.parametrize(
    "part", [0, *(pytest.param(part, marks=pytest.mark.nightly) for part in (1, 2, 3))]
)
def test_random_segments_have_the_same_rows_with_lineage_and_both_executors_the_same_lineage(
    part: int,
) -> None:
    compared = 0
    for seed in range(part * 30, part * 30 + 30):
        draw = random.Random(seed)
        try:
            node = Segments(draw).relation(draw.choice([1, 2, 3, 4]))
        except Fault:
            continue  # its types do not go together
        if not node.inputs:
            continue
        rows = {
            source.name: drawn_rows(source, draw, draw.choice([1, 4, 8]))
            for source in (LEFT, RIGHT, SHARED)
        }
        try:
            traced = Traced(node, rows, "both")
        except DataError:
            continue  # a value that cannot be computed
        assert len(traced.rows) == len(traced.plain)
        assert all(map(segments.same, traced.rows, traced.plain)), seed
        compared += bool(traced.rows)
    assert compared > 7
