"""Rewrites of logical plans: two tuples of rules, in the order of application.

EXACT rules preserve the answer if the model is a function of the row. APPROXIMATE rules may change
it, and act only if a plan's `allow` names them. Every rule must preserve the schema of each root,
must not duplicate a semantic operator, and must reach a fixpoint. An error names the rule that
violates this.

Each rule has its own file; `patterns.py` holds the code that rules share. The package imports only
`logical` and `expr`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from operator import is_
from typing import cast
from weakref import WeakKeyDictionary

import pyarrow as pa

from semgraph.errors import EngineError, PlanError, Problem, among
from semgraph.logical.node import Node, nodes_of, rewrite
from semgraph.logical.plan import LogicalPlan
from semgraph.logical.relational import Empty, Input
from semgraph.logical.sinks import Sink
from semgraph.optimizer.ask_late import ask_late
from semgraph.optimizer.filter_first import filter_first
from semgraph.optimizer.fuse_maps import fuse_maps
from semgraph.optimizer.fuse_predicates import fuse_predicates
from semgraph.optimizer.join_to_classify import join_to_classify
from semgraph.optimizer.order_filters import in_order, ordered
from semgraph.optimizer.patterns import NO_FACTS, PlanFacts
from semgraph.optimizer.patterns import Roots as Roots
from semgraph.optimizer.prune_columns import prune_columns
from semgraph.optimizer.prune_empty import prune_empty
from semgraph.optimizer.prune_steps import prune_steps
from semgraph.optimizer.push_filters import push_filters
from semgraph.optimizer.push_limits import push_limits
from semgraph.optimizer.share_round_trips import share_round_trips
from semgraph.optimizer.share_subplans import share_subplans
from semgraph.optimizer.stop_early import stop_early

Rule = Callable[[Roots, PlanFacts], Roots]
Observer = Callable[[str], None]

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
_GROWTH = 100  # the maximum factor by which a rule may multiply the nodes of a plan
_OPTIMIZED: WeakKeyDictionary[LogicalPlan, dict[frozenset[str], LogicalPlan]] = WeakKeyDictionary()


def optimize(plan: LogicalPlan, observe: Observer | None = None) -> LogicalPlan:
    """The rewritten plan. `observe` is called with the name of every rule that changed the plan.
    Raises PlanError as `check_choices`. Raises EngineError if a rule changed a schema, duplicated a
    semantic operator, or reached no fixpoint.
    """
    check_choices(plan)
    roots, facts = rewrite(plan.roots, plan.answered), PlanFacts(plan.choice)
    roots = in_order(roots, plan.order)
    for rule in rules_for(plan):
        before = roots
        roots = apply(rule, roots, facts)
        if observe is not None and any(a is not b for a, b in zip(before, roots, strict=True)):
            observe(rule.__name__)
    return with_roots(plan, roots)


def mark_empty(plan: LogicalPlan, inputs: Mapping[str, pa.Table]) -> LogicalPlan:
    """The plan with inputs without rows marked as empty, except the windowed input."""

    def change(node: Node) -> Node:
        table = inputs.get(node.name) if isinstance(node, Input) and not node.windowed else None
        return Empty.like(node) if table is not None and not table.num_rows else node

    return with_roots(plan, rewrite(plan.roots, change))


def optimized(plan: LogicalPlan, inputs: Mapping[str, pa.Table]) -> LogicalPlan:
    """`optimize(mark_empty(plan, inputs))`, computed once per plan and set of empty inputs."""
    plans = _OPTIMIZED.setdefault(plan, {})
    empty = frozenset(name for name, table in inputs.items() if not table.num_rows)
    if empty not in plans:
        plans[empty] = optimize(mark_empty(plan, inputs))
    return plans[empty]


def rules_for(plan: LogicalPlan) -> tuple[Rule, ...]:
    """The rules that act on a plan, in order; those about calls need the final questions."""
    allowed = tuple(rule for rule in APPROXIMATE if rule.__name__ in plan.allow)
    before = EXACT.index(stop_early)
    rules = (*EXACT[:before], *allowed, *EXACT[before:])
    return tuple(rule for rule in rules if rule.__name__ not in plan.without)


def with_rules(plan: LogicalPlan, rules: Mapping[str, bool]) -> LogicalPlan:
    """A plan with rules switched on or off, by name. A rule that preserves answers is on, one that
    may change them is off unless the plan's `allow` names it. Raises PlanError for an unknown rule.
    """
    known = [rule.__name__ for rule in (*EXACT, *APPROXIMATE)]
    for name in rules:
        if name not in known:
            what = f'the optimizer has no rule "{name}"'
            raise PlanError(what, **among(name, known, "rules"))
    kept = (name for name in plan.allow if rules.get(name, True))
    more = (rule.__name__ for rule in APPROXIMATE if rules.get(rule.__name__))
    off = tuple(name for name, on in rules.items() if not on)
    return replace(plan, allow=tuple(dict.fromkeys((*kept, *more))), without=off)


def rewritten(
    plan: LogicalPlan,
    allow: Sequence[str] = (),
    order: Sequence[str] = (),
    warnings: tuple[Problem, ...] = (),
) -> LogicalPlan:
    """A plan with further rules allowed, with its adjacent filters in an order, and with further
    warnings; also after it is loaded again for other choices. Raises PlanError.
    """
    if not (allow or order or warnings):
        return plan
    load, plan = plan.load, with_rules(plan, dict.fromkeys(allow, True)) if allow else plan
    return replace(
        ordered(plan, order) if order else plan,
        warnings=(*plan.warnings, *warnings),
        load=load and (lambda use: rewritten(load(use), allow, order, warnings)),
    )


def with_roots(plan: LogicalPlan, roots: Roots) -> LogicalPlan:
    """A plan with its sinks and results replaced by `roots`."""
    count = len(plan.writes)
    writes = cast("tuple[Sink, ...]", roots[:count])
    return replace(plan, writes=writes, returns=dict(zip(plan.returns, roots[count:], strict=True)))


def check_choices(plan: LogicalPlan) -> None:
    """Refuse different implementations of steps with the same question. Raises PlanError."""
    first: dict[str, Node] = {}
    for node in nodes_of(plan.roots):
        if not node.swappable:
            continue
        other = first.setdefault(node.fingerprint, node)
        one, two = (plan.choice(step) or "the reference" for step in (other.step, node.step))
        if one != two:
            what = (
                f"asks the same of the same rows as {other.step}: both are computed once, "
                "but have different implementations"
            )
            there = f"step {other.step} has {one}, step {node.step} has {two}"
            hint = "choose one implementation for both"
            raise PlanError(Problem(what, node.step, node.origin, there, hint))


def apply(rule: Rule, roots: Roots, facts: PlanFacts = NO_FACTS) -> Roots:
    """Apply one rule until the plan no longer changes. Raises EngineError if the rule is faulty."""
    nodes, seen = len(nodes_of(roots)), list[_Content]()
    while True:
        changed = rule(roots, facts)
        if all(map(is_, roots, changed)):
            return roots
        _check(rule.__name__, roots, changed)
        seen = seen or [_content(roots)]
        content = _content(changed)
        if content == seen[-1]:
            return roots
        if content in seen or len(nodes_of(changed)) > _GROWTH * nodes:
            raise EngineError(
                f'optimizer rule "{rule.__name__}" reaches no fixpoint after {len(seen)} passes'
            )
        seen.append(content)
        roots = changed


_Content = list[tuple[str, str, list[int]]]


def _content(roots: Roots) -> _Content:
    """The content of a plan that rules may change, including names of steps; equal for equal plans."""
    numbers = {node: number for number, node in enumerate(nodes_of(roots))}
    return [(node.content, node.step, [numbers[n] for n in node.inputs]) for node in numbers]


def _check(name: str, before: Roots, after: Roots) -> None:
    for old, new in zip(before, after, strict=True):
        if not old.schema.equals(new.schema):
            raise EngineError(
                f'optimizer rule "{name}" changed the schema of step {old.step or old.keyword}'
            )
    counts = [sum(node.calls_model for node in nodes_of(roots)) for roots in (before, after)]
    if counts[1] > counts[0]:
        raise EngineError(
            f'optimizer rule "{name}" duplicated a semantic operator: {counts[0]} before, {counts[1]} after'
        )
