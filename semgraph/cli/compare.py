"""`semgraph compare`: ways of a step, or whole plans, beside each other."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any

import typer

from semgraph.cli.arguments import (
    Inputs,
    MaxCalls,
    MaxSeconds,
    MaxTokens,
    MaxUsd,
    Params,
    Preset,
    Uses,
    pairs,
    parameters,
)
from semgraph.cli.common import Options, everywhere
from semgraph.cli.signals import run_until_signal
from semgraph.errors import PlanError, Problem

if TYPE_CHECKING:
    from semgraph.compare.comparison import Comparison

_COMMA = re.compile(r",(?![^()]*\))")  # outside of parentheses


@everywhere
def compare(
    options: Options,
    plan: Annotated[
        str | None, typer.Argument(metavar="PLAN", help="A file, or a name: semgraph plans list.")
    ] = None,
    step: Annotated[
        str | None, typer.Option(metavar="STEP", help="The step whose ways are compared.")
    ] = None,
    ways: Annotated[
        str | None,
        typer.Option(metavar="A,B,…", help="Ways of the step: nested_loop,block(left=10)."),
    ] = None,
    way: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME:STEP=WAY,…",
            help="A whole plan with ways of its steps; give one for each arm.",
        ),
    ] = None,
    truth: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="What is right: columns that name a row, and its answers."
        ),
    ] = None,
    trials: Annotated[int, typer.Option(metavar="N", help="Independent trials of each.")] = 1,
    input: Inputs = None,  # noqa: A002 - the option's name
    set: Params = None,  # noqa: A002 - the option's name
    preset: Preset = None,
    use: Uses = None,
    rows: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Only the first rows of the first input.")
    ] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Ask anew what the journal knows.")
    ] = False,
    max_usd: MaxUsd = None,
    max_calls: MaxCalls = None,
    max_tokens: MaxTokens = None,
    max_seconds: MaxSeconds = None,
    show: Annotated[
        str | None,
        typer.Option(metavar="ID", help="Show a comparison that was kept: its id, or last."),
    ] = None,
) -> None:
    """Compare ways of doing a step over the same rows, or whole plans. Nothing is written to the
    store.
    """
    if show is not None:
        from semgraph.compare.record import load_comparison

        _print(options, load_comparison(show))
        return
    if plan is None:
        raise PlanError(
            Problem(
                "there is no plan to compare", hint="semgraph compare PLAN --step STEP --ways A,B"
            )
        )
    arms = _arms(step, ways, way)
    limits = {
        "max_usd": max_usd,
        "max_calls": max_calls,
        "max_tokens": max_tokens,
        "max_seconds": max_seconds,
    }
    with options.session(**limits) as session:
        prepared = session.prepare(
            plan, params=parameters(set), preset=preset, use=pairs("--use", use)
        )
        from semgraph.frontend.inputs import read_inputs
        from semgraph.render.header import header

        found = read_inputs(input or (), prepared)
        options.talk(*header(prepared, plan, found, session.settings))
        given = {name: each.rows for name, each in found.items()}
        job = session.acompare(
            prepared,
            ways=arms,
            step=step,
            truth=truth,
            trials=trials,
            rows=rows,
            fresh=fresh,
            say=options.talk,
            inputs=given,
        )
        try:
            result = run_until_signal(
                job, lambda: options.talk("stopping … (once more ends at once)")
            )
        except KeyboardInterrupt:
            options.warn("What was answered is in the journal: the same command goes on from there")
            raise
    _print(options, result)
    raise typer.Exit(result.exit_code)


def _print(options: Options, comparison: Comparison) -> None:
    from semgraph.render.comparison import lines

    if options.json:
        options.dump(comparison.to_json())
        return
    for line in lines(comparison, options.out.width):
        options.out.print(line, soft_wrap=True)


def _arms(step: str | None, ways: str | None, way: list[str] | None) -> Any:
    """The ways as typed: those of a step, or whole plans by name. Raises PlanError."""
    if ways is not None and way:
        raise PlanError(
            Problem("--ways compares a step and --way whole plans", hint="give one of them")
        )
    if ways is not None:
        if step is None:
            raise PlanError(
                Problem("nothing says which step is done in these ways", hint="--step STEP")
            )
        return [text.strip() for text in _COMMA.split(ways) if text.strip()]
    if not way:
        hint = "--step STEP --ways A,B; or whole plans: --way NAME:STEP=WAY --way NAME:STEP=WAY"
        raise PlanError(Problem("nothing says what to compare", hint=hint))
    if step is not None:
        raise PlanError(
            Problem("--way names the steps itself", hint="leave --step out, or write --ways A,B")
        )
    found: dict[str, dict[str, str]] = {}
    problems: list[Problem] = []
    for text in way:
        name, colon, rest = text.partition(":")
        if not colon or not name:
            problems.append(
                Problem(f'--way "{text}" has no name', hint="Write --way NAME:STEP=WAY,STEP=WAY")
            )
        elif name in found:
            problems.append(Problem(f"--way {name}: is given twice"))
        else:
            try:
                found[name] = pairs(
                    "--way", [part.strip() for part in _COMMA.split(rest) if part.strip()]
                )
            except PlanError as error:
                problems += error.problems
    if problems:
        raise PlanError(*problems)
    return found
