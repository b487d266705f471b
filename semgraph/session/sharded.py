"""Runs that an engine carries: the rows are laid out by shard, each shard is a run of its own, and
what they give is joined.
"""

from __future__ import annotations

import asyncio
import gc
import os
import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa

from semgraph.engine.engines import (
    Engine,
    EngineSpec,
    FailedShard,
    LocalEngine,
    Report,
    Task,
    run_all,
)
from semgraph.engine.leased import LeasedBudget, LeasedLimiter
from semgraph.engine.ledger import LedgerLink, Rates, RunLedger
from semgraph.engine.sharding import ShardLayout, ShardRows, Shards, shards_for, windowing_of
from semgraph.errors import PlanError, Problem, SemgraphError
from semgraph.execution.lost import paid_by
from semgraph.execution.record import INPUTS, SHARDS, RunRecord, new_run, timestamp
from semgraph.execution.result import Progress, Result
from semgraph.frontend.load import dump
from semgraph.llm.settings import OPTION, Setting, Settings
from semgraph.logical.plan import LogicalPlan
from semgraph.meter import Meter
from semgraph.optimizer import optimized
from semgraph.redaction import redacted
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
    settings_facts,
    trimmed,
)
from semgraph.stores.shards.places import SCHEME, places_of

_BATCH = 50_000  # rows that are laid out at one time
_SHOWN = 3  # errors of shards beside the first
_IDS = 1 << 36  # for the rows that one attempt at a shard makes


@dataclass(frozen=True)
class Job:
    """What all shards of a run share.

    Args:
        request: The request, without the rows that are sharded.
        settings: The settings of the run.
        objects: Models that are objects, where shards are in this process.
        run: Id of the run.
        folder: The record of the run.
        input: The input that is sharded.
        sizes: The number of rows of each input.
        shards: How many shards there are.
        began: When the run began, in seconds since the epoch.
    """

    request: RunRequest
    settings: Settings
    objects: UserObjects
    run: str
    folder: Path
    input: str
    sizes: Mapping[str, int]
    shards: int
    began: float = field(default_factory=time.time)

    def settings_of(self, number: int) -> Settings:
        """The settings of a shard, which has a journal of its own."""
        path = self.settings.journal_path
        if path is None:
            return self.settings
        own, key = journal_of_shard(path, self.shards, number), "journal.path"
        setting = Setting(own, self.settings[key].origin)
        return replace(self.settings, values={**self.settings.values, key: setting})

    def records_of(self, task: Task) -> list[Path]:
        """The record of each attempt at a shard so far; the last is that of this one."""
        numbers = range(1, task.attempt + 1)
        return [self.folder / SHARDS / f"{self.run}-{task.number:05}-{n}" for n in numbers]

    def request_of(self, task: Task, rows: pa.Table, places: Sequence[int]) -> RunRequest:
        """The request of a shard."""
        *lost, folder = self.records_of(task)
        skip = (task.number * 16 + task.attempt) * _IDS
        share = Share(folder.name, folder, self.input, places, self.sizes, skip)
        inputs = {**self.request.inputs, self.input: rows}
        ordered = {name: inputs[name] for name in self.sizes}
        resumed = (*self.request.resumed, *lost)  # their results are those of this attempt too
        return replace(self.request, inputs=ordered, share=share, resumed=resumed)


async def run_shard(job: Job, task: Task, link: LedgerLink, report: Report) -> Result:
    """Run a shard: with what it leases of the run's budget and limits, and a journal and a record of
    its own. Its counters have what workers paid that died at it.
    """
    shard: ShardRows = task.rows
    rows, places = await asyncio.to_thread(shard.read)
    settings = job.settings_of(task.number)
    lost = await asyncio.to_thread(paid_by, job.records_of(task)[:-1], settings.journal_path)
    budget = LeasedBudget(link, task.holder, settings.limits, time.time() - job.began)
    limiters: list[LeasedLimiter] = []

    def limiter(name: str, in_flight: int, rpm: float | None, tpm: float | None) -> LeasedLimiter:
        limiters.append(LeasedLimiter(link, task.holder, Rates(name, in_flight, rpm, tpm)))
        return limiters[-1]

    owned = Owned(limiter)
    resources = Resources(settings, job.objects, owned, budget)
    request = replace(job.request_of(task, rows, places), progress=report)
    async with AsyncExitStack() as closing:
        closing.push_async_callback(budget.settle)
        closing.push_async_callback(owned.aclose)
        result = await run_plan(request, resources)
        for each in limiters:
            await each.settle()
    gc.collect()  # its rows refer to each other: without this they stay until the run has ended
    return replace(result, meter=Meter.merge([lost, result.meter]))


def engine_of(spec: EngineSpec) -> Engine:
    """An engine by its name, connected. Raises PlanError or UnavailableError."""
    if spec.name == "local":
        return LocalEngine(spec.workers)
    from semgraph.engine.on_ray import RayEngine

    return RayEngine(spec)


def refuse_unshared(request: RunRequest, resources: Resources) -> None:
    """Refuse what shards cannot share. Raises PlanError."""
    if resources.objects.store is not None or resources.settings.store == "memory":
        what = "an engine needs a store that all shards can open by its address"
        raise PlanError(
            Problem(what, hint="name one: --store sqlite:PATH, or --store neo4j://HOST")
        )
    if request.record_to:
        raise PlanError(Problem("an engine writes no recordings", hint="run it without --engine"))
    if request.runs is None:
        what = "an engine keeps the rows of its shards in the record of the run"
        raise PlanError(Problem(what, hint='leave runs="" out'))


async def run_sharded(request: RunRequest, resources: Resources, spec: EngineSpec) -> Result:
    """Run a plan in shards, with the resources of a session.

    Raises:
        PlanError: The plan cannot be run in shards.
        SemgraphError: A shard failed; the others ended before it is raised.
    """
    plan = trimmed(request)
    windowing = windowing_of(plan)
    refuse_unshared(request, resources)
    rows = request.inputs[windowing.input]
    if not rows.num_rows:
        return await run_plan(request, resources)
    engine = await asyncio.to_thread(engine_of, spec)
    try:
        groups = len(rows.column(windowing.partition).unique())
        files = _files_of(resources.settings, spec)
        count = files or spec.shards or shards_for(groups, engine.workers)
        run = _ShardedRun(request, resources, spec, count)
        engine.refuse(run.job)
        await prepare_store(request, resources)
        return await run.run(engine)
    finally:
        await asyncio.to_thread(engine.close)


def foreseen(
    plan: LogicalPlan, inputs: Mapping[str, pa.Table], settings: Settings
) -> tuple[EngineSpec, Shards]:
    """The engine of the settings, and how it would divide some rows; nothing is started. Of a cluster
    without a number of shards or workers, those of this machine are assumed.

    Raises:
        PlanError: The plan cannot be run in shards, or the number of shards does not fit the store.
    """
    spec = EngineSpec.parse(str(settings["engine"].value))
    windowing = windowing_of(plan)
    rows = inputs[windowing.input]
    workers = spec.workers or os.cpu_count() or 1
    groups = len(rows.column(windowing.partition).unique())
    count = _files_of(settings, spec) or spec.shards or shards_for(groups, workers)
    return spec, Shards.of(windowing, rows, count, workers)


def _files_of(settings: Settings, spec: EngineSpec) -> int | None:
    """How many files a store has, each of which takes the rows of one shard; None if others keep them.

    Raises:
        PlanError: The engine has another number of shards, so that two would write one file.
    """
    if not settings.store.startswith(f"{SCHEME}sqlite:"):
        return None
    files = places_of(settings.store, settings.cwd, settings.environment).count
    if spec.shards not in {None, files}:
        what = f"the engine has {spec.shards} shards and the store {files} files: two shards would write one file"
        raise PlanError(
            Problem(what, hint="leave shards out of the engine, or name a store of as many")
        )
    return files


class _ShardedRun:
    """One run in shards: its record, its progress and its outcome."""

    def __init__(
        self, request: RunRequest, resources: Resources, spec: EngineSpec, count: int
    ) -> None:
        self.request, self.resources = request, resources
        self.plan = trimmed(request)
        windowing = windowing_of(self.plan)
        runs = request.runs or Path()
        name = new_run(runs)
        sizes = {name: table.num_rows for name, table in request.inputs.items()}
        whole = {name: t for name, t in request.inputs.items() if name != windowing.input}
        self.job = Job(
            replace(request, inputs=whole, progress=None, begun=None, runs=None),
            resources.settings, resources.objects, name, runs / name, windowing.input, sizes, count,
        )  # fmt: skip
        self.spec, self.count, self.windowing = spec, count, windowing
        self.progress = _JoinedProgress(request, sizes[windowing.input])

    async def run(self, engine: Engine) -> Result:
        """Run all shards and join what they give."""
        self.record = RunRecord(self.job.folder)
        if self.request.begun is not None:
            self.request.begun(self.job.run)
        self._begin(engine)
        limits = self.resources.settings.limits
        ledger = RunLedger(limits.max_calls, limits.max_tokens, limits.max_usd, engine.workers)
        results, failed = dict[int, Result](), list[FailedShard]()
        try:
            shards = await asyncio.to_thread(self._lay_out)
            async with engine.started(run_shard, self.job, ledger, self.progress.see) as running:
                tasks = [Task(shard.number, shard) for shard in shards]
                results, failed = await run_all(running, tasks)
        except BaseException as error:
            interrupted = isinstance(error, (asyncio.CancelledError, KeyboardInterrupt))
            self._end("interrupted" if interrupted else "failed", redacted(str(error)), None)
            raise
        joined = [results[number] for number in sorted(results)]
        result = Result.merge(joined, self.job.run, self.record.folder) if joined else None
        if failed or result is None:
            failure = self._failure(failed)
            self._end("failed", redacted(str(failure)), result)
            raise failure
        result = replace(result, members=self.job.sizes[self.windowing.input])
        self._end("budget" if result.stopped else "done", result.stopped, result)
        return result

    def _begin(self, engine: Engine) -> None:
        inputs = {
            **self.job.request.inputs,
            self.windowing.input: self.request.inputs[self.windowing.input],
        }
        logical = optimized(self.plan, inputs)
        self.record.text("plan.yaml", dump(self.request.plan))
        firsts, first = {}, 0
        for name, size in self.job.sizes.items():
            firsts[name], first = first, first + size
        self.record.describe(
            **asked_facts(self.request), run=self.job.run, settings=settings_facts(self.job.settings),
            status="running", started=timestamp(), **plan_facts(logical, self.request.plan.fingerprint),
            ids=firsts, engine=str(self.spec), shards=self.count, workers=engine.workers,
        )  # fmt: skip

    def _lay_out(self) -> list[ShardRows]:
        folder = self.record.folder / INPUTS / self.windowing.input
        rows = self.request.inputs[self.windowing.input]
        with self.record.on_disk(), ShardLayout(folder, self.windowing, self.count) as layout:
            keep_inputs(self.record.folder, self.job.request.inputs)
            for start in range(0, rows.num_rows, _BATCH):
                layout.add(rows.slice(start, _BATCH))
            return layout.close()

    def _failure(self, failed: Sequence[FailedShard]) -> SemgraphError:
        """The first error, with notes on the others."""
        error = failed[0].error
        alike = [each for each in failed if str(each.error) == str(error)]
        numbers = ", ".join(str(number + 1) for number in sorted(each.number for each in alike))
        noun = "shard" if len(alike) == 1 else "shards"
        error.add_note(f"{noun} {numbers} of {self.count} failed so; what the others wrote stays")
        others = [each for each in failed if each not in alike]
        for each in others[:_SHOWN]:
            error.add_note(f"shard {each.number + 1} failed: {each.error}")
        if more := others[_SHOWN:]:
            error.add_note(f"{len(more)} more failed otherwise")
        return error

    def _end(self, status: str, why: str | None, result: Result | None) -> None:
        if result is not None:
            self.resources.owned.spent.add(result.meter.total())
            record_metrics(self.record, result.meter)
            self.record.failed(
                {**failure.row, "_step": failure.step, "_error": failure.error}
                for failure in result.failed
            )
        members = {
            "given": self.job.sizes[self.windowing.input],
            "skipped": result.skipped if result else 0,
            "committed": result.committed if result else self.progress.committed,
        }
        self.record.describe(
            status=status, ended=timestamp(), why=why, members=members,
            written=dict(result.written) if result else {}, notes=list(result.notes) if result else [],
        )  # fmt: skip


class _JoinedProgress:
    """The progress of a run, from that of its shards."""

    def __init__(self, request: RunRequest, rows: int) -> None:
        self._tell, self._rows = request.progress, rows
        self._shards: dict[int, Progress] = {}

    @property
    def committed(self) -> int:
        """Rows that shards have committed, as far as they reported."""
        return sum(progress.done for progress in self._shards.values())

    def see(self, shard: int, progress: Progress) -> None:
        """A shard has committed a window."""
        if progress.step:
            return
        self._shards[shard] = progress
        if self._tell is not None:
            meter = Meter.merge(each.meter for each in self._shards.values())
            self._tell(Progress("", self.committed, self._rows, meter))


def _as_before(spec: EngineSpec, run: str, shards: int) -> EngineSpec:
    """An engine with the shards of the run that it resumes: their journals have what was paid. Raises
    PlanError.
    """
    if spec.shards not in {None, shards}:
        what = f"run {run} had {shards} shards, and the engine has {spec.shards}: what their journals have would be paid twice"
        raise PlanError(Problem(what, hint="leave shards out of the engine"))
    return replace(spec, shards=shards)


async def run_with_engine(request: RunRequest, resources: Resources, earlier: Resumed) -> Result:
    """Run a plan with the engine of the settings, or of the run that is resumed. A plan that cannot be
    run in shards is run in this process, unless an option names the engine.

    Raises:
        PlanError: An option names the engine, and the plan cannot be run in shards.
    """
    setting = resources.settings.values.get("engine")
    asked = setting is not None and setting.origin == OPTION
    spec = EngineSpec.parse(str(setting.value)) if setting is not None else EngineSpec("local")
    if earlier.engine is not None:
        name, shards = earlier.engine
        spec = _as_before(spec if asked else EngineSpec.parse(name), earlier.run, shards)
        return await run_sharded(request, resources, spec)
    try:
        windowing_of(trimmed(request))
    except PlanError as error:
        if asked:
            raise
        note = f"run in this process, not by {spec}: {error.problems[0].what}"
        request = replace(request, notes=(*request.notes, note))
        return await run_plan(request, resources)
    return await run_sharded(request, resources, spec)
