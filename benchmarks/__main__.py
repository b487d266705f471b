"""`semgraph-bench list | run | table | check`: run benchmarks, and generate the pages from the
results.
"""

from __future__ import annotations

import signal
import time
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.console import Console
from rich.progress import track

from benchmarks.suite.benchmark import Benchmark, load, names
from benchmarks.suite.inputs import INPUTS
from benchmarks.suite.lines import RESULTS, Line, Lines
from benchmarks.suite.made import ROOT
from benchmarks.suite.pages import files, minutes, page, wrong
from benchmarks.suite.running import UNMEASURED, Work, measure, outstanding, work
from semgraph.errors import PlanError

QUICK = ROOT / ".semgraph" / "benchmarks"
"""The folder of quick runs, so that they do not change the results."""
_REAL = "public and real"
app = typer.Typer(
    add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False, help=__doc__
)
Names = Annotated[
    list[str] | None, typer.Argument(metavar="[NAME]...", help="benchmarks; default: all")
]
Into = Annotated[
    Path | None,
    typer.Option(
        "--into", metavar="FOLDER", help="write lines and pages here in place of the results"
    ),
]


def _chosen(chosen: list[str] | None) -> list[Benchmark]:
    try:
        return [load(name) for name in chosen or names()]
    except KeyError as error:
        close = [
            m
            for name in chosen or ()
            if name not in names()
            for m in get_close_matches(name, names(), 1)
        ]
        hint = f'. Did you mean "{close[0]}"?' if close else ""
        _stop(f"{error.args[0]}{hint}")


def _ready(chosen: list[Benchmark], *, named: bool) -> list[Benchmark]:
    """The benchmarks that can run. A named benchmark that lacks something ends the run before it
    starts.
    """
    try:
        lacking = {benchmark.name: benchmark.lacks() for benchmark in chosen}
    except PlanError as error:
        _stop(str(error))
    for name in filter(lacking.get, lacking):
        typer.echo(f"{name}: {'' if named else 'skipped: '}{lacking[name]}", err=True)
    if named and any(lacking.values()):
        raise typer.Exit(2)
    return [benchmark for benchmark in chosen if not lacking[benchmark.name]]


def _where(conditions: list[str]) -> dict[str, str]:
    for text in conditions:
        if "=" not in text:
            _stop(f'--where "{text}": use KEY=VALUE, such as facts=1000')
    return dict(text.split("=", 1) for text in conditions)


def _stop(text: str) -> NoReturn:
    typer.echo(text, err=True)
    raise typer.Exit(2)


@app.command(name="list")
def list_(into: Into = None) -> None:
    """List the benchmarks: question, cases, existing trials and their time."""
    for benchmark in _chosen(None):
        cases, lines = benchmark.cases(), _read(benchmark, into or RESULTS)
        quick, full = sum(case.quick for case in cases), sum(case.full for case in cases)
        trials = sum(case.trials for case in cases if not case.full)
        typer.echo(f"{benchmark.name:<12} {benchmark.question}")
        chosen = f"{len(cases)} cases, {quick} quick, {full} with --full only; {trials} trials by default"
        existing = f"{len(lines)} exist, which took {minutes(lines):.1f} min"
        typer.echo(f"{'':<12} {benchmark.kind}; {chosen}; {existing}")


@app.command()
def run(
    given: Names = None,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick", help="two minutes of cases, one trial each; does not change the results"
        ),
    ] = False,
    full: Annotated[bool, typer.Option("--full", help="include the cases that take long")] = False,
    only: Annotated[
        list[str] | None,
        typer.Option(
            "--where", metavar="KEY=VALUE", help="only cases with this key, such as facts=1000"
        ),
    ] = None,
    trials: Annotated[
        int | None, typer.Option(min=1, help="the most trials of each case; a later run continues")
    ] = None,
    again: Annotated[bool, typer.Option("--again", help="measure existing trials again")] = False,
    budget: Annotated[
        float | None,
        typer.Option(
            "--minutes", min=0.01, help="start nothing after this time; a later run continues"
        ),
    ] = None,
    model: Annotated[
        str | None, typer.Option(metavar="SPEC", help=f"for {_REAL}: openai:NAME, local")
    ] = None,
    max_usd: Annotated[
        float | None, typer.Option(min=0, help="the limit for the model's cost in this run")
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="for public: the folder with your downloads"),
    ] = None,
    into: Into = None,
) -> None:
    """Measure. Trials that exist already, for the same code, are not repeated: an interrupted run
    continues.
    """
    folder = into or (QUICK if quick else RESULTS)
    until = time.monotonic() + 60 * budget if budget else None
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    console, broken, missing = Console(stderr=True), 0, 0
    INPUTS.model, INPUTS.max_usd, INPUTS.data = model, max_usd, data
    where = _where(only or [])
    try:
        for benchmark in _ready(_chosen(given), named=bool(given)):
            lines = Lines(benchmark.name, folder)
            _read(benchmark, folder)
            todo = work(benchmark, quick=quick, full=full, trials=trials, where=where)
            left = todo if again else outstanding(benchmark, todo, lines)
            note = f", {len(todo) - len(left)} exist already" if len(left) < len(todo) else ""
            console.print(f"{benchmark.name}: {len(left)} trials to measure{note}")
            done = _measured(benchmark, left, lines, until, console)
            broken += sum(
                bool(line.failed) and not line.failed.startswith(UNMEASURED) for line in done
            )
            missing += len(left) - len(done)
    except KeyboardInterrupt:
        console.print(
            "Interrupted. Finished trials are recorded; the same command continues with the rest."
        )
        raise typer.Exit(130) from None
    _write(folder)
    if INPUTS.left is not None:
        console.print(f"${INPUTS.spent:.4f} spent, ${INPUTS.left:.4f} of ${INPUTS.max_usd:g} left.")
    if missing:
        console.print(
            f"{missing} trials did not start within {budget:g} min; the same command continues with them."
        )
    if broken or missing:
        raise typer.Exit(1)


def _measured(
    benchmark: Benchmark, left: list[Work], lines: Lines, until: float | None, console: Console
) -> list[Line]:
    """Measure with a progress bar; report each reason for a missing figure once."""
    done, reported = list[Line](), set[str]()
    trials = measure(benchmark, left, lines, until)
    for line in track(trials, description=benchmark.name, total=len(left), console=console):
        done.append(line)
        if line.failed and line.failed not in reported:
            reported.add(line.failed)
            console.print(f"{benchmark.name} {dict(line.key)}: {line.failed}", markup=False)
    return done


@app.command()
def table(given: Names = None, into: Into = None) -> None:
    """Generate the pages from the results, and print them."""
    folder = into or RESULTS
    chosen = [(benchmark, _read(benchmark, folder)) for benchmark in _chosen(given)]
    _write(folder)
    for benchmark, lines in chosen:
        typer.echo(page(benchmark, lines))


@app.command()
def check(into: Into = None) -> None:
    """Check that the pages agree with the results."""
    for benchmark in _chosen(None):
        _read(benchmark, into or RESULTS)
    different = wrong(into or RESULTS)
    for path in different:
        typer.echo(f"{path}: differs from the results. Run: semgraph-bench table", err=True)
    if different:
        raise typer.Exit(1)


def _read(benchmark: Benchmark, folder: Path) -> list[Line]:
    """All lines; the command ends if one cannot be read."""
    try:
        return list(Lines(benchmark.name, folder))
    except ValueError as error:
        _stop(str(error))


def _write(folder: Path) -> None:
    for path, text in files(folder).items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    app()
