"""`python -m benchmarks list | run | table | check`: measure, and make the pages from what was measured."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import track

from benchmarks.suite.benchmark import Benchmark, load, names
from benchmarks.suite.given import GIVEN
from benchmarks.suite.lines import Lines
from benchmarks.suite.pages import files, page
from benchmarks.suite.running import measure, outstanding, work
from semgraph.errors import PlanError

_ASKING = "public and real"
app = typer.Typer(add_completion=False, no_args_is_help=True, help=__doc__)
Names = Annotated[list[str] | None, typer.Argument(metavar="[NAME]...", help="benchmarks; none: all")]


def _chosen(given: list[str] | None) -> list[Benchmark]:
    try:
        return [load(name) for name in given or names()]
    except KeyError as error:
        typer.echo(error.args[0], err=True)
        raise typer.Exit(2) from None


def _ready(chosen: list[Benchmark], *, named: bool) -> list[Benchmark]:
    """Those that have all they need. One that was asked for by its name and lacks something ends the run before it begins."""
    try:
        lacking = {benchmark.name: benchmark.lacks() for benchmark in chosen}
    except PlanError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(2) from None
    for name in filter(lacking.get, lacking):
        typer.echo(f"{name}: {'' if named else 'passed over: '}{lacking[name]}", err=True)
    if named and any(lacking.values()):
        raise typer.Exit(2)
    return [benchmark for benchmark in chosen if not lacking[benchmark.name]]


@app.command(name="list")
def list_() -> None:
    """The benchmarks: question, cases, lines that there are."""
    for benchmark in _chosen(None):
        cases = benchmark.cases()
        lines = list(Lines(benchmark.name))
        typer.echo(f"{benchmark.name:<12} {benchmark.question}")
        typer.echo(
            f"{'':<12} {len(cases)} cases, {sum(c.quick for c in cases)} of them quick; {len(lines)} trials held"
        )


@app.command()
def run(
    given: Names = None,
    quick: Annotated[bool, typer.Option("--quick", help="the cases of two minutes, one trial each")] = False,
    full: Annotated[bool, typer.Option("--full", help="also the cases that take long")] = False,
    trials: Annotated[int | None, typer.Option(min=1, help="at most so many of each case; a later run goes on")] = None,
    again: Annotated[bool, typer.Option("--again", help="also what is held already")] = False,
    model: Annotated[str | None, typer.Option(metavar="SPEC", help=f"for {_ASKING}: openai:NAME, local")] = None,
    max_usd: Annotated[float | None, typer.Option(min=0, help="what the model may cost in this run")] = None,
    data: Annotated[Path | None, typer.Option(metavar="FOLDER", help="for public: what you have downloaded")] = None,
) -> None:
    """Measure. What the lines hold already, by the same code, is not measured again: an interrupted run goes on."""
    console = Console(stderr=True)
    broken = 0
    GIVEN.model, GIVEN.max_usd, GIVEN.data = model, max_usd, data
    for benchmark in _ready(_chosen(given), named=bool(given)):
        lines = Lines(benchmark.name)
        todo = work(benchmark, quick=quick, full=full, trials=trials)
        left = todo if again else outstanding(benchmark, todo, lines)
        held = f", {len(todo) - len(left)} held already" if len(left) < len(todo) else ""
        console.print(f"{benchmark.name}: {len(left)} trials to measure{held}")
        done = measure(benchmark, left, lines)
        for line in track(done, description=benchmark.name, total=len(left), console=console):
            if line.failed:
                broken += 1
                console.print(f"{benchmark.name} {dict(line.key)}: {line.failed}", markup=False)
    _write(given)
    if broken:
        raise typer.Exit(1)


@app.command()
def table(given: Names = None) -> None:
    """Make the pages anew from the lines, and show them."""
    _write(given)
    for benchmark in _chosen(given):
        typer.echo(page(benchmark, list(Lines(benchmark.name))))


@app.command()
def check() -> None:
    """Whether the pages are what the lines say."""
    wrong = [
        path for path, text in files(names()).items() if not path.exists() or path.read_text(encoding="utf-8") != text
    ]
    for path in wrong:
        typer.echo(f"{path}: not what the lines say. Run: python -m benchmarks table", err=True)
    if wrong:
        raise typer.Exit(1)


def _write(given: list[str] | None) -> None:
    for path, text in files(given or names()).items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    app()
