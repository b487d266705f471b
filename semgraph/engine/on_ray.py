"""Shards as tasks of Ray, on the processors of this machine or of a cluster. Needs the extra `ray`."""

from __future__ import annotations

import asyncio
import gc
import hashlib
import socket
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import version
from pathlib import Path
from traceback import format_exc
from typing import Any

from semgraph.engine import cluster
from semgraph.engine.engines import EngineSpec, OnReport, Task, Work, WorkerLost
from semgraph.engine.ledger import Grant, Rates, RunLedger, SharedLedger
from semgraph.errors import (
    EngineError,
    PlanError,
    Problem,
    SemgraphError,
    StoreUnavailable,
    UnavailableError,
)
from semgraph.execution.result import Progress, Result
from semgraph.llm.settings import Settings
from semgraph.llm.stack import Spending
from semgraph.meter import Meter

_EVERY = 0.5  # seconds between two reports of a shard
_CLEAN_UP = 20.0  # seconds for shards to end after an interruption
_REACHED = "{} reached the store as the run began: if it is up, name it by an address that all machines reach"
_LOST = (
    "the connection to the cluster of Ray was lost, so its workers end. What is written stays, what was answered is in the "
    "journals: go on with --resume"
)


# -- what is the same on all machines


@dataclass(frozen=True)
class WorkerCode:
    """The code that decides what a shard does: semgraph, and the user's implementations and
    functions.
    """

    version: str
    digest: str

    @classmethod
    def here(cls, folders: Iterable[Path]) -> WorkerCode:
        """That of this process."""
        digest = hashlib.sha256(_own_digest())
        for folder in folders:  # their files may change between two runs
            digest.update(_digest(folder))
        return cls(version("semgraph"), digest.hexdigest())

    def __str__(self) -> str:
        return f"semgraph {self.version}, code {self.digest[:8]}"


@cache
def _own_digest() -> bytes:
    return _digest(Path(__file__).parents[1])


def _digest(folder: Path) -> bytes:
    """SHA-256 of all Python files in a folder."""
    digest = hashlib.sha256()
    for file in sorted(folder.rglob("*.py")):
        digest.update(file.relative_to(folder).as_posix().encode() + b"\0" + file.read_bytes())
    return digest.digest()


@dataclass(frozen=True)
class Ended:
    """How a shard ended on its worker: errors travel as text.

    Args:
        result: Its result; None if it failed.
        kind: `plan`, `store`, `unavailable`, `ledger`, `engine` or `other`.
        error: What failed.
    """

    result: Result | None = None
    kind: str = "other"
    error: str = ""

    @classmethod
    def failed(cls, error: Exception) -> Ended:
        """With an error."""
        kinds: Mapping[str, type[SemgraphError]] = _KINDS
        kind = next((name for name, of in kinds.items() if isinstance(error, of)), "other")
        notes = "".join(f"\n{note}" for note in getattr(error, "__notes__", ()))
        return cls(kind=kind, error=f"{error}{notes} (on {socket.gethostname()})")

    def unwrap(self) -> Result:
        """The result. Raises the error."""
        if self.result is not None:
            return self.result
        raise _KINDS.get(self.kind, SemgraphError)(self.error)


class LedgerGone(SemgraphError):
    """The ledger of a run cannot be reached."""


_KINDS: dict[str, Any] = {
    "engine": EngineError,
    "ledger": LedgerGone,
    "plan": PlanError,
    "store": StoreUnavailable,
    "unavailable": UnavailableError,
}


# -- on workers


def run_task(code: WorkerCode, job: bytes, task: bytes, actor: Any) -> Ended:
    """Run a shard in the process of a worker. What other code than ours raises is no `Ended`: then
    the worker could not begin.
    """
    ray = cluster.imported()
    work, own = ray.cloudpickle.loads(job)
    shard: Task = ray.cloudpickle.loads(task)
    try:
        _check(code, own)
        if not gc.get_freeze_count():  # each shard ends with a collection, of what it made itself
            gc.freeze()
        link = RayLink(actor)
        return Ended(asyncio.run(work(own, shard, link, _Reporting(link, shard.number))))
    except (SemgraphError, OSError) as error:
        return Ended.failed(error)
    except Exception:  # noqa: BLE001 - it is told in the process of the run
        return Ended.failed(EngineError(f"shard {shard.number + 1}: {format_exc()}"))


def _check(code: WorkerCode, job: Any) -> None:
    """Refuse a job of another version, and one whose folder is not here. Raises SemgraphError."""
    here = WorkerCode.here(code_folders(job.settings))
    if here != code:
        raise PlanError(
            Problem(f"the worker has {here}, and the run was begun with {code}", hint=_SAME)
        )
    if not (job.folder / "run.json").exists():
        raise SemgraphError(
            f"the worker does not see {job.folder}, the record of the run. Run in a folder that all machines share"
        )


_SAME = "install the same version, and the same files, on all machines"


def code_folders(settings: Settings) -> tuple[Path, ...]:
    """The folders with code of the user's own."""
    return (*settings.operators, *settings.functions)


class RayLink:
    """The ledger of a run, which is an actor of Ray: a `LedgerLink`."""

    def __init__(self, actor: Any) -> None:
        self._actor = actor

    async def _call(self, method: str, *values: Any) -> Any:
        from ray.exceptions import RayError

        try:
            return await getattr(self._actor, method).remote(*values)
        except RayError as error:
            raise LedgerGone(
                "the ledger of the run is gone, so nothing more may be spent: resume the run"
            ) from error

    async def exchange(
        self, holder: str, number: int, spent: Spending, kept: Spending, need: Spending | None
    ) -> Grant:
        """See `LedgerLink.exchange`."""
        grant: Grant = await self._call("exchange", holder, number, spent, kept, need)
        return grant

    async def changed(self, version: int) -> None:
        """See `LedgerLink.changed`."""
        await self._call("changed", version)

    async def enter(
        self, holder: str, rates: Rates, tokens: Sequence[int], left: Sequence[int] = ()
    ) -> int:
        """See `LedgerLink.enter`."""
        admitted: int = await self._call("enter", holder, rates, list(tokens), list(left))
        return admitted

    async def leave(self, holder: str, rates: Rates, left: Sequence[int]) -> None:
        """See `LedgerLink.leave`."""
        await self._call("leave", holder, rates, list(left))

    async def pause(self, rates: Rates, seconds: float) -> None:
        """See `LedgerLink.pause`."""
        await self._call("pause", rates, seconds)

    def report(self, number: int, done: int, total: int, meter: Meter) -> None:
        """Tell the run how far a shard is, without waiting."""
        self._actor.report.remote(number, done, total, meter)


@dataclass
class _Reporting:
    """Reports the commits of a shard, not more often than people look."""

    link: RayLink
    number: int
    last: float = 0.0

    def __call__(self, progress: Progress) -> None:
        now = time.monotonic()
        if progress.step or (now - self.last < _EVERY and progress.done < progress.total):
            return
        self.last = now
        meter = Meter.merge([progress.meter])
        self.link.report(self.number, progress.done, progress.total, meter)


class LedgerActor(SharedLedger):
    """The ledger of a run, and what its shards report, in a process of its own."""

    def __init__(self, limits: tuple[int | None, int | None, float | None], workers: int) -> None:
        super().__init__(RunLedger(*limits, workers))
        self._reports: dict[int, tuple[int, int, Meter]] = {}
        self._news = asyncio.Event()
        self._ends = False

    async def report(self, number: int, done: int, total: int, meter: Meter) -> None:
        """A shard has committed."""
        self._reports[number] = (done, total, meter)
        self._news.set()

    async def reports(self) -> dict[int, tuple[int, int, Meter]] | None:
        """Wait for reports, and take them; None when the run ends."""
        await self._news.wait()
        self._news.clear()
        reports, self._reports = self._reports, {}
        return None if self._ends else reports

    async def end(self) -> None:
        """End the wait for reports."""
        self._ends = True
        self._news.set()


# -- in the process of the run


class RayEngine:
    """Shards as tasks of Ray.

    Args:
        spec: `ray` for this machine, or the address of a cluster (`cluster.enter`).
    """

    def __init__(self, spec: EngineSpec) -> None:
        self.ray = cluster.imported()
        self._began = not self.ray.is_initialized()
        if self._began:
            cluster.enter(self.ray, spec.address)
        cpus = max(1, int(self.ray.cluster_resources().get("CPU", 1)))
        self.workers = spec.workers or cpus
        # A shard waits for models most of the time, so two fit on a processor.
        self.share = min(0.5, cpus / self.workers)

    def close(self) -> None:
        """Leave the cluster, if this engine has entered it; end one on this machine."""
        if self._began:
            self.ray.shutdown()

    @property
    def machines(self) -> set[str]:
        """The machines of the cluster, by name."""
        return {node["NodeManagerHostname"] for node in self.ray.nodes() if node["Alive"]}

    def refuse(self, job: Any) -> None:
        """Refuse models that are objects, and files that not all workers can open."""
        objects, store = job.objects, job.settings.store
        if objects.llm is not None or objects.embedder is not None:
            what = "models that are objects are in this process, and shards are in others"
            raise PlanError(Problem(what, hint='name them: llm="openai:NAME@URL"'))
        if not job.request.plan.uses_store:
            return
        local = store.startswith("sqlite:") or store == "neo4j-local"
        if local and len(self.machines) > 1:
            what = f"store {store} is on one machine, and the cluster has {len(self.machines)}"
            there = f"machines: {', '.join(sorted(self.machines))}"
            raise PlanError(Problem(what, there=there, hint="name a server: --store neo4j://HOST"))

    @asynccontextmanager
    async def started(self, work: Work, job: Any, ledger: RunLedger, on_report: OnReport) -> Any:
        """Workers for one job. The ledger is where this process is connected."""
        ray, budget = self.ray, ledger.budget
        # A soft affinity may place it on a node that is removed later.
        here = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(
            ray.get_runtime_context().get_node_id(), soft=False
        )
        limits = (budget.max_calls, budget.max_tokens, budget.max_usd)
        actor_class = ray.remote(num_cpus=0, max_concurrency=100_000)(LedgerActor)
        actor = actor_class.options(scheduling_strategy=here).remote(limits, self.workers)
        running = _RayRun(ray, self.workers, self.share, work, job, actor)
        listening = asyncio.create_task(_listen(ray, actor, on_report))
        try:
            yield running
        finally:
            with _lost_is_gone(ray):
                actor.end.remote()  # Ray's client prints a traceback for each wait that is cancelled
                await listening
                ray.kill(actor)


@contextmanager
def _lost_is_gone(ray: Any) -> Iterator[None]:
    """Leave what is not there any more: the ledger, or the cluster."""
    from ray.exceptions import RayError

    try:
        yield
    except RayError:
        pass
    except Exception as error:
        if not _is_lost(ray, error):
            raise


def _is_lost(ray: Any, error: Exception) -> bool:
    """Whether Ray's client has no connection any more: it raises errors of several kinds, Exception
    itself among them.
    """
    return isinstance(error, ConnectionError) or not ray.is_initialized()


async def _listen(ray: Any, actor: Any, on_report: OnReport) -> None:
    """Pass reports of shards on, until the ledger ends or is gone."""
    reports: dict[int, tuple[int, int, Meter]] | None
    with _lost_is_gone(ray):
        while (reports := await actor.reports.remote()) is not None:
            for number, (done, total, meter) in reports.items():
                on_report(number, Progress("", done, total, meter))


async def _awaited(ref: Any) -> Any:
    return await ref


@dataclass
class _RayRun:
    """The workers of one run on Ray."""

    ray: Any
    workers: int
    share: float
    work: Work
    job: Any
    actor: Any
    _task: Any = None
    _code: WorkerCode = field(init=False)

    def __post_init__(self) -> None:
        self._code = WorkerCode.here(code_folders(self.job.settings))
        # Ray itself repeats nothing: the ledger must know of each death before the next attempt.
        self._task = self.ray.remote(num_cpus=self.share, max_retries=0)(run_task)
        self._job = self.ray.put(self.ray.cloudpickle.dumps((self.work, self.job)))

    async def attempt(self, task: Task) -> Result:
        """See `Running.attempt`."""
        try:
            ended = await self._ended(task)
        except SemgraphError:
            raise
        except Exception as error:
            if _is_lost(self.ray, error):
                raise UnavailableError(_LOST) from error
            raise
        if ended.kind == "ledger" and await self._ledger_lives():
            raise WorkerLost("it was cut off from the cluster")
        try:
            return ended.unwrap()
        except StoreUnavailable as error:
            if "sqlite:" not in self.job.settings.store:
                error.add_note(_REACHED.format(socket.gethostname()))
            raise

    async def _ended(self, task: Task) -> Ended:
        """Run a shard, and wait until it has ended."""
        from ray.exceptions import RayError, RayTaskError

        own = self.ray.cloudpickle.dumps(task)
        ref = self._task.remote(self._code, self._job, own, self.actor)
        working = asyncio.ensure_future(_awaited(ref))
        try:
            ended: Ended = await asyncio.shield(working)
        except asyncio.CancelledError:
            await self._cancel(ref, working)
            raise
        except RayTaskError as error:
            last = str(error).strip().splitlines()[-1]
            what = f"a worker could not begin shard {task.number + 1}: {last}"
            hint = f"is {self._code} everywhere? {_SAME.capitalize()}"
            raise PlanError(Problem(what, hint=hint)) from error
        except RayError as error:
            why = str(error).splitlines()[0] if str(error) else ""
            raise WorkerLost(f"{type(error).__name__}: {why}") from error
        return ended

    async def _ledger_lives(self) -> bool:
        from ray.exceptions import RayError

        try:
            await self.actor.spent.remote()
        except RayError:
            return False
        return True

    async def _cancel(self, ref: Any, working: asyncio.Future[Any]) -> None:
        """Let a shard end as an interrupted run does; then end its worker."""
        self.ray.cancel(ref, force=False)
        await asyncio.wait({working}, timeout=_CLEAN_UP)
        if not working.done():
            self.ray.cancel(ref, force=True)
        working.add_done_callback(lambda done: done.cancelled() or done.exception())

    async def died(self, holder: str) -> None:
        """See `Running.died`."""
        with _lost_is_gone(self.ray):
            await asyncio.shield(asyncio.ensure_future(_awaited(self.actor.died.remote(holder))))
