"""`semgraph run` and `semgraph explain`."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import typer

from semgraph.cli.options import CommonOptions, Plan, PlanOptions, everywhere, option
from semgraph.options import RunOptions

if TYPE_CHECKING:
    from semgraph.execution.result import Result
    from semgraph.frontend.row_files import LoadedInput
    from semgraph.llm.settings import Settings
    from semgraph.logical.plan import LogicalPlan
    from semgraph.session import Session

_CODE = ("config", "operators", "functions")  # what a resumed run does not take from its record


@everywhere
def run(options: CommonOptions, plan: Plan, given: PlanOptions, request: RunOptions) -> None:
    """Run a plan: on the rows you give, or on its example."""
    with options.session() as session:
        prepared = given.prepare(session, plan, request.resume)
        request = session.resumed(request.resume).merged(request)
        inputs = introduce(options, session, prepared, plan, given, request)
        began = time.monotonic()
        result = _run(options, session, prepared, plan, request, inputs)
        took = time.monotonic() - began
        _report(options, session, result, prepared, plan, request, took, given)
    raise typer.Exit(result.exit_code)


def introduce(
    options: CommonOptions,
    session: Session,
    plan: LogicalPlan,
    typed: str,
    given: PlanOptions,
    request: RunOptions,
) -> Mapping[str, LoadedInput]:
    """Read the inputs, print the first lines, and download missing models."""
    from semgraph.render.header import header
    from semgraph.session.inputs import example_rows

    result = given.rows(plan)
    if plan.inputs and not result and request.resume is None:
        example_rows(plan)  # before any download: raises if the plan has no example
    settings = session.resumed(request.resume).settings(session.settings)
    every = bool(options.verbose)
    options.talk(*header(plan, typed, result, settings, request, every=every))
    for warning in plan.warnings:
        options.warn(f"! {warning}")
    session.require_store(settings)
    _fetch(options, settings, plan)
    return result


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
    request: RunOptions,
    inputs: Mapping[str, Any],
) -> Result:
    from semgraph.errors import BudgetReached, PlanError, RowError, SemgraphError, is_interrupt
    from semgraph.execution.record import Run
    from semgraph.render.outcome import unfinished
    from semgraph.render.progress import watched

    begun: list[str] = []
    options.talk("")
    try:
        members = plan.windows.input if plan.windows else ""
        with watched(options.err, members, quiet=bool(options.quiet)) as progress:
            request = replace(request, progress=progress, begun=begun.append)
            return options.wait(session.arun(plan, inputs=inputs, **vars(request)))
    except (KeyboardInterrupt, SemgraphError) as error:
        if request.reprocesses(plan):
            if is_interrupt(error):
                error.add_note("the graph stays as it was: repeat the command")
            raise
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
    request: RunOptions,
    seconds: float,
    given: PlanOptions,
) -> None:
    from semgraph.llm.base import ROLES
    from semgraph.llm.providers import PROVIDERS
    from semgraph.render.header import following, graph_words
    from semgraph.render.outcome import first_lines, hints, outcome, remarks
    from semgraph.stores.registry import lasts

    options.talk(*first_lines(result))
    if options.json:
        options.dump(result.to_json(), data="tables")
    else:
        width, every = options.out.width, bool(options.verbose)
        options.show(*outcome(result, plan, width, seconds, every=every, until=request.until))
    stays = request.writes and lasts(session.settings.store)
    own_rows = bool(given.input) or request.resume is not None
    replayed = PROVIDERS[session.settings.embedder.provider].replays  # no rows but its own
    goes_on = stays and not (own_rows and replayed)
    next_plans = following(plan, typed, own_rows=own_rows).items() if goes_on else ()
    roles = [each for each in options.chosen.get("model", ()) if each.partition("=")[0] in ROLES]
    without_steps = replace(options, chosen={**options.chosen, "model": roles})
    after = {name + without_steps.words(): doc for name, doc in next_plans}
    stored = graph_words(plan) + options.words("store", "config") if stays and plan.writes else None
    options.talk(*hints(result, plan, after, stored))
    restart, refresh = (typed + more + options.words() for more in ("", given.words()))
    for line in remarks(result, plan, typed + options.words(*_CODE), restart, refresh):
        options.warn(line)


def export_results(
    options: CommonOptions, session: Session, typed: str, given: PlanOptions, to: str
) -> Result:
    """Run a plan over given rows, and write its results into a JSON file."""
    from semgraph.errors import PlanError
    from semgraph.formats import plural
    from semgraph.render.outcome import cost, remarks
    from semgraph.session.export import check_document, write_results

    check_document(Path(to))
    plan = given.prepare(session, typed)
    if plan.inputs and not given.input:
        what = f"export --plan {typed} needs rows: the example of the plan is not exported"
        value = {True: "all", False: "FILE"}
        each = " ".join(f"-i {name}={value[spec.or_all]}" for name, spec in plan.inputs.items())
        raise PlanError(what, hint=f"give its inputs: {each}")
    request, began = RunOptions(), time.monotonic()
    inputs = introduce(options, session, plan, typed, given, request)
    result = _run(options, session, plan, typed, request, inputs)
    write_results(result, Path(to))
    counts = {name: result.count(name) for name in result.tables}
    rows = ", ".join(f"{plural(number, 'row')} of {name}" for name, number in counts.items())
    data = {"path": str(Path(to).resolve()), "run": result.run, "rows": counts}
    options.result(data, [f"{to}   {rows}"])
    options.talk(cost(result.meter.total(), time.monotonic() - began))
    for line in remarks(result, plan, typed + options.words(*_CODE), typed + options.words()):
        options.warn(line)
    return result


Form = Literal["tree", "algebra", "mermaid", "json", "queries", "prompts"]


@everywhere
def explain(
    options: CommonOptions,
    plan: Plan,
    given: PlanOptions,
    format: Form = option("--format", "How it is drawn.", "tree"),  # noqa: A002 - the option's name
    expand: list[str] | None = option(
        "--expand STEP", "Show the steps of the plan that STEP calls."
    ),
    full: bool = option("--full", "Show the steps of all called plans.", False),
    queries: bool = option("--queries", "The SQL, and what the store is asked.", False),
    prompts: bool = option("--prompts", "The first messages of each step, with tokens.", False),
    sample: int | None = option(
        "--sample N", "Run N rows for real, without writing; say what all would take.", min=1
    ),
    run: str | None = option("--run RUN", "Put what that run did beside it."),
) -> None:
    """Show what a plan will do, step by step, and its estimated cost. Nothing is written; only
    --sample calls a model.
    """
    with options.session() as session:
        prepared = given.prepare(session, plan)
        inputs = given.rows(prepared)
        for warning in prepared.warnings:
            options.warn(f"! {warning}")
        asked: dict[Form, bool] = {"queries": queries, "prompts": prompts}
        for form in [form for form in asked if asked[form]] or [format]:
            text = session.explain(
                prepared, format=form, run=run, sample=sample, width=options.out.width,
                expand=expand or (), full=full, inputs=inputs,
            )  # fmt: skip
            options.show(*text.splitlines())
