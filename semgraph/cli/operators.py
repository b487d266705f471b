"""`semgraph operators`: the five operators and the ways of answering them, shipped ones and the
user's own.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from semgraph.cli.common import Options, everywhere

app = typer.Typer(help="Operators and the ways of answering them.", no_args_is_help=True)


@app.command("list")
@everywhere
def list_operators(options: Options) -> None:
    """Show every operator that a model answers, and its ways with their parameters."""
    from semgraph.render.operators import described, list_lines, ways

    found = ways(options.settings())
    if options.json:
        options.dump(described(found))
    else:
        options.show(*list_lines(found, options.out.width))
        options.talk("choose with --use STEP=WAY, or under `use` in a plan; yours: --operators DIR")


@app.command("new")
@everywhere
def new_operator(
    options: Options,
    operator: Annotated[str, typer.Argument(metavar="OPERATOR", help="Such as sem_join.")],
    name: Annotated[str, typer.Argument(help="What plans will call it, such as sorted_block.")],
    folder: Annotated[Path, typer.Argument(metavar="[DIR]", help="Your folder.")] = Path(
        "operators"
    ),
) -> None:
    """Write a first file for an implementation of your own, DIR/OPERATOR/NAME.py; it passes the
    check as it is.
    """
    from semgraph.conformance.new_operator import skeleton

    file = skeleton(operator, name, folder)
    options.show(str(file))
    options.talk(
        f"try it:    semgraph operators check {folder}",
        f"choose it: --operators {folder} --use STEP={name}",
    )


@app.command("check")
@everywhere
def check_operators(
    options: Options,
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="A folder of <operator>/<name>.py.")
    ],
) -> None:
    """Check implementations against their contract, over a model in this process; nothing leaves
    the machine.

    Exit code 1: a check failed. 2: a file or the folder cannot be used.
    """
    from semgraph.conformance.folder import check_folder, files_of, told

    width = max((len(name) for name, _ in files_of(folder)), default=0)
    found = []
    for checked in check_folder(folder):
        found.append(checked)
        if not options.json:
            options.show(*told(checked, width, every=bool(options.verbose)))
    if options.json:
        options.dump([checked.as_dict() for checked in found])
    if any(checked.problem for checked in found):
        raise typer.Exit(2)
    if any(checked.failed for checked in found):
        raise typer.Exit(1)
