"""Shards as Ray tasks, on the processors of this machine or of a cluster. The cluster exists
already or is started here. Needs the extra `ray`, which is imported by name.

`run_task` and its callees run in the processes of workers. `RayEngine` runs in the process of the
run, with the ledger of the spending and sending of all workers.
"""

from __future__ import annotations

import asyncio
import gc
import hashlib
import os
import re
import socket
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from threading import Thread
from traceback import format_exc
from typing import Any

from semgraph.errors import (
    BudgetReached,
    EngineError,
    PlanError,
    SemgraphError,
    StoreUnavailable,
    UnavailableError,
)
from semgraph.execution.result import Progress, Result
from semgraph.extras import install
from semgraph.llm.providers import typed_options
from semgraph.llm.settings import Settings
from semgraph.llm.stack import Budget, Limiter, Spending, refusal
from semgraph.meter import Meter
from semgraph.options import RunLimits
from semgraph.stores.registry import store_spec

# Seconds for which a worker collects returns before it sends a message.
GATHER_SECONDS = 0.01
TAKEN = "another worker has taken over this shard"


class ShardTaken(SemgraphError):
    """A worker that was presumed dead must stop: another worker runs its shard."""


@dataclass(frozen=True)
class Rates:
    """The limits and the name of an endpoint."""

    name: str
    in_flight: int
    rpm: float | None
    tpm: float | None


# The account that admits a request: an endpoint, for tokens; None: the budget of the run, for a
# `Spending`.
Account = Rates | None
# The return of a request. To a budget: its reservation and its cost; to an endpoint: 0 and its
# unused tokens.
Return = tuple[Any, Any]
# Sends a message to the `RunLedger` of a run: the name of a method and its arguments.
Ledger = Callable[..., Coroutine[Any, Any, Any]]


def _unused(account: Account, cost: Any) -> Return:
    """The return of a request that was admitted and not sent."""
    return (cost, Spending()) if account is None else (0, cost)


class RunLedger:
    """The budget of a run and the limiters of its endpoints, for workers in any process. Spending
    plus the possible cost of requests in flight never exceeds a limit; each worker checks
    `max_seconds` itself. The ledger also passes on the reports of workers.
    """

    def __init__(self, limits: RunLimits) -> None:
        self.budget = Budget(**replace(limits, max_seconds=None).of_run)
        self.limiters: dict[Rates, Limiter] = {}
        self.held: dict[tuple[str, Account], list[Any]] = {}  # what requests in flight will return
        self._ended: set[str] = set()
        self._reports: dict[tuple[int, str], Progress] = {}

    async def enter(
        self,
        holder: str,
        account: Account,
        asked: Sequence[tuple[Any, str]],
        left: Sequence[Return],
    ) -> int | str:
        """Take back what a worker has `left`; then wait until the first new request is admitted.
        Each is `asked` by its maximum cost and its description for errors. Returns the number of
        requests that are admitted now; or the reason for refusing the first: a limit, or TAKEN.
        """
        await self.leave(holder, account, left)
        gate = self.budget if account is None else self._limiter(account)
        now = gate.reserve_now if isinstance(gate, Budget) else gate.enter_now
        if holder in self._ended:
            return TAKEN
        try:
            await (gate.reserve(*asked[0]) if isinstance(gate, Budget) else gate.enter(asked[0][0]))
        except BudgetReached as reached:
            return str(reached)
        count = 1
        while count < len(asked) and now(asked[count][0]):
            count += 1
        returns = [_unused(account, cost) for cost, _ in asked[:count]]
        self.held.setdefault((holder, account), []).extend(most for most, _ in returns)
        if holder in self._ended:  # the worker died while it waited
            await self.leave(holder, account, returns)
            return TAKEN
        return count

    async def leave(self, holder: str, account: Account, left: Sequence[Return]) -> None:
        """Take back the returns of ended requests; ignore those of an ended worker."""
        held = self.held.get((holder, account), [])
        for most, actual in left:
            if most in held:
                held.remove(most)
                self._take_back(account, most, actual)

    async def pause(self, rates: Rates, seconds: float) -> None:
        """Admit no request of any worker to an endpoint for some seconds."""
        self._limiter(rates).pause(seconds)

    async def ended(self, holder: str) -> None:
        """Close the account of a worker that has ended or died: its requests in flight count as
        spent, its slots are free, and it is admitted no more.
        """
        self._ended.add(holder)
        for key in [key for key in self.held if key[0] == holder]:
            for most in self.held.pop(key):
                self._take_back(key[1], most, most)

    async def report(self, number: int, progress: Progress) -> None:
        """Record that a shard has committed a window, or answered rows of a step."""
        self._reports[number, progress.step] = progress

    async def reports(self) -> dict[tuple[int, str], Progress]:
        """Take the reports since the last call."""
        reports, self._reports = self._reports, {}
        return reports

    def _take_back(self, account: Account, most: Any, actual: Any) -> None:
        if account is None:
            self.budget.charge(most, actual)
        else:
            self._limiter(account).leave(actual)

    def _limiter(self, rates: Rates) -> Limiter:
        if rates not in self.limiters:
            self.limiters[rates] = Limiter(rates.in_flight, rates.rpm, rates.tpm)
        return self.limiters[rates]


class Line:
    """The waiting requests of a worker for one account, and the returns of others to it.

    A message to the ledger costs about as much as a request does here, so several requests share
    one. Returns go with the next wait, after GATHER_SECONDS, or when there are `many`. Waits for
    the budget are collected as well; waits for an endpoint are not, because its slots would idle.
    """

    def __init__(self, ledger: Ledger, holder: str, account: Account, many: float) -> None:
        self._ledger, self._holder, self._account, self._many = ledger, holder, account, many
        self._timer: asyncio.TimerHandle | None = None
        self._waiting: deque[tuple[Any, str, asyncio.Future[None]]] = deque()
        self._left: list[Return] = []
        self._asking: asyncio.Task[None] | None = None
        self._sending: set[asyncio.Task[None]] = set()

    async def enter(self, cost: Any, what: str = "") -> None:
        """Wait until a request is admitted. Raises BudgetReached, ShardTaken, LedgerGone."""
        place = asyncio.get_running_loop().create_future()
        self._waiting.append((cost, what, place))
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(self._ask())
        try:
            await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled() and place.exception() is None:
                self.leave(*_unused(self._account, cost))
            raise

    def leave(self, most: Any, actual: Any) -> None:
        """Return the reservation of a request."""
        self._left.append((most, actual))
        if len(self._left) >= self._many:
            self._send_left()
        elif len(self._left) == 1:
            self._timer = asyncio.get_running_loop().call_later(GATHER_SECONDS, self._send_left)

    def send(self, method: str, *values: Any) -> None:
        """Send a message without waiting. A lost message costs at most as much as a lost worker."""
        task = asyncio.create_task(self._ledger(method, *values))
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)
        task.add_done_callback(lambda done: done.cancelled() or done.exception())

    async def close(self) -> None:
        """Stop asking, and wait until all messages have arrived."""
        if self._asking is not None:
            self._asking.cancel()
        self._send_left()
        while self._sending:
            await asyncio.wait(set(self._sending))

    async def _ask(self) -> None:
        """Ask for all waiting requests in order, until none waits."""
        while self._waiting:
            await asyncio.sleep(GATHER_SECONDS if self._account is None else 0)
            asked = [each[:2] for each in self._waiting]
            error: Exception | None = None
            try:
                own = self._holder, self._account, asked, self._taken()
                answer = await self._ledger("enter", *own)
                if isinstance(answer, str):
                    error = ShardTaken(answer) if answer == TAKEN else BudgetReached(answer)
            except Exception as raised:  # noqa: BLE001 - the first that waits raises it
                error = raised
            for _ in range(answer if error is None else 1):
                cost, _, place = self._waiting.popleft()
                if place.done() and error is None:  # no longer waiting
                    self.leave(*_unused(self._account, cost))
                elif not place.done():
                    place.set_exception(error) if error else place.set_result(None)

    def _taken(self) -> list[Return]:
        if self._timer is not None:
            self._timer.cancel()
        left, self._left = self._left, []
        return left

    def _send_left(self) -> None:
        if left := self._taken():
            self.send("leave", self._holder, self._account, left)


class SharedBudget(Budget):
    """The budget of one shard. It is the budget of the run: limits and requests in flight are those
    of all shards, and the run began `elapsed` seconds ago. `reserve` raises ShardTaken if another
    worker has taken over the shard.
    """

    def __init__(self, ledger: Ledger, holder: str, limits: RunLimits, elapsed: float = 0) -> None:
        super().__init__(**limits.of_run)
        self._began -= elapsed
        self._limited = bool(replace(limits, max_seconds=None).of_run)
        self.line = Line(ledger, holder, None, many=16)

    async def reserve(self, most: Spending, what: str = "") -> None:
        """See `Budget.reserve`."""
        if passed := self.passed(Spending()):  # only `max_seconds` is known here
            raise BudgetReached(refusal(passed, what, (self.spent + self.reserved).calls))
        if self._limited:
            await self.line.enter(most, what)
        self.reserved += most

    def charge(self, most: Spending, actual: Spending) -> None:
        """Replace a reservation by the actual cost."""
        super().charge(most, actual)
        if self._limited:
            self.line.leave(most, actual)


class SharedLimiter(Limiter):
    """The limiter of an endpoint for one shard; all shards of a run share its limits."""

    def __init__(self, ledger: Ledger, holder: str, rates: Rates) -> None:
        super().__init__(rates.in_flight, rates.rpm, rates.tpm)
        self._rates = rates
        self.line = Line(ledger, holder, rates, many=rates.in_flight / 4)

    async def enter(self, tokens: int = 0) -> None:
        """See `Limiter.enter`."""
        await self.line.enter(tokens)

    def leave(self, unused_tokens: int = 0) -> None:
        """Free the slot and return unused tokens."""
        self.line.leave(0, unused_tokens)

    def pause(self, seconds: float) -> None:
        """Admit no request of any shard for some seconds."""
        self.line.send("pause", self._rates, seconds)


ATTEMPTS = 4  # most attempts at a shard if its worker dies each time
_EVERY = 0.5  # seconds between two reports of a shard
_CLEAN_UP = 20.0  # seconds for shards to end after an interruption
_REACHED = "{} reached the store as the run began: if it is up, name it by an address that all machines reach"
_LOST = (
    "the connection to the cluster of Ray was lost, so its workers end. What is written stays, what was answered is in the "
    "journals: go on with --resume"
)
_SAME = "install the same version, and the same files, on all machines"


class LedgerGone(SemgraphError):
    """The ledger of a run cannot be reached."""


class WorkerLost(SemgraphError):
    """The worker of a shard died or is unreachable."""


@dataclass(frozen=True)
class Task:
    """One attempt, from 1, to run a shard, from 0; its rows are as `work` reads them."""

    number: int
    rows: Any
    attempt: int = 1

    @property
    def holder(self) -> str:
        """The worker's name in the ledger."""
        return f"shard {self.number}, attempt {self.attempt}"


OnReport = Callable[[int, Progress], None]  # called with the number of a shard and its progress
# Runs a shard of a job on its worker.
Work = Callable[[Any, Task, Ledger, OnReport], Coroutine[Any, Any, Result]]
_PORTABLE = (PlanError, StoreUnavailable, UnavailableError, EngineError, LedgerGone)


def run_task(code: str, job: bytes, task: bytes, actor: Any) -> Result | SemgraphError:
    """Run a shard in the process of a worker; return its result, or its error with the text alone.
    An exception means that the worker could not begin.
    """
    ray = imported()
    work, own = ray.cloudpickle.loads(job)
    shard: Task = ray.cloudpickle.loads(task)
    try:
        _check(code, own)
        if not gc.get_freeze_count():  # each shard ends with a collection of its own objects
            gc.freeze()
        result: Result = asyncio.run(work(own, shard, _ledger(actor), _reporting(actor)))
    except Exception as error:  # noqa: BLE001 - the process of the run raises it
        expected = isinstance(error, SemgraphError | OSError)
        text = str(error) if expected else f"shard {shard.number + 1}: {format_exc()}"
        text += "".join(f"\n{note}" for note in getattr(error, "__notes__", ()))
        other = SemgraphError if expected else EngineError
        kind = next((of for of in _PORTABLE if isinstance(error, of)), other)
        return kind(f"{text} (on {socket.gethostname()})")
    return result


def _check(code: str, job: Any) -> None:
    """Refuse a job of another version, or with a folder that is missing. Raises SemgraphError."""
    if (here := code_here(job.settings)) != code:
        raise PlanError(f"the worker has {here}, and the run was begun with {code}", hint=_SAME)
    if not (job.folder / "run.json").exists():
        what = f"the worker does not see {job.folder}, the record of the run"
        raise SemgraphError(f"{what}. Run in a folder that all machines share")


def code_here(settings: Settings) -> str:
    """The version and hash of the code that a shard runs, with operators and functions."""
    digest = hashlib.sha256()
    for folder in (Path(__file__).parents[1], *settings.operators, *settings.functions):
        for file in sorted(folder.rglob("*.py")):
            name = file.relative_to(folder).as_posix()
            digest.update(name.encode() + b"\0" + file.read_bytes())
    return f"semgraph {version('semgraph')}, code {digest.hexdigest()[:16]}"


def _ledger(actor: Any) -> Ledger:
    """A sender of messages to the ledger of a run, which is a Ray actor."""
    from ray.exceptions import RayError

    async def send(method: str, *values: Any) -> Any:
        try:
            return await getattr(actor, method).remote(*values)
        except RayError as error:
            what = "the ledger of the run is gone, so nothing more may be spent: resume the run"
            raise LedgerGone(what) from error

    return send


def _reporting(actor: Any) -> OnReport:
    """A reporter of the progress of a shard; it is throttled and does not wait."""
    last: dict[str, float] = {}

    def report(number: int, progress: Progress) -> None:
        now = time.monotonic()
        if progress.done >= progress.total or now - last.get(progress.step, 0.0) >= _EVERY:
            last[progress.step] = now
            actor.report.remote(number, replace(progress, meter=Meter.merge([progress.meter])))

    return report


class RayEngine:
    """An engine that runs shards as Ray tasks, on this machine or on a cluster (see `enter`)."""

    def __init__(self, spec: EngineSpec) -> None:
        self.ray = imported()
        self._began = not self.ray.is_initialized()
        if self._began:
            enter(self.ray, spec.address)
        self._cpus = max(1, int(self.ray.cluster_resources().get("CPU", 1)))
        self.workers = spec.workers or self._cpus

    def close(self) -> None:
        """Leave the cluster that this engine has entered; stop one on this machine."""
        if self._began:
            self.ray.shutdown()

    @property
    def machines(self) -> set[str]:
        """The names of the machines of the cluster."""
        return {node["NodeManagerHostname"] for node in self.ray.nodes() if node["Alive"]}

    def refuse(self, job: Any) -> None:
        """Refuse objects as models, and stores that workers cannot open. Raises PlanError."""
        objects, store = job.objects, job.settings.store
        if objects.models or objects.embedder is not None:
            what = "models that are objects are in this process, and shards are in others"
            raise PlanError(what, hint='name them: llm="openai:NAME@URL"')
        here = store_spec(store).on_one_machine
        if job.request.plan.uses_store and here and len(self.machines) > 1:
            what = f"store {store} is on one machine, and the cluster has {len(self.machines)}"
            there = f"machines: {', '.join(sorted(self.machines))}"
            raise PlanError(what, there=there, hint="name a server: --store neo4j://HOST")

    @asynccontextmanager
    async def started(
        self, work: Work, job: Any, limits: RunLimits, on_report: OnReport
    ) -> AsyncIterator[None]:
        """Workers for a job and their ledger, until the context ends. The ledger runs on the node
        to which this process is connected.
        """
        ray = self.ray
        # With a soft affinity, Ray may place it on a node that is removed later.
        here = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(
            ray.get_runtime_context().get_node_id(), soft=False
        )
        alone = {"num_cpus": 0, "max_concurrency": 100_000, "scheduling_strategy": here}
        self._actor = ray.remote(**alone)(RunLedger).remote(limits)
        self._store, self._code = job.settings.store, code_here(job.settings)
        # Ray itself retries nothing: the ledger must know of each death before the next attempt. A
        # shard mostly waits for models, so two fit on a processor.
        share = min(0.5, self._cpus / self.workers)
        self._task = ray.remote(num_cpus=share, max_retries=0)(run_task)
        self._job = ray.put(ray.cloudpickle.dumps((work, job)))
        ends = asyncio.Event()
        listening = asyncio.create_task(self._listen(ends, on_report))
        try:
            yield
        finally:
            ends.set()
            await listening

    async def run_all(
        self, tasks: Sequence[Task]
    ) -> tuple[dict[int, Result], dict[int, SemgraphError]]:
        """Run all shards, each again if its worker died; results and errors are by number. A failed
        shard, whose error comes first, does not stop the others, unless the plan is wrong; after a
        model or store does not answer, no further shard begins.
        """
        free = asyncio.Semaphore(self.workers)
        results, failed = dict[int, Result](), dict[int, SemgraphError]()

        async def run(task: Task) -> None:
            async with free:
                if any(isinstance(error, UnavailableError) for error in failed.values()):
                    return
                try:
                    results[task.number] = await self._attempts(task)
                except PlanError:  # all shards stop
                    raise
                except SemgraphError as error:
                    failed[task.number] = error

        try:
            async with asyncio.TaskGroup() as group:
                for task in tasks:
                    group.create_task(run(task))
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None
        return results, failed

    async def _attempts(self, task: Task) -> Result:
        lost: WorkerLost | None = None
        for attempt in range(1, ATTEMPTS + 1):
            own = replace(task, attempt=attempt)
            try:
                return await self.attempt(own)
            except WorkerLost as error:
                lost = error
            finally:
                await self.ended(own.holder)  # frees its slots for others
        raise SemgraphError(f"{ATTEMPTS} workers died at it; the last one: {lost}") from lost

    async def attempt(self, task: Task) -> Result:
        """Run a shard on a worker. Raises WorkerLost, and what the shard raises."""
        try:
            ended = await self._run(task)
        except Exception as error:
            if not isinstance(error, SemgraphError) and self._is_lost(error):
                raise UnavailableError(_LOST) from error
            raise
        if isinstance(ended, Result):
            return ended
        if isinstance(ended, LedgerGone) and await self.ended(task.holder):
            raise WorkerLost("it was cut off from the cluster")
        if isinstance(ended, StoreUnavailable) and not store_spec(self._store).on_one_machine:
            ended.add_note(_REACHED.format(socket.gethostname()))
        raise ended

    async def ended(self, holder: str) -> bool:
        """Tell the ledger that a worker has ended or died; return whether it still exists."""
        with self._lost_is_gone():
            call = self._actor.ended.remote(holder)
            await asyncio.shield(asyncio.wrap_future(call.future()))
            return True
        return False

    async def _run(self, task: Task) -> Result | SemgraphError:
        from ray.exceptions import RayError, RayTaskError

        own = self.ray.cloudpickle.dumps(task)
        ref = self._task.remote(self._code, self._job, own, self._actor)
        working = asyncio.wrap_future(ref.future())
        try:
            ended: Result | SemgraphError = await asyncio.shield(working)
        except asyncio.CancelledError:  # it ends as an interrupted run does; then its worker ends
            self.ray.cancel(ref, force=False)
            await asyncio.wait({working}, timeout=_CLEAN_UP)
            if not working.done():
                self.ray.cancel(ref, force=True)
            working.add_done_callback(lambda done: done.cancelled() or done.exception())
            raise
        except RayTaskError as error:
            last = str(error).strip().splitlines()[-1]
            what = f"a worker could not begin shard {task.number + 1}: {last}"
            hint = f"is {self._code} everywhere? {_SAME.capitalize()}"
            raise PlanError(what, hint=hint) from error
        except RayError as error:
            first = str(error).partition("\n")[0]
            raise WorkerLost(f"{type(error).__name__}: {first}") from error
        return ended

    async def _listen(self, ends: asyncio.Event, on_report: OnReport) -> None:
        """Pass on reports of shards until the run and its ledger end."""
        with self._lost_is_gone():
            while not ends.is_set():
                with suppress(TimeoutError):
                    await asyncio.wait_for(ends.wait(), _EVERY)
                for (number, _), progress in (await self._actor.reports.remote()).items():
                    on_report(number, progress)
            self.ray.kill(self._actor)  # it answered: without a cluster, Ray would start one here

    @contextmanager
    def _lost_is_gone(self) -> Iterator[None]:
        """Ignore the errors of a ledger or a cluster that no longer exists."""
        from ray.exceptions import RayError

        try:
            yield
        except Exception as error:
            if not isinstance(error, RayError) and not self._is_lost(error):
                raise

    def _is_lost(self, error: Exception) -> bool:
        """Whether Ray's client has lost its connection, of which it raises several classes."""
        return isinstance(error, ConnectionError) or not self.ray.is_initialized()


MEMBER = "ray://auto"  # the cluster that this machine belongs to, entered without Ray's client
# Time that the server of Ray's client may take to start the process of a client.
CONNECT_SECONDS = 180.0
_CLIENTS = 3  # processes that the server may fail to start
_MOST_SAID = 300  # most characters of a Ray error in a message
_QUIET = {"log_to_driver": False, "logging_level": "ERROR"}
_FORKS = (
    "Where gRPC's fork handlers are the cause, start the cluster with `GRPC_ENABLE_FORK_SUPPORT=0 ray start --head`, or run "
    "on a machine of the cluster: --engine ray://auto"
)
_FORMS = "ray, ray?shards=8&workers=2, ray://HOST:10001?shards=256, ray://auto"

_REMOVED = {
    "local": "write ray (processes here), also to resume a run of it; or leave the engine out"
}


@dataclass(frozen=True)
class EngineSpec:
    """The Ray engine of the settings: the address of a cluster, `ray://auto` for that of this
    machine, "" for this machine alone. Without `shards` their number is derived from the rows and
    workers; without `workers` it is the number of processors.
    """

    address: str = ""
    shards: int | None = None
    workers: int | None = None

    @classmethod
    def parse(cls, text: str) -> EngineSpec:
        """Parse an engine from options or settings. Raises PlanError.

        >>> EngineSpec.parse("ray://head:10001?shards=256")
        EngineSpec(address='ray://head:10001', shards=256, workers=None)
        """
        name, _, query = text.partition("?")
        if name in _REMOVED:
            raise PlanError(f'there is no engine "{name}" any more', hint=_REMOVED[name])
        if name != "ray" and not re.fullmatch(r"ray://\S+", name):
            raise PlanError(f'unknown engine "{text}"', there=f"engines: {_FORMS}")
        options = typed_options(query, {"shards": int, "workers": int}, f'engine "{text}"')
        return cls("" if name == "ray" else name, **options)

    @property
    def is_remote(self) -> bool:
        """Whether the engine is a cluster at an address."""
        return self.address not in ("", MEMBER)

    def __str__(self) -> str:
        options = [f"{n}={v}" for n in ("shards", "workers") if (v := getattr(self, n))]
        return (self.address or "ray") + ("?" + "&".join(options) if options else "")


def imported() -> Any:
    """The module `ray`, with usage statistics off. Raises PlanError if the extra is missing."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    # Ray forks while gRPC runs, always to execute another program. gRPC's fork handlers then
    # occasionally abort or hang the process.
    os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
    try:
        import ray
    except ImportError as error:
        what = f'the engine ray needs the extra "ray": {install("ray")}'
        raise PlanError(what, hint="or run in this process: without --engine") from error
    return ray


def enter(ray: Any, address: str) -> None:
    """Enter a cluster by `ray://HOST:PORT`, the server of Ray's client, or by MEMBER; "" starts one
    on this machine. Raises UnavailableError.
    """
    try:
        if not address:
            here = {"include_dashboard": False, "_node_ip_address": "127.0.0.1"}
            ray.init(address="local", **here, **_QUIET)
        elif address == MEMBER:
            ray.init(address="auto", **_QUIET)
        else:
            _by_client(ray, address)
    except (ConnectionError, TimeoutError, RuntimeError, ValueError) as error:
        where = f"no cluster of Ray answers at {address}" if address else "Ray does not start here"
        why = " ".join(str(error).split()).rstrip(".")[:_MOST_SAID] or type(error).__name__
        token = " (with RAY_AUTH_MODE=token, if it asks for a token)" if address else ""
        raise UnavailableError(
            f"{where}: {why}. Start one with `ray start --head`{token}, or run on this machine: --engine ray"
        ) from error


def _by_client(ray: Any, address: str) -> None:
    """Enter a cluster through the server of Ray's client, which forks a process for each client.
    Raises UnavailableError if the server answers and starts none.
    """
    for left in reversed(range(_CLIENTS)):
        entering = _in_thread(lambda: ray.init(address=address, **_QUIET))
        try:
            entering.result(CONNECT_SECONDS)
        except (ConnectionAbortedError, TimeoutError) as error:
            aborted = isinstance(error, ConnectionAbortedError)
            if aborted and left:
                continue
            if not aborted and entering.done():
                raise
            last = (str(error).strip().splitlines() or [type(error).__name__])[-1].strip()
            attempts = f"{_CLIENTS} attempts: {last.rstrip('.')[:_MOST_SAID]}"
            raise UnavailableError(
                f"{address} answers, but started no process for this run in "
                f"{attempts if aborted else f'{CONNECT_SECONDS:.0f} s'}. {_FORKS}"
            ) from error
        return


def _in_thread(call: Callable[[], object]) -> Future[Any]:
    """Call a function that may never return, in a thread that does not keep the process alive."""
    called: Future[Any] = Future()

    def run() -> None:
        try:
            called.set_result(call())
        except BaseException as error:  # noqa: BLE001 - the caller raises it
            called.set_exception(error)

    Thread(target=run, daemon=True, name="entering a cluster of Ray").start()
    return called
