"""Evaluating nodes over some rows: each node once, independent ones side by side."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Any, Self, TypeGuard, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from semgraph.errors import DataError, EngineError
from semgraph.execution.runtime import Asked, Counted, Flow, Members, Rows, Runtime, of_members
from semgraph.execution.windows import Window
from semgraph.expr.functions import canonical_json
from semgraph.llm.base import LLM, Reply, Request, Vectors, Wrapper
from semgraph.llm.stack import Roles
from semgraph.logical.cluster import Cluster
from semgraph.logical.graph import Match, Scan
from semgraph.logical.node import Node
from semgraph.logical.prompt import plain
from semgraph.logical.relational import Require
from semgraph.logical.search import Search
from semgraph.logical.semantic import Embed, Semantic, SemFilter, SemJoin, SemMap
from semgraph.logical.typecheck import Stop
from semgraph.meter import Part
from semgraph.physical.operators import clusters, required, run_embed
from semgraph.physical.reads import run_match, run_scan
from semgraph.physical.retrieval import Embed as Embedding
from semgraph.physical.retrieval import Whom
from semgraph.physical.search import run_searches
from semgraph.relational.fragments import (
    Segment,
    gives_nothing,
    placed,
    run_segment,
    runtime_schema,
)
from semgraph.relational.sql import MEMBER, PARTITION
from semgraph.semantic.ask import Answered, Asking, Failure, answer, in_chunks, rows_a_call
from semgraph.semantic.context import NodeContext
from semgraph.semantic.prompt.builder import check_answer


def flows(runtime: Runtime, node: Node, given: pa.Table, first: pa.Table | None) -> list[Flow]:
    """What comes into the step of an operator here, and leaves it.

    Args:
        runtime: Of the run.
        node: The operator.
        given: Its rows.
        first: The rows of its first input, where they are known.
    """
    known: dict[int, pa.Table | None] = {id(node): given}
    if node.inputs:
        known[id(node.inputs[0])] = first
    return _flows(runtime, [node], known)


def segment_flows(
    runtime: Runtime, segment: Segment, given: pa.Table, tables: Sequence[pa.Table]
) -> list[Flow]:
    """The same for all steps that a statement does.

    The rows between two of its operators are known where the operators before or after give a row
    for each row.
    """
    known: dict[int, pa.Table | None] = {
        id(node): table for (_, node), table in zip(segment.inputs, tables, strict=True)
    }
    inside = list(dict.fromkeys(_inside(segment.root, frozenset(known))))
    names = frozenset(name for name, _ in segment.inputs)
    if not any(table.num_rows for table in tables) and gives_nothing(segment, names):
        known |= dict.fromkeys(map(id, inside), given)
    known[id(segment.root)] = given
    for node in inside:
        if node.rows == "1:1" and known.get(id(node)) is None:
            known[id(node)] = known.get(id(node.inputs[0]))
    for node in reversed(inside):
        if node.rows == "1:1" and known.get(id(node.inputs[0])) is None:
            known[id(node.inputs[0])] = known.get(id(node))
    return _flows(runtime, inside, known)


def _inside(node: Node, given: frozenset[int]) -> Iterator[Node]:
    """The operators of a statement, inputs before what reads them."""
    for child in node.inputs:
        if id(child) not in given:
            yield from _inside(child, given)
    if node.inputs:
        yield node


def _flows(
    runtime: Runtime, nodes: Sequence[Node], known: dict[int, pa.Table | None]
) -> list[Flow]:
    found = []
    for node in nodes:
        step = runtime.meter.step(node.step)
        if runtime.begins(node):
            found.append(Flow(step, "rows_in", known.get(id(node.inputs[0]))))
        if runtime.ends(node):
            found.append(Flow(step, "rows_out", known.get(id(node))))
    return found


async def without_faulty(
    segment: Segment, tables: Sequence[pa.Table], now: datetime | None, error: DataError
) -> tuple[pa.Table, list[Failure]]:
    """The rows of a statement that failed without the member rows at fault, and these.

    Args:
        segment: The statement.
        tables: The rows of its inputs.
        now: The value of `$now`.
        error: What it failed with.

    Raises:
        DataError: The error that was given, if it is not that of some member rows alone.
    """
    members = sorted(
        {m for table in tables if MEMBER in table.column_names for m in _members(table)}
    )
    if not members or await _failing(segment, tables, now, []) is not None:
        raise error
    faulty = await _faulty(segment, tables, now, members)
    left = [member for member in members if member not in faulty]
    if not faulty or await _failing(segment, tables, now, left) is not None:
        raise error
    failures = [
        await _failure(segment, tables, now, member, found) for member, found in faulty.items()
    ]
    return await run_segment(segment, _of(tables, left), now), failures


async def _faulty(
    segment: Segment, tables: Sequence[pa.Table], now: datetime | None, members: Sequence[int]
) -> dict[int, DataError]:
    """Those of some members with which alone a statement fails, found by halving."""
    error = await _failing(segment, tables, now, members)
    if error is None:
        return {}
    if len(members) == 1:
        return {members[0]: error}
    half = len(members) // 2
    first = await _faulty(segment, tables, now, members[:half])
    return first | await _faulty(segment, tables, now, members[half:])


async def _failing(
    segment: Segment, tables: Sequence[pa.Table], now: datetime | None, members: Sequence[int]
) -> DataError | None:
    """The error of a statement over the rows that derive from some members; None if it has none."""
    try:
        await run_segment(segment, _of(tables, members), now)
    except DataError as error:
        return error
    return None


async def _failure(
    segment: Segment,
    tables: Sequence[pa.Table],
    now: datetime | None,
    member: int,
    error: DataError,
) -> Failure:
    own = dict(zip((id(node) for _, node in segment.inputs), _of(tables, [member]), strict=True))

    async def rows(nodes: Sequence[object]) -> list[pa.Table]:
        return [own[id(node)] for node in nodes]

    found = await placed(error, segment.root, {id(segment.root): segment}, rows, now)
    step = found.problem.step or segment.root.step
    return Failure(step, found.without_step, member, _first_row(list(own.values())))


def _first_row(tables: Sequence[pa.Table]) -> dict[str, Any]:
    """The first row that derives from a member, without hidden columns."""
    for table in tables:
        if table.num_rows and MEMBER in table.column_names:
            hidden = [name for name in (PARTITION, MEMBER) if name in table.column_names]
            return dict(table.slice(0, 1).drop_columns(hidden).to_pylist()[0])
    return {}


def _of(tables: Sequence[pa.Table], members: Sequence[int]) -> list[pa.Table]:
    return [of_members(table, members) for table in tables]


def _members(table: pa.Table) -> list[int]:
    return [m for m in pc.unique(table.column(MEMBER)).to_pylist() if m is not None]


LEAST = 10
"""Different rows, or pairs, from which on equal answers are worth a note."""


@dataclass
class _Answers:
    """What was answered to one operator: how many rows, and whether all answers are equal so
    far.
    """

    node: SemFilter | SemJoin | SemMap
    rows: int = 0
    answer: Any = None
    varied: bool = False
    different: set[tuple[str, str | None]] = field(default_factory=set)

    def add(self, answers: pa.Table) -> None:
        """Take in the answers to some rows; rows without one do not count."""
        names = {"sem_filter": ["keep"], "sem_join": ["match"]}.get(
            self.node.keyword, [f for f, _ in self._returned()]
        )
        for row in answers.select([*dict.fromkeys(["left", "right", "error", *names])]).to_pylist():
            if row["error"] is not None:
                continue
            answer = canonical_json(plain([row[name] for name in names]))
            self.varied = self.varied or (self.rows > 0 and answer != self.answer)
            if self.varied:
                self.different.clear()
                return
            self.rows, self.answer = self.rows + 1, answer
            if len(self.different) < LEAST:
                self.different.add((row["left"], row["right"]))

    def _returned(self) -> tuple[tuple[str, Any], ...]:
        return self.node.answers

    def note(self, run: str) -> str | None:
        """What to say of them; nothing where they vary, or are few."""
        if self.varied or len(self.different) < LEAST:
            return None
        node, count = self.node, f"{self.rows:,}"
        if isinstance(node, SemMap):
            said = f"sem_map gave the same answer for all {count} rows"
        else:
            verb, unit = ("kept", "rows") if isinstance(node, SemFilter) else ("matched", "pairs")
            said = f"{node.keyword} {verb} {count if self.answer == '[true]' else 'none'} of {count} {unit}"
        look = f"; look at one: semgraph why {run} TEXT, with the text of a row" if run else ""
        return f"step {node.step}: {said}{look}"


class Uniform:
    """Watches the answers of a run."""

    def __init__(self) -> None:
        self._operators: dict[int, _Answers] = {}

    def add(self, node: Node, answers: pa.Table) -> None:
        """Take in what was asked and answered, as `semgraph.semantic.Answered.evidence` has it."""
        if isinstance(node, (SemFilter, SemJoin, SemMap)):
            own = self._operators.setdefault(id(node), _Answers(node))
            if not own.varied:
                own.add(answers)

    def notes(self, run: str = "") -> list[str]:
        """A note for each operator whose answers are all alike.

        Args:
            run: The id of the run, where it has a record.
        """
        return [note for own in self._operators.values() if (note := own.note(run)) is not None]


Replies = dict[str, Reply]


def remembering(llm: LLM, replies: Replies) -> LLM:
    """The model with answers that it gives again. Answers to equal requests count as shared."""
    if isinstance(llm, Roles):
        return Roles(**{role: _Remembering(model, replies) for role, model in llm.models.items()})
    return _Remembering(llm, replies)


class _Remembering(Wrapper):
    def __init__(self, inner: LLM, replies: Replies) -> None:
        super().__init__(inner)
        self._replies = replies

    async def complete(self, request: Request) -> Reply:
        """Answer one request, from memory where an equal one was answered."""
        key = f"{request.partition}\0{request.fingerprint}"
        if key in self._replies:
            return replace(self._replies[key], origin="coalesced", attempts=0)
        reply = await self.inner.complete(request)
        self._replies[key] = reply
        return reply


T = TypeVar("T")


class Evaluation:
    """The nodes of a plan over given rows. Use as an async context manager: leaving it cancels what
    still runs.

    Args:
        runtime: What the run works with.
        given: Rows of inputs, and of nodes that are computed already, by `id`.
        now: The value of `$now`.
        windows: Those that the rows belong to.
        replies: Answers to questions that were asked before about the same windows; takes those to
            new ones.
        held: Count and record rows when `settle` says of which members, or at the end; none, if bad
            data of one of several windows ended it, which are then computed by themselves.
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
        """Count what was held, of some members only (None: of all), and record it unless that is
        done.
        """
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
            raise await placed(
                error, node, self.runtime.plan.segments, self.tables, self.now
            ) from error
        before = await self._before(node)
        segment = self.runtime.plan.segments.get(id(node))
        if segment is None:
            moved = flows(self.runtime, node, found, before)
        else:
            moved = segment_flows(
                self.runtime, segment, found, await self.tables([n for _, n in segment.inputs])
            )
        self._note(Rows(found, moved, partial(self.runtime.observe, node)))
        if self.runtime.observations is not None:
            self.runtime.observations.rows(
                node, 0 if before is None else before.num_rows, found.num_rows
            )
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
        raise EngineError(
            f"nothing computes {node!r} of step {node.step}: no rows were given for it"
        )

    async def _segment(self, segment: Segment) -> pa.Table:
        tables = await self.tables([node for _, node in segment.inputs])
        empty = frozenset(
            name for (name, _), t in zip(segment.inputs, tables, strict=True) if not t.num_rows
        )
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
        found = await run_searches(
            group, left, withins, self._store(step), self._embedding(step), self.now
        )
        return found if confinement is None else [confinement.by_window(table) for table in found]

    async def _within(self, node: Node | None) -> pa.Table | None:
        if node is None:
            return None
        return (
            self.runtime.whole.get(id(node))
            if id(node) in self.runtime.whole
            else await self.table(node)
        )

    def _store(self, step: str) -> Counted:
        return Counted(self.runtime.store, self.runtime.meter.step(step))

    async def _match(self, node: Match) -> pa.Table:
        left = await self.table(node.input)
        return await run_match(node, left, self._store(node.step), self.now)

    async def _scan(self, node: Scan) -> pa.Table:
        whose = None if node.partition == "all" else self._whose()
        return await run_scan(node, whose, self._store(node.step), self.now)

    def _whose(self) -> dict[str, list[tuple[int, int]]]:
        """Of each partition the windows at hand: their number, and a member that is still in
        them.
        """
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
        table, failures = await required(
            node, await self.table(node.input), self.now, windows=windows
        )
        self.failures += failures
        return table

    async def _embed(self, node: Embed) -> pa.Table:
        left = await self.table(node.input)
        metrics = self.runtime.meter.step(node.step)
        metrics.operator, metrics.how = node.keyword, self.runtime.embedder.name
        graph = getattr(self.runtime.plan.logical, "graph", None)
        started = time.perf_counter()
        found = await run_embed(
            node, left, self._embedding(node.step), graph.partition if graph else "", self.now
        )
        metrics.rows_in = (metrics.rows_in or 0) + left.num_rows
        metrics.seconds += time.perf_counter() - started
        return found

    def _embedding(self, step: str) -> Embedding:
        async def embed(texts: Sequence[str], whom: Whom) -> Vectors:
            return await self.runtime.embed(texts, whom, step)

        return embed

    async def _semantic(self, node: Semantic) -> pa.Table:
        if (
            isinstance(node, (SemMap, SemFilter))
            and node.stop is not None
            and self._is_fed(node.input)
        ):
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
        at_once = max(
            rows_a_call(each, base.num_rows, way) for each, way in zip(chain, ways, strict=True)
        )
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
        self,
        node: Semantic,
        tables: Sequence[pa.Table],
        known: dict[object, pa.Table] | None = None,
    ) -> Answered:
        way, choice = self.runtime.plan.ways[id(node)]
        metrics = self.runtime.meter.part(node.step, id(node), node.keyword, str(choice))
        graph = getattr(self.runtime.plan.logical, "graph", None)
        column = graph.partition if graph else ""
        started = time.perf_counter()
        self.runtime.asking(node, tables[0].num_rows)
        own = Part(step=metrics)
        asking = NodeContext(
            self._llm,
            self.runtime.embedder,
            node,
            own,
            trial=self.runtime.trial,
            paid=self.runtime.meter.paid,
        )
        async with asking as ctx:
            found = await answer(
                node,
                tables,
                Asking(way, ctx, self.runtime.partitions, column, self.now, check_answer, known),
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
