"""Rewrites of logical plans: two tuples of rules, in the order they are applied.

EXACT rules keep the answer if the model is a function of the row. APPROXIMATE ones may change it
and act only where a plan's `allow` names them. After every rule the schema of each root must be the
same, no semantic node may be duplicated, and the rule must come to rest; else the rule is at fault
and named.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from operator import is_
from typing import cast
from weakref import WeakKeyDictionary

import pyarrow as pa

from semgraph.errors import EngineError, PlanError, Problem
from semgraph.logical.node import Node, rewrite, walk
from semgraph.logical.plan import LogicalPlan
from semgraph.logical.relational import Input
from semgraph.logical.sinks import Sink
from semgraph.optimizer._patterns import NO_FACTS, PlanFacts
from semgraph.optimizer._patterns import Roots as Roots
from semgraph.optimizer.ask_late import ask_late
from semgraph.optimizer.filter_first import filter_first
from semgraph.optimizer.fuse_maps import fuse_maps
from semgraph.optimizer.fuse_predicates import fuse_predicates
from semgraph.optimizer.join_to_classify import join_to_classify
from semgraph.optimizer.prune_columns import prune_columns
from semgraph.optimizer.prune_empty import nothing, prune_empty
from semgraph.optimizer.prune_steps import prune_steps
from semgraph.optimizer.push_filters import push_filters
from semgraph.optimizer.push_limits import push_limits
from semgraph.optimizer.share_round_trips import share_round_trips
from semgraph.optimizer.share_subplans import share_subplans
from semgraph.optimizer.stop_early import stop_early

Rule = Callable[[Roots, PlanFacts], Roots]
Observer = Callable[[str, Roots, Roots], None]

EXACT: tuple[Rule, ...] = (
    prune_empty,
    prune_steps,
    filter_first,
    ask_late,
    push_filters,
    push_limits,
    share_subplans,
    prune_columns,
    stop_early,
    share_round_trips,
)
APPROXIMATE: tuple[Rule, ...] = (fuse_maps, join_to_classify, fuse_predicates)
_GROWTH = 100  # times the nodes of a plan, which no rule may reach
_KEPT: WeakKeyDictionary[LogicalPlan, dict[frozenset[str], LogicalPlan]] = WeakKeyDictionary()


def optimize(plan: LogicalPlan, observe: Observer | None = None) -> LogicalPlan:
    """The plan, rewritten. `observe` is told of every rule that changed something: its name, the
    roots before and after.

    Raises:
        PlanError: Two steps that are computed once, because they ask the same of the same rows, are
            to be done in two ways.
        EngineError: A rule changed a schema, duplicated a semantic node, or did not come to rest.
    """
    _refuse_two_ways(plan)
    roots, facts = plan.roots, PlanFacts(plan.choice)
    for rule in rules_for(plan):
        before = roots
        roots = apply(rule, roots, facts)
        if observe is not None and any(a is not b for a, b in zip(before, roots, strict=True)):
            observe(rule.__name__, before, roots)
    return with_roots(plan, roots)


def given(plan: LogicalPlan, inputs: Mapping[str, pa.Table]) -> LogicalPlan:
    """The plan where inputs without rows, other than the one that is cut into windows, are known to
    be empty.
    """

    def change(node: Node) -> Node:
        table = inputs.get(node.name) if isinstance(node, Input) and not node.windowed else None
        return nothing(node) if table is not None and not table.num_rows else node

    return with_roots(plan, rewrite(plan.roots, change))


def optimized(plan: LogicalPlan, inputs: Mapping[str, pa.Table]) -> LogicalPlan:
    """`optimize(given(plan, inputs))`, worked out once for a plan and the inputs that have no rows.
    Raises as `optimize`.
    """
    kept = _KEPT.setdefault(plan, {})
    empty = frozenset(name for name, table in inputs.items() if not table.num_rows)
    if empty not in kept:
        kept[empty] = optimize(given(plan, inputs))
    return kept[empty]


def rules_for(plan: LogicalPlan) -> tuple[Rule, ...]:
    """The rules that act on a plan, in their order: early stops come last, when it is known what is
    asked.
    """
    allowed = tuple(rule for rule in APPROXIMATE if rule.__name__ in plan.allow)
    before = EXACT.index(stop_early)
    return (*EXACT[:before], *allowed, *EXACT[before:])


def with_roots(plan: LogicalPlan, roots: Roots) -> LogicalPlan:
    """A plan with its sinks and results as rules left them."""
    count = len(plan.writes)
    writes = cast("tuple[Sink, ...]", roots[:count])
    return replace(plan, writes=writes, returns=dict(zip(plan.returns, roots[count:], strict=True)))


def _refuse_two_ways(plan: LogicalPlan) -> None:
    first: dict[str, Node] = {}
    for node in walk(*plan.roots):
        other = first.setdefault(node.fingerprint, node) if node.calls_model else node
        ways = [plan.choice(step) or "the reference" for step in (other.step, node.step)]
        if ways[0] != ways[1]:
            msg = f"asks what {other.step} asks, of the same rows: both are computed once, but their ways differ"
            there = f"ways: {other.step} {ways[0]}, {node.step} {ways[1]}"
            raise PlanError(Problem(msg, node.step, node.origin, there, "choose one way for both"))


def apply(rule: Rule, roots: Roots, facts: PlanFacts = NO_FACTS) -> Roots:
    """Apply one rule until the plan's fingerprint no longer changes.

    Raises:
        EngineError: The rule is at fault: see `optimize`.
    """
    nodes, seen = 0, list[str]()
    while True:
        changed = rule(roots, facts)
        if all(map(is_, roots, changed)):
            return roots
        _check(rule.__name__, roots, changed)
        nodes = nodes or sum(1 for _ in walk(*roots))
        seen = seen or [_fingerprint(roots)]
        fingerprint = _fingerprint(changed)
        if fingerprint == seen[-1]:
            return roots
        if fingerprint in seen or sum(1 for _ in walk(*changed)) > _GROWTH * nodes:
            raise EngineError(
                f'optimizer rule "{rule.__name__}" reaches no fixpoint after {len(seen)} passes'
            )
        seen.append(fingerprint)
        roots = changed


def _fingerprint(roots: Roots) -> str:
    """Equal for plans that are equal in all that rules may change, names of steps included."""
    numbers: dict[int, int] = {}
    whole = hashlib.sha256()
    for node in walk(*roots):
        numbers[id(node)] = len(numbers)
        inputs = [numbers[id(child)] for child in node.inputs]
        whole.update(f"{node.content} {node.step!r} {inputs}\n".encode("utf-8", "surrogatepass"))
    return whole.hexdigest()


def _check(name: str, before: Roots, after: Roots) -> None:
    for old, new in zip(before, after, strict=True):
        if not old.schema.equals(new.schema):
            raise EngineError(
                f'optimizer rule "{name}" changed the schema of step {old.step or old.keyword}'
            )
    counts = [sum(node.calls_model for node in walk(*roots)) for roots in (before, after)]
    if counts[1] > counts[0]:
        raise EngineError(
            f'optimizer rule "{name}" duplicated a semantic operator: {counts[0]} before, {counts[1]} after'
        )
