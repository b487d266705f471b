"""The builder: a new operator is one class, and its place in a tuple."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa
import pytest

from semgraph.errors import Fault, Faults
from semgraph.explain.algebra import symbol
from semgraph.expr.scalar import Scalar
from semgraph.frontend import build as builder
from semgraph.frontend.build import OPERATORS, SINKS, SOURCES, build, by_keyword, plan_keys
from semgraph.frontend.frame import table
from semgraph.frontend.head import NO_GRAPH
from semgraph.frontend.kinds import KINDS
from semgraph.logical.node import Node, argument, check_names
from semgraph.logical.relational import SampleRows
from semgraph.relational.sql import operator_sql


@dataclass(frozen=True, eq=False, kw_only=True)
class Sample(Node):
    """Some rows."""

    keyword: ClassVar[str] = "sample"
    input: Node = argument("input")
    n: int = argument("number")
    per: tuple[str, ...] = argument("names", default=())
    where: Scalar | None = argument("scalar", default=None)
    how: str = argument("choice", choices=("first", "spread"), default="first")

    def infer(self) -> pa.Schema:
        check_names(self.per, self.input.schema, "per")
        return self.input.schema


class Scope:
    params: ClassVar[dict[str, object]] = {"least": 3}
    functions = None
    graph = NO_GRAPH


SOURCE = table([{"id": "a", "n": 1}]).node


def made(value):
    return build(Sample, value, Scope(), source=SOURCE, step="s")


def faults(value):
    with pytest.raises(Fault) as caught:
        made(value)
    assert isinstance(caught.value, Faults)
    return [(fault.what, fault.path, fault.hint) for fault in caught.value.faults]


def test_a_class_is_all_that_an_operator_needs():
    node = made({"n": 3, "per": "id", "where": "n > $least", "how": "spread"})
    assert (node.n, node.per, node.where.sql, node.how, node.step) == (
        3,
        ("id",),
        '"n" > 3',
        "spread",
        "s",
    )
    assert node.input is SOURCE


def test_null_is_as_good_as_absent():
    assert made({"n": 3, "per": None, "where": None}).fingerprint == made({"n": 3}).fingerprint


def test_all_wrong_arguments_are_told_at_once_each_with_its_path():
    assert faults({"per": ["id", 3], "how": "spred", "where": [], "of": 1}) == [
        ('sample has no argument "of"', ("of",), None),
        ('sample needs "n"', (), None),
        ("expected a name, found 3", ("per", 1), None),
        ("expected an SQL expression, found an empty list", ("where",), None),
        ('"spred" is none of: first, spread', ("how",), 'did you mean "spread"?'),
    ]


def test_what_the_node_finds_wrong_has_its_path_too():
    assert faults({"n": 1, "per": ["ids"]}) == [
        ('no column "ids"', ("per", 0), 'did you mean "id"?')
    ]


@pytest.mark.parametrize("value", [3, "n", [1], None])
def test_arguments_are_a_mapping(value):
    ((what, path, _),) = faults(value)
    assert what.startswith("sample needs a mapping of arguments")
    assert path == ()


def test_every_kind_of_argument_has_a_reader():
    kinds = {
        f.metadata["kind"]
        for cls in (*OPERATORS, *SOURCES, *SINKS)
        for f in plan_keys(cls).values()
    }
    assert kinds == {*KINDS, "choice", "prompt", "body", "refs"}


def test_keywords_are_unique_and_every_operator_says_what_it_does():
    classes = (*OPERATORS, *SOURCES, *SINKS)
    assert len(by_keyword(classes)) == len(classes)
    assert all(cls.__doc__ for cls in classes)
    assert builder.by_keyword(OPERATORS)["sem_map"].keyword == "sem_map"


@pytest.mark.parametrize(
    "cls",
    [cls for cls in (*OPERATORS, *SOURCES) if cls is not SampleRows],  # lowered to others
    ids=lambda cls: cls.keyword,
)
def test_every_operator_has_a_line_of_algebra_and_every_relational_one_has_sql(cls):
    assert symbol.dispatch(cls) is not symbol.dispatch(object)
    if cls.relational:
        assert operator_sql.dispatch(cls) is not operator_sql.dispatch(object)
