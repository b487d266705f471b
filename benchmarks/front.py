"""The pictures and the table of the first screen: semgraph and other engines over the same tasks, and
one operator of a plan by three implementations.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.frame.charts import draw_ratios, style
from benchmarks.frame.lines import Line
from benchmarks.frame.tables import OLD, Table, old_code, values

Held = Mapping[str, Sequence[Line]]
TITLE = "Cost of semgraph as a share of the other engine's"
SWAP = "A plan, one operator of it by three implementations, and the calls, dollars and F1 of each"
_STREAM, _WORLD = "20 meetings, one group", "world of 3 people, difficulty 1"
_COSTS = {"calls": "calls", "tokens_in": "tokens in", "usd": "$", "seconds": "s", "cpu_s": "CPU s"}
_TASKS: dict[str, dict[str, str]] = {
    f"{_STREAM}, Neo4j": {
        "graphiti-core": "graphiti-core",
        "graphiti-core, bulk": "graphiti-core, bulk",
        "semgraph, as shipped": "as shipped",
        "semgraph, window: ready": "window: ready",
    },
    "sem_filter 100 rows": {"LOTUS": "LOTUS", "semgraph, packed(rows=10)": "packed(rows=10)"},
    "sem_join 20 x 20": {"LOTUS": "LOTUS", "semgraph, block(left=10, right=10)": "block(left=10, right=10)"},
    "sem_topk 5 of 50": {"LOTUS (quick)": "LOTUS (quick)", "semgraph, listwise": "listwise"},
}  # fmt: skip
"""Engines by task, each with the name of its case; the first is what semgraph is compared with."""


def _lines(held: Held) -> list[Line]:
    """A line for each trial of the tasks, with the key of the table."""
    found = []
    for task, engines in _TASKS.items():
        for engine, way in engines.items():
            name, key = "operators", {"task": task, "way": way, "noise": "none"}
            if task.startswith(_STREAM):
                name, key = "ingest", {"stream": _STREAM, "way": way, "store": "Neo4j"}
            for line in (one for one in held.get(name, ()) if one.key == key and not one.failed):
                figures = {**line.figures, "cpu_s": line.figures["cpu_ms"] / 1000}
                if name == "ingest":
                    figures["f1"] = _world_f1(held, way)
                shown = {"task": task, "engine": engine}
                found.append(Line(name, shown, line.trial, figures, made=line.made))
    return found


def _world_f1(held: Held, way: str) -> float | None:
    """F1 of the facts of a small world that is ingested in the same way: its truth is known."""
    world = [o for o in held["ingest"] if o.is_of({"stream": _WORLD, "way": way})]
    scores = values(world, "facts_f1")
    return statistics.median(scores) if scores else None


def table(held: Held) -> str:
    """The table."""
    columns = (
        "calls; tokens in=tokens_in; $=usd:#,.3g; s=seconds:#,.3g; CPU s=cpu_s:#,.3g; F1=f1:.3f"
    )
    order = [{"task": task, "engine": engine} for task, some in _TASKS.items() for engine in some]
    return Table("", "task, engine", columns, spread=False).markdown(_lines(held), order)


def overview(held: Held) -> str:
    """The chart: what semgraph takes of the other engine's costs."""
    lines, groups = _lines(held), dict[str, dict[str, float]]()

    def medians(task: str, engine: str) -> dict[str, float]:
        own = [line for line in lines if line.key == {"task": task, "engine": engine}]
        found = {title: values(own, name) for name, title in _COSTS.items()}
        return {title: statistics.median(trials) for title, trials in found.items() if trials}

    for task, engines in _TASKS.items():
        base = medians(task, next(iter(engines)))
        for engine in (one for one in engines if one.startswith("semgraph")):
            old = any(one.old for one in lines if one.key == {"task": task, "engine": engine})
            costs = medians(task, engine).items()
            shares = {title: cost / base[title] for title, cost in costs if base.get(title)}
            groups[f"{task}: {engine.removeprefix('semgraph, ')}" + f" {OLD}" * old] = shares
    return draw_ratios(TITLE, "ratio to the other engine (1 = equal)", groups, old_code(lines))


_PLAN = (
    "from: tickets", "sem_filter: “{body}” complains?", "sem_map: Which product?", "aggregate: by product"
)  # fmt: skip
_HEADS = (
    (14, "start", "the plan"), (352, "start", "--use complaints="), (600, "end", "calls"), (710, "end", "$"),
    (800, "end", "F1"),
)  # fmt: skip
_ROWS: dict[str, dict[str, Any]] = {
    "per_row": {"way": "packed", "noise": "5 %, growing 0", "size": 1},
    "packed(rows=10)": {"way": "packed", "noise": "5 %, growing 0", "size": 10},
    "vote(samples=5)": {"way": "vote", "noise": "5 % of draws", "samples": 5},
}
"""Implementations, each with its case: 100 rows, a model that errs in one of twenty answers."""


def swap(held: Held) -> str:
    """The picture of the README."""
    parts = [f'<text x="18" y="{64 + 28 * n}">- {step}</text>' for n, step in enumerate(_PLAN)]
    used = list[Line]()
    for number, (name, key) in enumerate(_ROWS.items()):
        case, y = {"task": "sem_filter 100 rows", **key}, 64 + 42 * number
        own = [one for one in held.get("operators", ()) if one.key == case]
        used += own
        label = name + f" {OLD}" * any(line.old for line in own)
        path = f"M 314 87 C 332 87 330 {y - 4} 346 {y - 4}"
        parts.append(f'<g class="c0"><path class="line" d="{path}"/>')
        parts.append(f'<text x="352" y="{y}">{label}</text></g>')
        for x, figure, form in ((600, "calls", ",.0f"), (710, "usd", ".4f"), (800, "f1", ".2f")):
            found = values(own, figure)
            text = format(statistics.median(found), form) if found else "—"
            parts.append(f'<text x="{x}" y="{y}" text-anchor="end">{text}</text>')
    for x, side, text in _HEADS:
        end = f'text-anchor="{side}" font-weight="bold"'
        parts.append(f'<text x="{x}" y="24" {end}>{text}</text>')
    parts.append('<rect x="4" y="36" width="308" height="132" rx="8" class="grid" fill="none"/>')
    box = '<rect x="10" y="74" width="296" height="26" rx="5" fill-opacity="0.2"/>'
    parts.append(f'<g class="c0">{box}</g>')
    parts.append(f'<text x="14" y="192" font-size="11">{old_code(used)}</text>')
    font = 'font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, monospace" font-size="13"'
    size = 'viewBox="0 0 840 198" width="840" height="198"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} {font} role="img">'
    top = [head, f"<title>{SWAP}</title>", f"<style>{style()}</style>"]
    return "\n".join([*top, *parts, "</svg>\n"])
