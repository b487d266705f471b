"""`semgraph operators`: the five operators and the ways of answering them."""

from __future__ import annotations

import typer

from semgraph.cli.common import Options, everywhere

app = typer.Typer(help="Operators and the ways of answering them.", no_args_is_help=True)


@app.command("list")
@everywhere
def list_operators(options: Options) -> None:
    """Show every operator that a model answers, and its ways with their parameters."""
    from semgraph.report.operators import described, list_lines, ways

    found = ways(options.settings())
    if options.json:
        options.dump(described(found))
    else:
        options.show(*list_lines(found, options.out.width))
        options.talk("choose with --use STEP=WAY, or under `use` in a plan; yours: --operators DIR")
