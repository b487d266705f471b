"""`semgraph runs`, `why`, `report`, `journal` and `export`: records of runs, and the stored graph
as a file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Annotated

import typer

from semgraph.cli.options import Commands, CommonOptions, PlanOptions, argument, everywhere, option
from semgraph.errors import PlanError
from semgraph.privacy import LAST

app = Commands(help="Records of runs: list, show, remove.", no_args_is_help=True)
journal = Commands(
    help="Answers that were paid for: delete old ones, or those of a group.", no_args_is_help=True
)
_UNITS = {"d": "days", "h": "hours", "m": "minutes"}

Reference = Annotated[str, argument("RUN", "Its id, the beginning of it, or last.")]


@app.command("list")
@everywhere
def list_runs(options: CommonOptions) -> None:
    """Show the runs kept in .semgraph/runs, the latest first."""
    from semgraph.execution.record import all_runs
    from semgraph.render.outcome import run_lines, summary

    runs = all_runs()
    if options.json:
        options.dump([summary(run) for run in runs])
    elif runs:
        options.show(*run_lines(runs, options.out.width))
    else:
        options.talk("no runs are kept here")


@app.command()
@everywhere
def show(options: CommonOptions, run: Reference) -> None:
    """Show one run: settings, steps, costs, what it wrote, what failed."""
    from semgraph.execution.record import find_run
    from semgraph.render.outcome import run_page

    record = find_run(run)
    data = {"run": record.name, **record.facts, "metrics": record.metrics}
    options.result(data, run_page(record, options.out.width))


@app.command()
@everywhere
def rm(options: CommonOptions, runs: list[str] = argument("RUN...", "Ids, or beginnings.")) -> None:
    """Remove records. What the runs wrote to a store stays."""
    from semgraph.execution.record import find_run

    for run in [find_run(ref) for ref in dict.fromkeys(runs)]:
        run.remove()
        options.show(f"{run.name} removed")


@everywhere
def why(
    options: CommonOptions,
    run: str = argument("RUN|WHAT", "A run; or WHAT, alone."),
    what: str | None = argument(
        "WHAT", "A key, a text or its beginning; or STEP:column=value.", None
    ),
    messages: bool = option("--messages", "Print the exact requests and answers.", False),
) -> None:
    """Explain a result: back from the row to the answers, the exact prompts and the source rows. Without
    RUN, of the latest run that wrote it.
    """
    from semgraph.execution.record import COMPARED, all_runs, exchanges, find_run
    from semgraph.provenance import explain, written_by
    from semgraph.render.why import described, lines

    if what is None and run == LAST:
        raise PlanError("why needs a row", hint=f'write semgraph why {run} "a key, or a text"')
    if what is None:
        what, run = run, written_by(all_runs(), run).run
        options.talk(f"run {run}: semgraph runs show {run}")
    record = find_run(run, asking=True)
    with exchanges(record) as lookup:
        chain = explain(record, what, lookup)
    if options.json:
        options.dump(described(chain))
        return
    options.show(*lines(chain, options.out.width, messages=messages, every=bool(options.verbose)))
    key = chain.links[0].row.get(str(record.facts.get("key")))
    if any(link.asked for link in chain.links):
        if not messages:
            options.talk("the exact requests and answers: --messages")
    elif key and record.facts.get("kind") != COMPARED:
        origin = written_by(all_runs(), key)
        if origin.run != record.name and any(link.asked for link in origin.links):
            options.talk(f"run {origin.run} wrote it: semgraph why {origin.run} {key}")
    if record.facts.get("kind") == COMPARED:
        options.talk(f"run {record.name} compared a graph: nothing of it was written")


@everywhere
def report(
    options: CommonOptions,
    records: list[str] = argument("RUN|COMPARISON...", "Ids, the beginnings of them, or last."),
    to: str = option("-o --output FILE", "The page; it opens without a network.", ...),
) -> None:
    """Write one HTML file: costs by step, the graph, every prompt and answer; of a comparison or
    a tuning the table and the charts.
    """
    from semgraph.render.html import save

    _written(options, save(records, Path(to)), "; it holds prompts and answers")


def _written(options: CommonOptions, file: Path, more: str = "") -> None:
    from semgraph.formats import size

    length = file.stat().st_size
    line = f"{file}   {size(length)}, opens without a network{more}"
    options.result({"file": str(file), "bytes": length}, [line])


@journal.command()
@everywhere
def forget(options: CommonOptions, groups: list[str] = argument("GROUP...", "Values.")) -> None:
    """Delete the answers and vectors of groups from the journal. The graph and the records of runs
    stay.

    Exits with 1 if the journal holds nothing of these groups.
    """
    from semgraph.session.diagnosis import nothing_deleted

    with options.session() as session:
        path = session.settings.journal_path
        count = session.forget(groups)
    if options.json:
        options.dump({"deleted": count, "journal": None if path is None else str(path)})
    elif count:
        options.show(f"{count:,} answers and vectors deleted from {path}")
    if not count:
        options.warn(nothing_deleted(groups, path, configured=options.config is not None))
        raise typer.Exit(1)


@journal.command()
@everywhere
def prune(
    options: CommonOptions,
    older: str = option("--older AGE", "Of this age at least: 90d, 12h, 30m.", ...),
    group: list[str] | None = option("--group GROUP", "Of this group; may be repeated."),
) -> None:
    """Delete answers and vectors of a certain age from the journal. The graph and the records of runs
    stay.
    """
    from semgraph.formats import size
    from semgraph.llm.journal import counted

    match = re.fullmatch(r"(\d{1,6})([dhm])", older)
    if match is None:
        hint = "days, hours or minutes: 90d, 12h, 30m"
        raise PlanError(f'--older "{older}" is no age', hint=hint)
    with options.session() as session:
        before = session.journal_bytes
        age = timedelta(**{_UNITS[match[2]]: int(match[1])})
        answers, vectors = session.prune(age, group)
        after = session.journal_bytes
    if options.json:
        options.dump({"answers": answers, "vectors": vectors, "before": before, "after": after})
    else:
        sizes = f"{size(before)} before, {size(after)} now"
        options.show(f"{counted(answers, vectors)} deleted: {sizes}")


@everywhere
def show_graph(
    options: CommonOptions,
    group: str | None = argument(
        "GROUP", "The value of the partition; default: the only one.", None
    ),
    to: str | None = option("-o --output FILE.html", "Write a page with the drawing."),
    at: str | None = option(
        "--at TIME", "Only what holds then: 2025-02-01, or with a time of day."
    ),
    graph: str | None = option(
        "--graph FILE", "A graph.yaml; default: plans/graph.yaml, else the shipped."
    ),
) -> None:
    """Show the graph of a group as the store has it; without GROUP, the groups."""
    with options.session() as session:
        if group is None:
            groups = options.wait(session.agroups(graph))
            if len(groups) != 1:
                options.result(groups, _listed(groups))
                return
            group = next(iter(groups))
        shown = options.wait(session.ashow(group, at=at, graph=graph))
    for note in shown.notes:
        options.warn(f"! {note}")
    if to is None:
        options.result(shown.as_dict(), shown.lines(options.out.width))
    else:
        _written(options, shown.save(to))


def _listed(groups: Mapping[str, Mapping[str, int]]) -> Iterator[str]:
    from semgraph.formats import count, plural

    if not groups:
        yield "no rows of this graph; for those of another one, name its file: --graph FILE"
        return
    yield plural(len(groups), "group")
    for name, counts in groups.items():
        rows = ", ".join(f"{count(n)} {label}" for label, n in counts.items())
        yield f"""  {name or '""'}: {rows}"""


@everywhere
def export(
    options: CommonOptions,
    given: PlanOptions,
    to: str = option(
        "-o --output FILE",
        "FILE.graphml, FILE.json (node-link), or FOLDER.parquet: nodes.parquet, edges.parquet.",
        ...,
    ),
    group: str | None = argument("GROUP", "The value of the partition.", None),
    plan: str | None = option(
        "--plan PLAN", "Instead of a group: the results of a plan, as FILE.json."
    ),
    graph: str | None = option(
        "--graph FILE", "A graph.yaml; default: plans/graph.yaml, else the shipped."
    ),
) -> None:
    """Write a group's nodes and edges, with labels, properties and times, for other programs; or the
    results of a plan.
    """
    from semgraph.cli.run import export_results
    from semgraph.formats import plural

    if (group is None) == (plan is None) or (graph if plan else given != PlanOptions()):
        what = "export takes GROUP and --graph, or --plan and its -i, --set, --preset and --use"
        hint = "write semgraph export GROUP -o FILE, or semgraph export --plan PLAN -o FILE.json"
        raise PlanError(what, hint=hint)
    with options.session() as session:
        if plan is not None:
            raise typer.Exit(export_results(options, session, plan, given, to).exit_code)
        assert group is not None
        written = session.export(group, to, graph=graph)
    counts = {"nodes": written.nodes, "edges": written.edges}
    options.result(
        {"path": str(written.path), **counts, "notes": list(written.notes)},
        [
            f"{to}   {plural(written.nodes, 'node')}, {plural(written.edges, 'edge')}",
            *(f"! {note}" for note in written.notes),
        ],
    )
