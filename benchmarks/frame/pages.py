"""Pages made of the results: one for each benchmark, its charts, and parts of written pages, between
`<!-- made: NAME -->` and `<!-- /made -->`.
"""

from __future__ import annotations

import csv
import io
import posixpath
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import front
from benchmarks.frame.cases import Benchmark, load, names
from benchmarks.frame.charts import draw
from benchmarks.frame.lines import RESULTS, ROOT, Line, Lines, code_of
from benchmarks.frame.tables import table_rows

KINDS = {
    "simulated": "The model is simulated: counts and times are measured, and say nothing about the "
    "quality of a real model.",
    "real": "A real model answered; the figures hold for that model only.",
}
DOCUMENTS = {
    "docs/benchmarks.md": "docs",
    "docs/memories/findings.md": "docs/memories",
    "docs/index.md": "docs",
    "README.md": ".",
}
"""Pages with generated parts, and the folder that their links start from."""
_HERE = "benchmarks/results"
_VERSIONS = {
    "semgraph": ("semgraph", ""),
    "python": ("Python", ""),
    "graphiti-core in .venv-graphiti": ("graphiti-core", "graphiti"),
    "lotus-ai in .venv-extras": ("LOTUS", "lotus"),
    "palimpzest in .venv-palimpzest": ("Palimpzest", "palimpzest"),
    "neo4j server, local": ("Neo4j", "neo4j"),
    "xllamacpp": ("llama.cpp (xllamacpp)", "local:"),
}
"""What the versions in lines are called, and the word in a key by which a benchmark uses it."""
_PART = re.compile(r"(<!-- made: (\S+) -->\n)(.*?)(<!-- /made -->)", re.DOTALL)
Measured = Mapping[str, tuple[Benchmark, Sequence[Line]]]


def page(benchmark: Benchmark, lines: Sequence[Line]) -> str:
    """The page of one benchmark. Raises ValueError if lines are of another kind of model."""
    for line in (one for one in lines if one.kind != benchmark.kind):
        of = f"{dict(line.key)} is {line.kind}, the benchmark {benchmark.kind}"
        raise ValueError(f"{benchmark.name}: {of}. Measure it again.")
    order = _order(benchmark, lines)
    return "\n".join([
        f"# {benchmark.name}\n\n{benchmark.question}\n\n{KINDS[benchmark.kind]}\n",
        *(table.markdown(lines, order) for table in benchmark.tables),
        *(f"{picture(f'{benchmark.name}-{chart.name}', chart.title)}\n{chart.note}\n" for chart in benchmark.charts),
        _made(benchmark, lines),
    ])  # fmt: skip


def picture(path: str, title: str) -> str:
    """A picture in Markdown."""
    return f"![{title}]({path}.svg)\n"


def _order(benchmark: Benchmark, lines: Sequence[Line]) -> list[Mapping[str, Any]]:
    """The keys of the cases, and of lines with a model of their own, which no case knows, in the
    order of the same cases.
    """
    keys = [case.key for case in benchmark.cases()]
    bare = [_without_model(key) for key in keys]
    for key in (line.key for line in lines):
        keys += [key] if key not in keys else []
    known = [key for key in keys if _without_model(key) in bare]
    known.sort(key=lambda key: bare.index(_without_model(key)))
    return [*known, *(key for key in keys if key not in known and benchmark.kind == "real")]


def _without_model(key: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in key.items() if name != "model"}


def _made(benchmark: Benchmark, lines: Sequence[Line]) -> str:
    """Where, when and by which code the lines were measured, and how to measure them again."""
    if not lines:
        return f"Not measured yet: `{benchmark.command}`.\n"
    made = [line.made for line in lines]
    machines = {"{cores} × {processor}, {memory_gib} GiB".format(**one["machine"]) for one in made}
    commits = {one["commit"] + "+" * one["changed"] for one in made}
    dates = sorted({one["at"][:10] for one in made})
    loads = [one.get("load", 0) for one in made]
    failed = sum(bool(line.failed) for line in lines)
    return (
        f"{_used(lines)}; commit {', '.join(sorted(commits))}.\n\n"
        f"Measured {' to '.join(dict.fromkeys((dates[0], dates[-1])))} on {', '.join(sorted(machines))}; {len(lines)} "
        f"trials, load {min(loads):g}–{max(loads):g} at the start, {minutes(lines):.0f} min; {failed} failed. All trials, "
        f"with versions and settings: [{benchmark.name}.jsonl]({benchmark.name}.jsonl). Reproduce: `{benchmark.command}` "
        "(`--again` if the code has not changed; `--full` for what is not measured here).\n"
    )  # fmt: skip


def _used(lines: Sequence[Line]) -> str:
    """The versions of what was measured."""
    keys, used = " ".join(f"{dict(line.key)}" for line in lines).lower(), list[str]()
    for package, (name, word) in _VERSIONS.items():
        given = (
            {"python": line.made.get("python"), **line.made.get("versions", {})} for line in lines
        )
        found = {version for one in given if (version := one.get(package))}
        used += [f"{name} {', '.join(sorted(found))}"] if found and word in keys else []
    return "; ".join(used)


def minutes(lines: Iterable[Line]) -> float:
    """The time that measuring took."""
    return sum(line.made.get("seconds", 0) for line in lines) / 60


def parts(measured: Measured, to: str) -> dict[str, str]:
    """The generated parts of written pages; `to` is the path to the folder of results."""
    held = {name: lines for name, (_, lines) in measured.items()}
    rows = [
        ["benchmark", "question", "model", "command", "trials", "time"],
        ["---"] * 4 + ["--:"] * 2,
    ]
    for name, (one, lines) in measured.items():
        took = f"{minutes(lines):.0f} min" if lines else "not measured yet"
        title = f"[{name}]({to}/{name}.md)" if lines else name
        rows.append([title, one.question, one.kind, f"`{one.command}`", str(len(lines)), took])
    return {
        "overview": picture(f"{to}/overview", front.TITLE) + "\n" + front.table(held),
        "swap": picture(f"{to}/swap", front.SWAP),
        "pages": table_rows(rows),
        **{
            f"{name}/{part}": table.markdown(lines, _order(one, lines))
            for name, (one, lines) in measured.items()
            for part, table in one.parts.items()
        },
    }


def read(folder: Path = RESULTS) -> dict[str, tuple[Benchmark, Sequence[Line]]]:
    """All benchmarks with the lines of existing cases; only the lines know the models of real ones."""
    found: dict[str, tuple[Benchmark, Sequence[Line]]] = {}
    for one in map(load, names()):
        keys = [dict(case.key) for case in one.cases()]
        lines = Lines(one.name, folder, code_of(one.name, one.sources))
        found[one.name] = one, [line for line in lines if one.kind == "real" or line.key in keys]
    return found


def files(folder: Path = RESULTS, root: Path = ROOT) -> dict[Path, str]:
    """All generated files, by path, from the lines in a folder.

    Args:
        folder: The folder of lines, pages and charts.
        root: The folder of README.md and docs; they show the committed results only.
    """
    measured, texts = read(folder), dict[Path, str]()
    for name, (one, lines) in measured.items():
        if lines:
            texts[folder / f"{name}.md"] = page(one, lines)
            for chart in one.charts:
                texts[folder / f"{name}-{chart.name}.svg"] = draw(chart, lines)
    if folder == root / _HERE:
        texts[folder / "targets.csv"] = targets(measured)
        held = {name: lines for name, (_, lines) in measured.items()}
        texts[folder / "overview.svg"] = front.overview(held)
        texts[folder / "swap.svg"] = front.swap(held)
        for name, start in DOCUMENTS.items():
            made = parts(measured, posixpath.relpath(_HERE, start))
            texts[root / name] = filled((root / name).read_text(encoding="utf-8"), made, name)
    return texts


def targets(measured: Measured) -> str:
    """All targets, as CSV."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["benchmark", "target", "limit", "measured", "reached", "measured by"])
    for name, (one, lines) in measured.items():
        writer.writerows(target.row(name, lines) for target in one.targets)
    return file.getvalue()


def filled(text: str, made: Mapping[str, str], name: str) -> str:
    """A page with its parts generated again. Raises ValueError for a tag that names an unknown part,
    or is not closed.
    """
    opened, closed = text.count("<!-- made: "), text.count("<!-- /made -->")
    found = _PART.findall(text)
    if not opened == closed == len(found):
        tags = f"{opened} tags `<!-- made: NAME -->`, {closed} tags `<!-- /made -->`"
        raise ValueError(f"{name}: {tags}. Each part has one of each.")
    if unknown := [part for _, part, _, _ in found if part not in made]:
        raise ValueError(f'{name}: unknown part "{unknown[0]}"; parts: {", ".join(made)}')
    return _PART.sub(lambda part: f"{part[1]}{made[part[2]].strip()}\n{part[4]}", text)


def wrong(folder: Path = RESULTS, root: Path = ROOT) -> list[Path]:
    """Generated files that differ from the lines, are missing, or have no lines."""
    made = files(folder, root)
    different = [
        p for p, text in made.items() if not p.exists() or p.read_text(encoding="utf-8") != text
    ]
    existing = [path for end in ("*.md", "*.svg", "*.csv") for path in sorted(folder.glob(end))]
    return different + [path for path in existing if path not in made]
