"""Parameters and ids in expressions, at any depth."""

from __future__ import annotations

from typing import Any

import pytest

from semgraph.expr.scalar import parse_scalar


@pytest.mark.parametrize(
    ("text", "params", "sql"),
    [
        ("$p", {"p": -3}, "(-3)"),
        ("upper($p) = $q", {"p": "x", "q": [1, None]}, "UPPER('x') = [1, NULL]"),
        ("id($p, a)", {"p": 3}, """uuid5(CAST(json_array(3, "a") AS TEXT))"""),
        ("id(id(a), upper($p))", {"p": "x"},
         """uuid5(CAST(json_array(uuid5(CAST(json_array("a") AS TEXT)), UPPER('x')) AS TEXT))"""),
        ("id($now)", {}, "uuid5(CAST(json_array($now) AS TEXT))"),
    ],
)  # fmt: skip
def test_parameters_are_values_and_ids_are_computed_at_any_depth(
    text: str, params: dict[str, Any], sql: str
) -> None:
    assert parse_scalar(text, params).sql == sql
