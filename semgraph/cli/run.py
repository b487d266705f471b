"""`semgraph run` and `semgraph explain`."""

from __future__ import annotations

import time
from collections.abc import Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from semgraph.cli import completion
from semgraph.cli.options import (
    CommonOptions,
    Inputs,
    MaxCalls,
    MaxSeconds,
    MaxTokens,
    MaxUsd,
    NamedEngine,
    NoCache,
    OnError,
    Params,
    Plan,
    Preset,
    Rows,
    Uses,
    everywhere,
    run_until_signal,
)

if TYPE_CHECKING:
    from semgraph.execution.result import Result
    from semgraph.llm.settings import Settings
    from semgraph.logical.plan import LogicalPlan
    from semgraph.render.header import RequestedOptions
    from semgraph.session import Session

_CODE = ("config", "operators", "functions")  # what a resumed run does not take from its record


@everywhere
def run(
    options: CommonOptions,
    plan: Plan,
    input: Inputs = None,  # noqa: A002 - the option's name
    set: Params = None,  # noqa: A002 - the option's name
    preset: Preset = None,
    use: Uses = None,
    rows: Rows = None,
    until: Annotated[
        str | None,
        typer.Option(
            metavar="STEP",
            help="Stop behind this step; nothing is written.",
            autocompletion=completion.steps,
        ),
    ] = None,
    no_write: Annotated[
        bool, typer.Option("--no-write", help="Write nothing to the store.")
    ] = False,
    max_usd: MaxUsd = None,
    max_calls: MaxCalls = None,
    max_tokens: MaxTokens = None,
    max_seconds: MaxSeconds = None,
    engine: NamedEngine = None,
    resume: Annotated[
        str | None,
        typer.Option(
            metavar="RUN", help="Resume a run that was stopped.", autocompletion=completion.runs
        ),
    ] = None,
    reprocess: Annotated[
        bool, typer.Option("--reprocess", help="Also rows that are in the graph already.")
    ] = False,
    no_cache: NoCache = False,
    on_error: Annotated[
        OnError | None, typer.Option(help="Set failed rows aside, or keep them with NULLs.")
    ] = None,
) -> None:
    """Run a plan: on the rows you give, or on its example."""
    from semgraph.cli.options import named_values, parameters
    from semgraph.render.header import RequestedOptions

    limits = {
        "max_usd": max_usd,
        "max_calls": max_calls,
        "max_tokens": max_tokens,
        "max_seconds": max_seconds,
    }
    with options.session(**limits, engine=engine) as session:
        prepared = session.prepare(
            plan,
            params=parameters(set),
            preset=preset,
            use=named_values("--use", use),
            resume=resume,
        )
        earlier = session.resumed(resume)
        merged = earlier.merged(until=until, write=not no_write)
        requested = RequestedOptions(earlier.run or None, rows, merged["until"], merged["write"])
        inputs = _introduce(options, session, prepared, plan, input, requested)
        more = {
            "rows": rows, "until": until, "write": not no_write, "resume": resume, "again": reprocess, "fresh": no_cache,
            "on_error": on_error and on_error.value,
        }  # fmt: skip
        began = time.monotonic()
        result = _run(options, session, prepared, plan, more, inputs)
        _report(
            options,
            session,
            result,
            prepared,
            plan,
            requested,
            time.monotonic() - began,
            own_rows=bool(inputs) or resume is not None,
        )
    raise typer.Exit(result.exit_code)


def _introduce(
    options: CommonOptions,
    session: Session,
    plan: LogicalPlan,
    typed: str,
    inputs: list[str] | None,
    requested: RequestedOptions,
) -> dict[str, Any]:
    """Read the inputs, print the first lines, and download missing models."""
    from semgraph.frontend.row_files import read_inputs
    from semgraph.render.header import header
    from semgraph.session.inputs import example_rows

    result = read_inputs(inputs or (), plan)
    if plan.inputs and not result and requested.resume is None:
        example_rows(plan)  # before any download: raises if the plan has no example
    settings = session.resumed(requested.resume).settings(session.settings)
    options.talk(*header(plan, typed, result, settings, requested))
    for warning in plan.warnings:
        options.warn(f"! {warning}")
    session.require_store(settings)
    _fetch(options, settings, plan)
    return dict(result)


def _fetch(options: CommonOptions, settings: Settings, plan: LogicalPlan) -> None:
    from semgraph.llm.catalogue import pull
    from semgraph.render.header import announcement, missing
    from semgraph.render.progress import downloading

    models = missing(plan, settings)
    if models:
        options.talk(*announcement(models, plan, settings))
    for model in models:
        with downloading(options.err, model.name, quiet=bool(options.quiet)) as report:
            pull(model, progress=report, env=settings.environment)


def _run(
    options: CommonOptions,
    session: Session,
    plan: LogicalPlan,
    typed: str,
    more: Mapping[str, Any],
    inputs: Mapping[str, Any],
) -> Result:
    from semgraph.errors import BudgetReached, PlanError, RowError, SemgraphError
    from semgraph.execution.record import Run
    from semgraph.render.outcome import unfinished
    from semgraph.render.progress import watched

    begun: list[str] = []
    options.talk("")
    try:
        with watched(
            options.err, plan.windows.input if plan.windows else "", quiet=bool(options.quiet)
        ) as progress:
            job = session.arun(plan, progress=progress, begun=begun.append, inputs=inputs, **more)
            return run_until_signal(
                job, lambda: options.talk("stopping … (once more ends at once)")
            )
    except (KeyboardInterrupt, SemgraphError) as error:
        if isinstance(error, BudgetReached | RowError) and error.result is not None:
            return cast("Result", error.result)
        if session.runs is not None and not isinstance(error, PlanError):  # resuming would not help
            runs = [Run(session.runs / name) for name in begun]
            for line in unfinished(runs, plan, typed, options.words(*_CODE), session.prepare):
                error.add_note(line)
        raise


def _report(
    options: CommonOptions,
    session: Session,
    result: Result,
    plan: LogicalPlan,
    typed: str,
    requested: RequestedOptions,
    seconds: float,
    *,
    own_rows: bool,
) -> None:
    from semgraph.render.header import following
    from semgraph.render.outcome import first_lines, hints, outcome, remarks
    from semgraph.stores.registry import lasts

    options.talk(*first_lines(result))
    if options.json:
        options.dump(result.to_json(), data="tables")
    else:
        every = bool(options.verbose)
        options.show(
            *outcome(result, plan, options.out.width, seconds, every=every, until=requested.until)
        )
    stays = requested.write and requested.until is None and lasts(session.settings.store)
    next_plans = following(plan, typed, own_rows=own_rows).items() if stays else ()
    after = {name + options.words(): doc for name, doc in next_plans}
    options.talk(*hints(result, plan, after))
    for line in remarks(result, plan, typed + options.words(*_CODE), typed + options.words()):
        options.warn(line)


class Form(StrEnum):
    """The format of an explained plan."""

    tree = "tree"
    algebra = "algebra"
    mermaid = "mermaid"
    json = "json"
    queries = "queries"
    prompts = "prompts"


@everywhere
def explain(
    options: CommonOptions,
    plan: Plan,
    input: Inputs = None,  # noqa: A002 - the option's name
    set: Params = None,  # noqa: A002 - the option's name
    preset: Preset = None,
    use: Uses = None,
    format: Annotated[Form, typer.Option(help="How it is drawn.")] = Form.tree,  # noqa: A002 - the option's name
    expand: Annotated[
        bool, typer.Option("--expand", help="With --format algebra: the steps of called plans too.")
    ] = False,
    queries: Annotated[
        bool, typer.Option("--queries", help="The SQL, and what the store is asked.")
    ] = False,
    prompts: Annotated[
        bool, typer.Option("--prompts", help="The first messages of each step, with tokens.")
    ] = False,
    sample: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Run N rows for real, without writing; say what all would take.",
        ),
    ] = None,
    run: Annotated[
        str | None,
        typer.Option(
            metavar="RUN", help="Put what that run did beside it.", autocompletion=completion.runs
        ),
    ] = None,
    engine: NamedEngine = None,
) -> None:
    """Show what a plan will do, step by step, and its estimated cost. Nothing is written; only
    --sample calls a model.
    """
    from semgraph.cli.options import named_values, parameters
    from semgraph.frontend.row_files import read_inputs

    with options.session(engine=engine) as session:
        prepared = session.prepare(
            plan, params=parameters(set), preset=preset, use=named_values("--use", use)
        )
        inputs = read_inputs(input or (), prepared)
        forms = [Form.queries] * queries + [Form.prompts] * prompts
        for form in forms or [format]:
            text = session.explain(
                prepared,
                format=form.value,
                run=run,
                sample=sample,
                width=options.out.width,
                expand=expand,
                inputs=inputs,
            )
            options.show(*text.splitlines())
