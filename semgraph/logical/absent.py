"""Inputs that are not given and stand for all partitions of the store: the scans in their place."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import cast

from semgraph.errors import Position
from semgraph.expr.scalar import parse_scalar
from semgraph.logical.graph import Scan
from semgraph.logical.node import Node, rewrite
from semgraph.logical.plan import LogicalPlan
from semgraph.logical.relational import Distinct, Input, Project, Union
from semgraph.logical.schema import Graph
from semgraph.logical.sinks import Sink
from semgraph.logical.typecheck import column_scalar


def all_partitions(graph: Graph, step: str, origin: Position | None) -> Node:
    """The partitions that a store has nodes of, each once; NULL is "", as in windows.

    Args:
        graph: The graph, with at least one node label.
        step: The step that the operators belong to.
        origin: Their place in the plan.
    """
    owner = graph.partition
    column = (owner, parse_scalar(f"coalesce({column_scalar(owner).sql}, '')"))
    scans = (
        Scan(graph=graph, label=label.name, partition="all", step=step, origin=origin)
        for label in graph.nodes
    )
    parts = tuple(Project(input=s, columns=(column,), step=step, origin=origin) for s in scans)
    rows = parts[0] if len(parts) == 1 else Union(relations=parts, step=step, origin=origin)
    return Distinct(input=rows, by=(owner,), step=step, origin=origin)


def without_absent(plan: LogicalPlan, given: Collection[str]) -> LogicalPlan:
    """The plan in which inputs that are not given, and stand for all partitions, are these.

    Args:
        plan: The plan.
        given: The names of its inputs with rows.
    """
    absent = {name for name, spec in plan.inputs.items() if spec.or_all and name not in given}
    if not absent:
        return plan

    def change(node: Node) -> Node:
        if not isinstance(node, Input) or node.name not in absent:
            return node
        return all_partitions(plan.graph, node.step or node.name, node.origin)

    calls = (
        relations for call in plan.called.values() for relations in (call.inputs, call.results)
    )
    roots = (*plan.roots, *plan.steps.values(), *(node for part in calls for node in part.values()))
    new = dict(zip(roots, rewrite(roots, change), strict=True))
    load = plan.load
    return replace(
        plan,
        inputs={name: spec for name, spec in plan.inputs.items() if name not in absent},
        steps={name: new[node] for name, node in plan.steps.items()},
        writes=cast("tuple[Sink, ...]", tuple(new[node] for node in plan.writes)),
        returns={name: new[node] for name, node in plan.returns.items()},
        called={step: call.over(new) for step, call in plan.called.items()},
        load=load and (lambda use: without_absent(load(use), given)),
    )
