"""`semgraph plans`: list, show, check and copy plans; the JSON Schema of the language."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from semgraph.cli.common import Options, everywhere

app = typer.Typer(
    help="Plans: list, show, check, copy; the schema of their language.", no_args_is_help=True
)


@app.command("list")
@everywhere
def list_plans(options: Options) -> None:
    """Show the plans in ./plans and those that come with semgraph."""
    from semgraph.render.plans import described, list_lines, listed

    found = listed()
    if options.json:
        options.dump([described(file) for file in found])
    else:
        options.show(*list_lines(found, options.out.width))


@app.command()
@everywhere
def show(
    options: Options,
    plan: Annotated[str, typer.Argument(metavar="PLAN", help="A name, or a file.")],
    *,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="As a page of Markdown, with the algebra.")
    ] = False,
) -> None:
    """Explain one plan: inputs, parameters, presets, steps and their ways, prompts, an example
    command.
    """
    from semgraph.render.plans import described, page, plan_file

    file = plan_file(plan)
    if markdown:
        from semgraph.render import pages

        options.show(*pages.page(file).splitlines())
    elif options.json:
        options.dump(described(file))
    else:
        options.show(*page(file, options.out.width, prompts=bool(options.verbose)))


@app.command("pages")
@everywhere
def write_pages(
    options: Options,
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where to.")] = Path("docs/plans"),
) -> None:
    """Write a page of Markdown for each plan, and an index."""
    from semgraph.render.pages import write
    from semgraph.render.plans import listed

    changed = write(sorted(listed(), key=lambda file: file.path.stem), folder)
    options.show(*map(str, changed))
    if not changed:
        options.talk(f"the pages in {folder} are as the plans are")


@app.command()
@everywhere
def check(
    options: Options,
    files: Annotated[
        list[str] | None, typer.Argument(metavar="[FILE|DIR]...", show_default="./plans")
    ] = None,
) -> None:
    """Check plans and graphs without running them: problems and warnings, each with its line. Exit
    code 2 for problems.
    """
    from semgraph.render.plans import checked, files_in, verdict
    from semgraph.semantic.library import Library

    library = Library(options.settings().operators)
    found = [checked(path, library) for path in files_in(files or ["plans"])]
    if options.json:
        options.dump(
            [
                {
                    "file": c.file,
                    "ok": not c.problems,
                    "problems": c.problems,
                    "warnings": c.warnings,
                }
                for c in found
            ]
        )
    else:
        options.show(*(line for c in found for line in c.lines()))
    if said := verdict(found):
        options.talk(said)
        raise typer.Exit(2)


@app.command()
@everywhere
def copy(
    options: Options,
    plan: Annotated[str, typer.Argument(metavar="PLAN", help="A name.")],
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where to.")] = Path("plans"),
) -> None:
    """Copy a plan with its graph, prompts and the plans it calls, so that you can change them.
    Overwrites nothing.
    """
    from semgraph.render.plans import copied

    new = copied(plan, folder)
    options.show(*map(str, new))
    if not new:
        options.talk(
            f"nothing to copy: all that {plan} needs is in {folder} already, as it is here"
        )


@app.command()
@everywhere
def schema(options: Options) -> None:
    """Print the JSON Schema of plan files: an editor that knows it completes and checks as you
    type.
    """
    from semgraph.frontend.jsonschema import plan_schema

    options.dump(plan_schema())
