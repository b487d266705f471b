"""`semgraph journal`: what is kept of answers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from semgraph.cli.common import Options, everywhere

app = typer.Typer(help="Answers that were paid for: delete those of a group.", no_args_is_help=True)


@app.callback()
def journal() -> None:
    """Answers that were paid for: delete those of a group."""


@app.command()
@everywhere
def forget(
    options: Options,
    groups: Annotated[list[str], typer.Argument(metavar="GROUP...", help="Values.")],
) -> None:
    """Delete the answers and vectors of groups from the journal. The graph and the records of runs
    stay.

    Exits with 1 if the journal holds nothing of these groups.
    """
    with options.session() as session:
        journal = session.settings.journal_path
        count = session.forget(groups)
    if options.json:
        options.dump({"deleted": count, "journal": None if journal is None else str(journal)})
    elif count:
        options.show(f"{count:,} answers and vectors deleted from {journal}")
    if not count:
        options.warn(_nothing(groups, journal, options.config))
        raise typer.Exit(1)


def _nothing(groups: list[str], journal: Path | None, config: str | None) -> str:
    """Why nothing was deleted, and where else it may be."""
    if journal is None:
        return "nothing deleted: no journal is kept here (keep_days = 0)"
    names = ", ".join(f'"{group}"' for group in groups)
    why = (
        f"{journal} holds nothing of {names}"
        if journal.exists()
        else f"there is no journal at {journal}"
    )
    elsewhere = "" if config else ". If your runs use another configuration, name it: --config FILE"
    return f"nothing deleted: {why}{elsewhere}"
