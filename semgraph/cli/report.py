"""`semgraph report`: a page of runs and comparisons."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from semgraph.cli.common import Options, everywhere


@everywhere
def report(
    options: Options,
    records: Annotated[
        list[str],
        typer.Argument(metavar="RUN|COMPARISON...", help="Ids, the beginnings of them, or last."),
    ],
    to: Annotated[
        str,
        typer.Option(
            "-o", "--output", metavar="FILE", help="The page; it opens without a network."
        ),
    ],
) -> None:
    """Write one HTML file: costs by step, the graph, every prompt and answer; of a comparison the
    table and the chart.
    """
    from semgraph.render.formats import size
    from semgraph.render.html import save

    made = save(records, Path(to))
    if options.json:
        options.dump({"file": str(made), "bytes": made.stat().st_size})
    else:
        options.show(
            f"{made}   {size(made.stat().st_size)}, opens without a network; it holds prompts and answers"
        )
