"""The request of a comparison, checked as far as possible without a plan, and the record of its
result and cost.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from semgraph.compare.comparison import Arm, Comparison, Spent, save
from semgraph.errors import PlanError, Problem
from semgraph.execution.observations import ObservationFile
from semgraph.execution.record import CallLog, RunRecord, new_run, noted, timestamp
from semgraph.execution.runtime import Opened
from semgraph.formats import models_by_role
from semgraph.llm.settings import Settings
from semgraph.llm.stack import bound
from semgraph.logical.plan import LogicalPlan
from semgraph.meter import StepMetrics

Variants = Sequence[str] | Mapping[str, str] | Mapping[str, Mapping[str, str]]
Say = Callable[[str], None]


class Runner(Protocol):
    """Runs plans for a comparison; a session implements it."""

    @property
    def settings(self) -> Settings:
        """The resolved settings."""
        ...

    def observations(self) -> ObservationFile | None:
        """The observations of earlier runs of the models; None without a journal."""
        ...

    def open(self, plan: LogicalPlan, *, fresh: bool) -> AbstractAsyncContextManager[Opened]:
        """Open the resources of a run; `fresh` ignores cached answers."""
        ...


@dataclass(frozen=True)
class ComparisonRequest:
    """The arguments of a comparison; see `Session.acompare`."""

    plan: LogicalPlan
    inputs: Mapping[str, pa.Table]
    variants: Mapping[str, Any]
    step: str = ""
    truth: Any = None
    trials: int = 1
    runs: Path | None = None
    fresh: bool = False
    say: Say = lambda _line: None


def requested(
    variants: Variants, step: str | None, trials: int, *, replays: bool
) -> Mapping[str, Any]:
    """The variants by name, checked as far as possible without a plan. Raises PlanError."""
    if trials < 1:
        raise PlanError(Problem(f"trials is {trials}", hint="at least 1; 3 show a spread"))
    if trials > 1 and replays:
        what = "a recording has one answer to each question, so all its trials are equal"
        raise PlanError(Problem(what, hint="trials=1"))
    if isinstance(variants, str):
        what, hint = f'variants is the text "{variants}"', f'write a list: variants=["{variants}"]'
        raise PlanError(Problem(what, hint=hint))
    by_name = dict(variants) if isinstance(variants, Mapping) else _named(list(variants))
    if not by_name:
        hint = 'name variants: variants=["per_row", "packed(rows=10)"]'
        raise PlanError(Problem("there is nothing to compare", hint=hint))
    nested = [name for name, variant in by_name.items() if isinstance(variant, Mapping)]
    if step and nested:
        what = f"variant {nested[0]} sets implementations of several steps"
        hint = f'with step="{step}" a variant is a text, such as "block(left=10)"; leave step out to compare whole plans'
        raise PlanError(Problem(what, hint=hint))
    if not step and len(nested) < len(by_name):
        hint = 'name it: step="..."; or compare whole plans: variants={"name": {"step": "implementation"}}'
        raise PlanError(Problem("these variants do not name their step", hint=hint))
    return by_name


def _named(variants: list[str]) -> dict[str, str]:
    twice = next((variant for i, variant in enumerate(variants) if variant in variants[:i]), None)
    if twice is not None:
        hint = f'to compare a variant with itself, name both: variants={{"a": "{twice}", "b": "{twice}"}}'
        raise PlanError(Problem(f'duplicate variant "{twice}"', hint=hint))
    return {variant: variant for variant in variants}


@dataclass
class ComparisonRecord:
    """The record of a comparison. It is complete even if the comparison fails."""

    request: ComparisonRequest
    runner: Runner
    opened: Opened
    id: str = ""
    record: RunRecord | None = None
    calls: CallLog | None = None
    paid: Spent = Spent()
    roles: Sequence[str] = ()  # of the models that the arms call

    @property
    def model(self) -> str:
        """The name of the model; if the arms call several, their names by role."""
        named = {role: bound(self.opened.llm, role).name for role in dict.fromkeys(self.roles)}
        return models_by_role(named) or self.opened.llm.name

    def begin(self) -> None:
        """Create the folder, once."""
        if self.id:
            return
        runs, plan = self.request.runs, self.request.plan
        self.id = new_run(runs or Path())
        self.record = RunRecord(runs / self.id) if runs is not None else None
        journal = self.opened.journal
        if self.record is not None:
            self.calls = CallLog(self.record, texts=journal is not None)
        self._describe(
            semgraph=version("semgraph"), run=self.id, kind="comparison", plan=plan.name, file=plan.file,
            step=self.request.step, ways=list(self.request.variants), trials=self.request.trials, params=dict(plan.params),
            started=timestamp(), status="running",
            settings=self.runner.settings.facts, journal=str(journal.path) if journal else None,
        )  # fmt: skip

    def _describe(self, **facts: Any) -> None:
        if self.record is not None:
            self.record.describe(**facts)

    def noted(self) -> Opened:
        """The resources; model calls are recorded as soon as the record exists."""

        def add(*call: Any) -> None:
            if self.calls is not None:
                self.calls.add(*call)

        opened = self.opened
        return replace(
            opened,
            llm=noted(opened.llm, add),
            scoped=lambda scope: noted(opened.scoped(scope), add),
        )

    def end(self, status: str, reason: str | None = None) -> None:
        """Record the outcome and the cost."""
        if self.record is None:
            return
        if self.calls is not None:
            self.calls.flush()
        paid = asdict(self.paid)
        total = StepMetrics(calls_issued=paid.pop("calls"), **paid)
        metrics = {"total": total.as_dict(), "steps": {}}
        self.record.text("metrics.json", json.dumps(metrics, indent=1))
        self._describe(status=status, why=reason, ended=timestamp())

    def comparison(self, arms: Sequence[Arm], **more: Any) -> Comparison:
        """Record the result and return it."""
        request, opened = self.request, self.opened
        result = Comparison(
            id=self.id, plan=request.plan.name, step=request.step, model=self.model, arms=tuple(arms),
            trials=request.trials, truth=request.truth is not None, paid=self.paid, store=opened.store.name,
            record=self.record.folder if self.record else None,
            journal=opened.journal.path.absolute() if opened.journal else None, **more,
        )  # fmt: skip
        if self.record is not None:
            save(result, self.record)
        return result
