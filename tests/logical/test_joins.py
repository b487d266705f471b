"""Traits of joins, by which rules move filters past them and prune columns below them."""

from __future__ import annotations

from semgraph.frontend.frame import table
from semgraph.logical.relational import Join

LEFT = table([{"id": "a", "n": 1}]).node
RIGHT = table([{"id": "a", "m": 1, "k": 2}], name="right").node
INNER = Join(input=LEFT, other=RIGHT, alias="t", using=(("id", "id"),))
SEMI = Join(input=LEFT, other=RIGHT, using=(("id", "id"),), how="semi")


def test_an_inner_join_adds_the_other_row_and_a_semi_join_nothing() -> None:
    assert (INNER.output_columns, INNER.passes) == ({"t"}, {"id", "n"})
    assert (SEMI.output_columns, SEMI.passes) == (set(), {"id", "n"})


def test_a_join_needs_of_the_other_row_what_is_used_of_it_and_its_own_columns() -> None:
    assert INNER.other_needs(frozenset({"n", "t.m"})) == ({"m", "id"},)
    assert SEMI.other_needs(frozenset({"n"})) == ({"id"},)
