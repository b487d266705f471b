"""`semgraph compare`: implementations of a step, or variants of a plan, side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from semgraph.cli.options import (
    CommonOptions,
    PlanOptions,
    argument,
    everywhere,
    flag,
    read_variants,
    run_until_signal,
)
from semgraph.errors import PlanError, Problem
from semgraph.options import RunOptions

if TYPE_CHECKING:
    from semgraph.compare.comparison import Comparison


@everywhere
def compare(
    options: CommonOptions,
    given: PlanOptions,
    request: RunOptions,
    plan: Annotated[str | None, argument("PLAN", "A file, or a name: semgraph plans list.")] = None,
    step: Annotated[
        str | None, flag("--step STEP", "The step whose implementations are compared.")
    ] = None,
    implementations: Annotated[
        str | None,
        flag("--implementations A,B,…", "Implementations of the step: nested_loop,block(left=10)."),
    ] = None,
    variant: Annotated[
        list[str] | None,
        flag(
            "--variant NAME:STEP=IMPLEMENTATION,…",
            "A whole plan with implementations of its steps, or NAME:preset=PRESET; give two or more.",
        ),
    ] = None,
    truth: Annotated[
        str | None, flag("--truth FILE", "What is right: columns that name a row, and its answers.")
    ] = None,
    trials: Annotated[int, flag("--trials N", "Independent trials of each.")] = 1,
    show: Annotated[
        str | None, flag("--show ID", "Show a recorded comparison: its id, or last.")
    ] = None,
) -> None:
    """Compare implementations of a step over the same rows, or variants of a plan. The store is
    only read.
    """
    if show is not None:
        from semgraph.compare.comparison import load_comparison

        _print(options, load_comparison(show))
        return
    if plan is None:
        raise PlanError(
            Problem(
                "there is no plan to compare",
                hint="semgraph compare PLAN --step STEP --implementations A,B",
            )
        )
    variants = read_variants(step, implementations, variant or [])
    with options.session() as session:
        prepared = given.prepare(session, plan)
        from semgraph.render.header import header

        values = given.rows(prepared)
        options.talk(*header(prepared, plan, values, session.settings))
        job = session.acompare(
            prepared,
            variants=variants,
            step=step,
            truth=truth,
            trials=trials,
            rows=request.rows,
            fresh=request.fresh,
            say=options.talk,
            inputs=values,
        )
        try:
            comparison = run_until_signal(
                job, lambda: options.talk("stopping … (once more ends at once)")
            )
        except KeyboardInterrupt:
            options.warn("Paid answers are in the journal: the same command continues from there")
            raise
    _print(options, comparison)
    raise typer.Exit(comparison.exit_code)


def _print(options: CommonOptions, comparison: Comparison) -> None:
    from semgraph.render.comparison import lines

    if options.json:
        options.dump(comparison.to_json())
        return
    for line in lines(comparison, options.out.width):
        options.out.print(line, soft_wrap=True)
