"""Rows that a model cannot tell apart are one question, with no journal that could answer the
second.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from semgraph.conformance.cases import LEFT, LIBRARY, RIGHT, Grams, Oracle, mind, node
from semgraph.logical.plan import Choice
from semgraph.meter import StepMetrics
from semgraph.semantic.ask import Answered, Asking
from semgraph.semantic.context import Context
from semgraph.semantic.dispatch import answer

TEN = [f"name {i}" for i in range(10)]


def lefts(groups: dict[str, list[str]]) -> pa.Table:
    """Rows of groups; what no prompt reads, `reference`, is different in each."""
    rows = [(kind, name) for kind, names in groups.items() for name in names]
    found = [
        {"name": name, "kind": kind, "reference": f"r{i}"} for i, (kind, name) in enumerate(rows)
    ]
    return pa.Table.from_pylist(found, schema=LEFT)


async def asked(operator: str, way: str, left: pa.Table, **more: Any) -> tuple[Answered, int]:
    """What came of it, and how many calls it took."""
    wanted, model = node(operator, **more), Oracle(mind(operator))
    others = pa.Table.from_pylist(
        [{"name": TEN[i % 10], "weight": None} for i in range(40)], schema=RIGHT
    )
    async with Context(model, Grams(), wanted, StepMetrics()) as ctx:
        asking = Asking(LIBRARY.get(operator, Choice.parse(way)), ctx, [], "", None)
        found = await answer(wanted, [left, others][: len(wanted.inputs)], asking)
    assert not found.failures
    return found, len(model.requests)


@pytest.mark.parametrize(
    ("operator", "way", "calls"),
    [
        ("sem_map", "per_row", 10),
        ("sem_map", "packed(rows=5)", 2),
        ("sem_filter", "per_row", 10),
        ("sem_join", "nested_loop", 100),
        ("sem_join", "block(left=1)", 10),
        ("sem_agg", "single", 1),
        ("sem_topk", "pointwise", 10),
        ("sem_topk", "packed(rows=5)", 2),
        ("sem_topk", "listwise", 1),
    ],
)
async def test_four_groups_of_the_same_ten_rows_cost_as_much_as_one(
    operator: str, way: str, calls: int
) -> None:
    once, least = await asked(operator, way, lefts({"a": TEN}))
    found, issued = await asked(operator, way, lefts(dict.fromkeys("abcd", TEN)))
    assert (least, issued) == (calls, calls)
    whole = found.table.drop_columns(["kind", "reference"] if operator != "sem_agg" else ["kind"])
    size = once.table.num_rows
    assert found.table.num_rows == 4 * size
    for group in range(4):
        assert whole.slice(group * size, size).equals(once.table.select(whole.column_names))
    assert found.evidence is not None
    assert found.rows_in == 4 * once.rows_in


@pytest.mark.parametrize(
    ("way", "calls"), [("pointwise", 10), ("packed(rows=5)", 2), ("listwise", 2)]
)
async def test_a_row_of_several_groups_and_twice_in_one_is_one_question_for_ranks(
    way: str, calls: int
) -> None:
    groups = {"a": [*TEN[:6], *TEN[:6]], "b": TEN[4:]}
    found, issued = await asked("sem_topk", way, lefts(groups))
    assert issued == calls
    best = {
        kind: max(names, key=lambda name: mind("sem_topk").score(f"How loud is “{name}”?"))
        for kind, names in groups.items()
    }
    rows = found.table.to_pylist()
    assert [(row["name"], row["rank"]) for row in rows if row["kind"] == "a"] == [
        (best["a"], 0),
        (best["a"], 1),
    ]
    assert next(row["name"] for row in rows if row["kind"] == "b") == best["b"]


async def test_groups_are_one_only_if_they_show_the_same_rows_in_the_same_order() -> None:
    groups = {"a": TEN, "b": TEN[::-1], "c": [*TEN, TEN[0]], "d": TEN}
    found, issued = await asked("sem_agg", "single", lefts(groups))
    assert issued == 3
    assert [row["rows"] for row in found.table.to_pylist()] == [10, 10, 11, 10]


async def test_equal_rows_with_two_prompts_are_two_questions() -> None:
    _, issued = await asked("sem_join", "nested_loop", lefts({"a": TEN[:2], "b": TEN[:2]}), by=True)
    assert issued == 2 * 2 * 10
