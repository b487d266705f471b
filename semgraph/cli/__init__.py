"""The command line: each command parses its options, calls a function and prints the result.

Only `semgraph.__main__` imports this package. Heavy libraries are imported inside the commands that
use them.
"""

from __future__ import annotations

import atexit
import gc
import os
import sys
from contextlib import suppress
from typing import Annotated, Any

import typer

from semgraph.cli import machine, plans, records, run
from semgraph.cli.compare import compare
from semgraph.cli.options import INTERRUPTED, CommandGroup, Commands, CommonOptions, everywhere
from semgraph.cli.refresh import diff, refresh
from semgraph.cli.serve import serve
from semgraph.cli.tune import tune
from semgraph.errors import did_you_mean

_OTHER_SPELLINGS = {
    "--again": "--reprocess",
    "--fresh": "--no-cache",
    "--json": "--format json",
    "--variants": "--implementations A,B, or --variant NAME:STEP=IMPLEMENTATION twice",
    "--way": "--variant",
    "--ways": "--implementations",
}
_ALLOCATIONS = 500_000  # between collections: modules, plans and their texts live until exit
_UsageError: Any = typer.BadParameter.__bases__[0]  # of typer's own click


class Root(CommandGroup):
    """The command `semgraph`; suggests the right option for a misspelt one."""

    def invoke(self, ctx: Any) -> Any:
        """Run a command."""
        try:
            return super().invoke(ctx)
        except _UsageError as error:
            _mend(error)
            raise


def _mend(error: Any) -> None:
    """Add to an error a suggestion for an option or an argument."""
    option, possibilities = getattr(error, "option_name", ""), getattr(error, "possibilities", None)
    if option in _OTHER_SPELLINGS:
        error.message = f"No such option: {option}. Write {_OTHER_SPELLINGS[option]}"
        error.possibilities = []
    elif possibilities:
        hint = did_you_mean(option, possibilities)
        error.possibilities = []
        error.message += f". D{hint[1:]}" if hint else ""
    elif "unexpected extra argument" in error.message and "plan" in error.ctx.params:
        error.message += ". Rows are an option: -i NAME=FILE"


def _version(requested: bool) -> None:
    if requested:
        from importlib.metadata import version

        typer.echo(f"semgraph {version('semgraph')}")
        raise typer.Exit


app = Commands(
    cls=Root,
    help="Knowledge-graph pipelines as query plans.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
@everywhere
def everything(
    options: CommonOptions,
    _version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Knowledge-graph pipelines as query plans."""


_COMMANDS = [run.run, run.explain, refresh, diff, compare, tune, records.report, records.why]
for command in [*_COMMANDS, records.export, serve, machine.cypher, machine.doctor]:
    app.command()(command)
app.command("show")(records.show_graph)
app.add_typer(plans.app, name="plans")
app.add_typer(plans.operators, name="operators")
app.add_typer(plans.functions, name="functions")
app.add_typer(machine.models, name="model")
app.add_typer(machine.neo4j, name="neo4j")
app.add_typer(records.app, name="runs")
app.add_typer(records.journal, name="journal")


def main() -> None:
    """Run the command line and end the process; the entry point `semgraph`."""
    gc.set_threshold(_ALLOCATIONS)
    code: Any = 1
    if "opentelemetry.trace" not in sys.modules:  # an exporter, set before, sends its last spans
        atexit.register(lambda: _end(code))  # registered first, so called last
    try:
        app()
    except SystemExit as exit_:
        code = exit_.code
        raise
    except KeyboardInterrupt:
        code = INTERRUPTED
        sys.exit(code)


def _end(code: Any) -> None:
    """End the process after its threads have ended and exit functions were called, without freeing
    all objects one by one: 0.2 s.
    """
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # the reader has gone
            stream.flush()
    os._exit(code if isinstance(code, int) else code is not None)
