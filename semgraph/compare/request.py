"""The request of a comparison, and the record of its result and cost."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from semgraph.compare.comparison import Arm, Comparison, Spent, save
from semgraph.display import option
from semgraph.errors import PlanError
from semgraph.execution.observations import ObservationFile
from semgraph.execution.record import CallLog, RunRecord, new_run, noted, timestamp
from semgraph.execution.runtime import Opened
from semgraph.formats import models_by_role
from semgraph.llm.settings import Settings
from semgraph.llm.stack import bound
from semgraph.logical.plan import LogicalPlan
from semgraph.meter import StepMetrics

Say = Callable[[str], None]


class Runner(Protocol):
    """Runs plans for a comparison; a session implements it."""

    @property
    def settings(self) -> Settings:
        """The resolved settings."""

    @property
    def replays(self) -> bool:
        """Whether answers come from a recording."""

    def made_up(self, plan: LogicalPlan, *, writes: bool) -> list[str]:
        """A note if answers of a plan mean nothing."""

    def name_of(self, role: str) -> str:
        """The name of the model of a role."""

    def observations(self) -> ObservationFile | None:
        """The observations of earlier runs of the models; None without a journal."""

    def open(
        self, plan: LogicalPlan, *, fresh: bool, record_to: str | Path | None = None
    ) -> AbstractAsyncContextManager[Opened]:
        """Open the resources of a run; `fresh` ignores cached answers, `record_to` takes a recording."""


@dataclass(frozen=True)
class ArmRequest:
    """One arm: a plan, its inputs, and the models that answer it."""

    changes: Mapping[str, str]  # of its variant, as text, by key
    plan: LogicalPlan
    inputs: Mapping[str, pa.Table]
    runner: Runner  # arms with the same models share the same object


@dataclass(frozen=True)
class ComparisonRequest:
    """The arguments of a comparison; see `Session.acompare`. The first arm may be the reference."""

    plan: LogicalPlan
    inputs: Mapping[str, pa.Table]
    arms: Mapping[str, ArmRequest]
    step: str = ""
    truth: Any = None
    trials: int = 1
    runs: Path | None = None
    fresh: bool = False
    times: bool = False
    say: Say | None = None
    labels: Any = None
    at: str | Sequence[int] = (5, 10)
    judge: LogicalPlan | None = None
    record_to: str | Path | None = None

    def __post_init__(self) -> None:
        """Refuse labels of a step or beside a truth, a judge without labels, a number of trials below
        1, and several of a recording. Raises PlanError.
        """
        wrong = self.step or self.truth is not None if self.labels is not None else self.judge
        if wrong:
            what = "labels are for the rows of whole plans, in place of a truth; a judge needs them"
            raise PlanError(what, hint="leave out the step, the truth or the judge")
        if self.trials < 1:
            raise PlanError(f"trials is {self.trials}", hint="at least 1; 3 show a spread")
        if self.trials > 1 and any(arm.runner.replays for arm in self.arms.values()):
            what = "a recording has one answer to each question, so all its trials are equal"
            raise PlanError(what, hint=option("trials", 1))


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
    models: Sequence[str] = ()  # of each arm that is known
    kind: str = "comparison"

    @property
    def model(self) -> str:
        """The name of the model; if the arms call several, their names; "" if they call none."""
        return " | ".join(dict.fromkeys(filter(None, self.models)))

    def asks(self, opened: Opened, roles: Iterable[str]) -> None:
        """Note the models of the roles that an arm calls."""
        named = {role: bound(opened.llm, role).name for role in dict.fromkeys(roles)}
        self.models = (*self.models, models_by_role(named))

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
            semgraph=version("semgraph"), run=self.id, kind=self.kind, plan=plan.name, file=plan.file,
            step=self.request.step, ways=list(self.request.arms), trials=self.request.trials, params=dict(plan.params),
            started=timestamp(), status="running",
            settings=self.runner.settings.facts, journal=str(journal.path) if journal else None,
        )  # fmt: skip

    def _describe(self, **facts: Any) -> None:
        if self.record is not None:
            self.record.describe(**facts)

    def noted(self, opened: Opened) -> Opened:
        """Resources; model calls are recorded as soon as the record exists."""

        def add(*call: Any) -> None:
            if self.calls is not None:
                self.calls.add(*call)

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
            trials=request.trials, paid=self.paid, store=opened.store.name,
            truth=request.truth is not None or request.labels is not None,
            record=self.record.folder if self.record else None,
            journal=opened.journal.path.absolute() if opened.journal else None, **more,
        )  # fmt: skip
        if self.record is not None:
            save(result, self.record)
        return result
