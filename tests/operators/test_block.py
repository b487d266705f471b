"""sem_join block: how many calls its bounds make."""

from __future__ import annotations

import pytest

from semgraph.conformance.cases import LIBRARY, Case, Oracle, mind
from semgraph.llm.base import Limits
from semgraph.logical.plan import Choice
from semgraph.semantic.contract import RowEstimate
from tests.operators.cases import run


@pytest.mark.parametrize(
    ("way", "calls"),
    [
        ("block(left=32, right=16)", 4),  # 2 x 2 blocks of 512 pairs
        ("block(left=64, right=32)", 1),
        ("block(left=32, right=16, pairs=256)", 8),
        ("block", 8),
        ("block(left=32)", 8),
    ],
)
async def test_both_bounds_say_how_many_pairs_share_a_call(way: str, calls: int) -> None:
    case = Case("sem_join", [f"a{i}" for i in range(64)], others=[f"b{i}" for i in range(32)])
    chosen = LIBRARY.get("sem_join", Choice.parse(way))
    llm = Oracle(mind("sem_join"), Limits(context_tokens=100_000, max_output_tokens=50_000))
    await run(case, chosen, llm)
    assert len(llm.requests) == calls
    assert chosen.estimate(case.node(), RowEstimate(64, 32, 64 * 32, 0), None).calls == calls


async def test_the_window_of_the_model_bounds_a_call_all_the_same() -> None:
    case = Case("sem_join", [f"a{i}" for i in range(64)], others=[f"b{i}" for i in range(32)])
    chosen = LIBRARY.get("sem_join", Choice.parse("block(left=64, right=32)"))
    llm = Oracle(mind("sem_join"), Limits(context_tokens=3_000, max_output_tokens=1_500))
    await run(case, chosen, llm)
    assert len(llm.requests) > 1
    assert llm.rejected == 0
