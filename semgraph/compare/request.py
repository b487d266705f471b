"""Comparing ways of a step, or whole plans: what is checked first, what is asked, what is kept."""

from __future__ import annotations

import asyncio
import json
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa

import semgraph
from semgraph.compare.comparison import Arm, Comparison, Spent
from semgraph.compare.record import save
from semgraph.errors import BudgetReached, Fault, PlanError, Problem
from semgraph.execution.record import CallLog, RunRecord, new_run, noted, timestamp
from semgraph.frontend.frame import Frame
from semgraph.logical.plan import LogicalPlan
from semgraph.meter import StepMetrics
from semgraph.session.inputs import typed_inputs
from semgraph.session.resources import Opened, Resources
from semgraph.session.waiting import Waiting

Ways = Sequence[str] | Mapping[str, str] | Mapping[str, Mapping[str, str]]


def _say(line: str) -> None:
    sys.stderr.write(line + "\n")


class Compares(ABC):
    """The part of a session that compares ways of doing the same."""

    runs: Path | None
    _resources: Resources
    _waiting: Waiting

    @abstractmethod
    def prepare(
        self,
        plan: str | Path | LogicalPlan | Frame,
        *,
        params: Mapping[str, Any] | None = None,
        preset: str | None = None,
        use: Mapping[str, str] | None = None,
        resume: str | None = None,
    ) -> LogicalPlan:
        """A checked plan."""

    def compare(self, plan: str | Path | LogicalPlan | Frame, /, **options: Any) -> Comparison:
        """Compare ways and wait for the result. Takes the arguments of `acompare`; see there."""
        return self._waiting.wait(self.acompare(plan, **options), asks=True)

    async def acompare(
        self,
        plan: str | Path | LogicalPlan | Frame,
        /,
        *,
        ways: Ways,
        step: str | None = None,
        truth: Any = None,
        trials: int = 1,
        params: Mapping[str, Any] | None = None,
        preset: str | None = None,
        use: Mapping[str, str] | None = None,
        rows: int | None = None,
        fresh: bool = False,
        say: Say | None = _say,
        inputs: Mapping[str, Any] | None = None,
        **more: Any,
    ) -> Comparison:
        """Compare ways of doing a step over one frozen input, or whole plans. Nothing is written to
        the store.

        With `step` its input is computed once, in a copy of the groups that are read, and each way
        answers the same rows. In a plan that reads what it wrote it is the input that the reference
        produced, so errors do not build up. Without `step` each arm runs the whole plan in a copy
        of its own, in memory, and is scored by the graph that it leaves there.

        Every way and every trial makes its own calls: none is served the answer of another. They
            are journalled, so the same
        comparison again, or one that was stopped, pays for nothing twice; what is replayed has no
        time.

        Args:
            plan: A path, a name, a loaded plan, or a frame.
            ways: For a step: ways as written, `["per_row", "packed(rows=10)"]`, or ways by name.
                For whole plans: for each arm by name the ways of its steps, `{"one": {"told":
                "block()"}}`. The operator's own reference, if it is among them, or else the first,
                is what the others are compared with.
            step: The step.
            truth: What is right: a file, an Arrow table, a data frame or mappings with columns that
                name a row of the step's input and columns of its answers. For whole plans
                `{"nodes": ..., "edges": ...}`. None: ways are compared with the reference, which
                measures agreement.
            trials: How many independent trials of each way.
            params: Values of parameters.
            preset: One of the plan's presets.
            use: Ways of the other steps.
            rows: Take only the first rows of the input.
            fresh: Ask anew even what the journal knows.
            say: Told what will be asked before it is; by default on stderr. None: nobody.
            inputs: As for `arun`.
            more: The same as arguments.

        Raises:
            PlanError: The request is wrong; nothing was spent.
            InputError: The rows or the truth are wrong; nothing was spent.
            BudgetReached: It would pass a limit; no way was asked.
        """
        from semgraph.compare.request import ComparisonRequest, compare, requested

        checked = requested(ways, step, trials, self._resources)
        given = dict(plan.tables) if isinstance(plan, Frame) else {}
        given |= {
            name: value for name, value in {**(inputs or {}), **more}.items() if value is not None
        }
        logical = self.prepare(plan, params=params, preset=preset, use=use)
        tables = typed_inputs(logical, given, rows)
        quiet: Say = lambda _line: None  # noqa: E731
        request = ComparisonRequest(
            logical, tables, checked, step or "", truth, trials, self.runs, fresh, say or quiet
        )
        return await compare(request, self._resources)

    async def _foreseen(
        self,
        plan: LogicalPlan,
        ways: Ways,
        step: str | None,
        trials: int,
        tables: Mapping[str, Any],
    ) -> str:
        """What a comparison of ways of a step would take; see `Session.explain`."""
        from semgraph.compare.arms import foreseen, only_step
        from semgraph.compare.request import ComparisonRequest, requested

        name = step or only_step(plan)
        request = ComparisonRequest(
            plan, tables, requested(ways, name, trials, self._resources), name, trials=trials
        )
        return "\n".join(await foreseen(request, self._resources))


K = TypeVar("K")
T = TypeVar("T")
Say = Callable[[str], None]


@dataclass(frozen=True)
class ComparisonRequest:
    """What is to be compared; see `Session.acompare`."""

    plan: LogicalPlan
    inputs: Mapping[str, pa.Table]
    ways: Mapping[str, Any]
    step: str = ""
    truth: Any = None
    trials: int = 1
    runs: Path | None = None
    fresh: bool = False
    say: Say = lambda _line: None


def requested(ways: Ways, step: str | None, trials: int, resources: Resources) -> Mapping[str, Any]:
    """The ways by name, as far as they can be checked without a plan. Raises PlanError."""
    if trials < 1:
        raise PlanError(Problem(f"trials is {trials}", hint="at least 1; 3 show a spread"))
    if (
        trials > 1
        and resources.given.llm is None
        and resources.settings.model().provider == "recorded"
    ):
        raise PlanError(
            Problem(
                "a recording has one answer to each question, so its trials are all alike",
                hint="trials=1",
            )
        )
    if isinstance(ways, str):
        raise PlanError(Problem(f'ways is the text "{ways}"', hint=f'give a list: ways=["{ways}"]'))
    found = dict(ways) if isinstance(ways, Mapping) else _named(list(ways))
    if not found:
        raise PlanError(
            Problem(
                "there is nothing to compare", hint='name ways: ways=["per_row", "packed(rows=10)"]'
            )
        )
    nested = [name for name, way in found.items() if isinstance(way, Mapping)]
    if step and nested:
        hint = f'with step="{step}" a way is a text, such as "block(left=10)"; leave step out to compare whole plans'
        raise PlanError(Problem(f"arm {nested[0]} sets ways of several steps", hint=hint))
    if not step and len(nested) < len(found):
        hint = 'step="..."; or whole plans: ways={"name": {"step": "way"}}'
        raise PlanError(Problem("nothing says which step is done in these ways", hint=hint))
    return found


def _named(ways: list[str]) -> dict[str, str]:
    twice = next((way for i, way in enumerate(ways) if way in ways[:i]), None)
    if twice is not None:
        hint = f'to compare a way with itself, name both: ways={{"a": "{twice}", "b": "{twice}"}}'
        raise PlanError(Problem(f'the way "{twice}" is given twice', hint=hint))
    return {way: way for way in ways}


def checked(each: Mapping[K, Callable[[], T]]) -> dict[K, T]:
    """What each gives, by name. Raises PlanError with what is wrong with all of them."""
    found: dict[K, T] = {}
    problems: dict[str, Problem] = {}
    for name, work in each.items():
        try:
            found[name] = work()
        except PlanError as error:
            problems |= {str(problem): problem for problem in error.problems}
    if problems:
        raise PlanError(*problems.values())
    return found


@dataclass
class Kept:
    """The record of a comparison, and what is in it whatever happens."""

    request: ComparisonRequest
    resources: Resources
    opened: Opened
    id: str = ""
    record: RunRecord | None = None
    calls: CallLog | None = None
    paid: Spent = Spent()
    facts: dict[str, Any] = field(default_factory=dict)

    def begin(self) -> None:
        """Make the folder, once."""
        if self.id:
            return
        runs, plan = self.request.runs, self.request.plan
        self.id = new_run(runs or Path())
        self.record = RunRecord(runs / self.id) if runs is not None else None
        journal = self.opened.journal
        self.calls = (
            CallLog(self.record, texts=journal is not None) if self.record is not None else None
        )
        settings = {
            k: {"value": v, "origin": origin} for k, v, origin in self.resources.settings.rows()
        }
        self._describe(
            semgraph=semgraph.__version__, run=self.id, kind="comparison", plan=plan.name, file=plan.file,
            step=self.request.step, ways=list(self.request.ways), trials=self.request.trials, params=dict(plan.params),
            started=timestamp(), status="running", settings=settings, journal=str(journal.path) if journal else None,
        )  # fmt: skip

    def _describe(self, **facts: Any) -> None:
        if self.record is not None:
            self.record.describe(**facts)

    def noted(self, opened: Opened) -> Opened:
        """What is open, with each call of a model entered in the record once there is one."""

        def add(*call: Any) -> None:
            if self.calls is not None:
                self.calls.add(*call)

        scoped = opened.scoped
        return replace(
            opened, llm=noted(opened.llm, add), scoped=lambda scope: noted(scoped(scope), add)
        )

    def end(self, status: str, why: str | None = None) -> None:
        """Say how it ended, and what was paid."""
        if self.record is None:
            return
        if self.calls is not None:
            self.calls.flush()
        paid = self.paid
        total = StepMetrics(
            calls_issued=paid.calls,
            tokens_in=paid.tokens_in,
            tokens_out=paid.tokens_out,
            dollars=paid.dollars,
        )
        self.record.text(
            "metrics.json", json.dumps({"total": total.as_dict(), "steps": {}}, indent=1)
        )
        self._describe(status=status, why=why, ended=timestamp())

    def comparison(self, arms: Sequence[Arm], **more: Any) -> Comparison:
        """The result, written into the record."""
        request, opened = self.request, self.opened
        found = Comparison(
            id=self.id, plan=request.plan.name, step=request.step, model=opened.llm.name, arms=tuple(arms),
            trials=request.trials, truth=request.truth is not None, paid=self.paid, store=opened.store.name,
            record=self.record.folder if self.record else None,
            journal=opened.journal.path.absolute() if opened.journal else None, **more,
        )  # fmt: skip
        if self.record is not None:
            save(found, self.record)
        return found


async def compare(request: ComparisonRequest, resources: Resources) -> Comparison:
    """Compare, and keep the record true whatever happens.

    Raises:
        PlanError: Something is wrong with the request; nothing was spent.
        BudgetReached: It would pass a limit before anything was compared.
    """
    from semgraph.compare.arms import compare_plans, compare_step

    plan = request.plan
    async with resources.open(plan, fresh=request.fresh) as opened:
        kept = Kept(request, resources, opened)
        work = compare_step if request.step else compare_plans
        try:
            found = await work(request, resources, kept.noted(opened), kept)
        except BaseException as error:
            if kept.record is not None:
                interrupted = isinstance(error, (asyncio.CancelledError, KeyboardInterrupt))
                status = (
                    "interrupted"
                    if interrupted
                    else "budget"
                    if isinstance(error, BudgetReached)
                    else "failed"
                )
                kept.end(status, str(error))
            if isinstance(error, Fault):
                raise PlanError(Problem(error.what, there=error.there, hint=error.hint)) from None
            raise
        kept.end("budget" if found.stopped else "compared", found.stopped)
        return found
