"""Runs of a checked plan over typed rows, with a result and a record."""

from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa

from semgraph.errors import PlanError, Problem, did_you_mean
from semgraph.execution.executor import Executor
from semgraph.execution.observations import ObservationFile, Observations
from semgraph.execution.record import (
    ROW_ID,
    CallLog,
    RunLineage,
    RunRecord,
    new_run,
    timestamp,
)
from semgraph.execution.result import (
    OnProgress,
    Progress,
    Result,
    RunOptions,
    RunOutcome,
    result_table,
)
from semgraph.execution.runtime import NoRecord, Opened, Runtime, embeds
from semgraph.execution.uniform import Uniform
from semgraph.frontend.load import dump
from semgraph.llm.base import Usage
from semgraph.llm.stack import bound
from semgraph.logical.node import Node, walk
from semgraph.logical.plan import LogicalPlan
from semgraph.logical.search import Search
from semgraph.logical.semantic import OnError, Semantic
from semgraph.meter import Meter
from semgraph.optimizer import optimized
from semgraph.physical.plan import PhysicalPlan
from semgraph.physical.planner import compile_plan
from semgraph.provenance import flow
from semgraph.redaction import redacted
from semgraph.relational.batch import Batch
from semgraph.semantic.ask import Answered
from semgraph.semantic.library import Library
from semgraph.session.resources import Resources
from semgraph.session.resume import Resumed, keep_inputs
from semgraph.stores.base import Migratable, open_for_reading


@dataclass(frozen=True)
class RunRequest:
    """A plan, its rows and the options of a run; see `Session.arun`."""

    plan: LogicalPlan
    inputs: Mapping[str, pa.Table]
    until: str | None = None
    again: bool = False
    fresh: bool = False
    write: bool = True
    on_error: OnError | None = None
    progress: OnProgress | None = None
    runs: Path | None = None
    record_to: str | Path | None = None
    sample: bool = False  # a few rows of many
    begun: Callable[[str], object] | None = None  # called with the id of the run
    notes: tuple[str, ...] = ()

    def continuing(self, earlier: Resumed) -> RunRequest:
        """This request, with unset options from the resumed run."""
        options = earlier.merged(
            until=self.until, write=self.write, again=self.again, on_error=self.on_error
        )
        return replace(self, **options, notes=earlier.changed_functions(self.plan))


async def run_plan(request: RunRequest, resources: Resources) -> Result:
    """Run a plan with the resources of a session."""
    logical = _trimmed(request)
    if not (request.plan.writes or request.plan.schema) and any(
        node.reads_store for node in walk(*logical.roots)
    ):
        resources.need_graph()
    record_to = Path(request.record_to) if request.record_to else None
    with _few_collections():
        async with resources.open(logical, fresh=request.fresh, record_to=record_to) as opened:
            return await _run_with(request, logical, resources, opened)


async def _run_with(
    request: RunRequest, logical: LogicalPlan, resources: Resources, opened: Opened
) -> Result:
    library = Library(resources.settings.operators)
    limits = {role: bound(opened.llm, role).limits for role in _roles(logical)}
    physical = compile_plan(optimized(logical, request.inputs), opened.store, library, limits)
    _require_prices(physical.logical, opened)
    await _ensure(physical, opened, write=request.write)
    notes = await _migrate(physical.logical, opened, write=request.write and request.until is None)
    notes = [*map(str, logical.warnings), *request.notes, *notes]
    return await RunHandle(request, physical, opened, resources, notes).run()


_ALLOCATIONS = 50_000  # between collections
_DEFAULT = 700  # CPython's


@contextmanager
def _few_collections() -> Iterator[None]:
    """Let Python collect cyclic garbage less often: the rows and requests of a wave live until it is
    committed, and each collection would traverse them. A threshold that the program has set stays.
    """
    first, *others = gc.get_threshold()
    if first != _DEFAULT:
        yield
        return
    gc.set_threshold(_ALLOCATIONS, *others)
    try:
        yield
    finally:
        gc.set_threshold(first, *others)


def _roles(plan: LogicalPlan) -> set[str]:
    return {node.prompt.first.role for node in walk(*plan.roots) if isinstance(node, Semantic)}


def _require_prices(plan: LogicalPlan, opened: Opened) -> None:
    """Refuse a limit in dollars if a model of the plan has no price, before anything is spent. Raises
    PlanError.
    """
    for role in sorted(_roles(plan)):
        model = bound(opened.llm, role)
        opened.budget.require_price(model.name, model.dollars(Usage(1, 0, 1)))
    if embeds(plan):
        opened.budget.require_price(opened.embedder.name, opened.embedder.dollars(Usage(1)))


def _trimmed(request: RunRequest) -> LogicalPlan:
    """The plan up to `until`, with `on_error` in place of each step's own."""
    plan = request.plan
    if request.until is not None:
        if request.until not in plan.steps:
            there = "steps: " + ", ".join(plan.steps)
            hint = did_you_mean(request.until, plan.steps)
            raise PlanError(
                Problem(f'plan {plan.name} has no step "{request.until}"', there=there, hint=hint)
            )
        plan = replace(plan, writes=(), returns={request.until: plan.steps[request.until]})
    if request.on_error is not None:
        plan = _with_on_error(plan, request.on_error)
    return plan


def _with_on_error(plan: LogicalPlan, on_error: OnError) -> LogicalPlan:
    from semgraph.logical.node import rewrite

    def change(node: Node) -> Node:
        return replace(node, on_error=on_error) if isinstance(node, Semantic) else node

    roots = rewrite(plan.roots, change)
    count = len(plan.writes)
    writes: Any = roots[:count]
    return replace(plan, writes=writes, returns=dict(zip(plan.returns, roots[count:], strict=True)))


async def _ensure(physical: PhysicalPlan, opened: Opened, *, write: bool) -> None:
    """Create missing parts of the store if the plan writes; refuse an embedder with vectors of
    another length.
    """
    plan, store = physical.logical, opened.store
    if plan.schema is None and not any(node.reads_store for node in walk(*plan.roots)):
        return
    length = await opened.vector_length(plan)
    if write and (plan.writes or plan.schema):
        await store.ensure(plan.graph, length)
    else:
        await open_for_reading(store, plan.graph, length)


def _own_scores(plan: LogicalPlan) -> list[str]:
    """A note if a plan reads the score of a search with one method, which was fused before 0.2."""
    steps = [
        node.step
        for node in walk(*plan.roots)
        if isinstance(node, Search) and len(node.methods) == 1 and node.fuse == "rrf"
        if node.fields is None or "score" in node.fields
    ]
    named = ", ".join(dict.fromkeys(steps))
    note = (
        f"score in {named} is that of the only method, no longer 1 / (rank + 1): write fuse: none"
    )
    return [note] if steps else []


async def _migrate(plan: LogicalPlan, opened: Opened, *, write: bool) -> list[str]:
    """Write the schema, if the plan does. Returns notes on the changes, or on what the store lacks."""
    store = opened.store
    if not isinstance(store, Migratable):
        return []
    if plan.schema is None or not write:
        equal = (
            (n.label, by.prop)
            for n in walk(*plan.roots)
            if isinstance(n, Search)
            for by in n.methods
            if by.via == "equal"
        )
        await store.check_derived(place for place in equal if place[0])
        return list(store.notes)
    vectors = any(label.vectors for label in plan.graph.labels.values())
    stored = next(iter((await store.statistics()).dimensions.values()), None) if vectors else None
    length = stored or (await opened.embedder.dimensions() if vectors else None)
    return await store.migrate(plan.graph, length, drop=plan.schema.drop) or [
        "the store lacks nothing that the graph needs"
    ]


class _Recorder:
    """The rows, failed rows and calls of a run record, written before and after a window is
    committed.
    """

    def __init__(
        self, record: RunRecord, calls: CallLog | None, set_aside: Callable[[], None]
    ) -> None:
        self.begin, self.take_back = record.begin, record.take_back
        self._record, self._calls, self._set_aside = record, calls, set_aside

    def keep(self) -> None:
        """See `RowRecorder.keep`."""
        self._record.keep()
        self._set_aside()
        if self._calls is not None:
            self._calls.flush()

    def end(self) -> None:
        """See `RowRecorder.end`."""
        self._record.end()
        self._set_aside()

    def windows(self, rows: Iterable[tuple[str, Sequence[int]]]) -> None:
        """See `RowRecorder.windows`."""
        lines = ({"partition": partition, "rows": list(own)} for partition, own in rows)
        self._record.lines("windows.jsonl", lines)


RunState = Literal["new", "running", "done", "budget", "failed", "interrupted"]


class RunHandle:
    """One run: its id, state, record and, when it is done, result."""

    def __init__(
        self,
        request: RunRequest,
        physical: PhysicalPlan,
        opened: Opened,
        resources: Resources,
        notes: Sequence[str],
    ) -> None:
        self.state: RunState = "new"
        self.result: Result | None = None
        self.notes = notes
        self.request, self.physical, self.opened = request, physical, opened
        self.meter = Meter()
        runs = request.runs
        self.id = new_run(runs or Path())
        self.record = RunRecord(runs / self.id) if runs is not None else None
        sizes = {name: table.num_rows for name, table in request.inputs.items()}
        self.lineage = RunLineage(self.record, sizes) if self.record is not None else None
        self.calls = (
            CallLog(self.record, texts=opened.journal is not None)
            if self.record is not None
            else None
        )
        if request.begun is not None:
            request.begun(self.id)
        self.observations = Observations(physical, request.sample)
        self.reported: dict[str, None] = {}  # notes of implementations
        self.uniform = Uniform()
        self.asked: dict[str, tuple[int, int]] = {}  # answered rows and all asked rows, by step
        self.outcome = RunOutcome()
        # Input rows in `failed.jsonl`; without windows, numbers of failures.
        self.in_file: set[int] = set()
        self.last = physical.named()
        self.settings = {
            # No letter of a key is recorded.
            key: {"value": "set" if key.endswith("_KEY") else value, "origin": origin}
            for key, value, origin in resources.settings.rows()
        }

    async def run(self) -> Result:
        """Run the plan and record the outcome."""
        logical = self.physical.logical
        fingerprint = self.request.plan.fingerprint
        llm = self.calls.noted(self.opened.llm) if self.calls is not None else self.opened.llm
        runtime = Runtime(
            self.physical, llm, self.opened.embedder, self.opened.store, self.meter,
            observe=self._observe, answered=self._answered, asking=self._asking,
            note=self._note, observations=self.observations,
            remembers=self.opened.journal is None or self.request.fresh,
            lineage=self.lineage,
            recorder=NoRecord() if self.record is None else _Recorder(self.record, self.calls, self._set_aside),
        )  # fmt: skip
        write = self.request.write and self.request.until is None
        options = RunOptions(
            self.id, self.opened.now, self.request.again, write, fingerprint, self._committed
        )
        executor = Executor(runtime, options)
        self.outcome = executor.outcome
        self.outcome.notes += [*self.notes, *_own_scores(logical)]
        self._describe(
            status="running", started=timestamp(), plan=logical.name, fingerprint=fingerprint,
            flow=flow(logical), key=logical.graph.key, order=logical.windows.input if logical.windows else None,
            journal=str(self.opened.journal.path) if self.opened.journal else None,
            ids=self.lineage.first if self.lineage is not None else None,
            returns={name: node.step for name, node in logical.returns.items()},
            graph={"partition": logical.graph.partition, "draw": asdict(logical.graph.draw)},
        )  # fmt: skip
        self.state = "running"
        try:
            outcome = await executor.run(self.request.inputs)
            outcome.notes += runtime.loop_notes()
        except BaseException as error:
            interrupted = isinstance(error, (asyncio.CancelledError, KeyboardInterrupt))
            self.state = "interrupted" if interrupted else "failed"
            self._finish(executor.outcome, redacted(str(error)))
            raise
        self.state = "budget" if outcome.stopped else "done"
        self._finish(outcome, outcome.stopped)
        self.result = self._result(outcome)
        return self.result

    def _describe(self, **facts: Any) -> None:
        if self.record is None:
            return
        plan = self.request.plan
        if not (self.record.folder / "plan.yaml").exists():
            self.record.text("plan.yaml", dump(plan))
            keep_inputs(self.record.folder, self.request.inputs)
        use = {step: str(choice) for step, choice in {**plan.use, **plan.replaced}.items()}
        request = self.request
        asked = {
            "until": request.until,
            "write": request.write,
            "again": request.again,
            "on_error": request.on_error,
        }
        self.record.describe(
            semgraph=version("semgraph"), run=self.id, file=plan.file, params=dict(plan.params), use=use, asked=asked,
            functions=plan.functions,
            settings=self.settings, **facts,
        )  # fmt: skip

    def _observe(self, node: Node, rows: Batch) -> None:
        """Record the rows of a node that is the last of its step."""
        if self.record is not None and rows.num_rows and self.last.get(node.step) is node:
            ids = pa.array(rows.ids or (), pa.int64())
            self.record.rows("steps", node.step, rows.table.append_column(ROW_ID, ids))

    def _answered(self, node: Node, answered: Answered) -> None:
        self.opened.answered(node, answered)
        if answered.evidence is not None:
            self.uniform.add(node, answered.evidence)
        if self.record is not None and answered.evidence is not None:
            self.record.rows("answers", node.step, answered.evidence)

    def _note(self, text: str) -> None:
        self.reported[text] = None

    def _asking(self, node: Node, rows: int) -> None:
        """Count rows of a step that are asked about (positive) or answered (negative)."""
        done, total = self.asked.get(node.step, (0, 0))
        done, total = self.asked[node.step] = (
            (done, total + rows) if rows > 0 else (done - rows, total)
        )
        if self.request.progress is not None and rows:
            self.request.progress(Progress(node.step, done, total, self.meter))

    def _committed(self, done: int, total: int) -> None:
        if self.request.progress is not None:
            self.request.progress(Progress("", done, total, self.meter))

    def _finish(self, outcome: RunOutcome, why: str | None) -> None:
        outcome.notes += [
            *self.reported,
            *self.uniform.notes(self.id if self.record is not None else ""),
        ]
        memory = ObservationFile.beside(self.opened.journal.path if self.opened.journal else None)
        if memory is not None:
            memory.add(self.observations.useful)
            if memory.note:
                outcome.notes.append(memory.note)
        if self.record is None:
            return
        self.record.flush()
        if self.calls is not None:
            self.calls.flush()
        self._set_aside()
        steps = {name: step.as_dict() for name, step in self.meter.steps.items()}
        operators = {
            name: [part.as_dict() for part in parts]
            for name, parts in self.meter.operators().items()
        }
        counted = {"total": self.meter.total().as_dict(), "steps": steps, "operators": operators}
        self.record.text("metrics.json", json.dumps(counted, indent=1))
        members = len(outcome.input_rows.keys) if outcome.input_rows else 0
        self._describe(
            status=self.state, ended=timestamp(), why=why, written=outcome.written, notes=outcome.notes,
            members={"given": members, "skipped": outcome.skipped, "committed": outcome.committed},
        )  # fmt: skip

    def _set_aside(self) -> None:
        """Write failed rows that are not in `failed.jsonl` yet, so that they survive the process."""
        if self.record is not None:
            failed = self._failed_rows()
            self.record.failed(failed[number] for number in sorted(failed.keys() - self.in_file))
            self.in_file |= failed.keys()

    def _failed_rows(self) -> dict[int, dict[str, Any]]:
        """The original input rows that failed; without windows the failed rows themselves, by
        number.
        """
        windowing, outcome = self.physical.logical.windows, self.outcome
        if windowing is None or outcome.input_rows is None:
            return {
                n: {**f.row, "_step": f.step, "_error": f.error}
                for n, f in enumerate(outcome.failures)
            }
        first = {f.input_row: f for f in reversed(outcome.failures)}
        rows = self.request.inputs[windowing.input]
        return {
            m: {
                **rows.slice(m, 1).to_pylist()[0],
                "_step": first[m].step,
                "_error": first[m].error,
            }
            for m in outcome.failed_rows - self.in_file
        }

    def _result(self, outcome: RunOutcome) -> Result:
        logical = self.physical.logical
        code = 4 if outcome.stopped else 1 if outcome.halted else 3 if outcome.failures else 0
        return Result(
            plan=logical.name,
            run=self.id,
            tables={
                name: result_table(node, outcome.tables.get(name, []))
                for name, node in logical.returns.items()
            },
            meter=self.meter,
            failed=tuple(outcome.failures),
            written=outcome.written,
            members=len(outcome.input_rows.keys) if outcome.input_rows else 0,
            skipped=outcome.skipped,
            committed=outcome.committed,
            keys=tuple(outcome.input_rows.keys) if outcome.input_rows else (),
            notes=tuple(outcome.notes),
            stopped=outcome.stopped,
            record=self.record.folder if self.record else None,
            exit_code=code,
        )
