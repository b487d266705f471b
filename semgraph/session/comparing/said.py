"""What is said of the cost of a comparison before it is spent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from semgraph.execution.comparison import Estimate
from semgraph.execution.comparison.cells import dollars
from semgraph.execution.estimates import Amount, Estimator, total
from semgraph.execution.observed import Memory
from semgraph.llm.budget import Budget
from semgraph.logical.node import walk
from semgraph.logical.semantic import Semantic
from semgraph.physical.planner import PhysicalPlan
from semgraph.session.comparing.copy import Held
from semgraph.session.comparing.step import Input
from semgraph.session.explaining import windows
from semgraph.session.resources import Resources


def said_of_rows(
    made: Input, inputs: Mapping[str, pa.Table], source: Held, resources: Resources, budget: Budget
) -> list[str]:
    """What is said before rows are made for which models are asked: the steps, and as far as it is known how much they ask."""
    amounts = _calls(made.physical, inputs, source, resources)
    known = [f"{step} ({_amount(amount)})" for step, amount in amounts.items() if amount.known and amount.value]
    open_ = [step for step, amount in amounts.items() if not amount.known]
    asked = [f"  models are asked by {', '.join(known)}"] if known else []
    later = [f"  how much is not known beforehand: {', '.join(open_)}"] if open_ else []
    whole = ": a run of the whole plan, as the step reads what the plan writes" if made.grown else ""
    return [
        f"first the rows of step {made.node.step} are made{whole}",
        *asked,
        *later,
        f"  what the journal has costs nothing; {limits(budget)}",
    ]


def said_of_plans(
    arms: Mapping[str, PhysicalPlan], inputs: Mapping[str, pa.Table], source: Held, resources: Resources, budget: Budget
) -> list[str]:
    """What is said before whole plans are run: of each what EXPLAIN knows of its calls, and by which steps they are made."""
    wide = max(map(len, arms))
    each = {name: _calls(physical, inputs, source, resources) for name, physical in arms.items()}
    lines = [f"  {name:<{wide}}  {_of_plan(amounts)}" for name, amounts in each.items()]
    return [f"whole plans, one trial of each; {limits(budget)}", *lines]


def _of_plan(amounts: Mapping[str, Amount]) -> str:
    known = {step: amount for step, amount in amounts.items() if amount.known}
    later = len(amounts) - len(known)
    if not known:
        return "how many calls depends on the answers"
    calls = total(known.values())
    said = f"{calls.shown()} call{'s' * (calls.value != 1)}"
    if not later:
        return said
    return f"{said} for {', '.join(known)}; for {later} other step{'s' * (later > 1)} it depends on the answers"


def _calls(
    physical: PhysicalPlan, inputs: Mapping[str, pa.Table], source: Held, resources: Resources
) -> dict[str, Amount]:
    """The calls of each step that asks a model, as far as they are known."""
    memory = Memory.beside(resources.settings.journal_path)
    counts = {label: table.num_rows for label, table in source.rows.items()}
    rows = {name: table.num_rows for name, table in inputs.items()}
    estimator = Estimator(physical, rows, memory.read() if memory else {}, counts, windows(physical.logical, inputs))
    calls: dict[str, list[Amount]] = {}
    for node in walk(*physical.roots):
        if isinstance(node, Semantic):
            calls.setdefault(node.step, []).append(estimator.asked(node).calls)
    return {step: total(each) for step, each in calls.items()}


def _amount(calls: Amount) -> str:
    sign = {"seen": "≈ ", "most": "up to ", "least": "at least "}.get(calls.kind, "")
    return f"{sign}{calls.value:,.0f} call{'s' * (calls.value != 1)}"


def limits(budget: Budget) -> str:
    """The limits that are set."""
    each = {name: getattr(budget, name) for name in ("max_calls", "max_tokens", "max_usd", "max_seconds")}
    said = ", ".join(f"{name} {_limit(value)}" for name, value in each.items() if value is not None)
    return f"it stops before it passes {said}" if said else "no limit is set"


def _limit(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,g}"


def said_before(estimates: Sequence[Estimate], trials: int, before: int, llm: str, budget: Budget) -> list[str]:
    """What is said before ways are asked: what one trial of each takes, and all of them."""
    wide = max(len(e.way) for e in estimates)
    lines = [f"  {e.way:<{wide}}  {expected(e)}" for e in estimates]
    made = [f"  the rows took {before:,} call{'s' * (before != 1)}"] if before else []
    free = "  what the journal has costs nothing; an answer that is not valid is asked for again"
    return [f"one trial of each, {llm}", *made, *lines, f"  {in_all(estimates, trials, budget)}", free]


def in_all(estimates: Sequence[Estimate], trials: int, budget: Budget) -> str:
    """All trials of all ways."""
    known = [e.dollars for e in estimates]
    total = None if None in known else trials * sum(d for d in known if d is not None)
    calls = None if any(e.calls is None for e in estimates) else trials * sum(e.calls or 0 for e in estimates)
    about = "" if all(e.planned for e in estimates) else "≈ "
    limit = f" of the ${budget.max_usd:,.2f} you allow" if budget.max_usd is not None else ""
    each = f"{trials} trials of each: " if trials > 1 else "in all: "
    return f"{each}{_number(calls, about)} calls, {_dollars(total, planned=not about)}{limit}"


def expected(estimate: Estimate) -> str:
    """One way: calls that are planned, or about how many; tokens; dollars with the longest answers allowed."""
    e = estimate
    about = "" if e.planned else "≈ "
    calls = _number(e.calls, about) if e.least is None else f"{e.least:,.0f}–{_number(e.calls)}"
    most = "up to " if e.planned else "≈ "
    word = "call " if calls == "1" else "calls"
    tokens = f"{_number(e.tokens_in, '≈ ')} tokens in, {_number(e.tokens_out, most)} out"
    return f"{calls} {word}   {tokens}   {_dollars(e.dollars, planned=e.planned)}"


def _number(value: float | None, sign: str = "") -> str:
    return "?" if value is None else f"{sign}{value:,.0f}"


def _dollars(value: float | None, *, planned: bool) -> str:
    return "$ ?" if value is None else "$0" if value == 0 else f"{'up to' if planned else '≈'} ${dollars(value)}"
