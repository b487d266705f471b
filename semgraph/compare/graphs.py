"""The graph that a plan wrote, prepared for scoring: nodes by their sources, edges by content and
time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from semgraph.errors import PlanError, Problem
from semgraph.expr.functions import key as folded
from semgraph.logical.node import walk
from semgraph.logical.plan import LogicalPlan
from semgraph.logical.sinks import Merge
from semgraph.scores import Edge, ScoredGraph, ScoredNode
from semgraph.stores.base import Store

_NODE = {"key", "label", "members", "name"}
_EDGE = {"source", "target", "label", "properties", "start", "end"}


def written_labels(plan: LogicalPlan) -> tuple[set[str], set[str], set[str]]:
    """Labels of nodes written unchanged from the input, of nodes that depend on a model, and of
    edges.

    Edges that depend on no model (such as the order of messages) are the same in every graph; they
    count only if all edges are of this kind.
    """
    merges = [sink for sink in plan.writes if isinstance(sink, Merge) and not sink.only]
    by_model = [any(n.calls_model for n in walk(m.input)) for m in merges]
    unchanged = {m.node for m, calls in zip(merges, by_model, strict=True) if m.node and not calls}
    edges = {m.edge for m, calls in zip(merges, by_model, strict=True) if m.edge and calls}
    return (
        unchanged,
        {m.node for m in merges if m.node} - unchanged,
        edges or {m.edge for m in merges if m.edge},
    )


async def graph_of(store: Store, plan: LogicalPlan) -> ScoredGraph:
    """The rows of a store as a graph, for the labels that a plan writes.

    Nodes written unchanged have the same keys in every graph, so they identify the nodes derived
    from them: the members of a derived node are the unchanged nodes that an edge connects to it. Its
    name is the property that the graph draws. All other edges are facts.
    """
    graph, draw = plan.graph, plan.graph.draw
    unchanged, derived, edges = written_labels(plan)
    ties = {
        name
        for name in edges
        if len({graph.labels[name].source, graph.labels[name].target} & unchanged) == 1
    }
    members: defaultdict[str, set[str]] = defaultdict(set)
    for name in ties:
        for row in (await store.scan(name, [], None, ())).to_pylist():
            ends = (
                ("source", "target")
                if graph.labels[name].source in unchanged
                else ("target", "source")
            )
            members[row[ends[1]]].add(row[ends[0]])
    nodes: list[ScoredNode] = []
    ends_of_facts = {
        end
        for name in edges - ties
        for end in (graph.labels[name].source, graph.labels[name].target)
    }
    labels = derived | (unchanged & ends_of_facts) or unchanged
    for name in sorted(labels):
        label = graph.labels[name]
        names = [draw.node] if draw.node in label.properties else []
        for row in (await store.scan(name, names, None, ())).to_pylist():
            drawn = folded(row[draw.node]) if names and row[draw.node] else None
            key = row[graph.key]
            own = frozenset(members[key]) if key in members else None
            nodes.append(ScoredNode(key, own, name if len(labels) > 1 else "", drawn))
    facts: list[Edge] = []
    for name in sorted(edges - ties):
        drawn_properties = (draw.edge, draw.start, draw.end)
        columns = [p for p in drawn_properties if p and p in graph.labels[name].properties]
        for row in (await store.scan(name, columns, None, ())).to_pylist():
            text = (
                folded(row[draw.edge]) if draw.edge in columns and row[draw.edge] else folded(name)
            )
            start, end = row.get(draw.start), row.get(draw.end)
            facts.append(Edge(row["source"], row["target"], text, start=start, end=end))
    return ScoredGraph(tuple(nodes), tuple(facts))


def read_graph_truth(value: Any) -> ScoredGraph:
    """A true graph: a `ScoredGraph`, `{nodes: [...], edges: [...]}`, or a JSON file of that.

    A node has `key` and `members` (keys of the nodes that it was derived from) or `name`, and may
    have `label`; an edge has `source`, `target`, `label`, and may have `start` and `end`. Raises
    PlanError.
    """
    if isinstance(value, ScoredGraph):
        return value
    source = str(value) if isinstance(value, (str, Path)) else "the truth"
    data = _json(Path(value)) if isinstance(value, (str, Path)) else value
    if not isinstance(data, Mapping) or "nodes" not in data:
        hint = '{"nodes": [{"key", "name", "members"}], "edges": [{"source", "target", "label", "start", "end"}]}'
        raise PlanError(
            Problem(
                f"{source} is not a graph: a whole plan is compared with nodes and edges", hint=hint
            )
        )
    nodes = [_node(row, f"{source}, node {i}") for i, row in enumerate(data["nodes"], 1)]
    keys = {node.key for node in nodes}
    edges = [
        _edge(row, f"{source}, edge {i}", keys) for i, row in enumerate(data.get("edges") or (), 1)
    ]
    if not nodes:
        raise PlanError(Problem(f"{source} has no nodes"))
    return ScoredGraph(tuple(nodes), tuple(edges))


def comparable(graph: ScoredGraph, truth: ScoredGraph) -> ScoredGraph:
    """A graph reduced to what the truth covers: without labels of nodes if the truth has none."""
    if any(node.label for node in truth.nodes):
        return graph
    return replace(graph, nodes=tuple(replace(node, label="") for node in graph.nodes))


def _json(path: Path) -> Any:
    import json

    try:
        return json.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise PlanError(Problem(f"{path}: {error.strerror or error}")) from None
    except ValueError as error:
        raise PlanError(Problem(f"{path}: invalid JSON: {error}")) from None


def _node(row: Any, where: str) -> ScoredNode:
    _check_keys(row, _NODE, ("key",), where)
    members = None if row.get("members") is None else frozenset(map(str, row["members"]))
    name = folded(str(row["name"])) if row.get("name") else None
    return ScoredNode(str(row["key"]), members, str(row.get("label") or ""), name)


def _edge(row: Any, where: str, keys: set[Any]) -> Edge:
    _check_keys(row, _EDGE, ("source", "target"), where)
    for end in ("source", "target"):
        if str(row[end]) not in keys:
            raise PlanError(Problem(f'{where}: no node has the key "{row[end]}" ({end})'))
    start, end_ = (_time(row.get(name), f"{where}: {name}") for name in ("start", "end"))
    label = folded(str(row.get("label") or ""))
    return Edge(
        str(row["source"]),
        str(row["target"]),
        label,
        dict(row.get("properties") or {}),
        start,
        end_,
    )


def _check_keys(row: Any, allowed: set[str], required: tuple[str, ...], where: str) -> None:
    if not isinstance(row, Mapping) or any(name not in row for name in required):
        raise PlanError(
            Problem(
                f"{where} lacks {' or '.join(required)}",
                there=f"it may have: {', '.join(sorted(allowed))}",
            )
        )
    unknown = sorted(set(row) - allowed)
    if unknown:
        what = f'{where}: unknown key "{unknown[0]}"'
        raise PlanError(Problem(what, there=f"it may have: {', '.join(sorted(allowed))}"))


def _time(value: Any, where: str) -> datetime | None:
    if value is None or value != value:  # noqa: PLR0124 - NaN and NaT are a data frame's NULL
        return None
    try:
        time = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
    except ValueError:
        raise PlanError(Problem(f'{where} "{value}" is not ISO 8601')) from None
    return time if time.tzinfo else time.replace(tzinfo=UTC)
