"""Loads of one plan with several presets: each plan and error is as if alone."""

from __future__ import annotations

from typing import Any

import pytest

from semgraph.errors import PlanError
from semgraph.folders import plans_folder
from semgraph.frontend import head
from semgraph.frontend.load import load_plan
from semgraph.frontend.plan_files import PlanFile
from semgraph.logical.plan import LogicalPlan
from tests.frontend.conftest import Folder

PLANS = {
    "main": """
plan: main
inputs: {notes: {id: string, text: string}}
params: {least: 1}
presets:
  same: {params: {least: 2}}
  other: {use: {first: small}}
  deep: {use: {second/within: small}}
  large: {use: {first: larger}}
  wrong: {use: {second/within: lacks}}
steps:
  first: [{call: {plan: medium, inputs: [notes]}}]
  second: [{call: {plan: outer, inputs: [notes]}}]
  kept: [{union: [first, second]}, {filter: length(text) > $least}]
returns: [kept]
""",
    "outer": """
plan: outer
inputs: {notes: {id: string, text: string}}
steps:
  within: [{call: {plan: medium, inputs: [notes]}}]
  shown: [{from: within}, {filter: id <> ''}]
returns: [shown]
""",
    "small": """
plan: small
inputs: {notes: {id: string, text: string}}
steps: {rows: [{from: notes}]}
returns: [rows]
""",
    "medium": """
plan: medium
inputs: {notes: {id: string, text: string}}
steps: {rows: [{from: notes}, {add: {text: upper(text)}}]}
returns: [rows]
""",
    "larger": """
plan: larger
inputs: {notes: {id: string, text: string}}
steps: {rows: [{from: notes}, {add: {text: upper(text)}}, {add: {text: lower(text)}}]}
returns: [rows]
""",
    "lacks": """
plan: lacks
inputs: {notes: {id: string, text: string}}
steps: {rows: [{from: notes}, {project: [id]}]}
returns: [rows]
""",
}
PRESETS = (None, "same", "other", "deep", "large", "wrong", None, "wrong", "other")


@pytest.fixture
def file(folder: Folder) -> PlanFile:
    for name, text in PLANS.items():
        folder.write(f"{name}.yaml", text)
    return PlanFile(folder.path / "main.yaml", shipped=False)


def outcome(load: Any, **options: Any) -> Any:
    """What a load says of a plan: what it is, or its problems."""
    try:
        plan: LogicalPlan = load(**options)
    except PlanError as error:
        return [str(problem) for problem in error.problems]
    nodes = {name: (node.fingerprint, str(node.schema)) for name, node in plan.steps.items()}
    writes = [node.fingerprint for node in plan.writes]
    return plan.fingerprint, nodes, writes, plan.use, plan.warnings, plan.called, plan.replaced


def test_a_plan_is_the_same_after_loads_with_other_presets(file: PlanFile) -> None:
    for preset in PRESETS:
        alone = outcome(lambda **options: load_plan(file.path, **options), preset=preset)
        assert outcome(file.load, preset=preset) == alone
        assert isinstance(alone, list) == (preset == "wrong")


@pytest.mark.parametrize("most", range(4, 14))
def test_the_limit_of_operators_counts_called_plans(
    file: PlanFile, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(head, "MOST_OPERATORS", most)
    for preset in PRESETS:
        alone = outcome(lambda **options: load_plan(file.path, **options), preset=preset)
        assert outcome(file.load, preset=preset) == alone


def test_every_preset_of_add_episode_is_the_same_with_shared_calls() -> None:
    path = plans_folder() / "add_episode.yaml"
    shared = PlanFile(path, shipped=True)
    for preset in (None, *shared.plan.document["presets"]):
        alone = outcome(lambda **options: load_plan(path, **options), preset=preset)
        assert outcome(shared.load, preset=preset) == alone
