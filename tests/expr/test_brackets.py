"""Brackets of expressions: each has its other half, also in functions that the parser reads by a
syntax of their own.
"""

from __future__ import annotations

import pytest

from semgraph.errors import Fault
from semgraph.expr.scalar import parse_scalar


@pytest.mark.parametrize(
    "text",
    [
        "trim(a",
        "trim(a <> ''",
        "upper(a",
        "cast(a as varchar",
        "try_cast(a as varchar",
        "substring(a, 1",
        "position(a in b",
        "extract(year from a",
        "count(*",
        "((a)",
        "a in ('x'",
        "(a = ')'",
    ],
)
def test_a_parenthesis_that_is_not_closed_is_refused_with_its_place(text: str) -> None:
    with pytest.raises(Fault) as caught:
        parse_scalar(text)
    assert caught.value.what == f'cannot read the expression "{text}"'
    assert caught.value.there == f"Expecting ). Line 1, Col: {len(text)}."


@pytest.mark.parametrize(
    "text", ["a)", "trim(a))", "trim(a]", "[trim(a], b)", "[a", "{'x': a", "a[1", "trim([a)"]
)
def test_no_bracket_is_without_its_other_half(text: str) -> None:
    with pytest.raises(Fault, match="cannot read the expression"):
        parse_scalar(text)


@pytest.mark.parametrize(
    "text",
    [
        "trim('(')",
        """trim("a(")""",
        "trim(a) = '['",
        "cast(a as struct(x varchar)).x",
        "{'x': [a]}['x'][1]",
        "a -- (",
        "a /* ( */",
    ],
)
def test_brackets_in_texts_names_and_remarks_count_for_nothing(text: str) -> None:
    assert parse_scalar(text).text == text


def test_an_operator_without_what_it_is_applied_to_is_told_as_such() -> None:
    with pytest.raises(Fault, match=r'cannot read the expression "@"'):
        parse_scalar("@")
