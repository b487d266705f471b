"""Refreshes: what a plan wrote is computed again over its present inputs, compared, and replaced.

The partitions of the inputs are computed in a scratch copy that starts with the rows of other plans
and programs, window by window as their commit markers record them. The journal answers every request
that did not change. The difference is applied in one transaction, unless another run has written the
partition since.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cache, partial
from itertools import islice
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa

from semgraph.compare.trial import Snapshot, partitions_read, rows_of
from semgraph.diff import FILE, Change, Diff
from semgraph.errors import BudgetReached, PlanError, SemgraphError
from semgraph.execution.commit import witness_of, witness_sink
from semgraph.execution.record import COMPARED, REFRESHED, Run, RunRecord, timestamp
from semgraph.execution.result import Result
from semgraph.execution.windows import InputRows, prepare
from semgraph.explain.estimates import Estimator, Forecast
from semgraph.formats import plural, stopped
from semgraph.llm.stack import Unsent
from semgraph.logical.node import walk
from semgraph.logical.plan import LogicalPlan, Windowing
from semgraph.logical.schema import Graph
from semgraph.logical.sinks import Merge
from semgraph.meter import Meter
from semgraph.options import RefreshOptions
from semgraph.session.committed import (
    Committed,
    CommittedRows,
    InputChanges,
    WindowLayout,
    as_committed,
    with_kept,
)
from semgraph.session.merging import (
    GraphRows,
    GraphStates,
    Merged,
    state_of,
    value_fingerprint,
    writes_of_changes,
)
from semgraph.session.resources import Resources
from semgraph.session.run import RunRequest, compiled, parts_of, run_plan, trimmed
from semgraph.stores.base import (
    CommitMarker,
    History,
    NewContent,
    ScanQuery,
    Store,
    WriteBatch,
    Written,
)
from semgraph.stores.prepare import scan_schema
from semgraph.stores.writes import WrittenRow, kept_values, row_fingerprint, written

_CAUSES = 3  # that a change names
Id = tuple[str, str]  # label and key, or label and the fingerprint of a key


@dataclass(frozen=True)
class Foreseen:
    """What a refresh would ask.

    Args:
        requests: Requests that are sure to be new.
        rows: Input rows whose other requests may be new, because they show rows that change.
        calls: The most calls for these rows, with 95 % if they are like those of earlier runs; None:
            unknown.
        texts: Texts to embed.
    """

    requests: int
    rows: int
    calls: float | None
    texts: int


@dataclass(frozen=True)
class Refresh:
    """A refresh that is computed and not yet applied.

    Args:
        diff: The difference between the graph and what the plan makes of its present inputs.
        rows: How the input rows differ from those that were committed.
        result: The run in the scratch copy.
        dry: What a dry run would ask; its `diff` has only reasons.
        lost: Why it cannot be applied, if rows of the graph failed; else "".
    """

    diff: Diff
    rows: InputChanges
    result: Result
    dry: Foreseen | None
    _apply: Callable[[], Awaitable[Written]] = field(repr=False)
    _wait: Callable[[Coroutine[Any, Any, Written]], Written] = field(
        repr=False, default=asyncio.run
    )
    lost: str = ""

    @property
    def metrics(self) -> Meter:
        """The counters of the run, by step."""
        return self.result.meter

    async def aapply(self) -> Written:
        """Write the difference, in one transaction, with the commit markers of its rows.

        Raises:
            ConcurrentWrite: Another run has written the groups since; nothing is written.
            SemgraphError: Rows failed that are in the graph; nothing is written.
            PlanError: It is a dry run.
        """
        if self.dry is not None:
            raise PlanError("a dry run has computed nothing that could be applied")
        if self.lost:
            raise SemgraphError(f"nothing was written: {self.lost}")
        return await self._apply()

    def apply(self) -> Written:
        """As `aapply`, in a script or inside a running event loop."""
        return self._wait(self.aapply())


def require_refreshable(plan: LogicalPlan, resources: Resources) -> Windowing:
    """Refuse a plan whose rows have no markers. Raises PlanError."""
    if plan.windows is None or not plan.writes:
        lacks = "windows" if plan.windows is None else "writes"
        what = f"plan {plan.name} has no {lacks}, so no markers tell which rows it wrote"
        raise PlanError(what, hint=f"run it again: semgraph run {plan.name}")
    if "engine" in resources.settings.values:
        what = "a refresh runs in this process: an engine runs plans, and refreshes no graph"
        raise PlanError(what, hint="leave the engine out")
    return plan.windows


async def compute_refresh(
    request: RunRequest, options: RefreshOptions, resources: Resources
) -> Refresh:
    """Compute what the plan makes of its present inputs, in a scratch copy. Raises as `run_plan`."""
    windowing = require_refreshable(trimmed(request), resources)
    async with resources.opened_store(request.plan.graph) as store:
        return await _Refreshing(request, options, resources, windowing, store).compute()


@dataclass
class _Refreshing:
    """One refresh, while it is computed."""

    request: RunRequest
    options: RefreshOptions
    resources: Resources
    windowing: Windowing
    store: Store

    @property
    def plan(self) -> LogicalPlan:
        """The plan."""
        return self.request.plan

    async def compute(self) -> Refresh:
        """Compute the refresh."""
        graph, name = self.plan.graph, self.windowing.input
        given = await prepare(self.windowing, self.request.inputs[name])
        history, stored, tables = await self._read(given.partitions)
        committed = Committed(history, self.options.adopt)
        committed.require_lists(self.plan)
        changes = committed.changes(
            given, complete=self.options.complete, retract=self.options.retract
        )
        rows, table = await self._rows(given, committed, changes, stored)
        before = self._before(committed, stored)
        states = GraphStates(graph, stored, before, self.options.discard_edits)
        named = zip(given.partition_of_row, given.keys, strict=True)
        layout = WindowLayout(
            self.windowing, rows, committed, datetime.now(UTC),
            in_order=self.options.in_order, fresh=frozenset(named if self.options.fresh else ()),
        )  # fmt: skip
        request = replace(
            self.request,
            inputs={**self.request.inputs, name: table},
            options=replace(self.request.options, again=True),
            windows=layout.windows(),
            kind=COMPARED,
            runs=None if self.options.dry_run else self.request.runs,
        )
        while True:
            base = await self._with_others(states.base(tables), given.partitions)
            result, made, vectors, dry = await self._computed(request, base, rows.partitions)
            self._note_made(states, made, vectors, changes)
            found = states.merged()
            if dry is not None or not states.stays_more(found):
                break
            windows = (replace(window, fresh=False) for window in request.windows)
            request = replace(request, windows=tuple(windows))  # fresh answers are in the journal
        return self._compared(states, found, committed, changes, made, vectors, result, dry)

    async def _computed(
        self, request: RunRequest, base: Mapping[str, pa.Table], partitions: list[str]
    ) -> tuple[Result, Committed, dict[str, pa.Table], Foreseen | None]:
        """Compute the rows in a scratch copy. Returns the run, what it committed, the rows of the
        copy, and what a dry run would ask. Raises BudgetReached.
        """
        graph = self.plan.graph
        unsent = Unsent() if self.options.dry_run else None
        self.resources.made_up(self.plan, writes=unsent is None)
        resources = replace(self.resources, unsent=unsent)
        stored = any(table.num_rows for table in base.values())
        lengths = (await self.store.statistics()).dimensions.values() if stored else ()
        snapshot = Snapshot(graph, base, dimensions=next(iter(lengths), None))
        async with snapshot.copy() as scratch:
            result = await run_plan(request, resources.over(scratch))
            made = Committed(await scratch.history(self.plan.name, partitions))
            tables, _ = await rows_of(scratch, graph, partitions)
            dry = None if unsent is None else await self._dry(unsent, request, made, scratch)
        if result.stopped:
            kept = "" if self.options.fresh else ": the journal has the answers so far"
            what = f"{stopped(result.stopped)}. The graph stays as it was"
            raise BudgetReached(f"{what}. Repeat it with a higher limit{kept}", result)
        return result, made, tables, dry

    def _note_made(
        self,
        states: GraphStates,
        made: Committed,
        tables: Mapping[str, pa.Table],
        changes: InputChanges,
    ) -> None:
        """Note the rows that the plan makes now, and those that new or edited input rows state."""
        graph = self.plan.graph
        states.made = GraphRows(graph, tables)
        states.after = written(graph, (w.writes or "" for _, w in made.windows))
        told = changes.new | changes.edited
        shares = [
            sum((p, row.row) in told for row in w.rows) / len(w.rows) for p, w in made.windows
        ]
        states.restated = frozenset(
            at
            for at, row in states.after.items()
            if (share := max((shares[n] for n in row.windows), default=0.0)) == 1
            or (share and not row.says_as(states.before.get(at)))
        )

    async def _dry(
        self, unsent: Unsent, request: RunRequest, made: Committed, scratch: Store
    ) -> Foreseen:
        """What the requests that were not sent, and those that follow from them, amount to."""
        lost, partitions = list[str](), set[str]()
        for window in request.windows:
            if any((window.partition, key) not in made.rows for key in window.rows):
                partitions.add(window.partition)
            lost += window.rows if window.partition in partitions else ()
        calls = await self._expected(request, len(lost), scratch) if lost else 0.0
        return Foreseen(len(unsent.first), len(lost), calls, len(unsent.texts))

    async def _expected(self, request: RunRequest, rows: int, scratch: Store) -> float | None:
        """The most calls for so many input rows, with 95 % if they are like those of earlier runs; None:
        unknown.
        """
        name = self.windowing.input
        inputs = {**request.inputs, name: request.inputs[name].slice(0, rows)}
        async with self.resources.open(self.plan, fresh=False) as opened:
            physical = compiled(self.plan, inputs, scratch, opened.llm, self.resources)
        estimator = Estimator.over(physical, inputs, self.resources.observations(), None)
        forecast = Forecast(estimator)
        calls, between = forecast.total()["calls"], forecast.calls_between()
        return between[1] if between else calls.value if calls.known else None

    async def _read(
        self, partitions: list[str]
    ) -> tuple[Mapping[str, History], GraphRows, dict[str, pa.Table]]:
        """What the plan committed in partitions, and their rows, with vectors in the tables."""
        graph = self.plan.graph
        if not self.resources.may_hold_rows:
            empty = {
                name: scan_schema(graph, ScanQuery(name, [*label.columns]), {}).empty_table()
                for name, label in graph.labels.items()
            }
            return {name: History() for name in partitions}, GraphRows(graph, empty), empty
        length = None if self.options.dry_run else await self._length()
        await self.store.attach(graph, length)
        history = await self.store.history(self.plan.name, partitions)
        tables, _ = await rows_of(self.store, graph, partitions)
        return history, GraphRows(graph, tables), tables

    async def _with_others(self, base: dict[str, pa.Table], own: list[str]) -> dict[str, pa.Table]:
        """The base, with the rows of other partitions if the plan reads them."""
        if partitions_read(self.plan, self.request.inputs) or not self.resources.may_hold_rows:
            return base
        every, _ = await rows_of(self.store, self.plan.graph, None)
        for label, table in every.items():
            groups = table.column(self.plan.graph.partition).to_pylist()
            others = pa.array([(group or "") not in own for group in groups], pa.bool_())
            base[label] = pa.concat_tables([base[label], table.filter(others)])
        return base

    async def _length(self) -> int | None:
        """The length of the embedder's vectors."""
        async with self.resources.open(self.plan, fresh=False) as opened:
            return await opened.vector_length(self.plan)

    async def _rows(
        self, given: InputRows, committed: Committed, changes: InputChanges, stored: GraphRows
    ) -> tuple[InputRows, pa.Table]:
        """All rows to compute: those of the inputs, and committed ones without values in them."""
        table = self.request.inputs[self.windowing.input]
        if self.windowing.key is None:
            return given, table
        table = given.table.select(table.column_names)  # with keys
        if changes.kept:
            table = with_kept(table, self._kept(committed, changes, stored, table.schema), given)
        if not (self.options.in_order or self.options.adopt):
            table = as_committed(self.windowing, table, committed)
        return await prepare(self.windowing, table), table

    def _kept(
        self, committed: Committed, changes: InputChanges, stored: GraphRows, schema: pa.Schema
    ) -> pa.Table:
        """Committed rows without values in the inputs."""
        sink = witness_sink(self.plan)
        own = sink.node if sink is not None else None
        nodes = {key: values for (label, key), values in stored.values.items() if label == own}
        reader = CommittedRows(sink, self.windowing, schema, nodes)
        missing = changes.kept - committed.rows.keys()
        kept = [(row, own.content) for row, own in committed.rows.items() if row in changes.kept]
        return reader.table([*kept, *((row, "") for row in sorted(missing))])

    def _before(self, committed: Committed, stored: GraphRows) -> dict[Id, WrittenRow]:
        """What the plan had written, by label and fingerprint of the key."""
        if not self.options.adopt:
            return written(self.plan.graph, (w.writes or "" for _, w in committed.windows))
        labels = {sink.label.name for sink in self.plan.writes if isinstance(sink, Merge)}
        return {
            (label, row_fingerprint(key)): WrittenRow(
                {name: value_fingerprint(name, value) for name, value in values.items()},
                creates=True,
            )
            for (label, key), values in stored.values.items()
            if label in labels
        }

    def _compared(
        self,
        states: GraphStates,
        found: Mapping[Id, Merged],
        committed: Committed,
        changes: InputChanges,
        after: Committed,
        vectors: Mapping[str, pa.Table],
        result: Result,
        dry: Foreseen | None,
    ) -> Refresh:
        parts = parts_of(self.request, self.resources)
        causes = _Causes(self.plan, states, committed, after, changes, parts)
        partition_of = states.partitions
        diff = _diff(self.plan.graph, states, found, partition_of, causes)
        if result.record is not None:  # which explains its new rows
            own = (c if c.sign != "+" else replace(c, run=result.run) for c in diff.changes)
            diff = replace(diff, changes=tuple(own))
            RunRecord(result.record).text(FILE, json.dumps(diff.as_dict(), ensure_ascii=False))
        writes = writes_of_changes(
            self.plan.graph, states.stored, found, partition_of, vectors,
            embed="embedder changed" in causes.reasons,
        )  # fmt: skip
        batch, kept = WriteBatch(tuple(writes)), states.kept(found)
        replacement = self._replacement(committed, after, batch, kept, result.run)
        lost = _lost(committed, after, changes, result) if dry is None else ""
        apply = partial(self._apply, replacement, result.record)
        shown = diff if dry is None else Diff(reasons=diff.reasons)
        return Refresh(shown, changes, result, dry, apply, lost=lost)

    def _replacement(
        self, committed: Committed, after: Committed, batch: WriteBatch,
        kept: Mapping[Id, Mapping[str, str]], run: str,
    ) -> NewContent:  # fmt: skip
        """The new content of the partitions, with the markers of the scratch copy."""
        texts = kept_values((window.writes or "" for _, window in after.windows), kept)
        heads = {name: (own.head, uuid4().hex) for name, own in committed.history.items()}
        witness = witness_of(self.plan)
        markers = tuple(
            CommitMarker(
                self.plan.name,
                partition,
                tuple(row.row for row in window.rows),
                self.plan.fingerprint,
                window.now,
                run,
                None,
                "",
                witness,
                tuple(row.content for row in window.rows),
                window.begun,
                window.parts,
                text,
            )
            for (partition, window), text in zip(after.windows, texts, strict=True)
        )
        return NewContent(batch, self.plan.name, heads, markers)

    async def _apply(self, replacement: NewContent, record: Path | None) -> Written:
        """Write the difference, and that it was written into the record."""
        async with self.resources.opened_store(self.plan.graph) as store:
            await store.ensure(self.plan.graph, await self._length())
            written = await store.replace(replacement)
        if record is not None:
            Run(record).add(kind=REFRESHED, applied=timestamp(), written=written.rows)
        return written


def _lost(committed: Committed, after: Committed, changes: InputChanges, result: Result) -> str:
    """A sentence on the committed rows that could not be computed again; "" without any."""
    rows = sorted(committed.rows.keys() - after.rows.keys() - changes.gone)
    if not rows:
        return ""
    why = f": {result.failed[0].error}" if result.failed else ""
    what = f"{plural(len(rows), 'row')} of the graph failed, first {rows[0][1]}{why}"
    return f"{what}. Refresh again once they succeed"


def _diff(
    graph: Graph, states: GraphStates, found: Mapping[Id, Merged], partition_of: Mapping[Id, str],
    causes: _Causes,
) -> Diff:  # fmt: skip
    """The difference between the stored rows and what becomes of them."""
    stored = states.stored
    before = state_of(graph, {r: stored.values.get(r) for r in found}, stored.partitions)
    after = state_of(graph, {row: merged.values for row, merged in found.items()}, partition_of)
    made = states.made.values
    edited = tuple(
        Change(
            "-" if merged.values is None else "~", row[0], row[1], partition_of[row],
            merged.values or made.get(row, {}),
            {name: (merged.values or {}).get(name) for name in merged.edited or ()},
            dict(merged.edited or {}),
        )
        for row, merged in found.items()
        if merged.edited != {}
        or row in states.staying
        or (merged.values is not None and row not in made)
    )  # fmt: skip
    diff = Diff.between(before, after, graph, edited=edited)
    changes = (
        replace(change, causes=causes.of((change.label, change.key)), run=causes.run(change))
        for change in diff.changes
    )
    return replace(diff, changes=tuple(changes), reasons=causes.reasons)


class _Causes:
    """Why rows differ."""

    def __init__(
        self,
        plan: LogicalPlan,
        states: GraphStates,
        before: Committed,
        after: Committed,
        changes: InputChanges,
        parts: Mapping[str, str],
    ) -> None:
        self.plan, self.states, self.changes = plan, states, changes
        self._sides = ((before, states.before), (after, states.after))
        self._parts = before.changed_parts(parts, plan.fingerprint) if before.rows else []
        self._upstream: dict[str, list[str]] = {}
        self.reasons = (*changes.reasons, *(f"{name} changed" for name in self._parts))

    def of(self, row: Id) -> tuple[str, ...]:
        """The causes of a change of a row."""
        found: dict[str, None] = {}
        at = self.states.print_of(row)
        for side, (_, rows) in enumerate(self._sides):
            for number in rows[at].windows if at in rows else ():
                found |= dict.fromkeys(self._of_window(side, number))
        parts = (f"{name} changed" for name in self._relevant(row[0]))
        causes = (*islice(found, _CAUSES), *islice(parts, _CAUSES))
        return causes or ("follows from other changes",)

    @cache  # noqa: B019 - it lives as long as one comparison
    def _of_window(self, side: int, number: int) -> tuple[str, ...]:
        """What happened to the first rows of a window that changed."""
        partition, window = self._sides[side][0].windows[number]
        named = (self.changes.cause((partition, each.row)) for each in window.rows)
        return tuple(islice(filter(None, named), _CAUSES))

    def run(self, change: Change) -> str:
        """The run that wrote a row before; "" if none did."""
        committed, rows = self._sides[0]
        at = self.states.print_of((change.label, change.key))
        windows = [committed.windows[n][1] for n in rows[at].windows] if at in rows else []
        return windows[-1].rows[0].run if windows else ""

    def _relevant(self, label: str) -> list[str]:
        """The changed parts that may change rows of a label."""
        if label not in self._upstream:
            sinks = [sink for sink in self.plan.writes if sink.label.name == label]
            steps = {node.step for node in walk(*sinks)}
            self._upstream[label] = [
                part for part in self._parts if " of " not in part or part.split(" of ")[1] in steps
            ]
        return self._upstream[label]
