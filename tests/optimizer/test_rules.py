"""Each rule by its fixture, `tests/fixtures/optimizer/RULE.yaml`: a plan, what the rule makes of it, and the same tables from both.

`SEMGRAPH_RENEW=1 pytest tests/optimizer` writes what the rules make of the plans now into the fixtures.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML
from ruamel.yaml.scalarstring import LiteralScalarString

from semgraph.errors import EngineError, PlanError
from semgraph.execution.algebra import algebra
from semgraph.frontend.yaml import load_plan
from semgraph.logical.graph import Scan, Search
from semgraph.logical.joins import Join
from semgraph.logical.node import walk
from semgraph.logical.plan import LogicalPlan
from semgraph.optimizer import APPROXIMATE, EXACT, apply, optimize
from tests.optimizer.conftest import FIXTURES, Bench, with_roots

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
    (folder / "graph.yaml").write_text((FIXTURES / "graph.yaml").read_text(encoding="utf-8"), encoding="utf-8")
    path = folder / "case.yaml"
    path.write_text(f"plan: case\ngraph: graph.yaml\n{case['plan']}", encoding="utf-8")
    return load_plan(path)


def after_rules(plan: LogicalPlan, case: Any) -> LogicalPlan:
    """The plan as the rules that a case says come first leave it."""
    for rule in case.get("first", ()):
        plan = with_roots(plan, apply(RULES[rule], plan.roots))
    return plan


def shown(plan: LogicalPlan) -> str:
    """The algebra, and what it does not tell: what is fetched, how often labels are read, which searches share a round trip."""
    lines = [algebra(plan)]
    trips: dict[str, list[str]] = {}
    for node in walk(*plan.roots):
        if isinstance(node, (Scan, Search)) and node.properties is not None:
            lines.append(f"{node.step} fetches {', '.join(node.properties) or 'keys'}")
        if isinstance(node, Join) and node.fields is not None:
            lines.append(f"{node.step} joins {', '.join(node.fields) or 'nothing'}")
        if isinstance(node, Search) and node.trip:
            trips.setdefault(node.trip, []).append(node.step)
    scans = Counter(node.label for node in walk(*plan.roots) if isinstance(node, Scan))
    lines += [f"{label} is read {count} times" for label, count in scans.items() if count > 1]
    lines += [f"{' and '.join(steps)}: one round trip" for steps in trips.values()]
    return "\n".join(lines)


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
    ruled = with_roots(plan, apply(RULES[rule], plan.roots))
    if os.environ.get("SEMGRAPH_RENEW"):
        case["before"], case["after"] = (LiteralScalarString(shown(p) + "\n") for p in (plan, ruled))
        yaml.dump(document, FIXTURES / f"{rule}.yaml")
    assert shown(plan) == case["before"].strip()
    assert shown(ruled) == case["after"].strip()
    inputs = case.get("rows") or {}
    before = await bench.run(written, lambda p: p, inputs)
    asked = bench.asked
    after = await bench.run(written, lambda _: ruled, inputs)
    assert {n: t.to_pylist() for n, t in before.tables.items()} == {n: t.to_pylist() for n, t in after.tables.items()}
    assert {n: t.schema for n, t in before.tables.items()} == {n: t.schema for n, t in after.tables.items()}
    assert dict(before.written) == dict(after.written)
    assert len(bench.asked) <= len(asked)
    assert set(bench.asked) <= set(asked)
    assert after.meter.total().round_trips <= before.meter.total().round_trips
    if case.get("rows") is not None:
        assert any(t.num_rows for t in after.tables.values()), "a fixture without rows proves nothing"


@pytest.mark.parametrize(("rule", "name"), ALL)
def test_a_rule_has_nothing_more_to_do_after_it_was_applied(tmp_path: Path, rule: str, name: str) -> None:
    (case,) = (c for c in cases(rule) if c["case"] == name)
    once = apply(RULES[rule], after_rules(loaded(case, tmp_path), case).roots)
    assert all(a is b for a, b in zip(RULES[rule](once), once, strict=True))


def test_a_rule_that_breaks_its_promise_is_named(tmp_path: Path) -> None:
    plan = loaded(cases("prune_columns")[0], tmp_path)

    def cut(roots: Any) -> Any:
        return tuple(root.inputs[0] for root in roots)

    def restless(roots: Any) -> Any:
        from dataclasses import replace

        return tuple(replace(root) for root in roots)

    with pytest.raises(EngineError, match='rule "cut" changed the schema'):
        apply(cut, plan.roots)
    with pytest.raises(EngineError, match='rule "restless" does not come to rest'):
        apply(restless, plan.roots)


def test_the_optimizer_tells_which_rules_changed_something(tmp_path: Path) -> None:
    told: list[str] = []
    plan = loaded(cases("push_filters")[0], tmp_path)
    optimize(plan, lambda rule, _before, _after: told.append(rule))
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
    "use", ["{}", "{first: per_row, second: per_row}", "{first: packed(rows=3), second: packed(rows=3)}"]
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
        PlanError, match=r"step second: asks what first asks.*Ways: first the reference, second packed\(rows=3\)"
    ):
        optimize(load_plan(path))
