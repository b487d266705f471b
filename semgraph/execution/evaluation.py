"""Evaluating nodes over some rows: each node once, independent ones side by side."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Self, TypeGuard, TypeVar

import pyarrow as pa

from semgraph.errors import DataError, EngineError
from semgraph.execution.counted import Counted
from semgraph.execution.faulty import without_faulty
from semgraph.execution.remembering import Replies, remembering
from semgraph.execution.runtime import Runtime
from semgraph.execution.settling import Asked, Members, Rows
from semgraph.execution.step_rows import flows, segment_flows
from semgraph.execution.windows import Window
from semgraph.llm.base import Vectors
from semgraph.logical.checks import Stop
from semgraph.logical.cluster import Cluster
from semgraph.logical.embed import Embed
from semgraph.logical.graph import Match, Scan
from semgraph.logical.node import Node
from semgraph.logical.require import Require
from semgraph.logical.search import Search
from semgraph.logical.semantic import Semantic, SemFilter, SemMap
from semgraph.meter import Part
from semgraph.physical.cluster import clusters
from semgraph.physical.context import NodeContext
from semgraph.physical.embed import run_embed
from semgraph.physical.framing import check_answer
from semgraph.physical.locating import placed
from semgraph.physical.match import run_match
from semgraph.physical.relational import Segment, gives_nothing, run_segment, runtime_schema
from semgraph.physical.require import required
from semgraph.physical.scan import run_scan
from semgraph.physical.search import run_searches
from semgraph.physical.search_vectors import Embed as Embedding
from semgraph.physical.search_vectors import Whom
from semgraph.physical.semantic.asking import Answered, Asking, Failure, answer
from semgraph.physical.semantic.early import in_chunks, rows_a_call

T = TypeVar("T")


class Evaluation:
    """The nodes of a plan over given rows. Use as an async context manager: leaving it cancels what still runs.

    Args:
        runtime: What the run works with.
        given: Rows of inputs, and of nodes that are computed already, by `id`.
        now: The value of `$now`.
        windows: Those that the rows belong to.
        replies: Answers to questions that were asked before about the same windows; takes those to new ones.
        held: Count and record rows when `settle` says of which members, or at the end; none, if bad data of one of several
            windows ended it, which are then computed by themselves.
    """

    def __init__(
        self,
        runtime: Runtime,
        given: Mapping[int, pa.Table],
        now: datetime,
        windows: Sequence[Window] = (),
        *,
        replies: Replies | None = None,
        held: bool = False,
    ) -> None:
        self.runtime = runtime
        self.now = now
        self._llm = runtime.llm if replies is None else remembering(runtime.llm, replies)
        self._windows = windows
        self.failures: list[Failure] = []
        self._given = given
        self._tasks: dict[int, asyncio.Task[pa.Table]] = {}
        self._trips: dict[int, asyncio.Task[list[pa.Table]]] = {}
        self._held: list[Rows | Asked] | None = [] if held else None
        self._recorded = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        rest = [task for task in (*self._tasks.values(), *self._trips.values()) if not task.done()]
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)
        for done in (*self._tasks.values(), *self._trips.values()):
            if done.done() and not done.cancelled():
                done.exception()  # seen: only the first is raised
        again = isinstance(error, DataError) and len(self._windows) > 1  # each window by itself
        self.settle([] if again else None)

    def record(self, members: Members) -> None:
        """Record what was held, of some members only (None: of all), before it is counted."""
        for each in self._held or []:
            each.record(members)
        self._recorded = True

    def settle(self, members: Members) -> None:
        """Count what was held, of some members only (None: of all), and record it unless that is done."""
        held, self._held = self._held or [], None
        for each in held:
            if not self._recorded:
                each.record(members)
            each.count(members)

    def forget(self) -> None:
        """Neither count nor record what was held."""
        self._held = None

    def _note(self, each: Rows | Asked) -> None:
        if self._held is None:
            each.record(None)
            each.count(None)
        else:
            self._held.append(each)

    async def table(self, node: Node) -> pa.Table:
        """The rows of a node, hidden columns included."""
        if id(node) in self._given:
            return self._given[id(node)]
        task = self._tasks.get(id(node))
        if task is None:
            task = self._tasks[id(node)] = asyncio.ensure_future(self._compute(node))
        return await asyncio.shield(task)

    async def tables(self, nodes: Sequence[Node]) -> list[pa.Table]:
        """The rows of several nodes, computed side by side."""
        return list(await asyncio.gather(*(self.table(node) for node in nodes)))

    async def _compute(self, node: Node) -> pa.Table:
        try:
            found = await self._way(node)
        except DataError as error:
            raise await placed(error, node, self.runtime.plan.segments, self.tables, self.now) from error
        before = await self._before(node)
        segment = self.runtime.plan.segments.get(id(node))
        if segment is None:
            moved = flows(self.runtime, node, found, before)
        else:
            moved = segment_flows(self.runtime, segment, found, await self.tables([n for _, n in segment.inputs]))
        self._note(Rows(found, moved, partial(self.runtime.observe, node)))
        if self.runtime.observations is not None:
            self.runtime.observations.rows(node, 0 if before is None else before.num_rows, found.num_rows)
        return found

    async def _before(self, node: Node) -> pa.Table | None:
        """A node's first input, which is known when it is computed."""
        segment = self.runtime.plan.segments.get(id(node))
        inputs = node.inputs if segment is None else [source for _, source in segment.inputs]
        if inputs and self._is_fed(inputs[0]):
            return None
        return await self.table(inputs[0]) if inputs else None

    def _way(self, node: Node) -> Coroutine[Any, Any, pa.Table]:
        segment = self.runtime.plan.segments.get(id(node))
        if segment is not None:
            return self._segment(segment)
        ways: dict[Any, Callable[[Any], Coroutine[Any, Any, pa.Table]]] = {
            Search: self._search,
            Match: self._match,
            Scan: self._scan,
            Cluster: self._cluster,
            Embed: self._embed,
            Require: self._require,
            Semantic: self._semantic,
        }
        for kind, compute in ways.items():
            if isinstance(node, kind):
                return compute(node)
        raise EngineError(f"nothing computes {node!r} of step {node.step}: no rows were given for it")

    async def _segment(self, segment: Segment) -> pa.Table:
        tables = await self.tables([node for _, node in segment.inputs])
        empty = frozenset(name for (name, _), t in zip(segment.inputs, tables, strict=True) if not t.num_rows)
        if empty and gives_nothing(segment, empty):
            return runtime_schema(segment.root).empty_table()
        started = time.perf_counter()
        try:
            found = await run_segment(segment, tables, self.now)
        except DataError as error:
            found, failures = await without_faulty(segment, tables, self.now, error)
            self.failures += failures
        self.runtime.meter.step(segment.root.step).seconds += time.perf_counter() - started
        return found

    async def _search(self, node: Search) -> pa.Table:
        group = self.runtime.plan.trips[id(node)]
        first = id(group[0].node)
        if first not in self._trips:
            self._trips[first] = asyncio.ensure_future(self._run_trip(first))
        found = await asyncio.shield(self._trips[first])
        return found[[id(spec.node) for spec in group].index(id(node))]

    async def _run_trip(self, first: int) -> list[pa.Table]:
        group = self.runtime.plan.trips[first]
        confinement = self.runtime.confinement
        left = await self.table(group[0].node.input)
        withins = [await self._within(spec.node.within) for spec in group]
        if confinement is not None:
            left = confinement.by_partition(left)
            withins = [within and confinement.by_partition(within) for within in withins]
        step = group[0].node.step
        found = await run_searches(group, left, withins, self._store(step), self._embedding(step), self.now)
        return found if confinement is None else [confinement.by_window(table) for table in found]

    async def _within(self, node: Node | None) -> pa.Table | None:
        if node is None:
            return None
        return self.runtime.whole.get(id(node)) if id(node) in self.runtime.whole else await self.table(node)

    def _store(self, step: str) -> Counted:
        return Counted(self.runtime.store, self.runtime.meter.step(step))

    async def _match(self, node: Match) -> pa.Table:
        left = await self.table(node.input)
        return await run_match(node, left, self._store(node.step), self.now)

    async def _scan(self, node: Scan) -> pa.Table:
        whose = None if node.partition == "all" else self._whose()
        return await run_scan(node, whose, self._store(node.step), self.now)

    def _whose(self) -> dict[str, list[tuple[int, int]]]:
        """Of each partition the windows at hand: their number, and a member that is still in them."""
        found: dict[str, list[tuple[int, int]]] = {}
        if self.runtime.confinement is None:
            return found
        for window in self._windows:
            member = window.members[0]
            number = self.runtime.confinement.window_of(member)
            found.setdefault(self.runtime.partitions[member], []).append((number, member))
        return found

    async def _cluster(self, node: Cluster) -> pa.Table:
        edges, nodes = await self.tables(node.inputs)
        return clusters(node, edges, nodes)

    async def _require(self, node: Require) -> pa.Table:
        windows = self.runtime.confinement is not None
        table, failures = await required(node, await self.table(node.input), self.now, windows=windows)
        self.failures += failures
        return table

    async def _embed(self, node: Embed) -> pa.Table:
        left = await self.table(node.input)
        metrics = self.runtime.meter.step(node.step)
        metrics.operator, metrics.how = node.keyword, self.runtime.embedder.name
        graph = getattr(self.runtime.plan.logical, "graph", None)
        started = time.perf_counter()
        found = await run_embed(node, left, self._embedding(node.step), graph.partition if graph else "", self.now)
        metrics.rows_in = (metrics.rows_in or 0) + left.num_rows
        metrics.seconds += time.perf_counter() - started
        return found

    def _embedding(self, step: str) -> Embedding:
        async def embed(texts: Sequence[str], whom: Whom) -> Vectors:
            return await self.runtime.embed(texts, whom, step)

        return embed

    async def _semantic(self, node: Semantic) -> pa.Table:
        if isinstance(node, (SemMap, SemFilter)) and node.stop is not None and self._is_fed(node.input):
            return await self._in_chunks(node, node.stop)
        return (await self._ask(node, await self.tables(node.inputs))).table

    def _is_fed(self, node: Node) -> TypeGuard[SemMap | SemFilter]:
        """Whether the operator above asks for its rows, which are not there yet."""
        return isinstance(node, (SemMap, SemFilter)) and node.fed and id(node) not in self._given

    async def _in_chunks(self, node: SemMap | SemFilter, stop: Stop) -> pa.Table:
        """Rows of an operator that stops early, and of those below it that it asks for rows."""
        chain = [node]
        while self._is_fed(below := chain[0].input):
            chain.insert(0, below)
        ways = [self.runtime.plan.ways[id(each)][0] for each in chain]
        base = await self.table(chain[0].input)
        at_once = max(rows_a_call(each, base.num_rows, way) for each, way in zip(chain, ways, strict=True))
        known: list[dict[object, pa.Table]] = [{} for _ in chain]
        gave = [0] * len(chain)

        async def through(table: pa.Table) -> tuple[pa.Table, Sequence[int]]:
            stays: Sequence[int] = range(table.num_rows)
            for i, each in enumerate(chain):
                found = await self._ask(each, [table], known[i])
                table, stays = found.table, [stays[row] for row in found.stays]
                gave[i] += table.num_rows
                if each is not node:
                    moved = flows(self.runtime, each, table, None)
                    self._note(Rows(table, moved, partial(self.runtime.observe, each)))
            return table, stays

        result = await in_chunks(chain[0], stop, base, at_once, self.now, through)
        for each, rows_in, rows_out in zip(chain[:-1], [base.num_rows, *gave], gave, strict=False):
            if self.runtime.observations is not None:
                self.runtime.observations.rows(each, rows_in, rows_out)
        return result

    async def _ask(
        self, node: Semantic, tables: Sequence[pa.Table], known: dict[object, pa.Table] | None = None
    ) -> Answered:
        way, choice = self.runtime.plan.ways[id(node)]
        metrics = self.runtime.meter.part(node.step, id(node), node.keyword, str(choice))
        graph = getattr(self.runtime.plan.logical, "graph", None)
        column = graph.partition if graph else ""
        started = time.perf_counter()
        self.runtime.asking(node, tables[0].num_rows)
        own = Part(step=metrics)
        asking = NodeContext(
            self._llm, self.runtime.embedder, node, own, trial=self.runtime.trial, paid=self.runtime.meter.paid
        )
        async with asking as ctx:
            found = await answer(
                node, tables, Asking(way, ctx, self.runtime.partitions, column, self.now, check_answer, known)
            )
        for text in asking.notes:
            self.runtime.note(text)
        own.seconds += time.perf_counter() - started
        own.rows_failed += len(found.failures)
        self.runtime.meter.replayed.add(asking.replayed)
        self._note(Asked(found, partial(self.runtime.answered, node), metrics))
        if not found.kept:
            self.failures += found.failures
        self.runtime.asking(node, -tables[0].num_rows)
        if self.runtime.observations is not None:
            self.runtime.observations.asked(node, found.rows_in, own, asking.replayed)
        return found
