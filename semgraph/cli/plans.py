"""`semgraph plans`, `semgraph operators` and `semgraph functions`: lists, pages and checks."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Literal

import typer

from semgraph.cli.options import Commands, CommonOptions, argument, everywhere, option

_HELP = "Plans: list, show, check, copy, new; the schema of their language."
app = Commands(help=_HELP, no_args_is_help=True)
operators = Commands(help="Operators and their implementations.", no_args_is_help=True)
functions = Commands(help="Functions that expressions call.", no_args_is_help=True)


@app.command("list")
@everywhere
def list_plans(options: CommonOptions) -> None:
    """Show the plans in ./plans and those that come with semgraph; below them the parts, which
    other plans call.
    """
    from semgraph.frontend.plan_files import listed
    from semgraph.render.plans import described_list, list_lines

    plan_files = listed(options.settings().functions)
    if options.json:
        options.dump(described_list(plan_files))
    else:
        options.show(*list_lines(plan_files, options.out.width))


@app.command()
@everywhere
def show(options: CommonOptions, plan: str = argument("PLAN", "A name, or a file.")) -> None:
    """Explain one plan: inputs, parameters, presets, steps and their implementations, prompts, an
    example command.
    """
    from semgraph.frontend.plan_files import plan_file
    from semgraph.render.plans import described, page

    file = plan_file(plan, options.settings().functions)
    options.result(described(file), page(file, options.out.width, prompts=bool(options.verbose)))


@app.command()
@everywhere
def check(
    options: CommonOptions,
    files: list[str] | None = argument("[FILE|DIR]...", default=None, show_default="./plans"),
) -> None:
    """Check plans and graphs without running them: problems and warnings, each with its line. Exit
    code 2 for problems.
    """
    from semgraph.frontend.plan_files import checked, files_in
    from semgraph.render.plans import check_lines, verdict
    from semgraph.semantic.library import Library, check_implementations

    settings = options.settings()
    check_choices = partial(check_implementations, library=Library(settings.operators))
    paths = files_in(files or ["plans"])
    checks = [checked(path, check_choices, settings.functions) for path in paths]
    told = [{n: getattr(c, n) for n in ("file", "problems", "warnings")} for c in checks]
    data = [{"file": own["file"], "ok": not own["problems"], **own} for own in told]
    options.result(data, check_lines(checks))
    if summary := verdict(checks):
        options.talk(summary)
        raise typer.Exit(2)


@app.command()
@everywhere
def ways(options: CommonOptions, plan: str = argument("PLAN", "A name, or a file.")) -> None:
    """Show the plans that a plan calls: the interface of each call, and the plans that fit in its
    place (--use STEP=PLAN).
    """
    from dataclasses import asdict

    from semgraph.frontend.plan_files import called_plans, plan_file
    from semgraph.render.plans import called_lines

    calls = called_plans(plan_file(plan, options.settings().functions))
    if options.json:
        options.dump([asdict(call) for call in calls])
    elif calls:
        options.show(*called_lines(calls, options.out.width))
    else:
        options.talk(f"{plan} calls no plan")


@app.command()
@everywhere
def copy(
    options: CommonOptions,
    plan: str = argument("PLAN", "A name."),
    folder: Path = argument("DIR", "Where to.", Path("plans")),
    only: list[str] | None = option("--only FILE", "Only this file of it: prompts/judge_fact."),
) -> None:
    """Copy a plan with its graph, prompts and the plans it calls, so that you can change them.
    Overwrites nothing.
    """
    from semgraph.frontend.plan_files import copied

    new = copied(plan, folder, options.settings().functions, only or ())
    options.show(*map(str, new))
    if not new:
        there = f"all that {plan} needs is in {folder} already, as it is here"
        options.talk(f"nothing to copy: {there}")


@app.command()
@everywhere
def new(options: CommonOptions, name: str = argument("", "Its name.")) -> None:
    """Write ./plans/NAME.yaml, a commented plan that runs as it is. Overwrites nothing."""
    from semgraph.frontend.plan_files import created

    options.show(str(created(name)))
    options.talk(f"try it:     semgraph run {name} --llm dummy   (made-up answers, free)")
    options.talk(f"look at it: semgraph explain {name}")


@app.command()
@everywhere
def schema(
    options: CommonOptions,
    of: Literal["plan", "graph", "prompt"] = option(
        "--of", "The kind of file; prompt: front matter.", "plan"
    ),
) -> None:
    """Print the JSON Schema of plans, of graphs, or of the front matter of prompts: an editor that
    knows it completes and checks as you type.
    """
    from semgraph.frontend.jsonschema import SCHEMAS

    options.dump(SCHEMAS[of]())


@operators.command("list")
@everywhere
def list_operators(options: CommonOptions) -> None:
    """Show every semantic operator, and its implementations with their parameters."""
    from semgraph.render.plans import described_operators, implementations, operator_lines

    by_operator = implementations(options.settings())
    if options.json:
        options.dump(described_operators(by_operator))
    else:
        options.show(*operator_lines(by_operator, options.out.width))
        own = "or under `use` in a plan; yours: --operators DIR"
        options.talk(f"choose with --use STEP=IMPLEMENTATION, {own}")


@operators.command("new")
@everywhere
def new_operator(
    options: CommonOptions,
    operator: str = argument("OPERATOR", "Such as sem_join."),
    name: str = argument("", "What plans will call it, such as sorted_block."),
    folder: Path = argument("[DIR]", "Your folder.", Path("operators")),
) -> None:
    """Write a template for an implementation of your own, DIR/OPERATOR/NAME.py; it passes the check
    unchanged.
    """
    from semgraph.conformance.folder import skeleton

    file = skeleton(operator, name, folder)
    options.show(str(file))
    options.talk(
        f"try it:    semgraph operators check {folder}",
        f"choose it: --operators {folder} --use STEP={name}",
    )


@operators.command("check")
@everywhere
def check_operators(
    options: CommonOptions,
    folder: Path = argument("DIR", "A folder of <operator>/<name>.py."),
    injection: bool = option(
        "--injection", "Measure with --llm whether a row changes the answers of others.", False
    ),
) -> None:
    """Check implementations against their contract with a model in this process; nothing leaves the
    machine.

    With `--injection` the model of `--llm` is asked instead: how many answers does a harmless
    canary, a row that asks for a verdict, change in the rows of its call?

    Exit code 1: a check failed. 2: a file or the folder cannot be used.
    """
    from semgraph.conformance.folder import check_folder, files_of, report_lines

    if injection:
        _check_injection(options, folder)
        return
    width = max((len(name) for name, _ in files_of(folder)), default=0)
    reports = []
    for checked in check_folder(folder):
        reports.append(checked)
        if not options.json:
            options.show(*report_lines(checked, width, every=bool(options.verbose)))
    if options.json:
        options.dump([checked.as_dict() for checked in reports])
    if any(checked.problem for checked in reports):
        raise typer.Exit(2)
    if any(checked.failed for checked in reports):
        raise typer.Exit(1)


def _check_injection(options: CommonOptions, folder: Path) -> None:
    from semgraph.conformance.folder import OPERATORS, find, injection

    folders = [*options.chosen.get("operators", ()), str(folder)]
    options = replace(options, chosen={**options.chosen, "operators": folders})
    measured = {}
    with options.session() as session:
        for file in find(folder):
            operator, name = file.name.split("/")
            if operator not in OPERATORS:
                continue
            if file.problem is not None:
                options.warn(f"{file.name}  not measured: {file.problem}")
                continue
            result = measured[file.name] = injection(session, operator, name)
            if not options.json:
                options.show(f"{file.name}  {result}")
    if options.json:
        options.dump([{"name": name, **result._asdict()} for name, result in measured.items()])


@functions.command("list")
@everywhere
def list_functions(options: CommonOptions) -> None:
    """Show the functions that expressions of plans may call besides SQL's: shipped ones, and yours."""
    from semgraph.frontend.functions import Functions
    from semgraph.render.plans import function_lines

    functions = Functions(options.settings().functions).list()
    if options.json:
        options.dump([{**each._asdict(), "file": str(each.file)} for each in functions])
    else:
        options.show(*function_lines(functions, options.out.width))
        options.talk("yours: files DIR/NAME.py, named with --functions DIR")
