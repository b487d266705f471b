"""An engine in place of Ray, whose workers are in this process."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from semgraph.engine.on_ray import EngineSpec, Ledger, OnReport, RayEngine, RunLedger, Task, Work
from semgraph.execution.result import Result
from semgraph.llm.settings import RunLimits


def sent_to(ledger: RunLedger) -> Ledger:
    """Messages to a ledger in this process."""

    async def send(method: str, *values: Any) -> Any:
        return await getattr(ledger, method)(*values)

    return send


class EngineHere(RayEngine):
    """Divides rows, leases and repeats as Ray does; workers share one event loop."""

    def __init__(self, spec: EngineSpec) -> None:
        self.workers = spec.workers or os.cpu_count() or 1

    def close(self) -> None: ...

    def refuse(self, job: Any) -> None: ...

    @asynccontextmanager
    async def started(
        self, work: Work, job: Any, limits: RunLimits, on_report: OnReport
    ) -> AsyncIterator[None]:
        self.work, self.job, self.on_report = work, job, on_report
        self.ledger = RunLedger(limits)
        yield

    async def attempt(self, task: Task) -> Result:
        return await self.work(self.job, task, sent_to(self.ledger), self.on_report)

    async def ended(self, holder: str) -> bool:
        await self.ledger.ended(holder)
        return True
