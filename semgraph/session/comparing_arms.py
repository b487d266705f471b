"""The two ways to compare: over the frozen input of a step, and by whole plans in scratch copies."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from semgraph.errors import BudgetReached, PlanError, Problem
from semgraph.execution.comparison import Arm, Comparison, Estimate, Quality, Spent, Trial
from semgraph.logical.plan import LogicalPlan
from semgraph.physical.contract import Implementation
from semgraph.physical.library import Library
from semgraph.session.comparing import Kept, Request
from semgraph.session.comparing_copy import held, known_rows, partitions_read
from semgraph.session.comparing_cost import Ledger, admit, at_most, observed
from semgraph.session.comparing_graph import read_graph_truth
from semgraph.session.comparing_plan import Whole, compiled, try_plan, uses
from semgraph.session.comparing_quality import of_plans, of_step
from semgraph.session.comparing_step import Frozen, asking_step, freeze, seen_rows, try_way, way_of
from semgraph.session.comparing_truth import Truth, about, read_truth, whole_rows
from semgraph.session.resources import Opened, Resources
from semgraph.session.running import vector_length

T = TypeVar("T")
Named = Mapping[str, Implementation[Any]]


async def compare_step(request: Request, resources: Resources, opened: Opened, kept: Kept) -> Comparison:
    """Each way answers the same rows."""
    plan, library = request.plan, Library(resources.settings.operators)
    node = asking_step(plan, request.step)
    choices = {name: way_of(node, text, library, opened.llm) for name, text in request.ways.items()}
    reference = next((n for n, (c, _) in choices.items() if c == library.reference(node.keyword)), next(iter(choices)))
    truth = None if request.truth is None else read_truth(node, request.truth)
    source = await held(plan, opened.store, partitions_read(plan, request.inputs))
    known = await known_rows(plan, request.inputs, source)
    as_reference = replace(plan, use={**plan.use, node.step: choices[reference][0]})
    async with source.copy(await vector_length(plan, opened.embedder)) as scratch:
        frozen = await freeze(as_reference, node, request.inputs, opened, scratch, library)
    if not frozen.parts or not frozen.rows.num_rows:
        raise PlanError(
            Problem(f"step {node.step} has no rows to ask about: there is nothing to compare", hint="give others")
        )
    truth = None if truth is None else about(truth, node, frozen.rows)
    ways = {name: way for name, (_, way) in choices.items()}
    estimates = await _estimated(frozen, ways, library, opened, plan)
    for line in said_before(estimates, request.trials, frozen.before, opened):
        request.say(line)
    admit(estimates, request.trials, opened.budget)
    kept.begin()
    kept.paid = frozen.before
    column = plan.graph.partition

    async def attempt(name: str, number: int, ledger: Ledger) -> Trial:
        llm = opened.scoped(f"compare {name}: {choices[name][0]}")
        trial = await try_way(frozen, ways[name], llm, opened.embedder, column, number, ledger)
        request.say(_done(name, trial, request.trials))
        return trial

    trials, stopped = await _each(list(ways), request.trials, attempt, kept)
    quality = of_step(node, frozen.rows, trials, reference, truth)
    columns = truth.columns if truth else whole_rows(node)
    shown = columns.key if truth else (node.by if hasattr(node, "by") else tuple(node.prompt.fields))
    return kept.comparison(
        [Arm(n, {node.step: str(choices[n][0])}, tuple(trials[n]), quality[n]) for n in ways],
        reference=reference, key=tuple(shown), compare=columns.compare, frozen=frozen.facts(), before=frozen.before,
        estimates=tuple(estimates), notes=(*_notes(frozen, truth), *known), stopped=stopped, rows=frozen.rows,
        wanted=truth.rows if truth else None,
    )  # fmt: skip


def _done(name: str, trial: Trial, trials: int) -> str:
    """What is said when a trial is finished."""
    number = f", trial {trial.number + 1} of {trials}" if trials > 1 else ""
    replayed = trial.cold.calls - trial.paid.calls
    kept = f" and {replayed:,} from the journal" if replayed > 0 else ""
    return f"✓ {name}{number}: {trial.paid.calls:,} calls{kept}"


async def _estimated(
    frozen: Frozen, ways: Named, library: Library, opened: Opened, plan: LogicalPlan
) -> list[Estimate]:
    node, llm, embedder = frozen.node, opened.llm, opened.embedder
    rows = await seen_rows(frozen, llm, embedder, plan.graph.partition)
    reference = library.get(node.keyword, library.reference(node.keyword))
    seen = await observed(node, rows, reference, llm, embedder)
    return [at_most(name, way, node, rows, seen, llm) for name, way in ways.items()]


def said_before(estimates: Sequence[Estimate], trials: int, before: Spent, opened: Opened) -> list[str]:
    """What is said before anything is asked: what each way costs at most, and all of them."""
    wide = max(len(e.way) for e in estimates)
    lines = [f"  {e.way:<{wide}}  {_most(e)}" for e in estimates]
    known = [e.dollars for e in estimates]
    total = None if None in known else trials * sum(d for d in known if d is not None)
    calls = None if any(e.calls is None for e in estimates) else trials * sum(e.calls or 0 for e in estimates)
    limit = opened.budget.max_usd
    allowed = f" of the ${limit:,.2f} you allow" if limit is not None else ""
    each = f"{trials} trials of each: " if trials > 1 else "in all: "
    head = f"at most, for one trial ({opened.llm.name}); what the journal has already costs nothing"
    made = [f"  the rows took {before.calls:,} calls"] if before.calls else []
    return [head, *made, *lines, f"  {each}≤ {_number(calls)} calls, {_dollars(total)}{allowed}"]


def _most(estimate: Estimate) -> str:
    tokens = f"{_number(estimate.tokens_in)} tokens in, {_number(estimate.tokens_out)} out"
    calls = "call" if estimate.calls == 1 else "calls"
    return f"≤ {_number(estimate.calls)} {calls}   ≤ {tokens}   {_dollars(estimate.dollars)}"


def _number(value: float | None) -> str:
    return "?" if value is None else f"{value:,.0f}"


def _dollars(value: float | None) -> str:
    return "$ ?" if value is None else "$0" if value == 0 else f"≤ ${value:,.2g}"


def _notes(frozen: Frozen, truth: Truth | None) -> list[str]:
    notes = list(truth.notes) if truth else []
    if frozen.failed:
        notes.append(f"{frozen.failed:,} rows were lost before the step: a step before it had no answer for them")
    return notes


async def _each(
    names: Sequence[str], trials: int, attempt: Callable[[str, int, Ledger], Awaitable[T]], kept: Kept
) -> tuple[dict[str, list[T]], str | None]:
    """All first trials, then all second ones, ...: at a limit every way has as many as can be."""
    found: dict[str, list[T]] = {name: [] for name in names}
    for number in range(trials):
        for name in names:
            ledger = Ledger()
            try:
                found[name].append(await attempt(name, number, ledger))
            except BudgetReached as error:
                return found, f"{error}; {name}, trial {number}, is not complete. What was answered is in the journal"
            finally:
                kept.paid += ledger.paid  # also what a trial spent that a limit stopped
    return found, None


async def compare_plans(request: Request, resources: Resources, opened: Opened, kept: Kept) -> Comparison:
    """Each arm runs the plan in a copy of its own."""
    plan, library = request.plan, Library(resources.settings.operators)
    arms = uses(plan, request.ways)
    if request.truth is not None and not plan.writes:
        hint = "compare a step with a truth: step=..."
        raise PlanError(Problem(f"plan {plan.name} writes no graph that could be compared with a true one", hint=hint))
    truth = None if request.truth is None else read_graph_truth(request.truth)
    plans = {name: replace(plan, use={**plan.use, **use}) for name, use in arms.items()}
    length = await vector_length(plan, opened.embedder)
    source = await held(plan, opened.store, partitions_read(plan, request.inputs))
    async with source.copy(length) as scratch:
        for each in plans.values():
            compiled(each, scratch, library, opened.llm)
    estimates = [Estimate(name) for name in arms]
    request.say(f"whole plans: how much they ask depends on the answers (≤ ? calls, $ ?); {_limits(opened)}")
    kept.begin()

    async def attempt(name: str, number: int, ledger: Ledger) -> Whole:
        scope = ", ".join(f"{step}={choice}" for step, choice in arms[name].items())
        llm = opened.scoped(f"compare plan {name}: {scope}")
        whole = await try_plan(plans[name], request.inputs, source, opened, llm, library, number, length, ledger)
        request.say(_done(name, whole.trial, request.trials))
        return whole

    trials, stopped = await _each(list(arms), request.trials, attempt, kept)
    reference = next(iter(arms))
    quality = of_plans(trials, reference, truth) if trials[reference] else dict.fromkeys(arms, Quality())
    counts = {name: table.num_rows for name, table in request.inputs.items()}
    return kept.comparison(
        [
            Arm(n, {s: str(c) for s, c in use.items()}, tuple(w.trial for w in trials[n]), quality[n])
            for n, use in arms.items()
        ],
        reference=reference, frozen={"rows": counts, "copied": source.count}, estimates=tuple(estimates), stopped=stopped,
        notes=tuple(await known_rows(plan, request.inputs, source)),
    )  # fmt: skip


def _limits(opened: Opened) -> str:
    budget = opened.budget
    limits = {"max_calls": budget.max_calls, "max_tokens": budget.max_tokens, "max_usd": budget.max_usd}
    said = ", ".join(f"{name} {value:,g}" for name, value in limits.items() if value is not None)
    return f"it stops before it passes {said}" if said else "no limit is set"
