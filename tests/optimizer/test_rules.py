"""Each rule by its fixture, `tests/fixtures/optimizer/RULE.yaml`: a plan, what the rule makes of
it, and the same tables from both.

`SEMGRAPH_RENEW=1 pytest tests/optimizer` writes what the rules make of the plans now into the
fixtures.
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML
from ruamel.yaml.scalarstring import LiteralScalarString

from semgraph.errors import EngineError, PlanError
from semgraph.explain.algebra import algebra
from semgraph.expr.scalar import parse_scalar
from semgraph.frontend.load import load_plan
from semgraph.logical.graph import Match, Scan
from semgraph.logical.node import walk
from semgraph.logical.plan import LogicalPlan
from semgraph.logical.relational import Filter, Join
from semgraph.logical.schema import Label
from semgraph.logical.search import Search
from semgraph.optimizer import APPROXIMATE, EXACT, apply, mark_empty, optimize, with_roots
from semgraph.optimizer.patterns import PlanFacts, Roots
from tests.optimizer.bench import FIXTURES, Bench

RULES = {rule.__name__: rule for rule in (*EXACT, *APPROXIMATE)}
yaml = YAML()
yaml.width = 1000


def cases(rule: str) -> Any:
    return yaml.load((FIXTURES / f"{rule}.yaml").read_text(encoding="utf-8"))


ALL = [
    pytest.param(rule, case["case"], id=f"{rule}: {case['case']}")
    for rule in RULES
    if (FIXTURES / f"{rule}.yaml").exists()
    for case in cases(rule)
]


def loaded(case: Any, folder: Path) -> LogicalPlan:
    (folder / "graph.yaml").write_text(
        (FIXTURES / "graph.yaml").read_text(encoding="utf-8"), encoding="utf-8"
    )
    path = folder / "case.yaml"
    path.write_text(f"plan: case\ngraph: graph.yaml\n{case['plan']}", encoding="utf-8")
    plan = load_plan(path)
    rows = case.get("rows") or {}
    return mark_empty(
        plan,
        {
            name: i.schema.empty_table()
            for name, i in plan.inputs.items()
            if i.optional and name not in rows
        },
    )


def in_full(plan: LogicalPlan) -> str:
    """The algebra with physical details: fetched properties, repeated scans, searches that share a
    round trip."""
    lines = [algebra(plan, expand=True)]
    batches: dict[str, list[str]] = {}
    for node in walk(*plan.roots):
        if isinstance(node, (Scan, Search)) and node.properties is not None:
            vectors = node.vectors if isinstance(node, Search) else ()
            lines.append(f"{node.step} fetches {', '.join((*node.properties, *vectors)) or 'keys'}")
        if isinstance(node, Match) and any(names is not None for _, names in node.properties):
            lines += [_fetched(node, var, label) for var, label in node.labelled]
        if isinstance(node, Join) and node.fields is not None:
            lines.append(f"{node.step} joins {', '.join(node.fields) or 'nothing'}")
        if isinstance(node, Search) and node.trip:
            batches.setdefault(node.trip, []).append(node.step)
    scans = Counter(node.label for node in walk(*plan.roots) if isinstance(node, Scan))
    lines += [f"{label} is read {count} times" for label, count in scans.items() if count > 1]
    lines += [f"{' and '.join(steps)}: one round trip" for steps in batches.values()]
    return "\n".join(lines)


def _fetched(node: Match, var: str, label: Label) -> str:
    names = [name for name in node.fields_of(var, label) if name != node.graph.key]
    return f"{node.step} fetches of {var} {', '.join(names) or 'keys'}"


def after_rules(plan: LogicalPlan, case: Any) -> LogicalPlan:
    """The plan as the rules that a case says come first leave it."""
    for rule in case.get("first", ()):
        plan = with_roots(plan, apply(RULES[rule], plan.roots, PlanFacts(plan.choice)))
    return plan


def test_every_rule_has_a_fixture_and_every_fixture_a_rule() -> None:
    assert {path.stem for path in FIXTURES.glob("*.yaml")} - {"graph", "fill"} == set(RULES)


@pytest.mark.parametrize(("rule", "name"), ALL)
async def test_a_rule_does_what_its_fixture_says_and_no_answer_changes(
    bench: Bench, tmp_path: Path, rule: str, name: str
) -> None:
    document = cases(rule)
    (case,) = (c for c in document if c["case"] == name)
    written = loaded(case, tmp_path)
    plan = after_rules(written, case)
    ruled = with_roots(plan, apply(RULES[rule], plan.roots, PlanFacts(plan.choice)))
    if os.environ.get("SEMGRAPH_RENEW"):
        case["before"], case["after"] = (
            LiteralScalarString(in_full(p) + "\n") for p in (plan, ruled)
        )
        yaml.dump(document, FIXTURES / f"{rule}.yaml")
    assert in_full(plan) == case["before"].strip()
    assert in_full(ruled) == case["after"].strip()
    inputs = case.get("rows") or {}
    before = await bench.run(written, lambda p: p, inputs)
    asked = bench.asked
    after = await bench.run(written, lambda _: ruled, inputs)
    assert {n: t.to_pylist() for n, t in before.tables.items()} == {
        n: t.to_pylist() for n, t in after.tables.items()
    }
    assert {n: t.schema for n, t in before.tables.items()} == {
        n: t.schema for n, t in after.tables.items()
    }
    assert dict(before.written) == dict(after.written)
    assert len(bench.asked) <= len(asked)
    assert set(bench.asked) <= set(asked) or RULES[rule] in APPROXIMATE
    assert after.meter.total().round_trips <= before.meter.total().round_trips
    if case.get("rows") is not None:
        assert any(t.num_rows for t in after.tables.values()), (
            "a fixture without rows proves nothing"
        )


@pytest.mark.parametrize(("rule", "name"), ALL)
def test_a_rule_has_nothing_more_to_do_after_it_was_applied(
    tmp_path: Path, rule: str, name: str
) -> None:
    (case,) = (c for c in cases(rule) if c["case"] == name)
    plan = after_rules(loaded(case, tmp_path), case)
    once = apply(RULES[rule], plan.roots, PlanFacts(plan.choice))
    assert all(
        a is b for a, b in zip(apply(RULES[rule], once, PlanFacts(plan.choice)), once, strict=True)
    )


def test_a_rule_that_breaks_its_promise_is_named(tmp_path: Path) -> None:
    plan = loaded(cases("prune_columns")[0], tmp_path)

    def cut(roots: Roots, _facts: PlanFacts) -> Roots:
        return tuple(root.inputs[0] for root in roots)

    def growing(roots: Roots, _facts: PlanFacts) -> Roots:
        return tuple(Filter(input=root, where=parse_scalar("TRUE")) for root in roots)

    def restless(roots: Roots, facts: PlanFacts) -> Roots:
        return growing(roots, facts) if roots == plan.roots else plan.roots

    with pytest.raises(EngineError, match='rule "growing" reaches no fixpoint'):
        apply(growing, plan.roots)
    with pytest.raises(EngineError, match='rule "cut" changed the schema'):
        apply(cut, plan.roots)
    with pytest.raises(EngineError, match='rule "restless" reaches no fixpoint'):
        apply(restless, plan.roots)


def test_a_rule_that_makes_an_equal_plan_has_reached_a_fixpoint(tmp_path: Path) -> None:
    plan = loaded(cases("prune_columns")[0], tmp_path)

    def copying(roots: Roots, _facts: PlanFacts) -> Roots:
        return tuple(replace(root) for root in roots)

    roots = plan.roots
    assert apply(copying, roots) is roots


def test_the_optimizer_tells_which_rules_changed_something(tmp_path: Path) -> None:
    told: list[str] = []
    plan = loaded(cases("push_filters")[0], tmp_path)
    optimize(plan, told.append)
    assert "push_filters" in told
    assert told == [rule for rule in RULES if rule in told]


TWICE = """
plan: twice
inputs: {notes: {id: string, text: string}}
steps:
  first: [{from: notes}, {sem_filter: {prompt: "Is {text} nice?"}}]
  second: [{from: notes}, {sem_filter: {prompt: "Is {text} nice?"}}]
returns: [first, second]
use: USE
"""


@pytest.mark.parametrize(
    "use",
    ["{}", "{first: per_row, second: per_row}", "{first: packed(rows=3), second: packed(rows=3)}"],
)
def test_equal_steps_with_one_way_are_computed_once(tmp_path: Path, use: str) -> None:
    path = tmp_path / "twice.yaml"
    path.write_text(TWICE.replace("USE", use), encoding="utf-8")
    returns = optimize(load_plan(path)).returns
    assert returns["first"] is returns["second"]


def test_equal_steps_with_two_ways_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "twice.yaml"
    path.write_text(TWICE.replace("USE", "{second: packed(rows=3)}"), encoding="utf-8")
    with pytest.raises(
        PlanError,
        match=r"step second: asks the same.*as first.*Step first has the reference, step second has packed\(rows=3\)",
    ):
        optimize(load_plan(path))


ALLOWING = """
plan: allowing
inputs: {notes: {id: string, text: string}}
steps:
  codes: [{from: notes}, {sem_map: {prompt: "Code: {text}", returns: {code: string}}}]
  marks: [{from: notes}, {sem_map: {prompt: "Mark: {text}", returns: {mark: string}}}]
returns: [codes, marks]
allow: ALLOW
"""


@pytest.mark.parametrize(
    ("allow", "asked"), [("[]", 2), ("[fuse_predicates]", 2), ("[fuse_maps]", 1)]
)
async def test_what_may_change_answers_happens_only_where_a_plan_allows_it(
    bench: Bench, tmp_path: Path, allow: str, asked: int
) -> None:
    path = tmp_path / "allowing.yaml"
    path.write_text(ALLOWING.replace("ALLOW", allow), encoding="utf-8")
    found = await bench.run(load_plan(path), optimize, {"notes": [{"id": "n1", "text": "Ann"}]})
    assert len(bench.asked) == asked
    assert found.tables["codes"].to_pylist()[0]["code"].startswith("c")


def test_what_no_rule_is_called_cannot_be_allowed(tmp_path: Path) -> None:
    path = tmp_path / "allowing.yaml"
    path.write_text(ALLOWING.replace("ALLOW", "[fuse_map]"), encoding="utf-8")
    with pytest.raises(PlanError) as caught:
        load_plan(path)
    (problem,) = caught.value.problems
    assert "fuse_map" in problem.what
    assert problem.there == "such rules: fuse_maps, join_to_classify, fuse_predicates"
    assert problem.hint == 'did you mean "fuse_maps"?'
    assert problem.position.line == 8


def maps(folder: Path, count: int) -> LogicalPlan:
    """A plan with many questions about the same rows, each a step of its own."""
    steps = "".join(
        f'  s{i}:\n    - from: people\n    - sem_map: {{prompt: "Code: {{name}} {i}", returns: {{a{i}: string}}}}\n'
        for i in range(count)
    )
    names = ", ".join(f"s{i}" for i in range(count))
    text = f"plan: many\ninputs: {{people: {{name: string}}}}\nsteps:\n{steps}returns: [{names}]\nallow: [fuse_maps]\n"
    (folder / "many.yaml").write_text(text)
    return load_plan(folder / "many.yaml")


@pytest.mark.parametrize("count", [2, 21, 64])
def test_any_number_of_questions_about_the_same_rows_become_one(tmp_path: Path, count: int) -> None:
    plan = maps(tmp_path, count)
    after = optimize(plan)
    assert sum(node.calls_model for node in walk(*after.roots)) == 1
    assert [root.schema.names for root in after.roots] == [["name", f"a{i}"] for i in range(count)]
