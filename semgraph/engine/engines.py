"""Engines by name, and how they run shards: several at one time, and again where a worker died."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar
from urllib.parse import parse_qsl

from semgraph.engine.ledger import LedgerLink, RunLedger, SharedLedger
from semgraph.errors import PlanError, Problem, SemgraphError, UnavailableError
from semgraph.execution.result import Progress, Result

ATTEMPTS = 4
"""How often a shard is run before it is given up, if its worker dies each time."""
_FORMS = "local, local?shards=8&workers=2, ray, ray://HOST:10001?shards=256, ray://auto"
_SPEC = re.compile(r"(?P<name>local|ray)(?P<address>://[^?\s]+)?(?:\?(?P<query>.*))?\Z")


@dataclass(frozen=True)
class EngineSpec:
    """An engine as settings name it.

    Args:
        name: `local` (this process) or `ray`.
        address: Of a cluster, `ray://auto` for that of this machine; "" for this machine alone.
        shards: How many shards there are; None: as the rows and workers ask for.
        workers: How many run at one time; None: as many as there are processors.
    """

    name: str
    address: str = ""
    shards: int | None = None
    workers: int | None = None

    @classmethod
    def parse(cls, text: str) -> EngineSpec:
        """Read an engine as options and settings write it. Raises PlanError.

        >>> EngineSpec.parse("ray://head:10001?shards=256")
        EngineSpec(name='ray', address='ray://head:10001', shards=256, workers=None)
        """
        match = _SPEC.match(text)
        address = match["address"] or "" if match else ""
        if match is None or (address and match["name"] == "local"):
            raise PlanError(Problem(f'unknown engine "{text}"', there=f"engines: {_FORMS}"))
        given = dict(parse_qsl(match["query"] or "", keep_blank_values=True))
        numbers = {name: _number(text, given.pop(name, "")) for name in ("shards", "workers")}
        if given:
            there = f"options of an engine: shards, workers; found {', '.join(given)}"
            raise PlanError(Problem(f'engine "{text}"', there=there, hint=f"write {_FORMS}"))
        return cls(match["name"], match["name"] + address if address else "", **numbers)

    def __str__(self) -> str:
        options = [f"{n}={v}" for n in ("shards", "workers") if (v := getattr(self, n))]
        return (self.address or self.name) + ("?" + "&".join(options) if options else "")


def _number(text: str, value: str) -> int | None:
    if not value:
        return None
    if not value.isdecimal() or int(value) < 1:
        raise PlanError(Problem(f'engine "{text}": {value} is no number from 1', hint=_FORMS))
    return int(value)


class WorkerLost(SemgraphError):
    """The worker of a shard died, or cannot be reached any more."""


@dataclass(frozen=True)
class Task:
    """A shard to run, or to run again.

    Args:
        number: Of the shard, from 0.
        rows: Its rows, as the engine's `work` reads them.
        attempt: From 1.
    """

    number: int
    rows: Any
    attempt: int = 1

    @property
    def holder(self) -> str:
        """The worker, as the ledger knows it."""
        return f"shard {self.number}, attempt {self.attempt}"


Report = Callable[[Progress], None]
Work = Callable[[Any, Task, LedgerLink, Report], Coroutine[Any, Any, Result]]
"""Runs a shard of a job, wherever the engine calls it."""
OnReport = Callable[[int, Progress], None]


class Running(Protocol):
    """The workers of one run."""

    workers: int

    async def attempt(self, task: Task) -> Result:
        """Run a shard. Raises WorkerLost, and what the shard raises."""
        ...

    async def died(self, holder: str) -> None:
        """Tell the ledger that a worker is gone, or has failed."""
        ...


class Engine(Protocol):
    """Carries runs by workers."""

    workers: int

    def refuse(self, job: Any) -> None:
        """Refuse a job that its workers cannot run. Raises PlanError."""
        ...

    def close(self) -> None:
        """End what the engine has started."""
        ...

    def started(
        self, work: Work, job: Any, ledger: RunLedger, on_report: OnReport
    ) -> AbstractAsyncContextManager[Running]:
        """Workers for one job, until the context ends."""
        ...


class LocalEngine:
    """Shards in this process: one event loop, no other processes.

    Args:
        workers: How many shards run at one time.
    """

    def __init__(self, workers: int | None = None) -> None:
        self.workers = workers or os.cpu_count() or 1

    def refuse(self, job: Any) -> None:
        """Refuse nothing."""

    def close(self) -> None:
        """Do nothing."""

    @asynccontextmanager
    async def started(self, work: Work, job: Any, ledger: RunLedger, on_report: OnReport) -> Any:
        """Workers for one job."""
        yield _LocalRun(self.workers, work, job, SharedLedger(ledger), on_report)


@dataclass
class _LocalRun:
    workers: int
    work: Work
    job: Any
    ledger: SharedLedger
    on_report: OnReport

    async def attempt(self, task: Task) -> Result:
        """See `Running.attempt`."""
        return await self.work(
            self.job, task, self.ledger, lambda progress: self.on_report(task.number, progress)
        )

    async def died(self, holder: str) -> None:
        """See `Running.died`."""
        await self.ledger.died(holder)


T = TypeVar("T")


@dataclass(frozen=True)
class FailedShard:
    """A shard that ended with an error."""

    number: int
    error: SemgraphError


async def run_all(
    running: Running, tasks: Sequence[Task]
) -> tuple[dict[int, Result], list[FailedShard]]:
    """Run all shards, each again if its worker died. One that fails does not stop others, unless the
    plan is wrong; where a model or store does not answer, no other one begins.

    Returns:
        The results by number of the shard, and the shards that failed.
    """
    free, results, failed = (
        asyncio.Semaphore(running.workers),
        dict[int, Result](),
        list[FailedShard](),
    )

    async def run(task: Task) -> None:
        async with free:
            if any(isinstance(each.error, UnavailableError) for each in failed):
                return
            try:
                results[task.number] = await _attempts(running, task)
            except PlanError:
                raise
            except SemgraphError as error:
                failed.append(FailedShard(task.number, error))

    try:
        async with asyncio.TaskGroup() as group:
            for task in tasks:
                group.create_task(run(task))
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return results, failed


async def _attempts(running: Running, task: Task) -> Result:
    lost: WorkerLost | None = None
    for attempt in range(1, ATTEMPTS + 1):
        own = Task(task.number, task.rows, attempt)
        try:
            return await running.attempt(own)
        except PlanError:  # no shard goes on
            raise
        except SemgraphError as error:
            await running.died(own.holder)  # its places in flight are for others
            if not isinstance(error, WorkerLost):
                raise
            lost = error
    raise SemgraphError(f"{ATTEMPTS} workers died at it; the last one: {lost}") from lost
