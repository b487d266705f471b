"""The planner. It compiles an optimized logical plan to a physical plan: statements, shared round
trips, implementations, and the nodes that may run ahead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from weakref import WeakKeyDictionary

from semgraph.errors import EngineError, PlanError, Problem
from semgraph.expr.scalar import parse_scalar
from semgraph.llm.base import Limits
from semgraph.logical.cluster import Cluster
from semgraph.logical.graph import Match, Scan, StoreRead
from semgraph.logical.iterate import Iterate, Round, loops_of
from semgraph.logical.node import Columns, Node, walk
from semgraph.logical.plan import LogicalPlan
from semgraph.logical.relational import Input, Project, Require, Union
from semgraph.logical.search import Search
from semgraph.logical.semantic import Embed, Semantic, SemFilter, SemMap
from semgraph.logical.sinks import Delete, Sink
from semgraph.physical import plan as tree
from semgraph.physical.loops import IterateRows, RoundTable
from semgraph.physical.search_spec import SearchSpec
from semgraph.relational.segments import Segment, compile_segment, plan_segments
from semgraph.semantic.library import Chosen, Library, choose
from semgraph.stores.base import SearchQuery, Store


def compile_plan(
    plan: LogicalPlan, store: Store, library: Library, limits: Mapping[str, Limits]
) -> tree.PhysicalPlan:
    """Compile an optimized plan for a store. Raises PlanError for implementations."""
    if plan not in _LAYOUTS:
        _LAYOUTS[plan] = _layout(plan)
    layout = _LAYOUTS[plan]
    nodes = list(walk(*(rows for _, rows in layout.sinks), *plan.returns.values()))
    builder = _TreeBuilder(layout, nodes, store, choose(plan, nodes, library, limits))
    for node in nodes:
        builder.add(node)
    physical = builder.physical
    return tree.PhysicalPlan(
        logical=plan,
        nodes=physical,
        sinks=tuple(tree.SinkSpec(sink, physical[rows]) for sink, rows in layout.sinks),
        after_writes=layout.after_writes,
        buffered=tuple(physical[node] for node in layout.buffered),
        run_wide=tuple(builder.run_wide.values()),
    )


_OPERATORS: dict[type[Node], Callable[[Any, tuple[tree.PhysicalNode, ...]], tree.PhysicalNode]] = {
    Match: tree.StoreMatch,
    Scan: tree.StoreScan,
    Embed: tree.EmbedTexts,
    Require: tree.RequireRows,
}


class _TreeBuilder:
    """Makes the physical nodes of a plan, in topological order: inputs first."""

    def __init__(
        self, layout: _Layout, nodes: Sequence[Node], store: Store, chosen: Chosen
    ) -> None:
        self.physical: dict[Node, tree.PhysicalNode] = {}
        self.run_wide: dict[Node, tree.RunWide] = {}
        self._layout, self._chosen = layout, chosen
        self._groups = _search_groups(nodes, store)
        loops = [node for node in nodes if isinstance(node, Iterate)]
        self._loops = {each: loop for loop in loops for each in loop.own_rounds}

    def add(self, node: Node) -> None:
        """Make the physical node of a logical node, if its rows are materialised."""
        if node in self.physical:
            return
        segment = self._layout.segments.get(node)
        if segment is not None:
            inputs = tuple(self.physical[source] for _, source in segment.inputs)
            self.physical[node] = tree.SqlSegment(node, inputs, segment)
        elif isinstance(node, Input):
            self.physical[node] = tree.InputTable(node, ())
        elif isinstance(node, Round):
            self.physical[node] = RoundTable(node, (), self._loops[node])
        elif not node.relational:
            self.physical[node] = self._operator(node)

    def _operator(self, node: Node) -> tree.PhysicalNode:
        if isinstance(node, Search):
            return self._search(node)
        if isinstance(node, Iterate):
            return self._loop(node)
        inputs = tuple(self.physical[child] for child in node.inputs)
        if isinstance(node, Semantic):
            return self._semantic(node, inputs)
        if isinstance(node, Cluster):
            return tree.ClusterRows(node, inputs, self._chosen.algorithms.get(node))
        if type(node) in _OPERATORS:
            return _OPERATORS[type(node)](node, inputs)
        raise EngineError(f"nothing computes {node!r} of step {node.step}")

    def _search(self, node: Search) -> tree.StoreSearch:
        group = self._groups[node]
        steps = [spec.node.within for spec in group.specs if spec.node.within is not None]
        for below in walk(*steps):  # the steps of the other searches may come later in the plan
            self.add(below)
        inputs = (self.physical[group.specs[0].node.input], *map(self._step, steps))
        place = next(i for i, spec in enumerate(group.specs) if spec.node is node)
        return tree.StoreSearch(node, inputs, group, place)

    def _loop(self, node: Iterate) -> IterateRows:
        body = self.physical[node.body]
        given = (self.physical[each] for each in node.own_rounds)
        rounds = tuple(each for each in given if isinstance(each, RoundTable))
        inputs = (self.physical[node.input], *_outside(body, rounds))
        return IterateRows(node, inputs, body, rounds)

    def _step(self, node: Node) -> tree.PhysicalNode:
        if node not in self._layout.run_wide:
            return self.physical[node]
        if node not in self.run_wide:
            self.run_wide[node] = tree.RunWide(node, (self.physical[node],))
        return self.run_wide[node]

    def _semantic(self, node: Semantic, inputs: tuple[tree.PhysicalNode, ...]) -> tree.PhysicalNode:
        ask = tree.AskModel(node, inputs, *self._chosen.implementations[node])
        chain = [ask]
        if isinstance(node, SemMap | SemFilter) and node.stop is not None:
            while (below := self._pulled_below(chain[0])) is not None:
                chain.insert(0, below)
        return ask if len(chain) == 1 else tree.EarlyStop(node, chain[0].inputs, tuple(chain))

    def _pulled_below(self, ask: tree.AskModel) -> tree.AskModel | None:
        """The operator below, if it computes only the rows that this operator needs; else None."""
        below = ask.inputs[0]
        pulled = (
            getattr(below.logical, "pulled", False) and below.logical not in self._layout.buffered
        )
        return below if pulled and isinstance(below, tree.AskModel) else None


def _outside(
    body: tree.PhysicalNode, rounds: Iterable[tree.PhysicalNode]
) -> list[tree.PhysicalNode]:
    """The loop-invariant nodes that nodes of the body read; the body if it depends on no round."""
    rests = dict.fromkeys(rounds, True)
    outside: dict[tree.PhysicalNode, None] = {}

    def visit(node: tree.PhysicalNode) -> bool:
        if node not in rests:
            own = {child: visit(child) for child in node.inputs}
            rests[node] = any(own.values())
            if rests[node]:
                outside.update(dict.fromkeys(child for child, rest in own.items() if not rest))
        return rests[node]

    return list(outside) if visit(body) else [body]


@dataclass(frozen=True)
class _Layout:
    """The part of a physical plan that depends on the logical plan alone: statements, each sink
    with the relation that it writes, and logical nodes for the fields of `PhysicalPlan`. It does
    not hold the plan.
    """

    segments: Mapping[Node, Segment]
    sinks: tuple[tuple[Sink, Node], ...]
    after_writes: frozenset[Node]
    buffered: tuple[Node, ...]
    run_wide: frozenset[Node]


_LAYOUTS: WeakKeyDictionary[LogicalPlan, _Layout] = WeakKeyDictionary()


def _layout(plan: LogicalPlan) -> _Layout:
    sinks = tuple((sink, sink_rows(sink)) for sink in plan.writes)
    roots = (*(rows for _, rows in sinks), *plan.returns.values())
    nodes = list(walk(*roots))
    if plan.windows is None:
        _refuse_scans_without_partition(nodes)
    else:
        _refuse_rows_without_window(nodes)
    within = [n.within for n in nodes if isinstance(n, Search) and n.within is not None]
    run_wide = frozenset(n for n in within if all(_row_by_row(m) for m in walk(n)))
    after_writes = _after_writes(plan, nodes, run_wide)
    buffered = _buffered(nodes, after_writes, sinks, plan.returns.values()) if plan.windows else ()
    once = [node for loop in nodes if isinstance(loop, Iterate) for node in loop.once]
    materialised = plan_segments([*roots, *buffered, *once])
    buffered = tuple(node for node in buffered if node in materialised)
    segments = {
        n: compile_segment(n, materialised)
        for n in nodes
        if n.relational and n.inputs and n in materialised
    }
    _check_first_sinks(sinks, after_writes)
    return _Layout(segments, sinks, after_writes, buffered, run_wide)


def _check_first_sinks(sinks: Iterable[tuple[Sink, Node]], after_writes: frozenset[Node]) -> None:
    for sink, rows in sinks:
        if not sink.first:
            continue
        if rows in after_writes or any(n.calls_model or n.embeds for n in walk(rows)):
            msg = "only rows of an input can be first: these depend on a model or on the run's own writes"
            raise PlanError(msg, step=sink.step or None, position=sink.origin)


def _row_by_row(node: Node) -> bool:
    """Whether a node gives the same rows for single windows as for all rows at once."""
    return node.relational and (not node.inputs or (len(node.inputs) == 1 and node.row_local))


def _refuse_rows_without_window(nodes: Iterable[Node]) -> None:
    """Refuse rows outside of windows among windowed rows: no window would see them."""
    problems = []
    for node in nodes:
        kinds = {part.windowed for part in node.inputs}
        mixed = isinstance(node, Union | Iterate | Cluster) and len(kinds) > 1
        loose = any(part.windowed for part in node.inputs[1:]) and not node.inputs[0].windowed
        if mixed or (loose and getattr(node, "how", "") != "inner"):
            what = f"{node.keyword} puts rows of no window beside rows of windows"
            hint = "start from rows that derive from the input that is cut into windows, and join the others to them"
            problems.append(Problem(what, node.step or None, node.origin, hint=hint))
    if problems:
        raise PlanError(*problems)


def _refuse_scans_without_partition(nodes: Iterable[Node]) -> None:
    """Refuse scans of all partitions that do not say so, in a plan without windows."""
    problems = [
        Problem(
            f"scan of {node.label} needs a partition",
            node.step or None,
            node.origin,
            hint=f"write from: {{label: {node.label}, partition: all}}, or cut an input by windows",
        )
        for node in nodes
        if isinstance(node, Scan) and not node.partition
    ]
    if problems:
        raise PlanError(*problems)


def sink_rows(sink: Sink) -> Node:
    """The relation that a sink writes: its columns, and the text properties derived from them."""
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


def _after_writes(
    plan: LogicalPlan, nodes: list[Node], run_wide: frozenset[Node]
) -> frozenset[Node]:
    """The nodes that depend on the run's writes, with all nodes above them, and loops as a whole. A
    read depends on each write that shares a (label, property); one over [L, r] not on the merge of
    r into L, if all rows of r are known beforehand.
    """
    after_writes: set[Node] = {
        node
        for node in nodes
        if isinstance(node, StoreRead)
        and any(
            node.label_reads & sink.label_writes and not _same_rows(node, sink, run_wide)
            for sink in plan.writes
        )
    }
    loops = loops_of(*nodes)
    count = -1
    while len(after_writes) > count:
        count = len(after_writes)
        after_writes = _above(nodes, after_writes)
        for loop in loops:
            after_writes |= loop.each_round if loop in after_writes else set()
    return frozenset(after_writes)


def _above(nodes: list[Node], some: set[Node]) -> set[Node]:
    found = set(some)
    for node in nodes:
        if not found.isdisjoint(node.inputs):
            found.add(node)
    return found


def _same_rows(node: Node, sink: Sink, run_wide: frozenset[Node]) -> bool:
    within = node.within if isinstance(node, Search) else None
    return within in run_wide and within.fingerprint == sink.input.fingerprint


def _buffered(
    nodes: list[Node],
    after_writes: frozenset[Node],
    sinks: Iterable[tuple[Sink, Node]],
    returns: Iterable[Node],
) -> tuple[Node, ...]:
    read: dict[Node, None] = {}
    for node in nodes:
        if node in after_writes:
            read |= dict.fromkeys(child for child in node.inputs if child not in after_writes)
    read |= dict.fromkeys(rows for sink, rows in sinks if not sink.first)
    read |= dict.fromkeys(returns)
    return tuple(node for node in read if node.inputs and node not in after_writes)


def _search_groups(nodes: Iterable[Node], store: Store) -> dict[Node, tree.SearchGroup]:
    groups: dict[object, list[SearchSpec]] = {}
    for node in nodes:
        if isinstance(node, Search):
            groups.setdefault(node.trip or node, []).append(SearchSpec.compile(node, store))
    equal: dict[tuple[SearchQuery, ...], list[list[SearchSpec]]] = {}
    for specs in groups.values():
        equal.setdefault(_asked_of_store(specs), []).append(specs)
    made = [group for queries, same in equal.items() for group in _sharing(queries, same)]
    return {spec.node: group for group in made for spec in group.specs}


def _asked_of_store(specs: Sequence[SearchSpec]) -> tuple[SearchQuery, ...]:
    """The store queries of searches, independent of the properties that are read."""
    queries = (spec.query(spec.node.k, f"{n}_") for n, spec in enumerate(specs) if spec.node.label)
    return tuple(replace(query, properties=()) for query in queries)


def _sharing(
    queries: tuple[SearchQuery, ...], groups: Sequence[list[SearchSpec]]
) -> list[tree.SearchGroup]:
    """Groups with equal store queries; each reads the properties that any of them needs."""
    if len(groups) < 2 or not queries:
        return [tree.SearchGroup(tuple(specs)) for specs in groups]
    properties = [
        frozenset(name for spec in specs if spec.node.label for name in spec.properties)
        for specs in zip(*groups, strict=True)
    ]
    return [
        tree.SearchGroup(
            tuple(replace(spec, more=more) for spec, more in zip(specs, properties, strict=True)),
            queries,
        )
        for specs in groups
    ]
