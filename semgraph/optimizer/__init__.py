"""Rewrites of logical plans: two tuples of rules, in the order they are applied.

EXACT rules keep the answer if the model is a function of the row. APPROXIMATE ones may change it and act only where a plan's
`allow` names them. After every rule the schema of each root must be the same, no semantic node may be duplicated, and the
rule must come to rest; else the rule is at fault and named.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import cast

from semgraph.errors import EngineError, PlanError, Problem
from semgraph.logical.node import Node, walk
from semgraph.logical.plan import LogicalPlan
from semgraph.logical.sinks import Sink
from semgraph.optimizer.prune_columns import prune_columns
from semgraph.optimizer.prune_steps import prune_steps
from semgraph.optimizer.push_filters import push_filters
from semgraph.optimizer.share_round_trips import share_round_trips
from semgraph.optimizer.share_subplans import share_subplans

Roots = tuple[Node, ...]
Rule = Callable[[Roots], Roots]
Observer = Callable[[str, Roots, Roots], None]

EXACT: tuple[Rule, ...] = (prune_steps, push_filters, share_subplans, prune_columns, share_round_trips)
APPROXIMATE: tuple[Rule, ...] = ()
_PASSES = 20


def optimize(plan: LogicalPlan, observe: Observer | None = None) -> LogicalPlan:
    """The plan, rewritten. `observe` is told of every rule that changed something: its name, the roots before and after.

    Raises:
        PlanError: Two steps that are computed once, because they ask the same of the same rows, are to be done in two ways.
        EngineError: A rule changed a schema, duplicated a semantic node, or did not come to rest.
    """
    _refuse_two_ways(plan)
    allowed = tuple(rule for rule in APPROXIMATE if rule.__name__ in plan.allow)
    roots = plan.roots
    for rule in (*EXACT, *allowed):
        before = roots
        roots = apply(rule, roots)
        if observe is not None and any(a is not b for a, b in zip(before, roots, strict=True)):
            observe(rule.__name__, before, roots)
    count = len(plan.writes)
    writes = cast("tuple[Sink, ...]", roots[:count])
    return replace(plan, writes=writes, returns=dict(zip(plan.returns, roots[count:], strict=True)))


def _refuse_two_ways(plan: LogicalPlan) -> None:
    first: dict[str, Node] = {}
    for node in walk(*plan.roots):
        other = first.setdefault(node.fingerprint, node) if node.calls_llm else node
        ways = [plan.choice(step) or "the reference" for step in (other.step, node.step)]
        if ways[0] != ways[1]:
            msg = f"asks what {other.step} asks, of the same rows: both are computed once, but their ways differ"
            there = f"ways: {other.step} {ways[0]}, {node.step} {ways[1]}"
            raise PlanError(Problem(msg, node.step, node.origin, there, "choose one way for both"))


def apply(rule: Rule, roots: Roots) -> Roots:
    """Apply one rule until nothing changes, checking what every rule must keep."""
    for _ in range(_PASSES):
        found = rule(roots)
        _check(rule.__name__, roots, found)
        if all(a is b for a, b in zip(roots, found, strict=True)):
            return found
        roots = found
    raise EngineError(f'optimizer rule "{rule.__name__}" does not come to rest after {_PASSES} passes')


def _check(name: str, before: Roots, after: Roots) -> None:
    for old, new in zip(before, after, strict=True):
        if not old.schema.equals(new.schema):
            raise EngineError(f'optimizer rule "{name}" changed the schema of step {old.step or old.keyword}')
    counts = [sum(node.calls_llm for node in walk(*roots)) for roots in (before, after)]
    if counts[1] > counts[0]:
        raise EngineError(
            f'optimizer rule "{name}" duplicated a semantic operator: {counts[0]} before, {counts[1]} after'
        )
