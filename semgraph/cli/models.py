"""`semgraph model`: the models that run on this machine."""

from __future__ import annotations

from typing import Annotated

import typer

from semgraph.cli.common import Options, everywhere

app = typer.Typer(
    help="Models that run on this machine: list, fetch, remove.", no_args_is_help=True
)


@app.command("list")
@everywhere
def list_models(options: Options) -> None:
    """Show every model that can be fetched, and which are here."""
    from semgraph.llm.local.catalogue import CATALOGUE, models_dir, on_disk
    from semgraph.render.formats import size
    from semgraph.render.tables import Column, lines

    if options.json:
        options.dump(
            [
                {
                    "name": m.name, "kind": m.kind, "bytes": m.size, "licence": m.licence, "parameters": m.parameters,
                    "languages": m.languages, "context": m.context, "about": m.about, "here": on_disk(m),
                }
                for m in CATALOGUE
            ]
        )  # fmt: skip
        return
    columns = [
        Column("name", [m.name for m in CATALOGUE]),
        Column("kind", [m.kind for m in CATALOGUE]),
        Column("here", ["yes" if on_disk(m) else "no" for m in CATALOGUE]),
        Column("size", [size(m.size) for m in CATALOGUE], right=True),
        Column("licence", [m.licence for m in CATALOGUE]),
        Column("network", [m.parameters for m in CATALOGUE]),
        Column("languages", [" ".join(m.languages) for m in CATALOGUE]),
        Column("about", [m.about for m in CATALOGUE]),
    ]
    options.show(*lines(columns, options.out.width, indent=0))
    options.talk(f"in {models_dir()}")


@app.command()
@everywhere
def pull(
    options: Options,
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME]...", help="Which; the two defaults if none.", show_default=False
        ),
    ] = None,
    source: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="URL|FILE", help="Take it from there instead.", show_default=False
        ),
    ] = None,
) -> None:
    """Fetch models: checked by SHA-256, resumable. Then each answers one test sentence."""
    from semgraph.llm.local.catalogue import DEFAULT_EMBEDDER, DEFAULT_MODEL, find, on_disk
    from semgraph.llm.local.download import pull as fetch
    from semgraph.render.doctor import trial
    from semgraph.render.formats import size
    from semgraph.render.progress import downloading

    for name in names or [DEFAULT_MODEL, DEFAULT_EMBEDDER]:
        model = find(name)
        if on_disk(model):
            options.talk(f"{model.name} is here already ({size(model.size)})")
        else:
            options.talk(
                f"{model.name}: {size(model.size)}, {model.licence}, SHA-256 {model.files[0].sha256[:16]}…"
            )
            with downloading(options.err, model.name, quiet=bool(options.quiet)) as told:
                fetch(model, source, progress=told)
        options.show(f"{model.name}: {trial(model)}")


@app.command()
@everywhere
def rm(
    options: Options, names: Annotated[list[str], typer.Argument(metavar="NAME...", help="Which.")]
) -> None:
    """Remove models from this machine."""
    from semgraph.llm.local.catalogue import find
    from semgraph.llm.local.download import remove
    from semgraph.render.formats import size

    for model in [find(name) for name in names]:
        freed = remove(model)
        options.show(f"{model.name}: {size(freed)} freed" if freed else f"{model.name} is not here")
