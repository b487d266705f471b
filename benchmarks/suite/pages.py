"""The pages: one for each benchmark, one of targets; all of it made from the lines."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from benchmarks.suite import targets
from benchmarks.suite.benchmark import Benchmark, load, names
from benchmarks.suite.charts import draw
from benchmarks.suite.lines import RESULTS, Line, Lines

_KINDS = {
    "simulated": "The model is simulated: counts and times are measured; nothing is said about the quality of a real one.",
    "real": "A real model answered; what is said holds for that model.",
    "estimate": "Estimates, not measurements.",
}


def page(benchmark: Benchmark, lines: list[Line]) -> str:
    """One benchmark's page."""
    order = [case.key for case in benchmark.cases()]
    if benchmark.kind == "real":  # which models there are rows of, only the lines know
        for line in lines:
            order += [line.key] if line.key not in order else []
    parts = [f"# {benchmark.name}\n\n{benchmark.question}\n\n{_KINDS[benchmark.kind]}\n"]
    parts += [table.markdown(lines, order) for table in benchmark.tables]
    parts += [f"![{chart.title}]({benchmark.name}-{chart.name}-light.svg)\n" for chart in benchmark.charts]
    if benchmark.targets:
        parts.append("**What was to be reached**\n\n" + targets.markdown([t.row(lines) for t in benchmark.targets]))
    if benchmark.loses:
        parts.append(f"**Where semgraph loses.** {benchmark.loses}\n")
    return "\n".join([*parts, _made(benchmark, lines)])


def _made(benchmark: Benchmark, lines: list[Line]) -> str:
    if not lines:
        return f"Nothing was measured yet: `python -m benchmarks run {benchmark.name}`.\n"
    machines = {
        f"{m['cores']} × {m['processor']}, {m['memory_gib']} GiB" for m in (line.made["machine"] for line in lines)
    }
    commits = sorted({line.made["commit"] + ("+" if line.made["changed"] else "") for line in lines})
    dates = sorted(line.made["at"][:10] for line in lines)
    when = dates[0] if dates[0] == dates[-1] else f"{dates[0]} to {dates[-1]}"
    seconds = sum(line.made.get("seconds", 0) for line in lines)
    return (
        f"Measured {when} on {', '.join(sorted(machines))}, commit {', '.join(commits)}; {len(lines)} trials, "
        f"{seconds / 60:.0f} min. Every line: [{benchmark.name}.jsonl]({benchmark.name}.jsonl). "
        f"Again: `python -m benchmarks run {benchmark.name} --again`.\n"
    )


def files(chosen: Iterable[str], folder: Path = RESULTS) -> dict[Path, str]:
    """All pages and charts, by path, as the lines say they should be."""
    found: dict[Path, str] = {}
    rows = []
    for name in names():
        benchmark = load(name)
        lines = list(Lines(name, folder))
        rows += [[f"[{name}]({name}.md)", *target.row(lines)] for target in benchmark.targets]
        if name in chosen:
            found[folder / f"{name}.md"] = page(benchmark, lines)
            for chart in benchmark.charts:
                for theme in ("light", "dark"):
                    found[folder / f"{name}-{chart.name}-{theme}.svg"] = draw(chart, lines, theme)
    head = [["", "", "to reach", "measured", ""], ["---", "---", "--:", "--:", "---"]]
    table = "\n".join("| " + " | ".join(cells) + " |" for cells in [*head, *rows])
    found[folder / "targets.md"] = f"# What is to be reached, and what was measured\n\n{table}\n"
    return found
