"""`semgraph runs` and `semgraph why`: what runs left behind."""

from __future__ import annotations

from typing import Annotated

import typer

from semgraph.cli.common import Options, everywhere

app = typer.Typer(help="Records of runs: list, show, remove.", no_args_is_help=True)

Reference = Annotated[
    str, typer.Argument(metavar="RUN", help="Its id, the beginning of it, or last.")
]


@app.command("list")
@everywhere
def list_runs(options: Options) -> None:
    """Show the runs kept in .semgraph/runs, the latest first."""
    from semgraph.execution.record import all_runs
    from semgraph.render.runs import list_lines, summary

    found = all_runs()
    if options.json:
        options.dump([summary(run) for run in found])
    elif found:
        options.show(*list_lines(found, options.out.width))
    else:
        options.talk("no runs are kept here")


@app.command()
@everywhere
def show(options: Options, run: Reference) -> None:
    """Show one run: settings, steps, costs, what it wrote, what failed."""
    from semgraph.execution.record import find_run
    from semgraph.render.runs import page

    found = find_run(run)
    if options.json:
        options.dump({"run": found.name, **found.facts, "metrics": found.metrics})
    else:
        options.show(*page(found, options.out.width))


@app.command()
@everywhere
def rm(
    options: Options,
    runs: Annotated[list[str], typer.Argument(metavar="RUN...", help="Ids, or beginnings.")],
) -> None:
    """Remove records. What the runs wrote to a store stays."""
    from semgraph.execution.record import find_run

    for run in [find_run(ref) for ref in dict.fromkeys(runs)]:
        run.remove()
        options.show(f"{run.name} removed")


@everywhere
def why(
    options: Options,
    run: Reference,
    what: Annotated[
        str,
        typer.Argument(
            metavar="WHAT", help="A key, a text or its beginning; or STEP:column=value."
        ),
    ],
    messages: Annotated[
        bool, typer.Option("--messages", help="Print the exact requests and answers.")
    ] = False,
) -> None:
    """Explain a result: back from the row to the answers, the exact prompts and the source rows."""
    from semgraph.execution.record import all_runs, exchanges, find_run
    from semgraph.provenance import explain, origin_of
    from semgraph.render.why import described, lines

    found = find_run(run, asking=True)
    with exchanges(found) as lookup:
        chain = explain(found, what, lookup)
    if options.json:
        options.dump(described(chain))
        return
    options.show(*lines(chain, options.out.width, messages=messages, every=bool(options.verbose)))
    if any(link.asked for link in chain.links):
        if not messages:
            options.talk("the exact requests and answers: --messages")
    elif (origin := origin_of(chain, found, all_runs())) is not None:
        options.talk(f"run {origin[0].name} wrote it: semgraph why {origin[0].name} {origin[1]}")
