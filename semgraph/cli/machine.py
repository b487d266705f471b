"""`semgraph doctor`, `model`, `neo4j`, `cypher`: the state of this machine, and its server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from semgraph.cli import completion
from semgraph.cli.options import Commands, CommonOptions, argument, everywhere, option, parameters

if TYPE_CHECKING:
    from semgraph.stores.neo4j.local.server import LocalServer, StartProgress

models = Commands(
    help="Models that run on this machine: list, fetch, remove.", no_args_is_help=True
)
neo4j = Commands(
    help="A real Neo4j server on this machine: no Docker, no JDK to install.", no_args_is_help=True
)
_FOLDER = option("--folder DIR", "Where its data is.", show_default=".semgraph/neo4j")


@everywhere
def doctor(
    options: CommonOptions,
    call: bool = option(
        "--call", "Send each model up to three short requests, and say what it can do.", False
    ),
) -> None:
    """Check this installation: one line for each fact, with the remedy where something is
    missing.
    """
    from dataclasses import asdict

    from semgraph.formats import BAD
    from semgraph.render.machine import fact_lines
    from semgraph.session.diagnosis import diagnose

    diagnosis = list(diagnose(options.session(), call=call, report=options.talk))
    lines = (line for fact in diagnosis for line in fact_lines(fact, options.out.width))
    options.result([asdict(fact) for fact in diagnosis], lines)
    if any(fact.sign == BAD for fact in diagnosis):
        raise typer.Exit(5)


@models.command("list")
@everywhere
def list_models(options: CommonOptions) -> None:
    """Show every model that can be fetched, and which are here."""
    from semgraph.llm.catalogue import models_dir
    from semgraph.render.machine import described_models, model_lines

    if options.json:
        options.dump(described_models())
        return
    options.show(*model_lines(options.out.width))
    options.talk(f"in {models_dir()}")


@models.command()
@everywhere
def pull(
    options: CommonOptions,
    names: list[str] | None = argument(
        "[NAME]...",
        "Which; the two defaults if none.",
        None,
        autocompletion=completion.local_models,
        show_default=False,
    ),
    source: str | None = option(
        "--from URL|FILE", "Take it from there instead.", show_default=False
    ),
) -> None:
    """Fetch models: checked by SHA-256, resumable. Then each answers one test sentence."""
    from semgraph.formats import size
    from semgraph.llm.catalogue import DEFAULT_EMBEDDER, DEFAULT_MODEL, find, on_disk
    from semgraph.llm.catalogue import pull as fetch
    from semgraph.render.progress import downloading
    from semgraph.session.diagnosis import try_local

    for name in names or [DEFAULT_MODEL, DEFAULT_EMBEDDER]:
        model = find(name)
        if on_disk(model):
            options.talk(f"{model.name} is here already ({size(model.size)})")
        else:
            digest = f"SHA-256 {model.files[0].sha256[:16]}…"
            options.talk(f"{model.name}: {size(model.size)}, {model.licence}, {digest}")
            with downloading(options.err, model.name, quiet=bool(options.quiet)) as report:
                fetch(model, source, progress=report)
        options.show(f"{model.name}: {try_local(model)}")


@models.command()
@everywhere
def rm(
    options: CommonOptions,
    names: list[str] = argument("NAME...", "Which.", autocompletion=completion.local_models),
) -> None:
    """Remove models from this machine."""
    from semgraph.formats import size
    from semgraph.llm.catalogue import find, remove

    for model in [find(name) for name in names]:
        freed = remove(model)
        options.show(f"{model.name}: {size(freed)} freed" if freed else f"{model.name} is not here")


@neo4j.command()
@everywhere
def start(
    options: CommonOptions,
    folder: str | None = _FOLDER,
    port: int | None = option(
        "--port", "The Bolt port.", min=1, max=65535, show_default="7687, or a free one"
    ),
) -> None:
    """Start it, or find it running. The first start fetches Neo4j: GPLv3, from Maven Central, 140
    MB.
    """
    import time

    from semgraph.formats import duration, size
    from semgraph.stores.neo4j.local import server as neo4j_local

    began = time.monotonic()
    phases: list[str] = []

    def report(progress: StartProgress) -> None:
        if progress.phase not in phases:
            phases.append(progress.phase)
            if progress.phase != "start":
                what = f"Neo4j {neo4j_local.VERSION} Community (GPLv3, from Maven Central)"
                options.talk(f"{what}: {progress.phase} …")
        if options.verbose and progress.total:
            options.talk(f"  {progress.done} of {progress.total} files, {size(progress.size)}")

    server = neo4j_local.start(folder or neo4j_local.FOLDER, port, progress=report)
    took = f"started in {duration(time.monotonic() - began)}"
    took = took if "start" in phases else "running already"
    _show(options, server, f"{took}, pid {server.pid}", folder)


@neo4j.command()
@everywhere
def status(options: CommonOptions, folder: str | None = _FOLDER) -> None:
    """Say whether it runs, and where. Exit code 5 if it does not."""
    from semgraph.stores.neo4j.local import server as neo4j_local

    server = neo4j_local.status(folder or neo4j_local.FOLDER)
    state = f"running, pid {server.pid}" if server.running else "not running"
    _show(options, server, state, folder)
    if not server.running:
        raise typer.Exit(5)


@neo4j.command()
@everywhere
def stop(options: CommonOptions, folder: str | None = _FOLDER) -> None:
    """Shut it down cleanly. Its data stays."""
    from semgraph.render.machine import described_server
    from semgraph.stores.neo4j.local import server as neo4j_local

    ran = neo4j_local.status(folder or neo4j_local.FOLDER).running
    server = neo4j_local.stop(folder or neo4j_local.FOLDER)
    options.result(described_server(server), ["stopped" if ran else "it was not running"])


def _show(options: CommonOptions, server: LocalServer, state: str, folder: str | None) -> None:
    from semgraph.render.machine import described_server, server_line

    options.result(described_server(server), [server_line(server, state)])
    if options.json:
        return
    own, use = "", "--store neo4j-local"
    if folder is not None:
        own = f" --folder {folder}"
        use = f'NEO4J_URI={server.uri} NEO4J_PASSWORD="$(cat {folder}/password)" semgraph ... --store neo4j'
    running = f"use it: {use} · stop it: semgraph neo4j stop{own}"
    options.talk(running if server.running else f"start it: semgraph neo4j start{own}")


@everywhere
def cypher(
    options: CommonOptions,
    statement: str = argument("STATEMENT", "In quotes: 'MATCH (n) RETURN n LIMIT 5'."),
    set: list[str] | None = option("--set NAME=VALUE", "A parameter: $NAME."),  # noqa: A002 - the option's name
    write: bool = option("--write", "It may write; else it only reads.", False),
) -> None:
    """Run a Cypher statement in a Neo4j store and print its rows. It sees all groups."""
    from semgraph.formats import plural
    from semgraph.render.tables import Column, cell, styled

    with options.session() as session:
        rows = options.wait(session.acypher(statement, parameters(set), write=write))
    columns = [Column(name, [cell(row[name]) for row in rows]) for name in (rows or [{}])[0]]
    options.result(rows, styled(columns, options.out.width, indent=0) if columns else ())
    options.talk(plural(len(rows), "row"))
