"""The command line: commands only, no logic. Heavy libraries are imported inside the commands that
use them.
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from semgraph.cli import (
    compare,
    doctor,
    explain,
    journal,
    models,
    neo4j,
    operators,
    plans,
    records,
    report,
    run,
)
from semgraph.cli.common import INTERRUPTED, Options, everywhere

_ABOUT = "Knowledge-graph pipelines as query plans."


def _version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        typer.echo(f"semgraph {version('semgraph')}")
        raise typer.Exit


app = typer.Typer(
    help=_ABOUT,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
@everywhere
def everything(
    options: Options,
    ctx: typer.Context,
    _version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Knowledge-graph pipelines as query plans."""
    ctx.obj = options


for command in (
    run.run,
    explain.explain,
    compare.compare,
    report.report,
    records.why,
    doctor.doctor,
):
    app.command()(command)
for name, group in {
    "plans": plans.app,
    "operators": operators.app,
    "model": models.app,
    "neo4j": neo4j.app,
    "runs": records.app,
    "journal": journal.app,
}.items():
    app.add_typer(group, name=name)


def main() -> None:
    """What `semgraph` calls."""
    try:
        app()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
