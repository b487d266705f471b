"""Comparing implementations of a step, or whole plans: checks, trials, quality, record. Quality is
measured against the truth, or without one as agreement with the reference.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from statistics import fmean
from typing import Any, Protocol, TypeVar

import pyarrow as pa

from semgraph.compare.comparison import (
    Arm,
    Comparison,
    Estimate,
    Quality,
    Spent,
    Trial,
    save,
    trial_answers,
)
from semgraph.compare.preview import (
    admit,
    ahead,
    expected,
    in_all,
    plans_preview,
    rows_preview,
    variants_preview,
    warm,
)
from semgraph.compare.trial import (
    KEPT,
    CountedEmbedder,
    Frozen,
    Ledger,
    StepInput,
    Whole,
    checked,
    compiled,
    freeze,
    implementation_of,
    input_of,
    known_rows,
    listed_steps,
    partitions_read,
    seen_rows,
    semantic_node,
    semantic_steps,
    snapshot,
    try_plan,
    try_variant,
    uses,
)
from semgraph.compare.truth import (
    RowAnswers,
    Truth,
    about,
    comparable,
    read_graph_truth,
    read_truth,
    whole_rows,
)
from semgraph.display import option
from semgraph.errors import BudgetReached, Fault, PlanError, Problem
from semgraph.execution.observations import ObservationFile
from semgraph.execution.record import CallLog, RunRecord, new_run, noted, timestamp
from semgraph.execution.runtime import Opened
from semgraph.expr.functions import canonical_json
from semgraph.llm.base import LLM
from semgraph.llm.settings import Settings
from semgraph.logical.plan import Choice, LogicalPlan
from semgraph.logical.prompt import plain
from semgraph.logical.semantic import SemAgg, Semantic
from semgraph.meter import StepMetrics
from semgraph.scores import (
    GraphScore,
    IntervalEstimate,
    Score,
    ScoredGraph,
    Tally,
    agreement,
    difference,
    pooled,
    score,
    score_graph,
    tally,
)
from semgraph.semantic.implementation import Implementation
from semgraph.semantic.library import Library
from semgraph.stores.base import Store

Variants = Sequence[str] | Mapping[str, str] | Mapping[str, Mapping[str, str]]
T = TypeVar("T")
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
        raise PlanError(
            Problem(
                "a recording has one answer to each question, so all its trials are equal",
                hint="trials=1",
            )
        )
    if isinstance(variants, str):
        raise PlanError(
            Problem(
                f'variants is the text "{variants}"', hint=f'write a list: variants=["{variants}"]'
            )
        )
    variants_by_name = dict(variants) if isinstance(variants, Mapping) else _named(list(variants))
    if not variants_by_name:
        raise PlanError(
            Problem(
                "there is nothing to compare",
                hint='name variants: variants=["per_row", "packed(rows=10)"]',
            )
        )
    nested = [name for name, variant in variants_by_name.items() if isinstance(variant, Mapping)]
    if step and nested:
        hint = f'with step="{step}" a variant is a text, such as "block(left=10)"; leave step out to compare whole plans'
        raise PlanError(
            Problem(f"variant {nested[0]} sets implementations of several steps", hint=hint)
        )
    if not step and len(nested) < len(variants_by_name):
        hint = 'name it: step="..."; or compare whole plans: variants={"name": {"step": "implementation"}}'
        raise PlanError(Problem("these variants do not name their step", hint=hint))
    return variants_by_name


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
    facts: dict[str, Any] = field(default_factory=dict)

    def begin(self) -> None:
        """Create the folder, once."""
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
            k: {"value": v, "origin": origin} for k, v, origin in self.runner.settings.rows()
        }
        self._describe(
            semgraph=version("semgraph"), run=self.id, kind="comparison", plan=plan.name, file=plan.file,
            step=self.request.step, ways=list(self.request.variants), trials=self.request.trials, params=dict(plan.params),
            started=timestamp(), status="running", settings=settings, journal=str(journal.path) if journal else None,
        )  # fmt: skip

    def _describe(self, **facts: Any) -> None:
        if self.record is not None:
            self.record.describe(**facts)

    def noted(self, opened: Opened) -> Opened:
        """The same resources; model calls are recorded as soon as the record exists."""

        def add(*call: Any) -> None:
            if self.calls is not None:
                self.calls.add(*call)

        scoped = opened.scoped
        return replace(
            opened, llm=noted(opened.llm, add), scoped=lambda scope: noted(scoped(scope), add)
        )

    def end(self, status: str, reason: str | None = None) -> None:
        """Record the outcome and the cost."""
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
        self._describe(status=status, why=reason, ended=timestamp())

    def comparison(self, arms: Sequence[Arm], **more: Any) -> Comparison:
        """Record the result and return it."""
        request, opened = self.request, self.opened
        result = Comparison(
            id=self.id, plan=request.plan.name, step=request.step, model=opened.llm.name, arms=tuple(arms),
            trials=request.trials, truth=request.truth is not None, paid=self.paid, store=opened.store.name,
            record=self.record.folder if self.record else None,
            journal=opened.journal.path.absolute() if opened.journal else None, **more,
        )  # fmt: skip
        if self.record is not None:
            save(result, self.record)
        return result


async def compare(request: ComparisonRequest, runner: Runner) -> Comparison:
    """Compare, and record the result or the error.

    Raises:
        PlanError: The request is wrong; nothing was spent.
        BudgetReached: A limit would be exceeded before anything was compared.
    """
    plan = request.plan
    async with runner.open(plan, fresh=request.fresh) as opened:
        record = ComparisonRecord(request, runner, opened)
        work = compare_step if request.step else compare_plans
        try:
            result = await work(request, runner, record.noted(opened), record)
        except BaseException as error:
            interrupted = isinstance(error, (asyncio.CancelledError, KeyboardInterrupt))
            stopped = "budget" if isinstance(error, BudgetReached) else "failed"
            record.end("interrupted" if interrupted else stopped, str(error))
            if isinstance(error, Fault):
                raise PlanError(Problem(error.what, there=error.there, hint=error.hint)) from None
            raise
        record.end("budget" if result.stopped else "compared", result.stopped)
        return result


@dataclass(frozen=True)
class Choices:
    """Implementations of a step.

    Args:
        node: The step.
        choices: The choices of the variants, by name.
        variants: The variants.
        reference: The name of the variant that the others are compared with.
        operator_reference: The reference implementation of the operator.
        library: The library of the variants.
    """

    node: Semantic
    choices: Mapping[str, Choice]
    variants: Mapping[str, Implementation[Any]]
    reference: str
    operator_reference: Implementation[Any]
    library: Library

    def input(self, plan: LogicalPlan, store: Store, llm: LLM) -> StepInput:
        """The plan of the step's input, with the reference as the step's implementation."""
        use = {**plan.use, self.node.step: self.choices[self.reference]}
        return input_of(replace(plan, use=use), self.node, store, self.library, llm)

    def questions(self, frozen: Frozen) -> pa.Table:
        """The frozen rows. Raises PlanError if there are none."""
        if not frozen.parts or not frozen.rows.num_rows:
            what = f"step {self.node.step} has no rows: there is nothing to compare"
            raise PlanError(Problem(what, hint="use other inputs"))
        return frozen.rows


def choices(request: ComparisonRequest, runner: Runner, llm: LLM) -> Choices:
    """The requested variants. Raises PlanError with all their errors."""
    library = Library(runner.settings.operators)
    node = semantic_node(request.plan, request.step)
    by_name = checked(
        {
            n: partial(implementation_of, node, text, library, llm)
            for n, text in request.variants.items()
        }
    )
    own = library.reference(node.keyword)
    reference = next(
        (n for n, (choice, _) in by_name.items() if choice == own), next(iter(by_name))
    )
    return Choices(
        node,
        {name: choice for name, (choice, _) in by_name.items()},
        {name: variant for name, (_, variant) in by_name.items()},
        reference,
        library.get(node.keyword, own),
        library,
    )


Named = Mapping[str, Implementation[Any]]


async def compare_step(
    request: ComparisonRequest, runner: Runner, opened: Opened, record: ComparisonRecord
) -> Comparison:
    """Compare variants of a step over the same rows."""
    plan = request.plan
    chosen = choices(request, runner, opened.llm)
    node, variants, reference = chosen.node, chosen.variants, chosen.reference
    truth = None if request.truth is None else read_truth(node, request.truth)
    source = await snapshot(
        plan, opened.store, partitions_read(plan, request.inputs), request.inputs
    )
    known = known_rows(plan, request.inputs, source)
    async with source.copy(await opened.vector_length(plan)) as scratch:
        step_input = chosen.input(plan, scratch, opened.llm)
        if step_input.steps:
            for line in rows_preview(
                step_input, request.inputs, source, runner.observations(), opened.budget
            ):
                request.say(line)
            record.begin()
        frozen = await spent(
            record, lambda ledger: freeze(step_input, request.inputs, opened, scratch, ledger)
        )
    questions = chosen.questions(frozen)
    truth = None if truth is None else about(truth, node, questions)
    column = plan.graph.partition
    rows = await seen_rows(frozen, opened.llm, opened.embedder, column)
    costs = await ahead(
        node, variants, chosen.operator_reference, rows, opened.llm, opened.embedder
    )
    for line in variants_preview(
        costs.estimates, request.trials, frozen.before.calls, opened.llm.name, opened.budget
    ):
        request.say(line)
    admit(costs.estimates, request.trials, opened.budget)
    record.begin()

    async def ready(ledger: Ledger) -> None:
        embedding = [variants[name] for name in costs.embedding]
        await warm(node, embedding, rows, opened.llm, CountedEmbedder(opened.embedder, ledger))

    async def attempt(name: str, number: int, ledger: Ledger) -> Trial:
        llm = opened.scoped(f"compare {name}: {chosen.choices[name]}")
        trial = await try_variant(frozen, variants[name], opened, llm, column, number, ledger)
        request.say(_done(name, trial, request.trials))
        return trial

    trials, stopped = await _each(list(variants), request.trials, attempt, record, ready)
    quality = of_step(node, frozen.rows, trials, reference, truth)
    columns = truth.columns if truth else whole_rows(node)
    key_columns = (
        columns.key
        if truth
        else (node.by if isinstance(node, SemAgg) else tuple(node.prompt.fields))
    )
    return record.comparison(
        [Arm(n, {node.step: str(chosen.choices[n])}, tuple(trials[n]), quality[n]) for n in variants],
        reference=reference, key=tuple(key_columns), compare=columns.compare, frozen=frozen.facts(), before=frozen.before,
        estimates=costs.estimates, notes=(*_notes(frozen, truth), *known), stopped=stopped, rows=frozen.rows,
        wanted=truth.rows if truth else None, closed=truth.closed if truth else True,
    )  # fmt: skip


def _done(name: str, trial: Trial, trials: int) -> str:
    """The line printed after a trial."""
    number = f", trial {trial.number} of {trials}" if trials > 1 else ""
    replayed = trial.cold.calls - trial.paid.calls
    replays = f" and {replayed:,} from the journal" if replayed > 0 else ""
    return f"✓ {name}{number}: {trial.paid.calls:,} call{'s' * (trial.paid.calls != 1)}{replays}"


def _notes(frozen: Frozen, truth: Truth | None) -> list[str]:
    notes = list(truth.notes) if truth else []
    if frozen.failed:
        notes.append(f"{frozen.failed:,} rows failed in earlier steps and are not compared")
    return notes


async def _each(
    names: Sequence[str], trials: int, attempt: Callable[[str, int, Ledger], Awaitable[T]], record: ComparisonRecord,
    ready: Callable[[Ledger], Awaitable[None]] | None = None,
) -> tuple[dict[str, list[T]], str | None]:  # fmt: skip
    """Run all first trials, then all second ones, and so on, so that all variants have about
    equally many trials when a limit is reached.

    Each round starts with the next variant, to spread the extra cost of the first one (opening
    connections).
    """
    results: dict[str, list[T]] = {name: [] for name in names}
    what = "the embedding of texts"
    try:
        if ready is not None:
            await spent(record, ready)
        for number in range(trials):
            first = number % len(names)
            for name in (*names[first:], *names[:first]):
                what = f"{name}, trial {number + 1} of {trials}," if trials > 1 else name
                results[name].append(await spent(record, partial(attempt, name, number)))
    except BudgetReached as error:
        return results, f"{str(error).removeprefix('stopped ')}; {what} is not complete. {KEPT}"
    return results, None


async def spent(record: ComparisonRecord, work: Callable[[Ledger], Awaitable[T]]) -> T:
    """Await some work and record its cost, even if a limit stops it."""
    ledger = Ledger()
    try:
        return await work(ledger)
    finally:
        record.paid += ledger.paid


async def compare_plans(
    request: ComparisonRequest, runner: Runner, opened: Opened, record: ComparisonRecord
) -> Comparison:
    """Compare whole plans, each run in a separate copy."""
    plan, library = request.plan, Library(runner.settings.operators)
    arms = uses(plan, request.variants)
    if request.truth is not None and not plan.writes:
        hint = f"compare a step with a truth: {option('step', '...')}"
        raise PlanError(
            Problem(
                f"plan {plan.name} writes no graph to compare with a true one",
                hint=hint,
            )
        )
    truth = None if request.truth is None else read_graph_truth(request.truth)
    plans = {name: plan.using(use) for name, use in request.variants.items()}
    length = await opened.vector_length(plan)
    source = await snapshot(
        plan, opened.store, partitions_read(plan, request.inputs), request.inputs
    )
    async with source.copy(length) as scratch:
        physical = checked(
            {
                name: partial(compiled, each, scratch, library, opened.llm)
                for name, each in plans.items()
            }
        )
    estimates = [Estimate(name) for name in arms]
    for line in plans_preview(
        physical, request.inputs, source, runner.observations(), opened.budget
    ):
        request.say(line)
    record.begin()

    async def attempt(name: str, number: int, ledger: Ledger) -> Whole:
        scope = f"compare plan {name}: " + ", ".join(
            f"{step}={choice}" for step, choice in arms[name].items()
        )
        llm = opened.scoped(scope)
        whole = await try_plan(
            plans[name], request.inputs, source, opened, llm, library, number, length, ledger, scope
        )
        request.say(_done(name, whole.trial, request.trials))
        return whole

    trials, stopped = await _each(list(arms), request.trials, attempt, record)
    reference = next(iter(arms))
    quality = (
        of_plans(trials, reference, truth) if trials[reference] else dict.fromkeys(arms, Quality())
    )
    counts = {name: table.num_rows for name, table in request.inputs.items()}
    return record.comparison(
        [
            Arm(n, {s: str(c) for s, c in use.items()}, tuple(w.trial for w in trials[n]), quality[n])
            for n, use in arms.items()
        ],
        reference=reference, frozen={"rows": counts, "copied": source.count}, estimates=tuple(estimates), stopped=stopped,
        notes=tuple(known_rows(plan, request.inputs, source)),
    )  # fmt: skip


def only_step(plan: LogicalPlan) -> str:
    """The only semantic step of a plan. Raises PlanError if there is none or more than one."""
    names = semantic_steps(plan.roots)
    if len(names) != 1:
        raise PlanError(
            Problem(
                "these variants do not name their step",
                there=listed_steps(names),
                hint='name it: step="..."',
            )
        )
    return names[0]


async def foreseen(request: ComparisonRequest, runner: Runner) -> list[str]:
    """The expected cost of each variant of a step over its rows, one line each. No model is called;
    texts that a search needs are embedded.

    Raises:
        PlanError: The request is wrong, or there are no rows.
    """
    plan = request.plan
    async with runner.open(plan, fresh=False) as opened:
        chosen = choices(request, runner, opened.llm)
        source = await snapshot(plan, opened.store, partitions_read(plan, request.inputs))
        async with source.copy(await opened.vector_length(plan)) as scratch:
            step_input = chosen.input(plan, scratch, opened.llm)
            if step_input.steps:
                later = "the cost of the variants depends on these rows: compare prints it before it runs a variant"
                return [
                    *rows_preview(
                        step_input,
                        request.inputs,
                        source,
                        runner.observations(),
                        opened.budget,
                    ),
                    later,
                ]
            frozen = await freeze(step_input, request.inputs, opened, scratch, Ledger())
        chosen.questions(frozen)
        node, variants = chosen.node, chosen.variants
        rows = await seen_rows(frozen, opened.llm, opened.embedder, plan.graph.partition)
        costs = await ahead(
            node, variants, chosen.operator_reference, rows, opened.llm, opened.embedder
        )
        counts = " × ".join(f"{name} {count:,}" for name, count in frozen.facts()["rows"].items())
        wide = max(map(len, variants))
        note = {name: "   reference" if name == chosen.reference else "" for name in variants}
        return [
            f"{node.step} = {node.keyword}({counts}), one trial of each ({opened.llm.name}), estimated",
            *(f"  {e.variant:<{wide}}  {expected(e)}{note[e.variant]}" for e in costs.estimates),
            f"  {in_all(costs.estimates, request.trials, opened.budget)}",
        ]


Trials = Mapping[str, Sequence[Trial]]


def of_step(
    node: Semantic, frozen: pa.Table, trials: Trials, reference: str, truth: Truth | None
) -> dict[str, Quality]:
    """The quality of each variant of a step.

    Args:
        node: The step.
        frozen: The frozen rows.
        trials: The trials of each variant.
        reference: The variant that the others are compared with.
        truth: The true answers.
    """
    columns = whole_rows(node)
    key, compare = columns.key, columns.compare
    whole = {
        name: [trial_answers(trial, key, compare, frozen, name) for trial in each]
        for name, each in trials.items()
    }
    qualities = {}
    for name, answers in whole.items():
        pairs = list(zip(answers, whole[reference], strict=False))
        same = agreement(*pairs) if pairs and name != reference else None
        qualities[name] = Quality(same=same and same.value)
        if truth is None and same is not None:
            spread = _spread([agreement(pair).value for pair in pairs])
            qualities[name] = replace(qualities[name], interval=_range(same), spread=spread)
    if truth is None:
        return qualities
    true = truth.wanted(frozen)
    tallies = {name: _tallies(each, frozen, truth, true) for name, each in trials.items()}
    return {
        name: _scored(each, tallies[reference], qualities[name], own=name == reference)
        for name, each in tallies.items()
    }


def _within(answers: RowAnswers, units: RowAnswers) -> RowAnswers:
    return {unit: own for unit, own in answers.items() if unit in units}


def _tallies(
    trials: Sequence[Trial], frozen: pa.Table, truth: Truth, true: RowAnswers
) -> list[Tally]:
    """A tally for each trial, over all rows or over the rows of the truth."""
    answers = [truth.answered(trial.rows, frozen) for trial in trials if trial.rows is not None]
    return [tally(each if truth.closed else _within(each, true), true) for each in answers]


def _scored(
    tallies: Sequence[Tally], reference: Sequence[Tally], quality: Quality, *, own: bool
) -> Quality:
    """Precision, recall and F1 over all trials; the difference uses trials that both have."""
    if not tallies:
        return quality
    total = score(pooled(tallies))
    both = min(len(tallies), len(reference))
    ours, theirs = pooled(tallies[:both]), pooled(reference[:both])
    less = difference(ours, theirs) if ours and theirs and not own else None
    return replace(
        quality,
        precision=total.precision,
        recall=total.recall,
        f1=total.f1,
        interval=total.interval and (total.interval.low, total.interval.high),
        spread=_spread([score(each).f1 for each in tallies]),
        difference=less and (less.value, *(less.interval or (None, None))),
    )


def _spread(values: Sequence[float | None]) -> tuple[float, float] | None:
    known = [value for value in values if value is not None]
    return (min(known), max(known)) if len(known) > 1 else None


def _range(value: IntervalEstimate) -> tuple[float, float] | None:
    return value.interval and (value.interval.low, value.interval.high)


def of_plans(
    trials: Mapping[str, Sequence[Whole]], reference: str, truth: ScoredGraph | None
) -> dict[str, Quality]:
    """The quality of each variant of a whole plan: of the graph that it wrote, or of the rows that
    it returned.
    """
    return {
        name: _of_plan(each, trials[reference], truth, own=name == reference)
        for name, each in trials.items()
    }


def _of_plan(
    trials: Sequence[Whole], reference: Sequence[Whole], truth: ScoredGraph | None, *, own: bool
) -> Quality:
    if own and truth is None:
        return Quality()
    graphs = [each.graph for each in trials if each.graph is not None]
    if not graphs:
        pairs = zip(trials, reference, strict=False)
        return _scored(
            [tally(_returned(a), _returned(b)) for a, b in pairs], (), Quality(), own=True
        )
    others = [each.graph for each in reference if each.graph is not None]
    if truth is None:
        scores = [score_graph(a, b) for a, b in zip(graphs, others, strict=False)]
        return _graded(scores, _scored([s.tally for s in scores], (), Quality(), own=True))
    scores, base = (
        [score_graph(comparable(graph, truth), truth) for graph in each]
        for each in (graphs, others)
    )
    return _graded(
        scores, _scored([s.tally for s in scores], [s.tally for s in base], Quality(), own=own)
    )


def _graded(scores: Sequence[GraphScore], quality: Quality) -> Quality:
    """The quality with the measures of nodes and times, averaged over the trials."""

    def mean(values: Sequence[Score | None]) -> float | None:
        known = [value.f1 for value in values if value is not None and value.f1 is not None]
        return fmean(known) if known else None

    return replace(
        quality,
        pairs=mean([s.pairs for s in scores]),
        b_cubed=mean([s.b_cubed for s in scores]),
        validity=mean([s.validity for s in scores]),
        ended=mean([s.ended for s in scores]),
    )


def _returned(whole: Whole) -> RowAnswers:
    """Returned rows, each as the answer of a separate unit: the table and all values."""
    result: dict[Hashable, Counter[Hashable]] = {}
    for name, table in whole.tables.items():
        for row in table.to_pylist():
            result.setdefault((name, canonical_json(plain(row))), Counter())[()] += 1
    return result
