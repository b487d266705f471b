"""Runs of plans with a real model: one endpoint, one store, one limit of dollars; the cost is
summed over all runs.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.frame import Unmeasured
from benchmarks.frame.lines import ROOT
from benchmarks.frame.processes import Watch
from benchmarks.quality.inputs import INPUTS, UserInputs
from semgraph.errors import BudgetReached
from semgraph.execution.result import Result
from semgraph.llm.base import LLM, Embedder, Reply, Request, Usage, Wrapper
from semgraph.llm.endpoints import build
from semgraph.llm.journal import Journal
from semgraph.llm.stack import Budget, Limiter, Stack
from semgraph.logical.plan import Choice
from semgraph.meter import StepMetrics
from semgraph.semantic.context import Context
from semgraph.semantic.contract import Outcome, Rows
from semgraph.semantic.library import Library
from semgraph.session import PlanLike, Session
from semgraph.stores.base import Store
from semgraph.stores.sqlite.store import SqliteStore

Figures = dict[str, float | int | str | None]
JOURNALS = ROOT / ".semgraph" / "benchmarks" / "answers"
"""Answers of unfinished trials: an interrupted trial resumes without paying twice. A finished trial
deletes its answers.
"""


class Stopped(Exception):
    """The limit was reached before the end of the case, so it has no figures."""


class Noted(Wrapper):
    """A model that records the model name of its replies and the temperature of its requests."""

    def __init__(self, inner: LLM) -> None:
        super().__init__(inner)
        self.versions: set[str] = set()
        self.temperatures: set[str] = set()

    async def complete(self, request: Request) -> Reply:
        """Answer one request."""
        reply = await self.inner.complete(request)
        self.versions.add(reply.model)
        self.temperatures.add(str(dict(request.params).get("temperature", "default")))
        return reply


@dataclass
class Asking:
    """The model, store and limits of a case. Made by `asking`, or from a model and an embedder.

    Args:
        llm: The model.
        embedder: The embedder.
        inputs: The limit of dollars.
        journal: The file of answers until the end of the case; None: no file.
        judge: The judge of answers; None: the model itself.
        store: The store of the plans; empty at first.
    """

    llm: Noted
    embedder: Embedder
    inputs: UserInputs = field(default_factory=UserInputs)
    journal: Path | None = None
    judge: Noted | None = None
    store: Store = field(default_factory=lambda: SqliteStore(":memory:"))
    total: StepMetrics = field(default_factory=StepMetrics)
    failed: int = 0
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    resumed: bool = field(init=False)

    def __post_init__(self) -> None:
        """Whether this continues an interrupted trial: its journal exists."""
        self.resumed = self.journal is not None and self.journal.exists()

    async def run(self, plan: PlanLike, model: LLM | None = None, **options: Any) -> Result:
        """Run a plan, with this model or the one in the argument, and add its cost to the figures.
        Raises Stopped at the limit.
        """
        with self._timed():
            given: Any = {"llm": model or self.llm, "embedder": self.embedder, "store": self.store}
            given |= {"journal": self.journal or False, "runs": "", "max_usd": self.inputs.left}
            async with Session(**given) as session:
                try:
                    result = await session.arun(plan, **options)
                except BudgetReached as error:
                    if error.result is not None:
                        self._take(error.result)
                    raise Stopped(self._told(str(error))) from None
        self._take(result)
        return result

    @contextmanager
    def _timed(self) -> Iterator[None]:
        """Add the wall seconds of the body, and the CPU seconds of this process meanwhile: those of
        the local model are among them.
        """
        watch = Watch()
        try:
            with watch:
                yield
        finally:
            self.seconds += watch.seconds
            self.cpu_seconds += watch.cpu

    def _take(self, result: Result) -> None:
        issued = result.meter.total()
        self._charge(issued.dollars or 0.0)
        self.total.add(issued)
        if self.resumed:
            self.total.add(result.meter.replayed)
        self.failed += len(result.failed) + issued.rows_failed

    async def answer(self, node: Any, rows: Rows, way: str) -> list[Outcome]:
        """Answer rows by one implementation of a semantic operator, without a plan: with the journal
        and the limit, and counted. Raises Stopped at the limit.
        """
        implementation = Library().get(type(node).keyword, Choice.parse(way))
        budget, metrics = Budget(max_usd=self.inputs.left), StepMetrics()
        try:
            with ExitStack() as ending, self._timed():
                ending.callback(lambda: self._charge(budget.spent.usd))
                journal = Journal(self.journal) if self.journal else None
                if journal is not None:
                    ending.callback(journal.close)
                stack = Stack(budget=budget, journal=journal)
                llm = stack.model(self.llm, Limiter(self.llm.limits.in_flight))
                embedder = stack.embedder(self.embedder, Limiter(1))
                async with Context(llm, embedder, node, metrics) as context:
                    found = await implementation.answer(node, rows, context)
        except BudgetReached as error:
            raise Stopped(self._told(str(error))) from None
        self.total.add(metrics)
        if self.resumed:
            self.total.add(context.replayed)
        self.failed += sum(answer.error is not None for answer in found)
        return found

    def _charge(self, usd: float) -> None:
        self.inputs.spent += usd

    def _told(self, why: str) -> str:
        left, most = self.inputs.left, self.inputs.max_usd
        rest = "" if left is None else f"; ${left:.4f} of the run's ${most:g} are left"
        kept = ". What was answered is kept: run it again with a higher --max-usd"
        return why + rest + kept * (self.journal is not None)

    def afford(self, texts: Sequence[str], reads: int, what: str) -> None:
        """Refuse a case over the limit before its first call: each text is sent at least `reads`
        times.

        Raises:
            Unmeasured: The minimum alone costs more than the remaining dollars.
        """
        tokens = reads * sum(self.llm.count_tokens(text) for text in texts)
        least, left = self.llm.dollars(Usage(prompt=tokens)), self.inputs.left
        if left is not None and least is not None and least > left:
            cost = f"{what} sends at least {tokens:,} tokens, ${least:.4f} with {self.llm.name}"
            raise Unmeasured(
                f"nothing was asked: {cost}, and ${left:.4f} are left. Give more: --max-usd"
            )

    def figures(self) -> Figures:
        """The cost of all runs, and the name of the model."""
        total = self.total
        counted = ("attempts", "tokens_in", "tokens_cached", "tokens_out")
        return {
            "calls": total.calls_issued,
            **{name: getattr(total, name) for name in counted},
            "usd": None if total.dollars is None else round(total.dollars, 6),
            # nobody timed the first part of a resumed trial
            "seconds": None if self.resumed else round(self.seconds, 2),
            "cpu_s": None if self.resumed else round(self.cpu_seconds, 2),
            "queries": total.round_trips,
            "failed": self.failed,
            "version": ", ".join(sorted(self.llm.versions)) or None,
            "temperature": ", ".join(sorted(self.llm.temperatures)) or None,
            "embedder": self.embedder.name,
            "prices": f"genai-prices {version('genai-prices')}" if total.dollars else None,
        }


def measured(
    key: Mapping[str, Any], measure: Callable[[Asking, int], Awaitable[Figures]], trial: int
) -> Figures:
    """The figures of a trial, over an empty store in memory, with the cost of its calls.

    Raises:
        Unmeasured: The model is the simulated one.
        PlanError: The model is unavailable.
    """

    async def run() -> Figures:
        async with asking(key, trial) as own:
            found = await measure(own, trial)
            return {**found, **own.figures()}

    return asyncio.run(run())


@asynccontextmanager
async def asking(key: Mapping[str, Any], trial: int) -> AsyncIterator[Asking]:
    """The user's model over an empty store in memory."""
    settings = INPUTS.settings()
    refuse_simulated(INPUTS.base_url)
    name = hashlib.sha256(json.dumps([key, trial], sort_keys=True).encode()).hexdigest()[:16]
    JOURNALS.mkdir(parents=True, exist_ok=True)
    llm, embedder = Noted(build(settings.model(), settings)), build(settings.embedder, settings)
    own = Asking(llm, embedder, INPUTS, JOURNALS / f"{name}.db")
    if "judge" in settings.roles:
        own.judge = Noted(build(settings.model("judge"), settings))
    try:
        yield own
    finally:
        for one in filter(None, (own.llm, own.judge, own.embedder, own.store)):
            await one.aclose()
    for file in JOURNALS.glob(f"{name}.*"):
        file.unlink()


def refuse_simulated(base_url: str | None) -> None:
    """Raise Unmeasured where the endpoint is the simulated one of `benchmarks.world`."""
    if base_url is None:
        return
    url = base_url.rstrip("/").removesuffix("/v1") + "/counters"
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            simulated = "calls" in json.load(answer)
    except (urllib.error.URLError, ValueError, OSError, TypeError):
        return
    if simulated:
        what = f"{base_url} is the simulated model"
        raise Unmeasured(f"{what}: its answers would pass as those of a real one")
