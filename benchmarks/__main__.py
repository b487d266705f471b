"""`semgraph-bench list | run | table | check`: run benchmarks, and generate the pages from the
results.
"""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.console import Console
from rich.progress import track

from benchmarks.frame import Benchmark, Lines
from benchmarks.frame.cases import load, names
from benchmarks.frame.lines import RESULTS, ROOT
from benchmarks.frame.pages import files, minutes, page, read, wrong
from benchmarks.frame.run import UNMEASURED, expected, measure, outstanding, work
from benchmarks.quality.inputs import INPUTS
from semgraph.errors import PlanError

QUICK = ROOT / ".semgraph" / "benchmarks"
"""The folder of quick runs, so that they do not change the results."""
app = typer.Typer(
    add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False, help=__doc__
)
Names = Annotated[
    list[str] | None, typer.Argument(metavar="[NAME]...", help="benchmarks; default: all")
]
Into = Annotated[
    Path | None,
    typer.Option(metavar="FOLDER", help="write lines and pages here in place of the results"),
]


def _chosen(chosen: list[str] | None) -> list[Benchmark]:
    try:
        return [load(name) for name in chosen or names()]
    except ValueError as error:
        _stop(str(error))


def _ready(chosen: list[Benchmark], *, named: bool) -> list[Benchmark]:
    """The benchmarks that can run. A named benchmark that lacks something ends the run before it
    starts.
    """
    lacking = {benchmark.name: benchmark.lacks() for benchmark in chosen}
    for name in filter(lacking.get, lacking):
        typer.echo(f"{name}: {'' if named else 'skipped: '}{lacking[name]}", err=True)
    if named and any(lacking.values()):
        raise typer.Exit(2)
    return [benchmark for benchmark in chosen if not lacking[benchmark.name]]


def _stop(text: str) -> NoReturn:
    typer.echo(text, err=True)
    raise typer.Exit(2)


@app.command(name="list")
def list_(into: Into = None) -> None:
    """List the benchmarks: question, cases, existing trials and their time."""
    for name, (benchmark, lines) in read(into or RESULTS).items():
        cases = benchmark.cases()
        quick, full = sum(case.quick for case in cases), sum(case.full for case in cases)
        typer.echo(f"{name:<10} {benchmark.question}")
        chosen = f"{len(cases)} cases, {quick} quick, {full} with --full only"
        typer.echo(
            f"{'':<10} {benchmark.kind}; {chosen}; {len(lines)} trials exist, {minutes(lines):.1f} min"
        )


@app.command()
def run(
    given: Names = None,
    quick: Annotated[
        bool, typer.Option(help="few cases, one trial each; leaves the results alone")
    ] = False,
    full: Annotated[bool, typer.Option(help="include the cases that take long")] = False,
    where: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="only cases with this key, such as facts=1000"),
    ] = None,
    again: Annotated[bool, typer.Option(help="measure existing trials again")] = False,
    model: Annotated[
        str | None, typer.Option(metavar="SPEC", help="for quality: openai:NAME, local")
    ] = None,
    max_usd: Annotated[
        float | None, typer.Option(min=0, help="the limit for the model's cost in this run")
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="for quality: your downloads of public data sets"),
    ] = None,
    into: Into = None,
) -> None:
    """Measure. Trials that exist already, for the same code, are not repeated: an interrupted run
    continues.
    """
    folder = into or (QUICK if quick else RESULTS)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    console, broken = Console(stderr=True), 0
    INPUTS.model, INPUTS.max_usd, INPUTS.data = model, max_usd, data
    if wrongly := [text for text in where or () if "=" not in text]:
        _stop(f'--where "{wrongly[0]}": use KEY=VALUE, such as facts=1000')
    keys = dict(text.split("=", 1) for text in where or ())
    try:
        for one in _ready(_chosen(given), named=bool(given)):
            lines, reported = Lines(one.name, folder), set[str]()
            todo = work(one, quick=quick, full=full, where=keys)
            left = todo if again else outstanding(one, todo, lines)
            console.print(
                f"{one.name}: {len(left)} trials to measure{expected(left, lines)}, "
                f"{len(todo) - len(left)} exist already"
            )
            done = measure(one, left, lines)
            for line in track(done, description=one.name, total=len(left), console=console):
                broken += bool(line.failed) and not line.failed.startswith(UNMEASURED)
                if line.failed and line.failed not in reported:
                    reported.add(line.failed)
                    console.print(f"{one.name} {dict(line.key)}: {line.failed}", markup=False)
    except (PlanError, ValueError) as error:
        _stop(str(error))
    except KeyboardInterrupt:
        console.print(
            "Interrupted. Finished trials are recorded; the same command continues with the rest."
        )
        raise typer.Exit(130) from None
    _write(folder)
    if INPUTS.left is not None:
        console.print(f"${INPUTS.spent:.4f} spent, ${INPUTS.left:.4f} of ${INPUTS.max_usd:g} left.")
    if broken:
        raise typer.Exit(1)


@app.command()
def table(given: Names = None, into: Into = None) -> None:
    """Generate the pages from the results, and print them."""
    chosen, measured = _chosen(given), read(into or RESULTS)
    _write(into or RESULTS)
    for benchmark in chosen:
        typer.echo(page(*measured[benchmark.name]))


@app.command()
def check(into: Into = None) -> None:
    """Check that the pages agree with the results."""
    different = wrong(into or RESULTS)
    for path in different:
        typer.echo(f"{path}: differs from the results. Run: semgraph-bench table", err=True)
    if different:
        raise typer.Exit(1)


def _write(folder: Path) -> None:
    for path, text in files(folder).items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    app()
