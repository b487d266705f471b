"""List comprehensions: what stands before FOR is made of each item, whatever operators it has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import semgraph
from semgraph.expr.scalar import parse_scalar
from semgraph.stores import conditions

KINDS: list[dict[str, Any]] = [
    {"id": 1, "x": "a", "i": 7, "items": [{"kind": "a", "n": 1}, {"kind": "b", "n": 2}]},
    {"id": 2, "x": None, "i": 7, "items": [{"kind": None, "n": None}]},
]
PLAN = """
plan: kinds
inputs:
  rows:
    id: int64
    x: string null
    i: int64
    items: "list<struct<kind: string null, n: int64 null>>"
steps:
  out: [{from: rows}, {project: {made: "MADE"}}]
returns: [out]
"""


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("[o.kind <> x for o in items]", ("items", "x")),
        ("[NOT o.kind for o in items]", ("items",)),
        ("[x AND o.kind <> y OR o.n for o in items if o.n = z]", ("items", "x", "y", "z")),
        ("[o <> 1 for o in [p <> x for p in items]]", ("items", "x")),
        ("[o.n + i for o, i in items]", ("items",)),
        ("[o.n for o in items][1] <> x", ("items", "x")),
    ],
)
def test_what_a_comprehension_binds_is_no_column(text: str, columns: tuple[str, ...]) -> None:
    scalar = parse_scalar(text)
    assert scalar.columns == columns
    assert parse_scalar(scalar.sql).columns == columns


def test_a_value_of_a_stored_condition_reads_columns_beside_what_it_binds() -> None:
    condition = conditions.read(
        parse_scalar("hit.n = len([k for k, i in names if i <> x]) + k"), "hit"
    )
    assert isinstance(condition, conditions.Test)
    [value] = [part for part in condition.args if isinstance(part, conditions.Value)]
    assert value.columns == ("k", "names", "x")


@pytest.mark.parametrize("executor", ["rows", "duckdb", "both"])
@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("[o.kind <> x for o in items]", [[False, True], [None]]),
        ("[NOT o.kind = x for o in items]", [[False, True], [None]]),
        ("[o.n > 1 AND o.kind = 'b' for o in items]", [[False, True], [None]]),
        ("[o.kind = x OR o.n > 1 for o in items if o.n > 0]", [[True, True], []]),
        ("[x = k for k in [o.kind for o in items]]", [[True, False], [None]]),
        ("[o.n * i for o, i in items]", [[1, 4], [None]]),
        ("[o.n * i for o in items]", [[7, 14], [None]]),
    ],
)
def test_a_comprehension_compares_each_item(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, executor: str, text: str, made: list[Any]
) -> None:
    monkeypatch.setenv("SEMGRAPH_SEGMENTS", executor)
    (tmp_path / "kinds.yaml").write_text(PLAN.replace("MADE", text), encoding="utf-8")
    with semgraph.Session(store="memory", journal=False, runs="", folder=tmp_path) as session:
        out = session.run(tmp_path / "kinds.yaml", inputs={"rows": KINDS})["out"].to_pylist()
    assert [row["made"] for row in out] == made
