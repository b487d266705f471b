"""How each shipped plan is run: `snapshots/` holds its EXPLAIN.

A change of a plan, a rule or the planner shows here. `SEMGRAPH_RENEW=1 pytest
tests/explain/test_snapshots.py` writes the snapshots anew.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import semgraph
from semgraph.conformance.cases import Mind, Oracle

ROOT = Path(__file__).parents[2]
SNAPSHOTS = Path(__file__).parent / "snapshots"
PLANS = sorted(path.stem for path in (ROOT / "plans").glob("*.yaml") if path.stem != "graph")


@pytest.mark.parametrize("plan", PLANS)
def test_the_explain_output_of_a_plan_equals_its_snapshot(tmp_path: Path, plan: str) -> None:
    path = SNAPSHOTS / f"{plan}.txt"
    with semgraph.Session(
        llm=Oracle(Mind()), store="memory", journal=False, runs="", folder=tmp_path
    ) as session:
        text = session.explain(ROOT / "plans" / f"{plan}.yaml", width=240, full=True)
    text = text.replace(str(ROOT), "").rstrip() + "\n"
    if os.environ.get("SEMGRAPH_RENEW"):
        path.write_text(text, encoding="utf-8")
    assert path.exists(), "a plan without a snapshot: SEMGRAPH_RENEW=1 writes one"
    assert text == path.read_text(encoding="utf-8")


def test_every_snapshot_is_of_a_plan() -> None:
    assert sorted(path.stem for path in SNAPSHOTS.glob("*.txt")) == PLANS
