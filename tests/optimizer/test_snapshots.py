"""What each shipped plan is as algebra, and how it is run on each store: `tests/plans_snapshots/`.

A change of a plan, a rule or the planner shows here. `SEMGRAPH_RENEW=1 pytest tests/optimizer`
writes the snapshots anew.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import semgraph
from semgraph.conformance.oracle import Mind, Oracle
from semgraph.frontend.load import load_plan

ROOT = Path(__file__).parents[2]
SNAPSHOTS = ROOT / "tests" / "plans_snapshots"
PLANS = sorted(path.stem for path in (ROOT / "plans").glob("*.yaml") if path.stem != "graph")
FORMS = {"algebra": "algebra", "explain": "tree"}
WAYS = [
    (plan, preset)
    for plan in PLANS
    for preset in [None, *load_plan(ROOT / "plans" / f"{plan}.yaml").document.get("presets", {})]
]


def name_of(plan: str, preset: str | None) -> str:
    return plan if preset is None else f"{plan}.{preset}"


@pytest.fixture
def session(tmp_path: Path) -> semgraph.Session:
    return semgraph.Session(
        llm=Oracle(Mind()), store="memory", journal=False, runs="", folder=tmp_path
    )


@pytest.mark.parametrize(("plan", "preset"), WAYS, ids=[name_of(*way) for way in WAYS])
def test_a_plan_is_what_its_snapshot_says(
    session: semgraph.Session, plan: str, preset: str | None
) -> None:
    loaded = load_plan(ROOT / "plans" / f"{plan}.yaml", preset=preset)
    for ending, form in FORMS.items():
        text = (
            session.explain(loaded, format=form, width=240).replace(str(ROOT), "").rstrip() + "\n"
        )
        path = SNAPSHOTS / f"{name_of(plan, preset)}.{ending}.txt"
        if os.environ.get("SEMGRAPH_RENEW"):
            path.write_text(text, encoding="utf-8")
        assert path.exists(), "a plan without a snapshot: SEMGRAPH_RENEW=1 writes one"
        assert text == path.read_text(encoding="utf-8")


def test_every_snapshot_is_of_a_plan() -> None:
    there = {path.name for path in SNAPSHOTS.glob("*.txt")}
    assert there == {f"{name_of(*way)}.{ending}.txt" for way in WAYS for ending in FORMS}
