"""A plan as algebra: a called plan is one term, and with `full` the equations of its steps."""

from __future__ import annotations

from pathlib import Path

import pytest

import semgraph

INNER = """plan: inner
inputs: {notes: {id: string, text: string}, more: {id: string}}
optional: [more]
steps:
  long: [{from: notes}, {filter: length(text) > 3}]
  short: [{from: notes}, {filter: length(text) <= 3}]
returns: [long, short]
"""
OUTER = """plan: outer
inputs: {notes: {id: string, text: string}}
steps:
  split: [{call: {plan: inner, inputs: {notes: [{from: notes}, {distinct: [id]}]}}}]
  kept: [{from: split.long}, {project: [id]}]
returns: [kept]
"""
OTHER = INNER.replace("plan: inner", "plan: other")


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    for name, text in (("inner", INNER), ("other", OTHER), ("outer", OUTER)):
        (tmp_path / f"{name}.yaml").write_text(text, encoding="utf-8")
    return tmp_path / "outer.yaml"


def algebra(plan: Path, *, use: dict[str, str] | None = None, full: bool = False) -> list[str]:
    with semgraph.Session(llm="recorded", store="memory", journal=False, runs="") as session:
        shown = session.explain(session.prepare(plan, use=use), format="algebra", full=full)
    return str(shown).splitlines()


def test_a_called_plan_is_a_term_of_what_it_is_given(plan: Path) -> None:
    assert algebra(plan) == ["split = inner((δ_{id} notes))", "kept = π_{id} split.long"]


def test_a_plan_that_stands_for_another_is_named(plan: Path) -> None:
    assert algebra(plan, use={"split": "other"})[0] == "split = other((δ_{id} notes))"


def test_expanded_the_steps_of_called_plans_are_equations(plan: Path) -> None:
    assert algebra(plan, full=True) == [
        "split = δ_{id} notes",
        "split/long = σ_{length(text) > 3} split",
        "kept = π_{id} split/long",
    ]


def test_the_algebra_of_add_episode_fits_a_terminal() -> None:
    lines = algebra(Path(__file__).parents[2] / "plans" / "add_episode.yaml")
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 120
    assert "read = read_separate(receive.to_read, types.kinds, types.ties, receive.past)" in lines
    assert "MENTIONS ← store" in lines
