"""`semgraph neo4j`: a real Neo4j server on this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from semgraph.cli.common import Options, everywhere

if TYPE_CHECKING:
    from semgraph.stores.neo4j.local.jars import Progress
    from semgraph.stores.neo4j.local.server import LocalServer

app = typer.Typer(
    help="A real Neo4j server on this machine: no Docker, no JDK to install.", no_args_is_help=True
)

Folder = Annotated[
    str | None,
    typer.Option(metavar="DIR", help="Where its data is.", show_default=".semgraph/neo4j"),
]


@app.command()
@everywhere
def start(
    options: Options,
    folder: Folder = None,
    port: Annotated[
        int | None,
        typer.Option(min=1, max=65535, help="The Bolt port.", show_default="7687, or a free one"),
    ] = None,
) -> None:
    """Start it, or find it running. The first start fetches Neo4j: GPLv3, from Maven Central, 140
    MB.
    """
    import time

    from semgraph.render.formats import duration, size
    from semgraph.stores.neo4j.local import server as neo4j_local

    began = time.monotonic()
    phases: list[str] = []

    def told(progress: Progress) -> None:
        if progress.phase not in phases:
            phases.append(progress.phase)
            if progress.phase != "start":
                options.talk(
                    f"Neo4j {neo4j_local.VERSION} Community (GPLv3, from Maven Central): {progress.phase} …"
                )
        if options.verbose and progress.total:
            options.talk(f"  {progress.done} of {progress.total} files, {size(progress.size)}")

    server = neo4j_local.start(folder or neo4j_local.FOLDER, port, progress=told)
    took = (
        f"started in {duration(time.monotonic() - began)}, "
        if "start" in phases
        else "running already, "
    )
    _show(options, server, f"{took}pid {server.pid}")


@app.command()
@everywhere
def status(options: Options, folder: Folder = None) -> None:
    """Say whether it runs, and where. Exit code 5 if it does not."""
    from semgraph.stores.neo4j.local import server as neo4j_local

    server = neo4j_local.status(folder or neo4j_local.FOLDER)
    _show(options, server, f"running, pid {server.pid}" if server.running else "not running")
    if not server.running:
        raise typer.Exit(5)


@app.command()
@everywhere
def stop(options: Options, folder: Folder = None) -> None:
    """Shut it down cleanly. Its data stays."""
    from semgraph.stores.neo4j.local import server as neo4j_local

    ran = neo4j_local.status(folder or neo4j_local.FOLDER).running
    server = neo4j_local.stop(folder or neo4j_local.FOLDER)
    if options.json:
        options.dump(_plain(server))
    else:
        options.show("stopped" if ran else "it was not running")


def _plain(server: LocalServer) -> dict[str, Any]:
    return {
        "running": server.running,
        "uri": server.uri,
        "user": server.user,
        "password_file": str(server.folder / "password"),
        "version": server.version,
        "pid": server.pid,
    }


def _show(options: Options, server: LocalServer, state: str) -> None:
    if options.json:
        options.dump(_plain(server))
        return
    if not server.running:
        options.show(state)
        options.talk("start it: semgraph neo4j start")
        return
    options.show(
        f"{server.uri} · user {server.user} · password in {server.folder / 'password'} · {state}"
    )
    options.talk("use it: --store neo4j-local · stop it: semgraph neo4j stop")
