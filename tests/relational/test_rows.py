"""Generated Python computes the rows of random segments as DuckDB does, and of all shipped plans."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from semgraph.errors import EngineError, Fault
from semgraph.expr.row_scalars import NAMESPACE, Unsupported
from semgraph.expr.scalar import parse_scalar as sql
from semgraph.folders import plans_folder
from semgraph.frontend.load import load_plan
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
from semgraph.optimizer import optimize
from semgraph.physical.plan import SqlSegment
from semgraph.physical.planner import compile_plan
from semgraph.relational.batch import Batch, runtime_schema
from semgraph.relational.segments import check_equal
from semgraph.semantic.library import Library
from semgraph.stores.sqlite.store import SqliteStore
from tests.fuzz.expressions import DOUBLES, NUMBERS, STRINGS, Expressions
from tests.relational.executors import (
    COLUMNS,
    SOURCE,
    agree,
    by_duckdb,
    by_rows,
    drawn_rows,
    of_node,
)

KINDS: dict[str, Any] = {
    "g": "int64", "s": "string", "t": "string", "n": "int64", "m": "int64", "d": "double", "e": "double", "yes": "boolean",
    "no": "boolean", "at": "timestamp", "till": "timestamp", "l": STRINGS, "k": NUMBERS,
    "r": ("struct", (("name", "string"), ("n", "int64"))),
}  # fmt: skip


def columns(*names: str) -> pa.Schema:
    return pa.schema([(name, COLUMNS[name][0]) for name in names])


LEFT = Input(name="left", columns=columns("g", "s", "n", "d", "yes", "at", "l", "r"), windowed=True)
RIGHT = Input(name="right", columns=columns("g", "s", "m", "e", "no", "till", "k"), windowed=True)
SHARED = Input(name="shared", columns=columns("g", "s", "m", "e", "no", "till", "k"))


@pytest.mark.parametrize("kind", ["int64", "double", "string", "boolean", "timestamp", STRINGS, NUMBERS, DOUBLES], ids=str)  # fmt: skip
@pytest.mark.parametrize("count", [50, pytest.param(150, marks=pytest.mark.nightly)])
def test_random_scalars_have_duckdbs_values(kind: Any, count: int) -> None:
    draw = random.Random(str(kind))
    drawn, rows, compared = Expressions(draw, {}, lambdas=True), drawn_rows(SOURCE, draw, 40), 0
    for _ in range(count):
        text = drawn.draw(KINDS, kind, draw.choice([1, 2, 3]))
        try:
            segment = of_node(Project(input=SOURCE, columns=(("x", sql(text)),)))
        except Fault:
            continue
        if isinstance(segment.function, Unsupported):
            continue
        computed = [row for row in rows if by_rows(segment, {"t": [row]}) is not None]
        compared += agree(segment, {"t": computed})
    assert compared > count // 10


class Segments:
    """Draws operators over relations."""

    def __init__(self, draw: random.Random) -> None:
        self.draw = draw
        self.expressions = Expressions(draw, {}, lambdas=True)
        self.names = (f"c{i}" for i in range(10_000))

    def scalar(self, node: Node, kind: Any) -> Any:
        return sql(self.expressions.draw(self.kinds(node), kind, self.draw.choice([0, 1, 2])))

    @staticmethod
    def kinds(node: Node) -> dict[str, Any]:
        """The columns of a node whose types expressions are drawn of."""
        return {f.name: kind for f in node.schema if (kind := _kind(f.type)) is not None}

    def any_kind(self) -> Any:
        return self.draw.choice(["int64", "double", "string", "boolean", "timestamp"])

    def order(self, node: Node) -> tuple[Sort, ...]:
        count = self.draw.choice([0, 1, 2])
        return tuple(
            Sort(self.scalar(node, self.any_kind()), self.draw.random() < 0.5) for _ in range(count)
        )

    def columns_of(self, node: Node, count: int) -> tuple[str, ...]:
        return tuple(self.draw.sample(node.schema.names, min(count, len(node.schema.names))))

    def relation(self, depth: int) -> Node:
        """A relation of some operators."""
        if not depth:
            return self.draw.choice([LEFT, RIGHT, SHARED])
        make = self.draw.choice([
            self.filter, self.computed, self.limit, self.ordered, self.distinct, self.aggregate, self.union, self.chosen, self.unnest,
            self.join, self.join, self.group_join, self.windows,
        ])  # fmt: skip
        return make(self.relation(depth - 1))

    def filter(self, node: Node) -> Node:
        return Filter(input=node, where=self.scalar(node, "boolean"))

    def computed(self, node: Node) -> Node:
        made = [(next(self.names), self.scalar(node, self.any_kind())) for _ in range(2)]
        kept = [(name, sql(f'"{name}"')) for name in self.columns_of(node, 4)]
        if self.draw.random() < 0.5:
            return Add(input=node, columns=tuple(made))
        return Project(input=node, columns=(*made, *kept))

    def windows(self, node: Node) -> Node:
        text = self.expressions.window(self.kinds(node), "int64")
        return Add(input=node, columns=((next(self.names), sql(text)),))

    def limit(self, node: Node) -> Node:
        per = self.columns_of(node, self.draw.choice([0, 0, 1]))
        return Limit(input=node, n=self.draw.choice([1, 2, 5]), by=per, order=self.order(node))

    def ordered(self, node: Node) -> Node:
        return Ordered(input=node, by=self.order(node) or (Sort(sql("1")),))

    def distinct(self, node: Node) -> Node:
        return Distinct(input=node, by=self.columns_of(node, self.draw.choice([0, 1, 2])))

    def aggregate(self, node: Node) -> Node:
        by = [(next(self.names), self.scalar(node, self.any_kind())) for _ in range(self.draw.choice([0, 1, 2]))]  # fmt: skip
        add = [
            (next(self.names), sql(self.expressions.aggregate(self.kinds(node))[0]))
            for _ in range(2)
        ]
        whole = Aggregate(input=node, by=tuple(by), add=tuple(add))
        having = self.scalar(whole, "boolean") if self.draw.random() < 0.3 else None
        return Aggregate(input=node, by=tuple(by), add=tuple(add), having=having)

    def union(self, node: Node) -> Node:
        return Union(relations=(node, self.filter(node), node))

    def chosen(self, node: Node) -> Node:
        less, more = self.filter(node), self.filter(node)
        return self.draw.choice([Intersect, Except])(relations=(node, less, more))

    def unnest(self, node: Node) -> Node:
        listed = [f.name for f in node.schema if pa.types.is_list(f.type)]
        if not listed:
            return node
        position = self.draw.choice(["", next(self.names)])
        how = self.draw.choice(["inner", "left"])
        return Unnest(input=node, column=self.draw.choice(listed), alias=next(self.names), position=position, how=how)  # fmt: skip

    def pairs(self, node: Node, other: Node, alias: str) -> dict[str, Any]:
        """What two relations are joined by."""
        same = [(a.name, b.name) for a in node.schema for b in other.schema
                if a.type == b.type and not pa.types.is_nested(a.type)]  # fmt: skip
        using = tuple(self.draw.sample(same, min(len(same), self.draw.choice([0, 1, 1, 2]))))
        kinds = self.kinds(node) | {alias: ("struct", tuple(self.kinds(other).items()))}
        where = sql(self.expressions.draw(kinds, "boolean", 1))
        return {"using": using, "where": where if not using or self.draw.random() < 0.4 else None}

    def join(self, node: Node) -> Node:
        other, alias = self.relation(0), next(self.names)
        how = self.draw.choice(["inner", "left", "semi", "anti"])
        return Join(input=node, other=other, alias=alias, how=how, **self.pairs(node, other, alias))

    def group_join(self, node: Node) -> Node:
        other, alias = self.relation(0), next(self.names)
        if other.windowed and not node.windowed:
            return node
        of_both = self.kinds(node) | {alias: ("struct", tuple(self.kinds(other).items()))}
        order = (Sort(sql(self.expressions.draw(of_both, "double", 1)), self.draw.random() < 0.5),)
        return GroupJoin(
            input=node, other=other, alias=alias, **self.pairs(node, other, alias), order=self.draw.choice([(), order]),
            limit=self.draw.choice([None, None, 1, 3]), add=((next(self.names), sql(self.expressions.aggregate(of_both)[0])),),
        )  # fmt: skip


def _kind(kind: pa.DataType) -> Any:
    for name, own in KINDS.items():
        if COLUMNS[name][0] == kind and name != "r":
            return own
    if pa.types.is_struct(kind):
        fields = tuple((f.name, inner) for f in kind if (inner := _kind(f.type)) is not None)
        return ("struct", fields) if fields else None
    return None


@pytest.mark.parametrize(
    "part", [0, *(pytest.param(part, marks=pytest.mark.nightly) for part in (1, 2, 3))]
)
def test_random_segments_have_duckdbs_rows(part: int) -> None:
    compared = 0
    for seed in range(part * 100, part * 100 + 100):
        draw = random.Random(seed)
        try:
            node = Segments(draw).relation(draw.choice([1, 2, 3, 4]))
        except Fault:
            continue  # its types do not go together
        if not node.inputs:
            continue
        segment = of_node(node)
        inputs = {
            source.name: drawn_rows(source, draw, draw.choice([0, 1, 4, 12]))
            for source in (LEFT, RIGHT, SHARED)
        }
        if isinstance(segment.function, Unsupported):
            by_duckdb(segment, inputs)
            continue
        compared += agree(segment, inputs)
    assert compared > 25


ON_DUCKDB = {
    # merges JSON objects
    ("add_triplet", "nodes"),
    # reads and writes JSON, and computes with remainders of hashes
    ("describe_gated", "judged"),
    ("describe_gated", "summaries"),
    ("add_episode", "describe/judged"),
    ("add_episode", "describe/summaries"),
    # on request, not for each episode: mergers of JSON, documents of mentions
    ("find_duplicates", "candidates"),
    ("get_mentions", "episodes"),
    ("merge_entities", "entities"),
    ("merge_entities", "facts"),
    ("merge_entities", "gone/checked"),
    ("merge_entities", "told"),
    ("merges_of", "checked"),
    ("remove_episode", ""),
    ("save_mentions", "turns"),
    ("unmerge_entities", ""),
}
"""The steps of shipped plans that DuckDB alone computes. May only shrink."""


@pytest.mark.parametrize(
    "path",
    sorted(set(plans_folder().glob("*.yaml")) - {plans_folder() / "graph.yaml"}),
    ids=lambda path: path.stem,
)
def test_segments_of_shipped_plans_are_generated_python(path: Path) -> None:
    """All of `add_episode` with its presets, and all searches, among them."""
    presets = load_plan(path).document.get("presets", {})
    on_duckdb, store = set(), SqliteStore(":memory:")
    for preset in (None, *presets):
        plan = optimize(load_plan(path, preset=preset))
        for node in compile_plan(plan, store, Library(()), {}).of_kind(SqlSegment):
            segment = node.segment
            if isinstance(segment.function, Unsupported):
                assert str(segment.function).startswith("[")  # names the operator and its step
                on_duckdb.add((path.stem, segment.root.step))
    assert on_duckdb == {step for step in ON_DUCKDB if step[0] == path.stem}


def test_a_difference_between_the_executors_is_an_error() -> None:
    node = Filter(input=SHARED, where=sql("no"))
    batch = Batch.of_tuples(drawn_rows(SHARED, random.Random(1), 2), runtime_schema(SHARED))
    check_equal(node, "SELECT", [batch], batch.rows, list(batch.rows))
    with pytest.raises(EngineError, match="the executors of step"):
        check_equal(node, "SELECT", [batch], batch.rows, batch.rows[:1])
    with pytest.raises(EngineError, match="SELECT"):
        check_equal(node, "SELECT", [batch], [(1,)], [(True,)])


def test_a_function_is_called_by_its_name_inside_a_group_join() -> None:
    node = GroupJoin(
        input=SHARED,
        other=SHARED,
        alias="other",
        using=(("g", "g"),),
        add=(("texts", sql("list(left(other.s, 1))")),),
    )
    assert agree(of_node(node), {"shared": drawn_rows(SHARED, random.Random(2), 12)})


def test_names_that_generated_code_binds_are_no_functions() -> None:
    assert not {"now", "r", "q", "n", "x", "one", "rows", "in0", "t0", "w1", "x0"} & set(NAMESPACE)
