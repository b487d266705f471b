"""`semgraph journal`: what is kept of answers."""

from __future__ import annotations

from typing import Annotated

import typer

from semgraph.cli.common import Options, everywhere

app = typer.Typer(help="Answers that were paid for: delete those of a group.", no_args_is_help=True)


@app.callback()
def journal() -> None:
    """Answers that were paid for: delete those of a group."""


@app.command()
@everywhere
def forget(options: Options, groups: Annotated[list[str], typer.Argument(metavar="GROUP...", help="Values.")]) -> None:
    """Delete the answers and vectors of groups from the journal. The graph and the records of runs stay."""
    from semgraph.session import Session

    with Session() as session:
        count = session.forget(groups)
        options.show(f"{count:,} answers and vectors deleted from {session.settings.journal_path or 'no journal'}")
