"""`semgraph export`: a group of the stored graph as a file."""

from __future__ import annotations

from typing import Annotated

import typer

from semgraph.cli.options import CommonOptions, everywhere


@everywhere
def export(
    options: CommonOptions,
    group: Annotated[str, typer.Argument(metavar="GROUP", help="The value of the partition.")],
    to: Annotated[
        str,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE",
            help="FILE.graphml, FILE.json (node-link), or FOLDER.parquet: nodes.parquet, edges.parquet.",
        ),
    ],
    graph: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="A graph.yaml; default: plans/graph.yaml, else the shipped."
        ),
    ] = None,
) -> None:
    """Write a group's nodes and edges, with labels, properties and times, for other programs."""
    from semgraph.formats import plural

    with options.session() as session:
        written = session.export(group, to, graph=graph)
    if options.json:
        counts = {"nodes": written.nodes, "edges": written.edges}
        options.dump({"path": str(written.path), **counts, "notes": list(written.notes)})
    else:
        options.show(f"{to}   {plural(written.nodes, 'node')}, {plural(written.edges, 'edge')}")
        for note in written.notes:
            options.show(f"! {note}")
