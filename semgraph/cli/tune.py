"""`semgraph tune`: the cheapest configuration of a plan that is shown to be good enough."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import typer

from semgraph.cli.options import CommonOptions, PlanOptions, argument, everywhere, option
from semgraph.errors import PlanError
from semgraph.options import RunOptions

if TYPE_CHECKING:
    from semgraph.tune.tuning import Tuning


@everywhere
def tune(
    options: CommonOptions,
    given: PlanOptions,
    request: RunOptions,
    plan: str | None = argument("PLAN", "A file, or a name: semgraph plans list.", None),
    floor: float | None = option("--floor F1", "The least F1; default: 0.95."),
    per_1000: float | None = option(
        "--per-1000 USD", "Instead of a floor: the price of 1,000 rows."
    ),
    confidence: float = option("--confidence P", "The probability of the promise.", 0.95),
    budget: float | None = option("--budget USD", "The same as --max-usd."),
    sample: int = option("--sample N", "The most rows that are checked.", 400, min=1),
    truth: str | None = option(
        "--truth FILE", "The right answers; default: those of the plan as it is."
    ),
    models: str | None = option(
        "--models A,B,…", "Roles and models to try: default,small,openai:NAME."
    ),
    step: list[str] | None = option(
        "--step STEP", "The step to tune; default: all that call a model."
    ),
    units: Literal["call", "row"] = option(
        "--units", "call: check one row of each call. row: check all, as if independent.", "call"
    ),
    rows: int | None = option("--for ROWS", "The rows that must repay it.", min=1),
    to: str | None = option(
        "-o --output FILE", "Where to write it; default: plans/PLAN.tuned.yaml."
    ),
    yes: bool = option("--yes", "Search without asking.", False),
    show: str | None = option("--show ID", "Show a recorded tuning: ID, or last."),
) -> None:
    """Choose the cheapest implementations and models of a plan that are shown to be good enough.

    Candidates are tried on drawn rows, from cheap to dear. One is chosen only if an exact test shows that
    its F1 is at least the floor; otherwise the plan stays as it is. The choice becomes a file, for
    semgraph run PLAN --preset tuned. The store is only read.
    """
    from semgraph.render.tuning import lines
    from semgraph.tune.tuning import load_tuning

    if show is not None:
        recorded = load_tuning(show)
        options.result(recorded.to_json(), lines(recorded, options.out.width))
        return
    if plan is None:
        raise PlanError("there is no plan to tune", hint="semgraph tune PLAN -i NAME=FILE")
    if budget is not None:
        if options.chosen.get("max_usd", budget) != budget:
            raise PlanError("--budget and --max-usd differ", hint="give one of them")
        options = replace(options, chosen={**options.chosen, "max_usd": budget})
    asks = not (yes or options.json) and sys.stdin.isatty() and sys.stdout.isatty()
    with options.session() as session:
        prepared = given.prepare(session, plan)
        from semgraph.compare.variants import listed
        from semgraph.render.header import header

        values = given.rows(prepared)
        every = bool(options.verbose)
        options.talk(*header(prepared, plan, values, session.settings, every=every))
        job = session.atune(
            plan, **given.loading, floor=0.95 if floor is per_1000 is None else floor, per_1000=per_1000,
            confidence=confidence, sample=sample, seed=request.seed, truth=truth,
            models=listed(models) if models else None, steps=step, units=units, rows=rows, fresh=request.fresh,
            say=options.talk, ask=_asked if asks else None, inputs=values,
        )  # fmt: skip
        try:
            tuning = options.wait(job)
        except KeyboardInterrupt:
            options.warn("Paid answers are in the journal: the same command continues from there")
            raise
    if tuning.status == "shown":
        tuning = _saved(tuning, Path(to or f"plans/{tuning.plan}.tuned.yaml"))
    options.result(tuning.to_json(), lines(tuning, options.out.width))
    raise typer.Exit(tuning.exit_code)


def _asked(_lines: Sequence[str]) -> bool:
    try:
        return typer.confirm("Begin the search?", err=True)
    except typer.Abort:
        raise KeyboardInterrupt from None


def _saved(tuning: Tuning, to: Path) -> Tuning:
    """The tuning with its file, which is written; also in the record."""
    from semgraph.execution.record import RunRecord
    from semgraph.tune.tuning import save_tuning

    result = replace(tuning, file=tuning.save(to))
    if result.record is not None:
        save_tuning(result, RunRecord(result.record))
    return result
