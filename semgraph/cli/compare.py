"""`semgraph compare`: variants of a step or of a plan, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import typer

from semgraph.cli.options import (
    CommonOptions,
    PlanOptions,
    argument,
    everywhere,
    json_or_text,
    named_values,
    option,
)
from semgraph.errors import PlanError
from semgraph.options import RunOptions

if TYPE_CHECKING:
    from semgraph.compare.comparison import Comparison

_VARIANT = "NAME:KEY=VALUE,…"


@everywhere
def compare(
    options: CommonOptions,
    given: PlanOptions,
    request: RunOptions,
    plan: str | None = argument("PLAN", "A file, or a name: semgraph plans list.", None),
    step: str | None = option(
        "--step STEP", "The step whose variants are compared; else whole plans."
    ),
    implementations: str | None = option(
        "--implementations A,B,…", "Implementations of the step: nested_loop,block(left=10)."
    ),
    variant: list[str] | None = option(
        f"--variant {_VARIANT}",
        "What a variant changes: a step, preset, plan, llm, embedder, params.NAME, models.ROLE, "
        "prompts.NAME (a file), rules.NAME (on, off).",
    ),
    grid: list[str] | None = option(
        "--grid KEY=A,B;KEY=C,D", "The product of such changes: models.default=a,b; step=x,y."
    ),
    arms: str | None = option("--arms FILE", "Variants from a YAML file: {NAME: {KEY: VALUE}}."),
    dataset: str | None = option(
        "--dataset NAME|DIR", "A folder with the plan, its rows, the truth and variants."
    ),
    truth: str | None = option(
        "--truth FILE", "What is right: columns that name a row, and its answers."
    ),
    labels: str | None = option(
        "--labels [TABLE=]FILE", "Grades or true answers of returned rows."
    ),
    at: str = option("--at 5,10", "The values of k of nDCG@k and others.", "5,10"),
    judge: str | None = option("--judge PLAN", "A plan that judges answers."),
    trials: int = option("--trials N", "Independent trials of each.", 1),
    times: bool = option("--times", "Measure times: send every request of every variant.", False),
    chart: Literal["quality", "time", "steps"] = option(
        "--chart", "Quality or time over cost, or the cost of one trial by steps.", "quality"
    ),
    show: str | None = option("--show ID", "Show a recorded comparison: its id, or last."),
) -> None:
    """Compare variants of a step over the same rows, or of a whole plan. The store is only read."""
    if show is not None:
        from semgraph.compare.comparison import load_comparison

        _print(options, load_comparison(show), chart)
        return
    from semgraph.compare.dataset import Dataset

    data = None if dataset is None else Dataset.named(dataset, Path())
    plan = plan or (None if data is None else str(data.plan))
    if plan is None:
        hint = "semgraph compare PLAN --step STEP --implementations A,B, or --dataset DIR"
        raise PlanError("there is no plan to compare", hint=hint)
    chosen = read_arms(implementations, variant or [], ";".join(grid or []), arms)
    with options.session() as session:
        from semgraph.render.header import header

        prepared = given.prepare(session, plan)
        values = given.rows(prepared)
        if data is not None:
            files = [f"{name}={path}" for name, path in data.rows(prepared, values).items()]
            values |= replace(given, input=files).rows(prepared)
        every = bool(options.verbose)
        options.talk(*header(prepared, plan, values, session.settings, every=every))
        job = session.acompare(
            plan, dataset=dataset, **given.loading, **chosen, step=step, truth=truth, labels=labels, at=at, judge=judge,
            trials=trials, times=times, rows=request.rows, sample=request.sample, seed=request.seed,
            fresh=request.fresh, say=options.talk, inputs=values,
        )  # fmt: skip
        try:
            comparison = options.wait(job)
        except KeyboardInterrupt:
            options.warn("Paid answers are in the journal: the same command continues from there")
            raise
    _print(options, comparison, chart)
    raise typer.Exit(comparison.exit_code)


def read_arms(
    implementations: str | None = None,
    variants: Sequence[str] = (),
    grid: str | None = None,
    file: str | None = None,
) -> dict[str, Any]:
    """The arguments `variants` and `grid` of `Session.compare`, as typed. Raises PlanError with all
    problems.

    >>> read_arms("nested_loop, block(left=10,right=5)")
    {'variants': ['nested_loop', 'block(left=10,right=5)']}
    >>> read_arms(None, ["cheap:linked=block,params.window=5", "exact:preset=fused"])
    {'variants': {'cheap': {'linked': 'block', 'params.window': 5}, 'exact': {'preset': 'fused'}}}
    >>> read_arms(grid="models.default=a,b; linked=block()")
    {'grid': {'models.default': ['a', 'b'], 'linked': ['block()']}}
    """
    from semgraph.compare.variants import listed

    given = (implementations, variants, grid, file)
    options = ("--implementations", "--variant", "--grid", "--arms")
    typed = [option for option, value in zip(options, given, strict=True) if value]
    if len(typed) > 1:
        raise PlanError(f"{' and '.join(typed)} each name the variants", hint="give one of them")
    if grid:
        axes = named_values("--grid", [part.strip() for part in grid.split(";") if part.strip()])
        return {"grid": {key: [_value(key, v) for v in listed(text)] for key, text in axes.items()}}
    if implementations or file:
        return {"variants": listed(implementations) if implementations else Path(file or "")}
    changes = {
        name: named_values("--variant", listed(text), form=_VARIANT)
        for name, text in named_values("--variant", variants, ":", _VARIANT).items()
    }
    typed_changes = {n: {k: _value(k, v) for k, v in own.items()} for n, own in changes.items()}
    return {"variants": typed_changes}


def _value(key: str, text: str) -> Any:
    return json_or_text(text) if key.startswith("params.") else text


def _print(options: CommonOptions, comparison: Comparison, chart: str) -> None:
    from semgraph.render.comparison import lines

    if options.format not in (None, "text", "json"):
        typer.echo(getattr(comparison, f"to_{options.format}")(), nl=False)
        return
    options.result(comparison.to_json(), lines(comparison, options.out.width, chart))
