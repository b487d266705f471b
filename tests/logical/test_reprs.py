"""A node's repr names the operator, its own arguments and the kinds of its inputs. Inputs are
shared: a text of all below would double with each union, and a debugger would hang.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pytest

from semgraph.frontend.frame import Frame, table, union
from semgraph.logical.node import Node, argument
from semgraph.logical.relational import Union
from semgraph.physical.plan import InputTable, PhysicalNode, RunWide

ROWS = table([{"id": "a", "n": 1}])
MORE = ROWS.add({"m": "n + 1"})


@dataclass(frozen=True, eq=False, kw_only=True)
class Both(Node):
    """An operator written elsewhere."""

    one: Node = argument("input")
    other: Node = argument("relation")

    def infer(self) -> pa.Schema:
        return self.one.schema


@pytest.mark.parametrize(
    ("frame", "text"),
    [
        (ROWS.filter("n > 1"), "filter(where=n > 1) over input"),
        (MORE, "add(columns=((m, n + 1))) over input"),
        (union([MORE, MORE.filter("n > 1"), MORE]), "union() over 2 add, filter"),
        (
            ROWS.filter(f"id = '{'a' * 1000}'"),
            f"filter(where=id = '{'a' * 73}…) over input",
        ),
    ],
)
def test_repr_is_one_short_line(frame: Frame, text: str) -> None:
    assert repr(frame.node) == text


def test_repr_of_a_deep_shared_plan_shows_one_operator() -> None:
    unions: Node = ROWS.node
    pairs: Node = ROWS.node
    computed: PhysicalNode = InputTable(ROWS.node, ())
    for _ in range(200):
        unions = Union(relations=(unions, unions))
        pairs = Both(one=pairs, other=pairs)
        computed = RunWide(unions, (computed, computed))
    assert repr(unions) == "union() over 2 union"
    assert repr(pairs) == "Both() over 2 Both"
    assert repr(computed) == "RunWide(union() over 2 union)"
