"""Runs with an engine. The rows are divided by shard, each shard runs separately, and the results
are joined. The costs of a shard whose process died without a result are counted.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import accumulate, chain
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from semgraph.engine.on_ray import (
    EngineSpec,
    Ledger,
    OnReport,
    Rates,
    RayEngine,
    SharedBudget,
    SharedLimiter,
    Task,
)
from semgraph.engine.sharding import Division, ShardRows, lay_out, shard_count
from semgraph.errors import PlanError, SemgraphError
from semgraph.execution import record
from semgraph.execution.record import INPUTS, SHARDS, Run, RunRecord
from semgraph.execution.result import HALTED, Progress, Result, exit_code
from semgraph.execution.windows import unreadable, without_nul
from semgraph.frontend.classes import CALLED, Called
from semgraph.frontend.functions import Functions
from semgraph.frontend.load import dump
from semgraph.llm.base import Reply
from semgraph.llm.endpoints import require_trusted
from semgraph.llm.journal import Journal
from semgraph.llm.settings import OPTION, Setting, Settings
from semgraph.logical.node import walk
from semgraph.logical.plan import LogicalPlan
from semgraph.logical.relational import Input
from semgraph.meter import Meter
from semgraph.optimizer import optimized
from semgraph.privacy import redacted
from semgraph.semantic.ask import Failure
from semgraph.semantic.calls import count_reply
from semgraph.session.resources import Owned, Resources, UserObjects, journal_of_shard
from semgraph.session.resume import Resumed, keep_inputs
from semgraph.session.run import (
    RunRequest,
    Share,
    asked_facts,
    plan_facts,
    prepare_store,
    record_metrics,
    run_plan,
    trimmed,
)
from semgraph.stores.registry import lasts

_SHOWN = 3  # further errors of shards in a message
_IDS = 1 << 36  # ids for the rows that one attempt at a shard makes


@dataclass(frozen=True)
class Job:
    """The data that all shards of a run share.

    Args:
        request: The request, without the rows that are sharded.
        settings: The settings of the run.
        objects: Models that are objects, which stay in this process.
        run: Id of the run.
        folder: The record of the run.
        division: The division of its rows.
        sizes: The number of rows of each input.
        shards: The number of shards.
        now: The time of a plan without windows, equal in all shards; None: that of the recording.
        functions: The functions that its expressions call, by name, each with the SHA-256 of its file.
        classes: The classes that this process was given, which validate answers, by key.
        began: The start of the run, in seconds since the epoch.
    """

    request: RunRequest
    settings: Settings
    objects: UserObjects
    run: str
    folder: Path
    division: Division
    sizes: Mapping[str, int]
    shards: int
    now: datetime | None
    functions: Mapping[str, str]
    classes: Mapping[str, Called] = field(default_factory=lambda: dict(CALLED))
    began: float = field(default_factory=time.time)

    def settings_of(self, number: int) -> Settings:
        """The settings of a shard, which has a separate journal."""
        path = self.settings.journal_path
        if path is None:
            return self.settings
        own, key = journal_of_shard(path, self.shards, number), "journal.path"
        setting = replace(self.settings[key], value=own)
        return replace(self.settings, values={**self.settings.values, key: setting})

    def records_of(self, task: Task) -> list[Path]:
        """The records of all attempts at a shard so far; the last is the current one."""
        numbers = range(1, task.attempt + 1)
        return [self.folder / SHARDS / f"{self.run}-{task.number:05}-{n}" for n in numbers]

    def request_of(self, task: Task) -> RunRequest:
        """The request of a shard, or of the part that runs after all shards."""
        division, (*lost, folder) = self.division, self.records_of(task)
        skip = (task.number * 16 + task.attempt) * _IDS
        share = Share(folder.name, folder, division.input, None, self.sizes, skip)
        request = replace(self.request, resumed=(*self.request.resumed, *lost))
        if division.windows is None:
            options = replace(request.options, until=None, on_error=None)
            request = replace(request, plan=division.part, options=options)
            share = replace(share, now=self.now)
        if isinstance(task.rows, Rest):
            assert division.rest is not None
            inputs = {**request.inputs, **task.rows.tables}
            share = replace(share, ids=task.rows.ids, unrecorded=division.ended)
            return replace(request, plan=division.rest, inputs=inputs, share=share)
        rows, places = task.rows.read()
        inputs = {**request.inputs, division.input: rows}
        inputs = {name: inputs[name] for name in self.sizes}
        share = replace(share, places=places, unrecorded=division.through)
        return replace(request, inputs=inputs, share=share)


@dataclass(frozen=True)
class Rest:
    """The part of a plan that runs over the results of all shards, after their end.

    Args:
        tables: The results of the shards, and the divided input.
        ids: The ids of the rows of these results.
    """

    tables: Mapping[str, pa.Table]
    ids: Mapping[str, Sequence[int]]


async def run_shard(job: Job, task: Task, ledger: Ledger, report: OnReport) -> Result:
    """Run a shard, within the budget and the limits of the run, with a separate journal and record.
    Its counters include the costs of workers that died on it.
    """
    CALLED.update(job.classes)
    functions = Functions(job.settings.functions)
    for name in job.functions:
        functions[name]  # this process has not loaded the plan: make it ready to be called
    request = await asyncio.to_thread(job.request_of, task)
    windows = job.division.windows is not None

    def told(progress: Progress) -> None:
        if not (progress.step and windows):
            report(task.number, progress)

    request = replace(request, options=replace(request.options, progress=told))
    settings = job.settings_of(task.number)
    lost = await asyncio.to_thread(paid_by, job.records_of(task)[:-1], settings.journal_path)
    budget = SharedBudget(ledger, task.holder, settings.limits, time.time() - job.began)
    lines = [budget.line]

    def limiter(name: str, in_flight: int, rpm: float | None, tpm: float | None) -> SharedLimiter:
        made = SharedLimiter(ledger, task.holder, Rates(name, in_flight, rpm, tpm))
        lines.append(made.line)
        return made

    owned = Owned(limiter)
    async with AsyncExitStack() as closing:
        closing.push_async_callback(lambda: asyncio.gather(*(line.close() for line in lines)))
        closing.push_async_callback(owned.aclose)
        result = await run_plan(request, Resources(settings, job.objects, owned, budget))
    gc.collect()  # its rows form reference cycles: they would stay until the end of the run
    return replace(result, meter=Meter.merge([lost, result.meter]))


def refuse_unshared(request: RunRequest, resources: Resources) -> None:
    """Refuse a request with parts that shards cannot share. Raises PlanError."""
    here = resources.objects.store is not None or not lasts(resources.settings.store)
    if request.plan.uses_store and here:
        what = "an engine needs a store that all shards can open by its address"
        raise PlanError(what, hint="name one: --store sqlite:PATH, or --store neo4j://HOST")
    if request.options.record_to:
        raise PlanError("an engine writes no recordings", hint="run it without --engine")
    if request.runs is None:
        what = "an engine keeps the rows of its shards in the record of the run"
        raise PlanError(what, hint='leave runs="" out')


async def run_sharded(request: RunRequest, resources: Resources, spec: EngineSpec) -> Result:
    """Run a plan in shards, with the resources of a session. Raises PlanError if the plan cannot
    run in shards; after the end of all shards, raises the error of a failed one.
    """
    division = Division.of(trimmed(request), _sizes(request.inputs))
    refuse_unshared(request, resources)
    if not request.inputs[division.input].num_rows:
        return await run_plan(request, resources)
    engine = await asyncio.to_thread(RayEngine, spec)
    try:
        run = _ShardedRun(request, resources, spec, division, engine.workers)
        engine.refuse(run.job)
        await prepare_store(request, resources)
        return await run.run(engine)
    finally:
        await asyncio.to_thread(engine.close)


def _sizes(inputs: Mapping[str, pa.Table]) -> dict[str, int]:
    return {name: table.num_rows for name, table in inputs.items()}


class _ShardedRun:
    """One run in shards: its record, its progress and its outcome."""

    def __init__(
        self,
        request: RunRequest,
        resources: Resources,
        spec: EngineSpec,
        division: Division,
        workers: int,
    ) -> None:
        self.request, self.resources, self.spec = request, resources, spec
        self.plan, self.division = trimmed(request), division
        runs = request.runs or Path()
        name, sizes = record.new_run(runs), _sizes(request.inputs)
        whole = dict(request.inputs)
        rows = whole.pop(division.input)
        self.count = spec.shards or shard_count(division, rows, workers)
        silent = replace(request.options, progress=None, begun=None)
        self.job = Job(
            replace(request, inputs=whole, options=silent, runs=None),
            resources.settings, resources.objects, name, runs / name, division, sizes, self.count,
            None if resources.replays else datetime.now(UTC), request.plan.functions,
        )  # fmt: skip
        self.members = sizes[division.input] if division.windows is not None else 0
        self.unusable = list[Failure]()  # rows that no shard has seen
        self.last: dict[int, Progress] = {}  # of each shard
        self.progress: dict[str, dict[int, Progress]] = {"": {}}  # of each step; "": commits

    async def run(self, engine: RayEngine) -> Result:
        """Run all shards and join their results."""
        self.record = RunRecord(self.job.folder)
        if self.request.options.begun is not None:
            self.request.options.begun(self.job.run)
        self._begin(engine)
        limits = self.resources.settings.limits
        result, failed = None, dict[int, SemgraphError]()
        try:
            shards = await asyncio.to_thread(self._lay_out)
            async with engine.started(run_shard, self.job, limits, self.see):
                tasks = [Task(shard.number, shard) for shard in shards]
                results, failed = await engine.run_all(tasks)
                result = self._joined(results)
                rest = self.division.rest
                if rest is not None and result is not None and not failed and not result.stopped:
                    result, failed = await self._with_rest(engine, result, rest)
        except BaseException as error:
            interrupted = isinstance(error, (asyncio.CancelledError, KeyboardInterrupt))
            self._end("interrupted" if interrupted else "failed", redacted(str(error)), None)
            raise
        if failed or result is None:
            failure = self._failure(failed)
            self._end("failed", redacted(str(failure)), result)
            raise failure
        result = self._whole(result)
        self._end("budget" if result.stopped else "done", result.stopped, result)
        return result

    def _joined(self, results: Mapping[int, Result]) -> Result | None:
        joined = [results[number] for number in sorted(results)]
        if not joined:
            return None
        result = Result.merge(joined, self.job.run, self.record.folder)
        _count_once(self.division.beside, result.meter, joined[0].meter)
        return result

    def _whole(self, result: Result) -> Result:
        """Complete a result with the facts that no shard has: the number of rows, and the rows that
        none has seen.
        """
        failed = result.failed
        if self.division.windows is None:
            failed = tuple(replace(each, input_row=None) for each in failed)
            if result.stopped:  # as in one process, a part of the rows is no result
                none = {name: node.schema.empty_table() for name, node in self.plan.returns.items()}
                result = replace(result, tables=none)
        failed = (*self.unusable, *failed)
        code = exit_code(
            stopped=result.stopped, halted=result.exit_code == HALTED, failed=bool(failed)
        )
        return replace(result, members=self.members, failed=failed, exit_code=code)

    def see(self, shard: int, progress: Progress) -> None:
        """Record progress: a shard has committed a window or, without windows, answered rows of a
        step.
        """
        parts = self.progress.setdefault(progress.step, {})
        parts[shard] = self.last[shard] = progress
        if self.request.options.progress is not None:
            done = sum(part.done for part in parts.values())
            total = self.members or sum(part.total for part in parts.values())
            meter = Meter.merge(each.meter for each in self.last.values())
            self.request.options.progress(Progress(progress.step, done, total, meter))

    async def _with_rest(
        self, engine: RayEngine, result: Result, rest: LogicalPlan
    ) -> tuple[Result | None, dict[int, SemgraphError]]:
        """Run the rest of the plan after the end of all shards."""
        name, nodes = self.division.input, walk(*rest.roots)
        read = any(isinstance(node, Input) and node.name == name for node in nodes)
        whole = {name: self.request.inputs[name]} if read else {}
        task = Task(self.count, Rest({**whole, **result.tables}, result.ids))
        last, failed = await engine.run_all([task])
        if failed:
            return None, failed
        parts = [replace(part, tables={}, places={}, ids={}) for part in (result, last[self.count])]
        joined = Result.merge(parts, self.job.run, self.record.folder)
        again = last[self.count].meter
        for step in self.division.through:
            joined.meter.step(step).rows_out = again.step(step).rows_out
        _count_once(self.division.beside, joined.meter, again)
        return replace(joined, tables=last[self.count].tables), {}

    def _begin(self, engine: RayEngine) -> None:
        logical = optimized(self.plan, self.request.inputs)
        self.record.text("plan.yaml", dump(self.request.plan))
        sizes = self.job.sizes
        firsts = dict(zip(sizes, accumulate(sizes.values(), initial=0), strict=False))
        self.record.describe(
            **asked_facts(self.request), run=self.job.run, settings=self.job.settings.facts,
            status="running", started=record.timestamp(), **plan_facts(logical, self.request.plan.fingerprint, self.resources),
            ids=firsts, sizes=sizes, engine=str(self.spec), shards=self.count, workers=engine.workers,
        )  # fmt: skip

    def _lay_out(self) -> list[ShardRows]:
        inputs = self.request.inputs
        with self.record.on_disk():
            keep_inputs(self.record.folder, self.job.request.inputs)
            name = self.division.input
            folder = self.record.folder / INPUTS / name
            shards = lay_out(folder, self.division, inputs[name], self.count)
        self.unusable = unreadable(inputs)
        if self.division.windows is None:  # count each row that shards exclude once
            self.unusable += chain.from_iterable(without_nul(*each)[1] for each in inputs.items())
        return shards

    def _failure(self, failed: Mapping[int, SemgraphError]) -> SemgraphError:
        """The first error, with notes on the others."""
        number, error = next(iter(failed.items()))
        if number == self.count:
            error.add_note("it failed when all shards had ended")
            return error
        alike = [n + 1 for n, other in failed.items() if str(other) == str(error)]
        shards = f"shard{'s' * (len(alike) > 1)} {', '.join(map(str, sorted(alike)))}"
        stays = "; what the others wrote stays" if self.division.windows is not None else ""
        error.add_note(f"{shards} of {self.count} failed so{stays}")
        notes = [f"shard {n + 1} failed: {e}" for n, e in failed.items() if n + 1 not in alike]
        if more := notes[_SHOWN:]:
            notes[_SHOWN:] = [f"{len(more)} more failed otherwise"]
        for note in notes:
            error.add_note(note)
        return error

    def _end(self, status: str, why: str | None, result: Result | None) -> None:
        if result is not None:
            self.resources.owned.spent.add(result.meter.total())
            record_metrics(self.record, result.meter)
            self.record.failed((failure, failure.row) for failure in result.failed)
        done = sum(part.done for part in self.progress[""].values())
        skipped, committed = (result.skipped, result.committed) if result else (0, done)
        members = {"given": self.members, "skipped": skipped, "committed": committed}
        self.record.describe(
            status=status, ended=record.timestamp(), why=why, members=members,
            written=dict(result.written) if result else {}, notes=list(result.notes) if result else [],
        )  # fmt: skip


def _count_once(steps: Collection[str], joined: Meter, one: Meter) -> None:
    """Count the rows of steps that every part computed whole only once."""
    for step in one.steps.keys() & steps:
        own, whole = one.step(step), joined.step(step)
        whole.rows_in, whole.rows_out = own.rows_in, own.rows_out


class ChosenEngine(NamedTuple):
    """The engine of a run: what it is, and whether an option or the resumed run names it."""

    spec: EngineSpec
    required: bool


def chosen_engine(resources: Resources, earlier: Resumed) -> ChosenEngine:
    """The engine of the settings, or of the run that is resumed. Raises PlanError for other shards than
    those of that run, and for a cluster that only a file of the folder names.
    """
    setting = resources.settings.values.get("engine")
    asked = setting is not None and setting.origin == OPTION
    if earlier.engine is not None and not asked:
        own = setting is not None and setting.own and str(setting.value) == earlier.engine[0]
        setting = Setting(earlier.engine[0], f"run {earlier.run}", own)
    spec = EngineSpec.parse(str(setting.value)) if setting is not None else EngineSpec()
    if setting is not None and spec.is_remote:
        require_trusted("the keys of this environment", spec.address, setting, resources.settings)
    if earlier.engine is None:
        return ChosenEngine(spec, asked)
    shards = earlier.engine[1]
    if spec.shards not in {None, shards}:
        had = f"run {earlier.run} had {shards} shards, and the engine has {spec.shards}"
        what = f"{had}: what their journals have would be paid twice"
        raise PlanError(what, hint="leave shards out of the engine")
    return ChosenEngine(replace(spec, shards=shards), required=True)


async def run_with_engine(
    request: RunRequest, resources: Resources, engine: ChosenEngine
) -> Result:
    """Run a plan with an engine; in this process if the plan cannot be run in shards, unless the engine
    is required.

    Raises:
        PlanError: An option names the engine, and the plan cannot be run in shards.
    """
    try:
        Division.of(trimmed(request), _sizes(request.inputs))
    except PlanError as error:
        if engine.required:
            raise
        note = f"run in this process, not by {engine.spec}: {error.problems[0].what}"
        request = replace(request, notes=(*request.notes, note))
        return await run_plan(request, resources)
    return await run_sharded(request, resources, engine.spec)


def paid_by(records: Sequence[Path], journal: Path | None) -> Meter:
    """The calls that lost runs issued, by step.

    The journal has each answer as it came. The records have the answers that no journal keeps, up
    to the last commit.

    Args:
        records: The records of the lost runs, the first one first.
        journal: Their journal, which no other run has used since the first of them began; None: no
            journal was kept.

    Raises:
        SemgraphError: The journal cannot be read.
    """
    meter = Meter()
    began = min((run.started for run in map(Run, records) if run.started), default=None)
    if began is None:  # no run sent a request
        return meter
    if journal is not None and journal.exists():
        opened = Journal(journal, keep_days=None)
        try:
            _count(meter, opened.issued_since(datetime.fromisoformat(began).timestamp()))
        finally:
            opened.close()
    lines = (line for folder in records for line in record.read_calls(folder))
    issued = (line for line in lines if line["origin"] == "issued")
    _count(meter, ((line["step"], record.reply_of(line)) for line in issued))
    return meter


def _count(meter: Meter, replies: Iterable[tuple[str, Reply]]) -> None:
    """Count replies of steps that are not counted yet; model ids may repeat among them."""
    counted = set(meter.paid)
    for step, reply in replies:
        if reply.call_id not in counted:
            count_reply(meter.step(step), reply)
            meter.paid.add(reply.call_id)
