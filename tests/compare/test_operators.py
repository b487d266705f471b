"""Every operator can be compared: its rows are named, its answers counted, a truth found by the
names of its columns.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import semgraph as sg
from semgraph.conformance.cases import Mind, Oracle
from semgraph.frontend.frame import Frame

ROWS = [
    {"id": i, "text": t, "of": "xy"[i % 2]}
    for i, t in enumerate(["Ann", "Bo", "Cleo", "Dan", "Eve"], 1)
]
MIND = Mind(
    answer=lambda text: {"size": f"{len(text.split()[-1])}"},
    match=lambda left, right: {} if left.lower() == right.lower() or _same(left) else None,
    combine=lambda texts, parts: {"all": " ".join(sorted(texts))},
    score=lambda text: float(len(text)),
)


def _same(question: str) -> bool:
    """`Ann is ANN`, where both stand in one question."""
    left, _, right = question.partition(" is ")
    return bool(right) and left.lower() == right.lower()


def table() -> Frame:
    return sg.table(ROWS, key="id")


def joined(how: Any = "left") -> Frame:
    known = sg.table(
        [{"key": "a", "name": "ANN"}, {"key": "b", "name": "BO"}, {"key": "z", "name": "ZOE"}],
        key="key",
        name="known",
    )
    return (
        table().sem_join(known, alias="match", prompt="{text} is {match.name}", how=how).step("s")
    )


PLANS = {
    "sem_map": (lambda: table().sem_map("How long is {text}", returns={"size": "string"}).step("s"), ["per_row", "packed(rows=2)"]),
    "sem_join": (joined, ["nested_loop", "block(right=2)"]),
    "sem_agg": (lambda: table().sem_agg("{text}", by="of", returns={"all": "string"}).step("s"), ["single", "tree(fan_in=8)"]),
    "sem_topk": (lambda: table().sem_topk("{text}", k=2).step("s"), ["pointwise", "packed(rows=2)"]),
}  # fmt: skip


async def compare(folder: Path, plan: Frame, variants: list[str], **options: Any) -> Any:
    async with sg.Session(
        llm=Oracle(MIND), store="memory", journal=False, runs="", folder=folder
    ) as session:
        return await session.acompare(plan, step="s", variants=variants, say=None, **options)


@pytest.mark.parametrize("operator", PLANS)
async def test_ways_that_promise_the_same_answers_agree(tmp_path, operator):
    plan, variants = PLANS[operator]
    found = await compare(tmp_path, plan(), variants)
    assert [arm.quality.same for arm in found] == [None, 1.0]
    assert [arm.failed for arm in found] == [0, 0]
    assert all(arm.trials[0].rows.num_rows for arm in found)
    assert all(e.calls >= arm.cold.calls for e, arm in zip(found.estimates, found, strict=True))
    assert found.disagreements(*variants).num_rows == 0


async def test_a_truth_names_a_field_of_what_a_join_brings(tmp_path):
    """Ann and Bo are found. The truth knows of Ann, that Bo is another, and that Dan is Zoe."""
    truth = [
        {"id": 1, "key": "a"},
        {"id": 2, "key": "z"},
        {"id": 3, "key": None},
        {"id": 4, "key": "z"},
    ]
    found = await compare(tmp_path, joined(), ["nested_loop"], truth=truth)
    quality = found["nested_loop"].quality
    assert (found.key, found.compare) == (("id",), ("match.key",))
    assert (quality.precision, quality.recall) == (1 / 2, 1 / 3)


async def test_a_match_that_the_truth_does_not_have_is_wrong(tmp_path):
    found = await compare(tmp_path, joined(), ["nested_loop"], truth=[{"id": 1, "key": "a"}])
    assert (found["nested_loop"].quality.precision, found["nested_loop"].quality.recall) == (
        0.5,
        1.0,
    )


async def test_a_semi_join_is_scored_by_the_rows_that_stay(tmp_path):
    found = await compare(tmp_path, joined("semi"), ["nested_loop"], truth=[{"id": 1}, {"id": 5}])
    assert (found["nested_loop"].quality.precision, found["nested_loop"].quality.recall) == (
        0.5,
        0.5,
    )


async def test_groups_are_named_by_what_they_are_grouped_by(tmp_path):
    plan, variants = PLANS["sem_agg"]
    found = await compare(
        tmp_path,
        plan(),
        variants,
        truth=[{"of": "y", "all": "Ann Cleo Eve"}, {"of": "x", "all": "Bo"}],
    )
    assert (found.key, found.compare) == (("of",), ("all",))
    assert [arm.quality.f1 for arm in found] == [0.5, 0.5]


async def test_the_best_rows_are_scored_as_such(tmp_path):
    plan, variants = PLANS["sem_topk"]
    found = await compare(tmp_path, plan(), variants[:1], truth=[{"id": 3}, {"id": 2}])
    assert (found["pointwise"].quality.precision, found["pointwise"].quality.recall) == (0.5, 0.5)


async def test_a_row_that_is_not_asked_about_is_answered_alike_by_all(tmp_path):
    plan = (
        table()
        .sem_map(
            "How long is {text}",
            returns={"size": "string"},
            when="id > 3",
            otherwise={"size": "'?'"},
        )
        .step("s")
    )
    found = await compare(tmp_path, plan, ["per_row", "packed(rows=5)"])
    assert [arm.cold.calls for arm in found] == [2, 1]
    assert found["packed(rows=5)"].quality.same == 1.0
