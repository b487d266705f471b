"""Runs of a checked plan over typed rows, with a result and a record."""

from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pyarrow as pa

from semgraph.display import is_noticed, notice
from semgraph.errors import EngineError, PlanError, SemgraphError, among
from semgraph.execution.executor import Executor
from semgraph.execution.observations import Observations, Seen, pace_key
from semgraph.execution.outcome import ExecutorOptions, RunOutcome
from semgraph.execution.record import (
    RAN,
    ROW_ID,
    WRITTEN,
    CallLog,
    Run,
    RunLineage,
    RunRecord,
    new_run,
    noted,
    timestamp,
)
from semgraph.execution.result import (
    RESULTS,
    Progress,
    RecordedRows,
    RecordedTables,
    Result,
    ResultSource,
    exit_code,
    keep_sources,
    result_rows,
)
from semgraph.execution.runtime import (
    Opened,
    RowRecorder,
    Runtime,
    batched_operators,
    require_prices,
)
from semgraph.execution.uniform import Uniform
from semgraph.execution.windows import RecordedWindow
from semgraph.explain.estimates import Estimator, Forecast, how_long
from semgraph.expr.canonical import canonical
from semgraph.formats import plural
from semgraph.frontend.load import dump
from semgraph.llm.base import LLM
from semgraph.llm.stack import bound
from semgraph.logical.iterate import Round
from semgraph.logical.node import Node, rewrite, walk
from semgraph.logical.plan import LogicalPlan, models_of
from semgraph.logical.search import Search
from semgraph.logical.semantic import OnError, Semantic
from semgraph.meter import Meter
from semgraph.optimizer import optimized, with_roots
from semgraph.options import RunOptions
from semgraph.physical.plan import PhysicalPlan
from semgraph.physical.planner import compile_plan
from semgraph.privacy import redacted
from semgraph.relational.batch import INPUT_ROW, PARTITION, Batch, runtime_schema
from semgraph.semantic.ask import Answered, Failure
from semgraph.semantic.library import Library
from semgraph.session.resources import Resources
from semgraph.session.resume import keep_inputs
from semgraph.stores.base import Store
from semgraph.stores.writes import fingerprint


@dataclass(frozen=True)
class Share:
    """A share of a run: the rows of some partitions. Another run request merges it into the result
    and record of the whole run. Rows are recorded and reported by their position in the whole
    input.

    Args:
        run: Id of the share and name of its record; its commit markers carry it.
        folder: The record of the share; None: no record.
        input: The divided input; the other inputs are whole.
        places: The position of each of its rows in the whole input, ascending; None: its input rows
            are those that other shares made.
        sizes: The number of rows of each whole input.
        skip: The number of ids of made rows that other shares may use.
        ids: Ids of input rows that other shares have made.
        unrecorded: Steps whose rows other shares record.
        now: The time of a plan without windows; None: this share's own time.
    """

    run: str
    folder: Path | None
    input: str
    places: Sequence[int] | None
    sizes: Mapping[str, int]
    skip: int = 0
    ids: Mapping[str, Sequence[int]] = field(default_factory=dict)
    unrecorded: frozenset[str] = frozenset()
    now: datetime | None = None


@dataclass(frozen=True)
class RunRequest:
    """A plan, its rows and the options of a run; see `Session.arun`."""

    plan: LogicalPlan
    inputs: Mapping[str, pa.Table]
    options: RunOptions = RunOptions()
    runs: Path | None = None
    sample: bool = False  # a few rows of many
    notes: tuple[str, ...] = ()
    share: Share | None = None  # None: the whole run
    resumed: tuple[Path, ...] = ()  # records of earlier runs over the same rows
    windows: tuple[RecordedWindow, ...] = ()  # windows to compute again, in place of new ones
    kind: str = RAN  # in its record

    @property
    def places(self) -> Sequence[int] | None:
        """The position of each row of a share in the whole input; None: rows keep their numbers."""
        return self.share.places if self.share is not None else None

    def places_of(self, rows: Sequence[int]) -> Sequence[int]:
        """The positions of input rows in the whole input."""
        return rows if self.places is None else [self.places[row] for row in rows]

    def column_of(self, rows: pa.ChunkedArray[Any]) -> Any:
        """The positions of a column of input rows in the whole input."""
        return rows if self.places is None else pa.chunked_array([self.places]).take(rows)


async def run_plan(request: RunRequest, resources: Resources) -> Result:
    """Run a plan with the resources of a session."""
    logical = trimmed(request)
    _need_graph(request.plan, logical, resources)
    options = request.options
    made_up = resources.made_up(logical, writes=options.writes)
    with _few_collections():
        opening = resources.open(logical, fresh=options.fresh, record_to=options.record_to)
        async with opening as opened:
            physical, notes = await _prepared(request, logical, resources, opened)
            notes = [*map(str, logical.warnings), *request.notes, *made_up, *notes]
            return await PlanRun(request, physical, opened, resources, notes).run()


def _need_graph(plan: LogicalPlan, logical: LogicalPlan, resources: Resources) -> None:
    """Refuse to read a store that does not exist. Raises StoreUnavailable."""
    if logical.uses_store and not (plan.writes or plan.schema_write):
        resources.need_graph()


async def _prepared(
    request: RunRequest, logical: LogicalPlan, resources: Resources, opened: Opened
) -> tuple[PhysicalPlan, list[str]]:
    """The compiled plan, and notes on the store, in which missing parts are created first."""
    made = request.share.ids if request.share is not None else ()  # as steps, not as inputs
    inputs = {name: table for name, table in request.inputs.items() if name not in made}
    physical = compiled(logical, inputs, opened.store, opened.llm, resources)
    require_prices(physical.logical, opened.budget, opened.llm, opened.embedder)
    await _ensure(physical, opened, write=request.options.write)
    notes = await _migrate(physical.logical, opened, write=request.options.writes)
    return physical, notes


def compiled(
    plan: LogicalPlan,
    inputs: Mapping[str, pa.Table],
    store: Store,
    llm: LLM,
    resources: Resources,
) -> PhysicalPlan:
    """A plan over these inputs, compiled for a store and the models of a session. Raises PlanError."""
    limits = {role: bound(llm, role).limits for role in plan.needs.roles}
    library = Library(resources.settings.operators)
    return compile_plan(optimized(plan, inputs), store, library, limits)


async def prepare_store(request: RunRequest, resources: Resources) -> None:
    """Do the shared work once, before several runs use a plan and a store: refuse an invalid plan,
    and create missing parts of the store. Raises as `run_plan`.
    """
    logical = trimmed(request)
    _need_graph(request.plan, logical, resources)
    resources.made_up(logical, writes=request.options.writes)
    async with resources.open(logical, fresh=request.options.fresh) as opened:
        await _prepared(request, logical, resources, opened)


_ALLOCATIONS = 50_000  # between two collections


@contextmanager
def _few_collections() -> Iterator[None]:
    """Make Python collect cyclic garbage less often: the rows and requests of a wave live until its
    commit, and each collection would traverse them. A higher threshold stays; so does 0.
    """
    first, *others = gc.get_threshold()
    if not 0 < first < _ALLOCATIONS:
        yield
        return
    gc.set_threshold(_ALLOCATIONS, *others)
    try:
        yield
    finally:
        gc.set_threshold(first, *others)


def trimmed(request: RunRequest) -> LogicalPlan:
    """The plan up to `until`, with the request's `on_error` instead of each step's."""
    plan, until, on_error = request.plan, request.options.until, request.options.on_error
    if until is not None:
        if until not in plan.steps:
            what = f'plan {plan.name} has no step "{until}"'
            raise PlanError(what, **among(until, plan.steps, "steps"))
        plan = replace(plan, writes=(), returns={until: plan.steps[until]})
    if on_error not in {None, *get_args(OnError)}:
        raise PlanError(f"on_error is {on_error!r}: use one of {', '.join(get_args(OnError))}")
    if on_error is not None:

        def change(node: Node) -> Node:
            return replace(node, on_error=on_error) if isinstance(node, Semantic) else node

        plan = with_roots(plan, rewrite(plan.roots, change))
    return plan


async def _ensure(physical: PhysicalPlan, opened: Opened, *, write: bool) -> None:
    """Create missing parts of the store if the plan writes. Refuse an embedder with vectors of
    another length.
    """
    plan, store = physical.logical, opened.store
    if plan.schema_write is None and not plan.uses_store:
        return
    length = await opened.vector_length(plan)
    if write and (plan.writes or plan.schema_write):
        await store.ensure(plan.graph, length)
    else:
        await store.attach(plan.graph, length)


def _without_batches(plan: PhysicalPlan, llm: LLM) -> list[str]:
    """A note if a model sends batches and no step that calls it runs ahead."""
    if batched_operators(plan, llm) or not any(
        bound(llm, r).limits.batch for r in plan.logical.needs.roles
    ):
        return []
    name = plan.logical.name
    return [
        f"batch=true had no effect: every step of {name} that asks the model waits for earlier windows"
    ]


async def _migrate(plan: LogicalPlan, opened: Opened, *, write: bool) -> list[str]:
    """Write the schema if the plan writes. Returns notes on changes, or on missing parts."""
    store = opened.store
    if plan.schema_write is None or not write:
        searches = (node for node in walk(*plan.roots) if isinstance(node, Search))
        equal = ((n.label, by.prop) for n in searches for by in n.methods if by.via == "equal")
        await store.check_derived(place for place in equal if place[0])
        return list(store.notes)
    vectors = any(label.vectors for label in plan.graph.labels.values())
    stored = next(iter((await store.statistics()).dimensions.values()), None) if vectors else None
    length = stored or (await opened.embedder.dimensions() if vectors else None)
    return await store.migrate(plan.graph, length, drop=plan.schema_write.drop) or [
        "the store lacks nothing that the graph needs"
    ]


class _Recorder(RowRecorder):
    """The record of a run: its facts, rows, failed rows and calls. Rows are recorded by their
    positions in the whole input, before and after their window is committed.
    """

    keeps_results = True

    def __init__(
        self, request: RunRequest, physical: PhysicalPlan, folder: Path, *, texts: bool
    ) -> None:
        self.record = RunRecord(folder)
        self.calls = CallLog(self.record, texts=texts)
        if (share := request.share) is None:
            sizes = {name: table.num_rows for name, table in request.inputs.items()}
            self.lineage = RunLineage(self.record, sizes)
        else:
            places = {} if share.places is None else {share.input: share.places}
            self.lineage = RunLineage(self.record, share.sizes, places, share.skip, share.ids)
        self.outcome = RunOutcome()
        self._request, self._windows = request, physical.logical.windows
        self._seen = 0  # failures already checked for `failed.jsonl`
        self._in_file: set[int] = set()  # input rows in `failed.jsonl`
        others = share.unrecorded if share is not None else ()
        self._last = {name: node for name, node in physical.named().items() if name not in others}

    def describe(self, **facts: Any) -> None:
        """Record facts, and once the plan and its rows."""
        request = self._request
        if not (self.record.folder / "plan.yaml").exists():
            self.record.text("plan.yaml", dump(request.plan))
            if request.share is None:  # the record of the whole run has the rows of a share
                keep_inputs(self.record.folder, request.inputs)
        self.record.describe(**asked_facts(request), **facts)

    def begin(self) -> None:
        """See `RowRecorder.begin`."""
        self.record.begin()

    def take_back(self) -> None:
        """See `RowRecorder.take_back`."""
        self.record.take_back()

    def keep(self) -> None:
        """See `RowRecorder.keep`."""
        self.record.keep()
        self._set_aside()
        self.calls.flush()

    def end(self) -> None:
        """See `RowRecorder.end`."""
        self.record.end()
        self._set_aside()

    def flush(self) -> None:
        """Write everything, at the end of the run."""
        self.record.flush()
        self.calls.flush()
        self._set_aside()

    def windows(self, rows: Iterable[tuple[str, Sequence[int]]]) -> None:
        """See `RowRecorder.windows`."""
        places_of = self._request.places_of
        lines = ({"partition": name, "rows": list(places_of(own))} for name, own in rows)
        self.record.lines("windows.jsonl", lines)

    def result(self, name: str, rows: pa.Table) -> None:
        """See `RowRecorder.result`."""
        self.record.rows(RESULTS, name, self._placed(rows))

    def written(self, label: str, rows: pa.Table) -> None:
        """See `RowRecorder.written`."""
        self.record.rows(WRITTEN, label, rows)

    def record_rows(self, node: Node, rows: Batch) -> None:
        """Record the rows of a node if it is the last of its step."""
        if rows.num_rows and self._last.get(node.step) is node:
            ids = pa.array(rows.ids or (), pa.int64())
            table = self._placed(rows.table)
            self.record.rows("steps", node.step, table.append_column(ROW_ID, ids))

    def answers(self, node: Node, evidence: pa.Table) -> None:
        """Record the answers of a node."""
        self.record.rows("answers", node.step, self._placed(evidence))

    def _placed(self, table: pa.Table) -> pa.Table:
        """Rows with the positions of their input rows in the whole input instead of their
        numbers.
        """
        if self._request.places is None:
            return table
        for name in (INPUT_ROW, PARTITION):
            if name in table.column_names:
                at = table.column_names.index(name)
                table = table.set_column(at, name, self._request.column_of(table.column(name)))
        return table

    def _set_aside(self) -> None:
        """Write the input rows that `failed.jsonl` does not have yet, each with its first failure, so
        that they survive the process. Without windows: the failed rows themselves.
        """
        windowing, failures = self._windows, self.outcome.failures[self._seen :]
        self._seen += len(failures)
        if windowing is None or self.outcome.input_rows is None:
            self.record.failed((f, f.row) for f in failures)
            return
        first: dict[int, Failure] = {}
        for failure in failures:
            if failure.input_row is not None and failure.input_row not in self._in_file:
                first.setdefault(failure.input_row, failure)
        self._in_file |= first.keys()
        rows = self._request.inputs[windowing.input]
        self.record.failed((f, f.row) for f in failures if f.input_row is None)
        self.record.failed((f, rows.slice(m, 1).to_pylist()[0]) for m, f in sorted(first.items()))


def asked_facts(request: RunRequest) -> dict[str, Any]:
    """The facts of a request for a record, from which the run can be resumed."""
    plan = request.plan
    return {
        "semgraph": version("semgraph"),
        "file": plan.file,
        "params": dict(plan.params),
        "use": {step: str(choice) for step, choice in {**plan.use, **plan.replaced}.items()},
        "chosen_models": models_of(plan.asked),
        "allow": plan.allow,
        "filters": plan.order,
        "prompts": dict(plan.prompts),
        "kind": request.kind,
        "asked": request.options.recorded,
        "functions": plan.functions,
        "resumed": [folder.name for folder in request.resumed],
    }


def record_metrics(record: RunRecord, meter: Meter) -> None:
    """Write the counters of a run into its record."""
    record.text("metrics.json", json.dumps(meter.as_dict(), indent=1))


def parts_of(request: RunRequest, resources: Resources) -> dict[str, str]:
    """The fingerprints of what rows are made by, by name: prompts, models and implementations of
    steps, parameters, functions, and inputs without windows.
    """
    plan, windows = request.plan, request.plan.windows
    if windows is None or not plan.writes:  # no marker names them
        return {}
    parts: dict[str, Any] = {f"parameter {n}": value for n, value in plan.params.items()}
    parts |= {f"function {name}": digest for name, digest in plan.functions.items()}
    for name, table in request.inputs.items():
        if name != windows.input:
            parts[f"input {name}"] = table.to_pylist()
    if plan.needs.embeds:
        parts["embedder"] = resources.embedder_name
    for node in walk(*plan.roots):
        if not isinstance(node, Semantic):
            continue
        parts[f"implementation of {node.step}"] = str(plan.choice(node.step) or "")
        answered = plan.answered(node)
        for prompt in answered.prompt.all if isinstance(answered, Semantic) else ():
            model = parts.setdefault(f"model of {node.step}", [])
            model.append(resources.name_of(prompt.role))
            texts = parts.setdefault(f"prompt {prompt.name} of {node.step}", [])
            texts.append([prompt.digest or prompt.canonical_text, canonical(prompt.shown)])
    return {name: fingerprint(value) for name, value in parts.items()}


def plan_facts(logical: LogicalPlan, fingerprint: str, resources: Resources) -> dict[str, Any]:
    """The facts of an optimized plan for a record: also the model that answers each step."""
    names: dict[str, dict[str, None]] = {}  # by step, each once
    # what steps and writes read directly; loops, in their rounds too
    flow: dict[str, dict[str, None]] = {}
    for node in walk(*logical.roots):
        read = (source.step for source in node.inputs if not isinstance(source, Round))
        flow.setdefault(node.step, {}).update(dict.fromkeys(s for s in read if s != node.step))
        if isinstance(node, Semantic):
            roles = (prompt.role for prompt in node.prompt.all)
            names.setdefault(node.step, {}).update(dict.fromkeys(map(resources.name_of, roles)))
    return {
        "plan": logical.name,
        "fingerprint": fingerprint,
        "models": {step: ", ".join(each) for step, each in names.items()},
        "flow": {step: list(reads) for step, reads in flow.items() if step},
        "key": logical.graph.key,
        "order": logical.windows.input if logical.windows else None,
        "returns": {name: node.step for name, node in logical.returns.items()},
        "graph": {
            "partition": logical.graph.partition,
            "draw": asdict(logical.graph.draw),
            "labels": {
                name: {"kind": label.kind, "draw": asdict(logical.graph.drawn(name))}
                for name, label in logical.graph.labels.items()
            },
        },
    }


class PlanRun:
    """One run: its id, its record and its outcome. The recorder is None if no record is kept."""

    def __init__(
        self,
        request: RunRequest,
        physical: PhysicalPlan,
        opened: Opened,
        resources: Resources,
        notes: Sequence[str],
    ) -> None:
        self.request, self.physical, self.opened = request, physical, opened
        self.resources, self.notes = resources, notes
        self.noted_before = {*notes, *opened.store.notes}
        self.meter, self.uniform = Meter(), Uniform()
        if request.share is not None:
            self.id, folder = request.share.run, request.share.folder
        else:
            self.id = new_run(request.runs or Path())
            folder = None if request.runs is None else request.runs / self.id
        self.recorder: _Recorder | None = None
        if folder is not None:
            texts = opened.journal is not None
            self.recorder = _Recorder(request, physical, folder, texts=texts)
        if request.options.begun is not None:
            request.options.begun(self.id)
        self.observations = Observations(physical, resources.models, request.sample)
        self.asked: dict[str, tuple[int, int]] = {}  # answered rows and all asked rows, by step
        self.outcome = RunOutcome()

    async def run(self) -> Result:
        """Run the plan and record the outcome."""
        logical = self.physical.logical
        fingerprint = self.request.plan.fingerprint
        recorder = self.recorder
        runtime = Runtime(
            self.physical, self.opened.llm, self.opened.embedder, self.opened.store, self.meter,
            answered=self._answered, asking=self._asking, observations=self.observations,
            remembers=self.opened.journal is None
            or self.request.options.fresh
            or any(window.fresh for window in self.request.windows),
            may_batch_requests=not self.request.sample,
        )  # fmt: skip
        if recorder is not None:
            runtime.llm, runtime.recorder = noted(runtime.llm, recorder.calls.add), recorder
            runtime.lineage = recorder.lineage
        asked, share = self.request.options, self.request.share
        now = (lambda _: share.now) if share is not None and share.now else self.opened.now
        options = ExecutorOptions(
            self.id, now, asked.again, asked.writes, fingerprint,
            parts_of(self.request, self.resources), self.request.windows, partial(self._report, ""),
            self.request.places, share is not None,
        )  # fmt: skip
        executor = Executor(runtime, options)
        self.outcome = executor.outcome
        if recorder is not None:
            recorder.outcome = executor.outcome
        self.outcome.notes += [*self.notes, *_without_batches(self.physical, self.opened.llm)]
        self._describe(
            status="running", started=timestamp(), **plan_facts(logical, fingerprint, self.resources),
            journal=str(self.opened.journal.path) if self.opened.journal else None,
            ids=recorder.lineage.first if recorder is not None else None,
            sizes=recorder.lineage.sizes if recorder is not None else None,
        )  # fmt: skip
        if logical.windows is None:
            self._foresee()
        try:
            outcome = await executor.run(self.request.inputs)
            outcome.notes += runtime.loop_notes()
        except BaseException as error:
            interrupted = isinstance(error, (asyncio.CancelledError, KeyboardInterrupt))
            await self._finish("interrupted" if interrupted else "failed", redacted(str(error)))
            raise
        await self._finish("budget" if outcome.stopped else "done", outcome.stopped)
        return self._result(outcome)

    def _describe(self, **facts: Any) -> None:
        if self.recorder is not None:
            settings = self.resources.settings.facts
            self.recorder.describe(run=self.id, settings=settings, **facts)

    def _answered(self, node: Node, answered: Answered) -> None:
        self.opened.answered(node, answered)
        if answered.evidence is not None:
            self.uniform.add(node, answered.evidence)
            if self.recorder is not None:
                self.recorder.answers(node, answered.evidence)

    def _asking(self, node: Node, rows: int) -> None:
        """Count rows that a step asks about (positive) or that are answered (negative)."""
        done, total = self.asked.get(node.step, (0, 0))
        done, total = self.asked[node.step] = (
            (done, total + rows) if rows > 0 else (done - rows, total)
        )
        if rows:
            self._report(node.step, done, total)

    def _report(self, step: str, done: int, total: int) -> None:
        """Report progress. An exit ends this run: it would end the event loop of other runs,
        too.
        """
        if not step and not done:
            self._foresee(total)
        progress = self.request.options.progress
        if progress is None:
            return
        try:
            progress(Progress(step, done, total, self.meter))
        except SystemExit as error:
            what = f"the progress callback called sys.exit({error.code}); another exception stops a run, too"
            raise EngineError(what) from None

    def _foresee(self, pending: int | None = None) -> None:
        """Show how long the calls will take, of the input rows that the graph lacks, if that is long."""
        if not is_noticed():
            return
        inputs, plan = self.request.inputs, self.physical.logical
        if plan.windows is not None:
            inputs = {**inputs, plan.windows.input: inputs[plan.windows.input].slice(0, pending)}
        estimator = Estimator.over(self.physical, inputs, self.resources.observations(), None)
        rows = max((table.num_rows for table in inputs.values()), default=0)
        calls = Forecast(estimator).calls_by_model(self.opened.llm)
        line = how_long(calls, estimator.seen, pending or rows)
        replays = line and self.opened.journal is not None and not self.request.options.fresh
        notice("estimate", line + ", less what is in the journal" * bool(replays))

    async def _finish(self, status: str, why: str | None) -> None:
        outcome, stored = self.outcome, self.resources.observations()
        self.resources.owned.spent.add(self.meter.total())
        if self.request.share is None:  # those of a share concern the whole run
            outcome.notes += self.meter.counted.lines()
            outcome.notes += self.uniform.notes(self.id if self.recorder is not None else "")
        outcome.notes += (n for n in self.opened.store.notes if n not in self.noted_before)
        if self.opened.journal is not None:
            outcome.notes += self.opened.journal.notes
            self.opened.journal.notes.clear()
        if stored is not None:
            stored.add({**self.observations.useful, **self._paces()})
            if stored.note:
                outcome.notes.append(stored.note)
        batches = await self._open_batches() if status != "done" else ""
        if batches and status == "budget":
            outcome.notes.append(batches)
        if self.recorder is None:
            return
        self.recorder.flush()
        record_metrics(self.recorder.record, self.meter)
        keep_sources(
            self.recorder.record,
            self.request.places_of(sorted(outcome.uncommitted_rows)),
            self._earlier(outcome),
        )
        members = len(outcome.input_rows.keys) if outcome.input_rows else 0
        written = outcome.written if self.request.kind == RAN else {}
        self._describe(
            status=status, ended=timestamp(), why=why, written=written, notes=outcome.notes,
            **({"batches": batches} if batches else {}),
            members={"given": members, "skipped": outcome.skipped, "committed": outcome.committed},
        )  # fmt: skip

    def _paces(self) -> dict[str, Seen]:
        """The sent calls of each model, and their seconds."""
        by_role = self.recorder.calls.seconds if self.recorder is not None else {}
        paces: dict[str, Seen] = {}
        for role, own in by_role.items():
            key = pace_key(bound(self.opened.llm, role).name)
            paces[key] = paces.get(key, Seen()).add(Seen(1, issued=len(own), seconds=sum(own)))
        return paces

    async def _open_batches(self) -> str:
        """A note on the batches that continue after the end of the run; "" without any."""
        journal = self.opened.journal
        if journal is None or not batched_operators(self.physical, self.opened.llm):
            return ""
        try:
            names = [
                f"{batch.id or 'one without an id yet'} ({plural(len(batch.keys), 'request')})"
                for batch in await journal.open_batches()
            ]
        except SemgraphError:  # raised by the run that could not write
            return ""
        goes = "goes" if len(names) == 1 else "go"
        return (
            f"{plural(len(names), 'batch', 'batches')} {goes} on at the endpoint: {', '.join(names)}. "
            "A resumed run collects the answers"
            if names
            else ""
        )

    def _earlier(self, outcome: RunOutcome) -> list[ResultSource]:
        """The results of rows that the resumed runs committed, if the plan was the same."""
        if self.recorder is None:
            return []
        fingerprint = self.request.plan.fingerprint
        return [
            ResultSource(folder, only=np.array(self.request.places_of(rows), np.int64))
            for folder in self.request.resumed
            if (rows := outcome.skipped_by.get(folder.name))
            and Run(folder).facts.get("fingerprint") == fingerprint
        ]

    def _result(self, outcome: RunOutcome) -> Result:
        logical = self.physical.logical
        left_out = frozenset(self.request.places_of(sorted(outcome.uncommitted_rows)))
        earlier = self._earlier(outcome)
        rows = {
            name: result_rows(node, outcome.tables.get(name, []))
            for name, node in logical.returns.items()
            if not (node.windowed and (outcome.dropped or earlier))
        }
        tables = {name: rows[name].select(logical.returns[name].schema.names) for name in rows}
        recorded: dict[str, RecordedRows] = {}  # here and in earlier runs
        if self.recorder is not None:
            sources = (ResultSource(self.recorder.record.folder, left_out), *earlier)
            recorded = {
                name: RecordedRows(name, runtime_schema(node), sources)
                for name, node in logical.returns.items()
                if name not in rows
            }
        places_of, failed = self.request.places_of, tuple(outcome.failures)
        if self.request.places is not None:
            moved = (
                (f, places_of([f.input_row])[0]) if f.input_row is not None else (f, None)
                for f in failed
            )
            failed = tuple(replace(f, input_row=row) for f, row in moved)
        return Result(
            plan=logical.name,
            run=self.id,
            tables=RecordedTables(recorded, tables) if recorded else tables,
            left_out=left_out,
            places={
                name: self.request.column_of(table[PARTITION if logical.windows else INPUT_ROW])
                for name, table in rows.items()
                if PARTITION in table.column_names
            },
            ids=dict(outcome.ids),
            meter=self.meter,
            failed=failed,
            written=outcome.written,
            members=len(outcome.input_rows.keys) if outcome.input_rows else 0,
            skipped=outcome.skipped,
            committed=outcome.committed,
            keys=tuple(outcome.input_rows.keys) if outcome.input_rows else (),
            notes=tuple(outcome.notes),
            stopped=outcome.stopped,
            record=self.recorder.record.folder if self.recorder else None,
            exit_code=exit_code(
                stopped=outcome.stopped, halted=bool(outcome.halted), failed=bool(outcome.failures)
            ),
            uniform=self.uniform,
        )
