"""From a logical plan to what is run: segments, searches that share a round trip, chosen ways, and
what may run ahead.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from semgraph.errors import PlanError, Problem
from semgraph.expr.scalar import parse_scalar
from semgraph.llm.base import Limits
from semgraph.logical.graph import Reading, Scan
from semgraph.logical.node import Node, walk
from semgraph.logical.plan import Choice, LogicalPlan
from semgraph.logical.relational import Project, Union
from semgraph.logical.search import Search
from semgraph.logical.semantic import Semantic
from semgraph.logical.sinks import Delete, Merge, Sink
from semgraph.logical.typecheck import Columns
from semgraph.physical.retrieval import SearchSpec
from semgraph.relational.fragments import Segment, compile_segment, plan_segments
from semgraph.semantic.contract import Implementation
from semgraph.semantic.library import Library
from semgraph.stores.base import Store


@dataclass(frozen=True)
class SinkSpec:
    """A sink and the relation whose rows it writes: `written` columns and derived text
    properties.
    """

    sink: Sink
    rows: Node


@dataclass(frozen=True)
class PhysicalPlan:
    """How a plan is run.

    Args:
        logical: The optimized plan.
        segments: One DuckDB statement for each materialised relational node, by `id`.
        trips: For each search, by `id`, all that share its round trip.
        ways: The implementation of each semantic node, by `id`, and how it is written.
        sinks: What writes, in the order of the plan.
        ordered: Ids of the nodes that depend on the run's own writes; all others may run ahead.
        boundary: Nodes that run ahead and are read by the ordered part.
        whole: Ids of steps that are searched and derive from inputs alone: all rows of the run are
            visible in them.
    """

    logical: LogicalPlan
    segments: Mapping[int, Segment]
    trips: Mapping[int, tuple[SearchSpec, ...]]
    ways: Mapping[int, tuple[Implementation[Any], Choice]]
    sinks: tuple[SinkSpec, ...]
    ordered: frozenset[int]
    boundary: tuple[Node, ...]
    whole: frozenset[int]

    def named(self, *roots: Node) -> dict[str, Node]:
        """The last node of each named step below the roots (default: of the whole plan)."""
        return {node.step: node for node in walk(*(roots or self.roots)) if node.step}

    @property
    def roots(self) -> tuple[Node, ...]:
        """All that must be computed."""
        return (*(spec.rows for spec in self.sinks), *self.logical.returns.values())


def compile_plan(
    plan: LogicalPlan, store: Store, library: Library, limits: Mapping[str, Limits]
) -> PhysicalPlan:
    """Compile an optimized plan for a store. Raises PlanError: unknown way, a way that refuses its
    node.
    """
    if plan not in _LAYOUTS:
        _LAYOUTS[plan] = _layout(plan)
    found = _LAYOUTS[plan]
    nodes = list(walk(*(spec.rows for spec in found.sinks), *plan.returns.values()))
    return PhysicalPlan(
        logical=plan,
        segments=found.segments,
        trips=_trips(nodes, store),
        ways=_choose(plan, nodes, library, limits),
        sinks=found.sinks,
        ordered=found.ordered,
        boundary=found.boundary,
        whole=found.whole,
    )


def check_ways(plan: LogicalPlan, library: Library) -> None:
    """Refuse an optimized plan whose ways `compile_plan` refuses, whatever the store and the models
    are. Raises PlanError.
    """
    _choose(plan, list(walk(*plan.roots)), library, {})


@dataclass(frozen=True)
class _Layout:
    """What of a physical plan no store and no model has a say in; see `PhysicalPlan`. It holds
    nodes, not the plan.
    """

    segments: Mapping[int, Segment]
    sinks: tuple[SinkSpec, ...]
    ordered: frozenset[int]
    boundary: tuple[Node, ...]
    whole: frozenset[int]


_LAYOUTS: WeakKeyDictionary[LogicalPlan, _Layout] = WeakKeyDictionary()


def _layout(plan: LogicalPlan) -> _Layout:
    sinks = tuple(SinkSpec(sink, sink_rows(sink)) for sink in plan.writes)
    roots = (*(spec.rows for spec in sinks), *plan.returns.values())
    nodes = list(walk(*roots))
    if plan.order is None:
        _refuse_scans_of_nobody(nodes)
    else:
        _refuse_rows_of_nobody(nodes)
    within = [n.within for n in nodes if isinstance(n, Search) and n.within is not None]
    whole = frozenset(id(n) for n in within if all(_row_by_row(m) for m in walk(n)))
    ordered = _ordered(plan, nodes, whole)
    firsts = [spec for spec in sinks if isinstance(spec.sink, Merge) and spec.sink.first]
    boundary = _boundary(nodes, ordered, sinks, plan.returns.values()) if plan.order else ()
    materialised = plan_segments([*roots, *boundary])
    boundary = tuple(node for node in boundary if id(node) in materialised)
    segments = {
        id(n): compile_segment(n, materialised)
        for n in nodes
        if n.relational and n.inputs and id(n) in materialised
    }
    for spec in firsts:
        if id(spec.rows) in ordered or any(n.calls_llm or n.embeds for n in walk(spec.rows)):
            msg = "only rows of an input can be first: these depend on a model or on the run's own writes"
            raise PlanError(Problem(msg, step=spec.sink.step or None, position=spec.sink.origin))
    return _Layout(segments, sinks, ordered, boundary, whole)


def _row_by_row(node: Node) -> bool:
    """Whether its rows are the same, window by window or all at once."""
    return node.relational and (not node.inputs or (len(node.inputs) == 1 and node.rowwise))


def _refuse_rows_of_nobody(nodes: Iterable[Node]) -> None:
    """Rows that belong to no window cannot stand among rows that do: no window would see them."""
    problems = []
    for node in nodes:
        mixed = isinstance(node, Union) and len({part.partitioned for part in node.inputs}) > 1
        loose = any(part.partitioned for part in node.inputs[1:]) and not node.inputs[0].partitioned
        if mixed or (loose and getattr(node, "how", "") != "inner"):
            what = f"{node.keyword} puts rows of no window beside rows of windows"
            hint = "start from rows that derive from the input that is cut into windows, and join the others to them"
            problems.append(Problem(what, node.step or None, node.origin, hint=hint))
    if problems:
        raise PlanError(*problems)


def _refuse_scans_of_nobody(nodes: Iterable[Node]) -> None:
    """Without windows a run has no partitions: what reads a label must say that it means those of
    everybody.
    """
    problems = [
        Problem(
            f"nothing says whose {node.label} are read",
            node.step or None,
            node.origin,
            hint=f"say from: {{label: {node.label}, partition: all}}, or cut an input by order",
        )
        for node in nodes
        if isinstance(node, Scan) and not node.partition
    ]
    if problems:
        raise PlanError(*problems)


def sink_rows(sink: Sink) -> Node:
    """The relation of what a sink writes: its columns, and the text properties derived from
    them.
    """
    graph = sink.graph
    if isinstance(sink, Delete):
        columns: Columns = (
            (graph.key, parse_scalar(f'"{sink.key or graph.key}"')),
            (graph.partition, parse_scalar(graph.partition)),
        )
        return Project(input=sink.input, columns=columns, origin=sink.origin)
    written = dict(sink.written)  # type: ignore[attr-defined]
    derived = {
        d.name: d for d in sink.label.derived.values() if d.by != "embed" and d.of in written
    }
    rows: Node = Project(
        input=sink.input, columns=tuple(written.items()), step="", origin=sink.origin
    )
    if derived:
        columns = tuple((n, parse_scalar(n)) for n in written if n not in derived)
        texts = tuple((d.name, parse_scalar(f'{d.by}("{d.of}")')) for d in derived.values())
        rows = Project(input=rows, columns=(*columns, *texts), origin=sink.origin)
    return rows


def _ordered(plan: LogicalPlan, nodes: list[Node], whole: frozenset[int]) -> frozenset[int]:
    """Draw an edge from each write to each read that shares a (label, property); a read over [L, r]
    does not depend on the merge of r itself into L, if all rows of r are known beforehand.
    """
    found: set[int] = set()
    for node in nodes:
        own = isinstance(node, Reading) and any(
            node.label_reads & sink.label_writes and not _same_rows(node, sink, whole)
            for sink in plan.writes
        )
        if own or any(id(child) in found for child in node.inputs):
            found.add(id(node))
    return frozenset(found)


def _same_rows(node: Node, sink: Sink, whole: frozenset[int]) -> bool:
    within = node.within if isinstance(node, Search) else None
    return (
        within is not None and id(within) in whole and within.fingerprint == sink.input.fingerprint
    )


def _boundary(
    nodes: list[Node], ordered: frozenset[int], sinks: Iterable[SinkSpec], returns: Iterable[Node]
) -> tuple[Node, ...]:
    """What the ordered part, the commits and the results read of what ran ahead."""
    read: dict[int, Node] = {}
    for node in nodes:
        if id(node) in ordered:
            read |= {id(child): child for child in node.inputs if id(child) not in ordered}
    for node in (*(s.rows for s in sinks if not getattr(s.sink, "first", False)), *returns):
        if id(node) not in ordered:
            read[id(node)] = node
    return tuple(node for node in read.values() if node.inputs)


def _trips(nodes: list[Node], store: Store) -> dict[int, tuple[SearchSpec, ...]]:
    groups: dict[str, list[SearchSpec]] = {}
    for node in nodes:
        if isinstance(node, Search):
            groups.setdefault(node.trip or f"#{id(node)}", []).append(
                SearchSpec.compile(node, store)
            )
    return {id(spec.node): tuple(group) for group in groups.values() for spec in group}


def _choose(
    plan: LogicalPlan, nodes: list[Node], library: Library, limits: Mapping[str, Limits]
) -> dict[int, tuple[Implementation[Any], Choice]]:
    """The way of each semantic node: by its step's name, else the operator's reference."""
    found: dict[int, tuple[Implementation[Any], Choice]] = {}
    problems: list[Problem] = []
    for node in nodes:
        if not isinstance(node, Semantic):
            continue
        choice = plan.choice(node.step) or library.reference(node.keyword)
        try:
            way = library.get(node.keyword, choice)
        except PlanError as error:
            problems += [
                Problem(p.what, node.step, node.origin, p.there, p.hint) for p in error.problems
            ]
            continue
        role = node.prompt.first.role
        refusal = way.refuses(node, limits.get(role) or limits.get("default") or Limits())
        if refusal is not None:
            problems.append(Problem(f"{choice} cannot do this: {refusal}", node.step, node.origin))
        found[id(node)] = (way, choice)
    if problems:
        raise PlanError(*problems)
    return found
