"""Pages generated from the results: one for each benchmark, its charts, parts of
docs/benchmarks.md and README.md.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.suite import contests, overview, swap, targets
from benchmarks.suite.benchmark import Benchmark, load, names
from benchmarks.suite.charts import THEMES, draw, draw_bars
from benchmarks.suite.documents import filled, table_rows
from benchmarks.suite.lines import RESULTS, Line, Lines
from benchmarks.suite.made import ROOT

KINDS = {
    "simulated": "The model is simulated: counts and times are measured, and say nothing about the quality of a real model.",
    "real": "A real model answered; the figures hold for that model only.",
    "estimate": "Estimates, not measurements.",
}
_TITLES = {
    "simulated": "measured, simulated model",
    "real": "measured, real model",
    "estimate": "estimated",
}
_CLIP_PATH = re.compile(r"\bp[0-9a-f]{10}\b")
_HERE = "benchmarks/results"
DOCUMENTS = {
    "docs/benchmarks.md": "docs",
    "docs/benchmarks-appendix.md": "docs",
    "docs/memories/findings.md": "docs/memories",
    "README.md": ".",
}
"""Pages with generated parts, and the folder that their links start from."""
Measured = Sequence[tuple[Benchmark, Sequence[Line]]]


def page(benchmark: Benchmark, lines: list[Line]) -> str:
    """The page of one benchmark. Raises ValueError if lines have a different kind than the
    benchmark.
    """
    lines = current(benchmark, lines)
    order = _order(benchmark, lines)
    parts = [f"# {benchmark.name}\n\n{benchmark.question}\n\n{KINDS[benchmark.kind]}\n"]
    if benchmark.targets:
        parts.append(
            "**Are the targets met?**\n\n"
            + targets.markdown([t.row(lines) for t in benchmark.targets])
            + (f"\n{benchmark.targets_note}\n" if benchmark.targets_note else "")
        )
    parts += [table.markdown(_own(benchmark, lines), order) for table in benchmark.tables]
    parts += [_picture(benchmark, i, "") for i in range(len(benchmark.charts))]
    if benchmark.contests:
        parts.append(f"**Where semgraph loses**\n\n{_lost(benchmark, lines)}")
    return "\n".join([*parts, _made(benchmark, lines)])


def _order(benchmark: Benchmark, lines: Sequence[Line]) -> list[Mapping[str, Any]]:
    """The keys of the cases. Of a real benchmark also those of its lines, which alone know the
    models, in the order of the same cases.
    """
    cases = [case.key for case in benchmark.cases()]
    if benchmark.kind != "real":
        return cases
    bare, keys = [_without_model(key) for key in cases], list[Mapping[str, Any]]()
    for line in lines:
        keys += [line.key] if line.key not in (*cases, *keys) else []
    known = [key for key in keys if _without_model(key) in bare]
    known.sort(key=lambda key: bare.index(_without_model(key)))
    return [*cases, *known, *(key for key in keys if key not in known)]


def _without_model(key: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in key.items() if name != "model"}


def current(benchmark: Benchmark, lines: Sequence[Line]) -> list[Line]:
    """The lines of existing cases. Only the lines know the models of a real benchmark."""
    keys = [dict(case.key) for case in benchmark.cases()]
    return [line for line in lines if benchmark.kind == "real" or line.key in keys]


def _own(benchmark: Benchmark, lines: Sequence[Line]) -> Sequence[Line]:
    for line in lines:
        if line.kind != benchmark.kind:
            msg = f"{benchmark.name}: {dict(line.key)} is {line.kind}, the benchmark {benchmark.kind}. Measure it again."
            raise ValueError(msg)
    return lines


def _picture(benchmark: Benchmark, number: int, to: str) -> str:
    """A chart for light and for dark pages; `to` is the path to the folder of results."""
    chart = benchmark.charts[number]
    note = f"\n{chart.note}\n" if chart.note else ""
    return _themed(f"{to}{benchmark.name}-{chart.name}", chart.title) + note


def _themed(path: str, title: str) -> str:
    light, dark = (f"{path}-{theme}.svg" for theme in THEMES)
    return (
        f'<picture><source media="(prefers-color-scheme: dark)" srcset="{dark}"><img alt="{title}" src="{light}">'
        f"</picture>\n"
    )


def _lost(benchmark: Benchmark, lines: Sequence[Line]) -> str:
    """The rows that lose, and the missed targets."""
    losses = [loss for contest in benchmark.contests for loss in contest.losses(lines)]
    missed = [target.row(lines) for target in benchmark.targets if target.met(lines) is False]
    items = [f"- not met: {row.what}: {row.measured}, target {row.must}" for row in missed]
    if not lines:
        return "Not measured yet.\n"
    none = "No row loses beyond chance.\n" if not losses and not items else ""
    listed = "\n".join(items) + "\n\n" if items else ""
    return (
        listed
        + (contests.markdown(losses) if losses else none)
        + (f"\n{benchmark.loses}\n" if benchmark.loses else "")
    )


def _made(benchmark: Benchmark, lines: Sequence[Line]) -> str:
    command = f"`{benchmark.command}`"
    if not lines:
        return f"Not measured yet: {command}.\n"
    machines = {
        f"{m['cores']} × {m['processor']}, {m['memory_gib']} GiB"
        for m in (line.made["machine"] for line in lines)
    }
    commits = sorted(
        {line.made["commit"] + ("+" if line.made["changed"] else "") for line in lines}
    )
    dates = sorted(line.made["at"][:10] for line in lines)
    when = dates[0] if dates[0] == dates[-1] else f"{dates[0]} to {dates[-1]}"
    loads = [line.made["load"] for line in lines if "load" in line.made]
    busy = f", load {min(loads):g}–{max(loads):g} at the start" if loads else ""
    failed = sum(bool(line.failed) for line in lines)
    return (
        f"Measured {when} on {', '.join(sorted(machines))}, commit {', '.join(commits)}; {len(lines)} trials{busy}, "
        f"{minutes(lines):.0f} min; {failed} failed. {_versions(lines)}All trials, with versions and settings: "
        f"[{benchmark.name}.jsonl]({benchmark.name}.jsonl). Reproduce: {command} (`--again` if the code has not changed).\n"
    )


def _versions(lines: Sequence[Line]) -> str:
    named = (
        "semgraph",
        "graphiti-core in .venv-graphiti",
        "lotus-ai in .venv-extras",
        "neo4j server, local",
    )
    versions: dict[str, set[str]] = {}
    for line in lines:
        for name in named:
            if version := line.made.get("versions", {}).get(name):
                versions.setdefault(name.partition(" in ")[0], set()).add(version)
    python = sorted({line.made["python"] for line in lines if "python" in line.made})
    items = [f"Python {', '.join(python)}"] * bool(python) + [
        f"{n} {', '.join(sorted(v))}" for n, v in versions.items()
    ]
    return f"{'; '.join(items)}. " if items else ""


def minutes(lines: Iterable[Line]) -> float:
    """The time that measuring took."""
    return sum(line.made.get("seconds", 0) for line in lines) / 60


def parts(measured: Measured, to: str) -> dict[str, str]:
    """The generated parts of written pages; `to` is the path to the folder of results."""
    return {
        "overview": _overview(measured, to),
        "swap": _swap(measured, to),
        "targets": _targets(measured, to),
        "loses": "\n".join(
            f"### {one.name}\n\n{_lost(one, lines)}" for one, lines in measured if one.contests
        ),
        "pages": _pages(measured, to),
        "charts": "\n".join(
            _picture(one, i, f"{to}/")
            for one, lines in measured
            if lines
            for i in range(len(one.charts))
        )
        or "Not measured yet.\n",
        **{
            f"{one.name}/{part}": table.markdown(_own(one, lines), _order(one, lines))
            for one, lines in measured
            for part, table in one.parts.items()
        },
    }


def _entries(measured: Measured) -> overview.Measured:
    return [(entry, _own(one, lines)) for one, lines in measured for entry in one.overview]


def _overview(measured: Measured, to: str) -> str:
    """The chart and the table of the first screen."""
    entries = _entries(measured)
    drawn = overview.shares(entries)
    chart = f"{_themed(f'{to}/overview', overview.TITLE)}\n" if drawn else ""
    return chart + overview.markdown(entries)


def _operators(measured: Measured) -> Sequence[Line]:
    """The lines that the picture of a swapped operator is made of."""
    return next((_own(one, lines) for one, lines in measured if one.name == "operators"), ())


def _swap(measured: Measured, to: str) -> str:
    if not swap.rows(_operators(measured)):
        return "Not measured yet: `make bench`.\n"
    return _themed(f"{to}/swap", swap.TITLE)


def _targets(measured: Measured, to: str) -> str:
    """One table over all benchmarks. Simulated models, real ones and estimates have separate
    columns.
    """
    chosen = [(one, lines, target) for one, lines in measured for target in one.targets]
    kinds = [kind for kind in KINDS if any(one.kind == kind for one, _, _ in chosen)]
    head = [
        "",
        "others, same run",
        "target",
        *(_TITLES[kind] for kind in kinds),
        "F1",
        "",
        "reproduce",
    ]
    rows = [head, ["---", *["--:"] * (3 + len(kinds)), "---", "---"]]
    for one, lines, target in chosen:
        row = target.row(_own(one, lines))
        figures = [row.measured if kind == one.kind else "" for kind in kinds]
        where = (
            f"[{one.name}]({to}/{one.name}.md), [lines]({to}/{one.name}.jsonl)"
            if lines
            else one.name
        )
        command = f"`run {one.name}`: {where}"
        limits = row.must + (f", aim {row.aim}" if row.aim != "—" else "")
        rows.append([row.what, row.others, limits, *figures, row.quality, row.verdict, command])
    return table_rows(rows)


def _pages(measured: Measured, to: str) -> str:
    rows = [
        ["benchmark", "question", "model", "command", "trials", "time"],
        ["---", "---", "---", "---", "--:", "--:"],
    ]
    for one, lines in measured:
        name = f"[{one.name}]({to}/{one.name}.md)" if lines else one.name
        took = f"{minutes(lines):.0f} min" if lines else "not measured yet"
        rows.append([name, one.question, one.kind, f"`{one.command}`", str(len(lines)), took])
    return table_rows(rows)


def files(
    folder: Path = RESULTS, root: Path = ROOT, only: Iterable[str] | None = None
) -> dict[Path, str]:
    """All generated files, by path, from the lines in a folder.

    Args:
        folder: The folder of lines, pages and charts.
        root: The folder of README.md and docs; they show the committed results only.
        only: The benchmarks whose pages to generate; None: all.
    """
    measured = [(one, current(one, list(Lines(one.name, folder)))) for one in map(load, names())]
    texts: dict[Path, str] = {}
    for one, lines in measured:
        if lines and (only is None or one.name in only):
            texts |= _files(one, lines, folder)
    if folder == root / _HERE:
        texts |= _pictures(measured, folder)
        for name, start in DOCUMENTS.items():
            to = posixpath.relpath(_HERE, start)
            texts[root / name] = filled(
                (root / name).read_text(encoding="utf-8"), parts(measured, to), name
            )
    return texts


def _pictures(measured: Measured, folder: Path) -> dict[Path, str]:
    """The pictures over several benchmarks."""
    bars, operators = overview.shares(_entries(measured)), _operators(measured)
    pictures = {}
    for theme in THEMES:
        if bars:
            pictures[folder / f"overview-{theme}.svg"] = draw_bars(overview.TITLE, bars, theme)
        if swap.rows(operators):
            pictures[folder / f"swap-{theme}.svg"] = swap.draw(operators, theme)
    return pictures


def _files(one: Benchmark, lines: list[Line], folder: Path) -> Mapping[Path, str]:
    charts = {
        folder / f"{one.name}-{chart.name}-{theme}.svg": draw(chart, lines, theme)
        for chart in one.charts
        for theme in THEMES
    }
    return {folder / f"{one.name}.md": page(one, lines), **charts}


def _comparable(text: str) -> str:
    """A text without the ids of clip paths: they are hashes of coordinates whose last digits depend
    on the processor.
    """
    return _CLIP_PATH.sub("clip", text)


def wrong(folder: Path = RESULTS, root: Path = ROOT) -> list[Path]:
    """Generated files that differ from the lines, are missing, or have no lines."""
    generated = files(folder, root)
    different = [
        path
        for path, text in generated.items()
        if not path.exists() or _comparable(path.read_text(encoding="utf-8")) != _comparable(text)
    ]
    existing = [path for end in ("*.md", "*.svg") for path in sorted(folder.glob(end))]
    return different + [path for path in existing if path not in generated]
