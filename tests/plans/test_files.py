"""The shipped plans load, and their prompts are small enough for small models."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

import semgraph
from semgraph.expr.types import Type
from semgraph.frontend.plan_files import PlanFile
from semgraph.llm.tokens import TokenCounter
from semgraph.logical.node import walk
from semgraph.logical.plan import LogicalPlan
from semgraph.logical.prompt import Prompt
from semgraph.logical.semantic import Semantic
from tests.plans.conftest import NAMES, PLANS, loaded

MAX_TOKENS = 400


def asked_in(plan: LogicalPlan) -> Iterator[Prompt]:
    for node in walk(*plan.roots):
        if isinstance(node, Semantic):
            yield from node.prompt.all


@pytest.mark.parametrize("name", NAMES)
def test_a_plan_loads_and_runs_without_inputs_because_it_has_an_example(name: str) -> None:
    plan = loaded(name)
    assert plan.name == name.removeprefix("memories/").replace("/", "_")
    assert plan.doc
    assert plan.document["example"]


@pytest.mark.parametrize("name", NAMES)
def test_a_plan_fits_a_few_screens(name: str) -> None:
    lines = (PLANS / f"{name}.yaml").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= {"add_episode": 150}.get(name, 200)
    assert [line for line in lines if len(line) > 120] == []


@pytest.mark.parametrize("name", NAMES)
def test_a_plan_says_what_each_parameter_and_preset_means(name: str) -> None:
    notes = PlanFile(PLANS / f"{name}.yaml", shipped=True).notes
    assert [parameter for parameter, text in notes.params.items() if not text] == []
    if not notes.at("presets"):  # of presets of one kind the key says it for all
        assert [preset for preset, text in notes.presets.items() if not text] == []


@pytest.mark.parametrize("name", NAMES)
def test_every_preset_loads(name: str) -> None:
    plan = loaded(name)
    for preset in plan.document.get("presets", {}):
        assert loaded(name, preset=preset).fingerprint != plan.fingerprint


@pytest.mark.parametrize("name", NAMES)
def test_what_is_static_in_a_prompt_is_short(name: str) -> None:
    count = TokenCounter("gpt-4.1-mini").count
    sizes = {p.name: count(f"{p.rules}\n\n{p.examples}") for p in asked_in(loaded(name))}
    assert {prompt: size for prompt, size in sizes.items() if size > MAX_TOKENS} == {}


def test_every_prompt_file_is_asked_by_some_plan() -> None:
    asked = set()
    for name in NAMES:
        presets = loaded(name).document.get("presets", {})
        for preset in (None, *presets):
            asked |= {p.name for p in asked_in(loaded(name, preset=preset))}
    assert asked == {path.stem for path in PLANS.rglob("prompts/*.md")}


OWN = [
    name for name in NAMES if not name.startswith("memories/") or name == "memories/graphiti/write"
]
"""All but the plans of other memories, whose prompts are theirs."""
AS_SAID = {"extract_mentions"}
"""Prompts whose answers are words of the text, in whatever language."""


def is_text(kind: Type) -> bool:
    """Whether a part of an answer is text of the model's own."""
    parts = [kind.item, *(field for _, field in kind.fields)]
    return kind.name in {"string", "json"} or any(is_text(part) for part in parts if part)


@pytest.mark.parametrize("name", OWN)
def test_every_question_has_the_instructions_and_the_language_of_what_it_writes(name: str) -> None:
    plan = loaded(name)
    told = {"instructions": "Colours are things too.", "language": "Esperanto"}
    told = {key: value for key, value in told.items() if key in plan.document.get("params", {})}
    for preset in (None, *plan.document.get("presets", {})):
        asked = list(asked_in(loaded(name, params=told, preset=preset)))
        written = [p for p in asked if any(is_text(kind) for _, kind in p.returns)]
        assert {p.name for p in asked if not p.rules.endswith("Colours are things too.")} == set()
        assert {p.name for p in written if " in Esperanto." not in p.rules} <= AS_SAID
        # no rules are left behind by an empty value, and without one the text says the language
        plain = list(asked_in(loaded(name, preset=preset)))
        assert {p.name for p in plain if p.rules != p.rules.strip()} == set()
        assert {p.name for p in plain if " in the language of the text." in p.rules} == {
            p.name for p in written if p.name not in AS_SAID
        }


@pytest.mark.parametrize("reach", ["group", "shared_end"])
@pytest.mark.parametrize("by", ["hybrid", "fulltext", "nearest"])
def test_every_form_of_a_switch_loads(reach: str, by: str) -> None:
    loaded("find_rivals", params={"reach": reach})
    loaded("search", params={"by": by})


@pytest.mark.parametrize(("edges", "nodes"), [(True, False), (False, True)])
def test_a_search_can_leave_out_facts_or_entities(edges: bool, nodes: bool) -> None:
    plan = loaded("search", params={"edges": edges, "nodes": nodes})
    assert set(plan.returns) == {
        name for name, wanted in (("edges", edges), ("nodes", nodes)) if wanted
    }


def test_what_reads_messages_runs_ahead_of_what_depends_on_the_graph() -> None:
    with semgraph.Session(llm="recorded", store="memory", journal=False, runs="") as session:
        told = json.loads(str(session.explain(PLANS / "add_episode.yaml", format="json")))
    steps = {step["step"]: step["part"] for step in told["steps"]}
    assert {
        name: steps[name] for name in ("receive/to_read", "read/mentions", "read/facts")
    } == dict.fromkeys(("receive/to_read", "read/mentions", "read/facts"), "ahead")
    assert steps["settle/ask/verdicts"] == "ordered"
