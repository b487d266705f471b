"""Implementations of a step, compared over its input, which is computed once and frozen."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property, partial
from typing import Any, Self

import pyarrow as pa

from semgraph.compare import preview
from semgraph.compare.comparison import (
    Estimate,
    Quality,
    Spent,
    spread,
    trial_answers,
    with_differences,
)
from semgraph.compare.trial import (
    KEPT,
    Attempt,
    Attempts,
    Bench,
    CountedEmbedder,
    Ledger,
    OpenedArm,
    checked,
    known_rows,
    listed_steps,
    semantic_nodes,
)
from semgraph.compare.truth import Truth, about, read_truth, whole_rows
from semgraph.display import option
from semgraph.errors import BudgetReached, PlanError, SemgraphError, did_you_mean
from semgraph.execution.outcome import ExecutorOptions
from semgraph.execution.result import in_order
from semgraph.explain.estimates import Amount, how_long
from semgraph.expr.functions import canonical_json
from semgraph.llm.base import LLM, Embedder
from semgraph.llm.stack import bound
from semgraph.logical.iterate import of_first_round
from semgraph.logical.node import walk
from semgraph.logical.plan import Choice, LogicalPlan, match_steps
from semgraph.logical.prompt import plain
from semgraph.logical.semantic import SemAgg, Semantic
from semgraph.meter import StepMetrics
from semgraph.physical.plan import PhysicalPlan
from semgraph.relational.batch import INPUT_ROW
from semgraph.scores import Tally, agreement, tally
from semgraph.semantic.ask import Answered, Asking
from semgraph.semantic.context import Context
from semgraph.semantic.contract import Cost, Observed, Outcome, RowEstimate, Rows
from semgraph.semantic.dispatch import answer
from semgraph.semantic.implementation import Implementation
from semgraph.semantic.library import Library
from semgraph.stores.base import Store

Tables = tuple[pa.Table, ...]


@dataclass(frozen=True)
class RowsProbe(Implementation[Any]):
    """An implementation that sends nothing and collects its rows."""

    seen: list[Rows] = field(default_factory=list)

    def estimate(self, node: Any, rows: RowEstimate, seen: Observed | None) -> Cost:  # noqa: ARG002
        """Return no calls."""
        return Cost(0)

    async def answer(self, node: Any, rows: Rows, ctx: Context) -> Any:  # noqa: ARG002
        """Collect the rows; give no item an answer."""
        self.seen.append(rows)
        return [Outcome(None, "unasked: only looked at") for _ in rows.units(node)]


@dataclass(frozen=True)
class Frozen:
    """A step's input: the tables of the inputs of each evaluation of the step, with hidden columns;
    `_m` of the first input numbers its rows across all parts.
    """

    node: Semantic
    parts: Sequence[Tables]
    now: datetime | None
    partitions: Sequence[str]  # values by `_p`
    column: str  # of the partition
    before: Spent = Spent()
    failed: int = 0  # rows in earlier steps

    @cached_property
    def rows(self) -> pa.Table:
        """The rows of the first input, by number, without hidden columns."""
        names = self.node.inputs[0].schema.names
        return pa.concat_tables([part[0].select(names) for part in self.parts])

    def facts(self) -> dict[str, Any]:
        """The number of rows of each input, and the SHA-256 of all rows without vectors."""
        digest, counts = hashlib.sha256(), {}
        for i, source in enumerate(self.node.inputs):
            names = [f.name for f in source.schema if not pa.types.is_fixed_size_list(f.type)]
            tables = [part[i].select(names) for part in self.parts]
            name = source.step or getattr(source, "name", "") or source.keyword
            counts[name if name not in counts else f"{name}.{i}"] = sum(
                table.num_rows for table in tables
            )
            for row in (row for table in tables for row in table.to_pylist()):
                digest.update(canonical_json(plain(row)).encode("utf-8", "surrogatepass"))
            digest.update(b"\n")
        return {"rows": counts, "sha": digest.hexdigest()}

    def only(self, numbers: Sequence[int]) -> Frozen:
        """The same with these rows of the first input, in this order."""
        place, parts = {number: i for i, number in enumerate(numbers)}, list[Tables]()
        for first, *others in self.parts:
            own: list[Any] = first.column(INPUT_ROW).to_pylist()
            kept = [at for at, number in enumerate(own) if number in place]
            if kept:
                kept.sort(key=lambda at: place[own[at]])
                parts.append((first.take(pa.array(kept, pa.int64())), *others))
        return replace(self, parts=parts)

    async def answered(self, implementation: Implementation[Any], ctx: Context) -> list[Answered]:
        """The answers of an implementation to each part."""
        context = Asking(implementation, ctx, self.partitions, self.column, self.now)
        return [await answer(self.node, tables, context) for tables in self.parts]

    async def items(self, llm: LLM, embedder: Embedder) -> list[Rows]:
        """The rows that an implementation answers, collected by one without calls."""
        probe = RowsProbe()
        async with Context(llm, embedder, self.node, StepMetrics()) as ctx:
            await self.answered(probe, ctx)
        return probe.seen


def semantic_node(plan: LogicalPlan, step: str) -> Semantic:
    """The semantic operator of a step. Raises PlanError if the step does not exist, or has not
    exactly one such operator.
    """
    names = plan.asking
    steps = match_steps(step, names)
    matches = [node for node in semantic_nodes(plan.roots) if node.step in steps]
    there = listed_steps(names)
    if not matches and step in plan.steps:
        clusters = any(node.swappable and node.step == step for node in walk(*plan.roots))
        arms = " ".join(f"--variant {name}:{step}=ALGORITHM" for name in "AB")
        hint = f"compare whole plans: {arms}" if clusters else None
        raise PlanError(f"step {step} does not call the model", there=there, hint=hint)
    if not matches:
        hint = did_you_mean(step, names)
        raise PlanError(f'plan {plan.name} has no step "{step}"', there=there, hint=hint)
    if len(steps) > 1:
        there = ", ".join(steps)
        raise PlanError(f'"{step}" is several steps', there=there, hint="name one of them")
    if len(matches) > 1:
        kinds = ", ".join(node.keyword for node in matches)
        what = f"step {step} calls the model {len(matches)} times ({kinds})"
        raise PlanError(what, hint="split it into several steps")
    return matches[0]


@dataclass(frozen=True)
class StepArm:
    """An arm of a step: the step with the prompts of the arm's model, and its implementation."""

    arm: OpenedArm
    node: Semantic
    choice: Choice
    implementation: Implementation[Any]

    @classmethod
    def of(cls, arm: OpenedArm, step: str, library: Library) -> Self:
        """The implementation that the plan of an arm chooses for a step. Raises PlanError if it is
        unknown, has an invalid parameter, or does not support this step.
        """
        node = semantic_node(arm.plan, step)
        reference = library.reference(node.keyword)
        choice = (arm.plan.choice(node.step) or reference).over(reference)
        implementation = library.get(node.keyword, choice, node.step)
        asked = node.of_model(choice.model)
        limits = bound(arm.opened.llm, asked.prompt.first.role).limits
        if (refusal := implementation.refusal(asked, limits)) is not None:
            what = f"{choice} cannot do this: {refusal}"
            raise PlanError(what, step=node.step, position=node.origin)
        return cls(arm, asked, choice, implementation)

    def require_same_rows(self, first: Semantic) -> None:
        """Refuse an arm that changes the rows of the step, or the columns of its answers. Raises
        PlanError.
        """
        own, theirs = ([each.fingerprint for each in node.inputs] for node in (self.node, first))
        others = self.node.schema.names != first.schema.names
        if own != theirs or others:
            does = "changes the rows of" if own != theirs else "has other answers at"
            hint = f"compare whole plans: leave {option('step', '...')} out"
            what = f"variant {self.arm.name} {does} step {first.step}"
            raise PlanError(what, hint=hint)


def _joined(lists: Sequence[Sequence[pa.Table]]) -> Tables:
    """The tables of all windows as one, in the order of the input rows. A table without input rows
    is the same in all windows.
    """
    return tuple(
        in_order(pa.concat_tables(own), INPUT_ROW) if INPUT_ROW in own[0].column_names else own[0]
        for own in lists
    )


def _numbered(parts: Iterable[Tables]) -> Iterator[Tables]:
    """Number the rows of the first input across all parts, for evidence and failures."""
    start = 0
    for first, *others in parts:
        numbers = pa.array(range(start, start + first.num_rows), pa.int64())
        start += first.num_rows
        names = [name for name in first.column_names if name != INPUT_ROW]
        yield first.select(names).append_column(INPUT_ROW, numbers), *others


class StepArms:
    """Implementations of a step over the same rows. Raises PlanError if the step, an implementation or
    the truth is wrong, with all errors of implementations.
    """

    def __init__(self, bench: Bench) -> None:
        self.bench, request, library = bench, bench.request, bench.library
        of = {n: partial(StepArm.of, arm, request.step, library) for n, arm in bench.arms.items()}
        self.arms = checked(of)
        self.node = node = semantic_node(next(iter(bench.arms.values())).plan, request.step)
        checked({name: partial(each.require_same_rows, node) for name, each in self.arms.items()})
        for each in self.arms.values():
            bench.record.asks(each.arm.opened, (p.role for p in each.node.prompt.all))
        reference = library.reference(node.keyword)
        alike = (n for n, a in self.arms.items() if replace(a.choice, model="") == reference)
        self.reference = next(alike, next(iter(self.arms)))
        self.basis = library.get(node.keyword, reference)
        self.truth = None if request.truth is None else read_truth(node, request.truth)

    async def prepare(self, *, pays: bool = True) -> list[str]:
        """Compute the rows and the estimates, and return lines about the cost. Without `pays` nothing is
        computed if the rows need a model; the lines are then about its calls.
        """
        lines = await self.freeze(pays=pays)
        if lines:
            later = "the cost of the variants depends on these rows: compare prints it before it runs a variant"
            return [*lines, later]
        frozen = self.frozen
        await self.estimate(frozen)
        rows = " × ".join(f"{name} {count:,}" for name, count in frozen.facts()["rows"].items())
        what = f"{self.node.step} = {self.node.keyword}({rows})"
        before, trials = frozen.before.calls, self.bench.request.trials
        lines = preview.variants_preview(self.bench, what, self.estimates, self.reference, before)
        arms = (self.arms[each.variant] for each in self.estimates)
        models = [bound(each.arm.opened.llm, each.node.prompt.first.role) for each in arms]
        calls = [Amount(trials * (each.calls or 0), "seen") for each in self.estimates]
        seen = self._forecasts[self.reference].estimator.seen
        return [
            *filter(str.strip, [*lines, f"  {how_long(zip(models, calls, strict=True), seen)}"])
        ]

    async def freeze(self, *, pays: bool = True) -> list[str]:
        """Compute the rows. Without `pays` nothing is computed if they need a model: the result are lines
        about its calls.
        """
        bench = self.bench
        self.estimates = list[Estimate]()
        await bench.read(pays=pays)
        async with bench.copy(bench.base) as scratch:
            plans = {name: bench.compiled(each.arm, scratch) for name, each in self.arms.items()}
            physical, grown = self._source(scratch, plans[self.reference])
            if semantic_nodes(physical.roots):
                expected = bench.forecast(bench.base, physical)
                step, budget = self.node.step, bench.opened.budget
                lines = preview.rows_preview(step, expected, budget, whole=grown)
                if not pays:
                    return lines
                bench.say(lines)
                bench.record.begin()
            freeze = partial(self._freeze, physical, scratch, grown=grown)
            self.frozen = frozen = await bench.pays(freeze)
        if not frozen.parts or not frozen.rows.num_rows:
            what = f"step {self.node.step} has no rows: there is nothing to compare"
            raise PlanError(what, hint="use other inputs")
        if self.truth is not None:
            self.truth = about(self.truth, frozen.rows)
        self._forecasts = {n: bench.forecast(bench.arms[n], each) for n, each in plans.items()}
        return []

    def _source(self, store: Store, physical: PhysicalPlan) -> tuple[PhysicalPlan, bool]:
        """The plan of the reference up to the step; in a loop, up to the input of its first round. If
        the input depends on what the plan writes, it is the whole plan, and the second value is true.
        """
        bench, node, arm = self.bench, self.node, self.arms[self.reference]
        plan = arm.arm.plan
        plan = replace(plan, use={**plan.use, node.step: arm.choice})
        steps = [n for n in walk(*physical.roots) if n.swappable and n.step == node.step]
        grown = any(source in physical.after_writes for n in steps for source in n.inputs)
        inputs = of_first_round(plan.roots, node)
        small = replace(
            plan,
            writes=plan.writes if grown else (),
            returns={f"input {i}": source for i, source in enumerate(inputs)},
        )
        return bench.compiled(bench.base, store, small), grown

    async def _freeze(
        self, physical: PhysicalPlan, store: Store, ledger: Ledger, *, grown: bool
    ) -> Frozen:
        """Compute the input in a scratch store, charged to `ledger`.

        Raises:
            BudgetReached: A limit was reached before all rows were computed; the journal has the
                answers.
        """
        bench, node, times = self.bench, self.node, list[datetime]()

        def now(name: str) -> datetime:
            times.append(bench.opened.now(name))
            return times[-1]

        options = ExecutorOptions("comparison", now, again=True, write=grown)
        outcome, partitions, _ = await bench.run(bench.base, physical, store, ledger, options)
        if outcome.stopped:
            what = f"the rows of step {node.step} are not complete"
            raise BudgetReached(f"{outcome.stopped}; {what}. {KEPT}")
        lists = [outcome.tables.get(f"input {i}", []) for i in range(len(node.inputs))]
        windows = list(zip(*lists, strict=True))
        if windows and not grown:
            windows = [_joined(lists)]
        return Frozen(
            node,
            list(_numbered(windows)),
            times[0] if times else None,
            partitions,
            bench.request.plan.graph.partition,
            ledger.paid,
            len(outcome.failures),
        )

    async def estimate(self, frozen: Frozen, lost: dict[str, str] | None = None) -> None:
        """Estimate the cost of each arm over some rows, with what was observed in its whole plan. An arm
        that cannot say its cost is `lost`, with the error; else that is raised.
        """
        opened, of = self.bench.opened, self._forecasts
        self.items = items = await frozen.items(opened.llm, opened.embedder)
        self.expected: dict[str, preview.StepEstimates] = {}
        for name, each in self.arms.items():
            models = each.arm.opened.llm, each.arm.opened.embedder
            estimates = preview.StepEstimates(each.node, items, *models)
            self.expected[name] = await estimates.observed(self.basis)
        own = {name: each.implementation for name, each in self.arms.items()}
        self.requests: dict[str, preview.Batches | None] = {}
        for name, expected in list(self.expected.items()):
            try:
                self.requests[name] = await expected.at_once(own[name])
            except SemgraphError as error:
                if lost is None or name == self.reference:
                    raise
                lost[name] = str(error)
                del self.expected[name]
        step, number = self.node.step, sum(len(rows.items) for rows in items)
        seen = {name: preview.tokens_seen(of[name], step, number) for name in self.expected}
        self.estimates = [
            each.of(name, own[name], self.requests[name], seen[name])
            for name, each in self.expected.items()
        ]

    async def ready(self, ledger: Ledger) -> None:
        """Compute the vectors that implementations need, before the timed trials."""
        for name, requests in self.requests.items():
            if requests is None:
                each = self.arms[name]
                embedder = CountedEmbedder(each.arm.opened.embedder, ledger)
                estimates = replace(self.expected[name], embedder=embedder)
                await estimates.requests(each.implementation, embeds=True)

    async def attempt(
        self, name: str, number: int, ledger: Ledger, frozen: Frozen | None = None
    ) -> Attempt:
        """Run one trial of an arm over all rows, or over some."""
        each, frozen = self.arms[name], frozen or self.frozen
        opened, node = each.arm.opened, each.node
        llm = self.bench.scoped(each.arm, ledger)
        embedder = CountedEmbedder(opened.embedder, ledger)
        began = time.perf_counter()
        async with Context(llm, embedder, node, StepMetrics(), trial=number) as ctx:
            result = await replace(frozen, node=node).answered(each.implementation, ctx)
        seconds = None if ledger.replayed else time.perf_counter() - began
        for answered in result:
            opened.answered(node, answered)
        failures = [failure for part in result for failure in part.failures]
        evidence = [part.evidence for part in result if part.evidence is not None]
        rows = pa.concat_tables([part.table.select(node.schema.names) for part in result])
        answers = pa.concat_tables(evidence) if evidence else None
        return Attempt(ledger.trial(number, seconds, failures, rows=rows, answers=answers))

    def scored(self, attempts: Attempts) -> dict[str, Quality]:
        """The quality of each implementation against the truth, and its agreement with the
        reference.
        """
        rows, truth, reference = self.frozen.rows, self.truth, self.reference
        key, compare = whole_rows(self.node)
        answers = {
            name: [trial_answers(each.trial, key, compare, rows, name) for each in own]
            for name, own in attempts.items()
        }
        tallies = {} if truth is None else _tallies(attempts, truth, rows)
        qualities = {}
        for name, own in answers.items():
            quality, pairs = Quality(), list(zip(own, answers[reference], strict=False))
            same = agreement(*pairs) if pairs and name != reference else None
            if truth is not None:
                quality = Quality.of(tallies[name])
            elif same is not None:
                each = [agreement(pair).value for pair in pairs]
                quality = Quality(interval=same.interval, spread=spread(each))
            qualities[name] = replace(quality, same=same and same.value)
        return with_differences(qualities, tallies, reference) if tallies else qualities

    def facts(self) -> dict[str, Any]:
        """The further fields of the result."""
        frozen, truth, node = self.frozen, self.truth, self.node
        key, compare = truth.columns if truth else whole_rows(node)
        if truth is None:
            key = node.by if isinstance(node, SemAgg) else tuple(node.prompt.fields)
        notes = list(truth.notes) if truth else []
        labelled = len(truth.wanted(frozen.rows)) if truth and not truth.closed else None
        if frozen.failed:
            notes.append(f"{frozen.failed:,} rows failed in earlier steps and are not compared")
        return {
            "key": tuple(key),
            "compare": compare,
            "frozen": frozen.facts() | {"labelled": labelled},
            "before": frozen.before,
            "notes": (*notes, *known_rows(self.bench)),
            "rows": frozen.rows,
            "wanted": truth.rows if truth else None,
            "closed": truth.closed if truth else True,
        }


def _tallies(attempts: Attempts, truth: Truth, rows: pa.Table) -> dict[str, list[Tally]]:
    """A tally for each trial, over all rows or over the rows of the truth."""
    true = truth.wanted(rows)

    def tallied(answered: pa.Table) -> Tally:
        ours = truth.answered(answered, rows)
        scored = ours if truth.closed else {unit: ours[unit] for unit in ours if unit in true}
        return tally(scored, true)

    return {
        name: [tallied(each.trial.rows) for each in own if each.trial.rows is not None]
        for name, own in attempts.items()
    }


def only_step(plan: LogicalPlan) -> str:
    """The only semantic step of a plan. Raises PlanError if there is none or more than one."""
    names = plan.asking
    if len(names) != 1:
        what, hint = "these variants do not name their step", 'name it: step="..."'
        raise PlanError(what, there=listed_steps(names), hint=hint)
    return names[0]
