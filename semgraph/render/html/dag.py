"""A run as drawings: the steps of its plan in layers, with their costs, those of called plans inside of
theirs; and its calls over time, with a band for each step.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from semgraph.formats import count, dollars, duration, plural
from semgraph.meter import StepMetrics
from semgraph.render.svg import ticks

Operators = Mapping[str, Sequence[StepMetrics]]  # for steps with several operators
Pair = tuple[str, str]
_WRITES = ("merge ", "delete ")


class PlanDrawing:
    """The steps of a plan in layers, for the template; the browser places them and draws the lines.

    Args:
        flow: Each step, including writes and inputs, with the steps that it reads.
        steps: The counters of steps.
        operators: The counters of each operator, of steps with several.
    """

    def __init__(
        self,
        flow: Mapping[str, Sequence[str]],
        steps: Mapping[str, StepMetrics],
        operators: Operators,
    ) -> None:
        self.flow, self.steps, self.operators = flow, steps, operators
        self.tokens = _tokens(self._sum(flow)) or 1

    def layers(self, group: str = "") -> list[list[dict[str, Any]]]:
        """The boxes of the plan or of a called plan (`read/`), each below the steps that it reads."""
        inside = [step for step in self.flow if step.startswith(group)]
        names = dict.fromkeys(_child(step, group) for step in inside)
        read = ((source, step) for step in inside for source in self.flow[step])
        own = (pair for pair in read if pair[0].startswith(group))
        pairs = [(_child(source, group), _child(step, group)) for source, step in own]
        return [[self._box(name) for name in layer] for layer in in_layers(names, pairs)]

    def _box(self, name: str) -> dict[str, Any]:
        """A step, or a called plan."""
        if not name.endswith("/"):
            return self._step(name)
        own = [step for step in self.flow if step.startswith(name)]
        total = self._sum(own)
        return {
            "kind": "group", "path": name, "name": name[:-1].rpartition("/")[2],
            "lines": [plural(len(own), "step"), *cost(total)], "layers": self.layers(name),
            "share": self._share(total),
        }  # fmt: skip

    def _step(self, step: str) -> dict[str, Any]:
        metrics, last = self.steps.get(step), step.rpartition("/")[2]
        kind = "writes" if last.startswith(_WRITES) else "step" if metrics else "idle"
        metrics, lines = metrics or StepMetrics(rows_out=None), list[str]()
        if metrics.operator:
            kind = "asks"
            lines += [f"{m.operator} {m.how}" for m in self.operators.get(step) or [metrics]]
        rows = "" if metrics.rows_out is None else plural(metrics.rows_out, "row")
        if metrics.rows_in is not None and metrics.operator and rows:
            rows = f"{count(metrics.rows_in)} → {rows}"
        lines += [rows] if rows else []
        if metrics.rows_failed:
            lines.append(f"{count(metrics.rows_failed)} failed")
        return {
            "kind": kind, "path": step, "name": last, "lines": [*lines, *cost(metrics)],
            "reads": list(self.flow[step]), "share": self._share(metrics),
        }  # fmt: skip

    def _sum(self, steps: Iterable[str]) -> StepMetrics:
        total = StepMetrics()
        for step in steps:
            if step in self.steps:
                total.add(self.steps[step])
        return total

    def _share(self, metrics: StepMetrics) -> float:
        """The tokens of a step in percent of those of the plan."""
        return round(100 * _tokens(metrics) / self.tokens, 1)


def _tokens(metrics: StepMetrics) -> int:
    return metrics.tokens_in + metrics.tokens_out


def _child(step: str, group: str) -> str:
    """The step, or the called plan around it, in the drawing of a group.

    >>> _child("settle/find/same", "settle/"), _child("settle/find/same", "settle/find/")
    ('settle/find/', 'settle/find/same')
    """
    head, slash, _ = step[len(group) :].partition("/")
    return group + head + slash


def cost(metrics: StepMetrics) -> list[str]:
    """Calls; tokens; dollars and seconds; store queries: a line for each that occurred."""
    lines = []
    reused = metrics.calls_journal + metrics.calls_coalesced
    if metrics.calls_issued + reused:
        more = f" (+{count(reused)} reused)" if reused else ""
        lines.append(plural(metrics.calls_issued, "call") + more)
        lines.append(f"{count(metrics.tokens_in)} + {count(metrics.tokens_out)} tokens")
        lines.append(f"{dollars(metrics.dollars)} · {duration(metrics.seconds)}")
    if metrics.round_trips:
        lines.append(plural(metrics.round_trips, "store query", "store queries"))
    return lines


def in_layers(names: Iterable[str], pairs: Iterable[Pair]) -> list[list[str]]:
    """The names in layers, each below its sources; in a layer, below the middle of them.

    >>> in_layers(["a", "b", "c", "d"], [("a", "c"), ("c", "d"), ("b", "d"), ("d", "c")])
    [['a'], ['b', 'c'], ['d']]
    """
    import networkx as nx

    graph = nx.DiGraph()
    graph.add_nodes_from(names)
    graph.add_edges_from(pair for pair in pairs if pair[0] != pair[1])
    while not nx.is_directed_acyclic_graph(graph):
        graph.remove_edge(*nx.find_cycle(graph)[-1])
    ranks = {name: i for i, layer in enumerate(nx.topological_generations(graph)) for name in layer}
    for name in graph:  # what reads nothing is just above its readers
        if graph.succ[name] and not graph.pred[name]:
            ranks[name] = min(ranks[reader] for reader in graph.succ[name]) - 1
    layers: list[list[str]] = [[] for _ in range(max(ranks.values(), default=-1) + 1)]
    for name in graph:
        layers[ranks[name]].append(name)
    place: dict[str, float] = {}
    for layer in layers:
        wanted = {n: [place[s] for s in graph.pred[n] if s in place] or [0.5] for n in layer}
        layer.sort(key=lambda name: sum(wanted[name]) / len(wanted[name]))
        place |= {name: (i + 0.5) / len(layer) for i, name in enumerate(layer)}
    return layers


_BARS = 2000
_LANES = 16
_HIGH = 11
ORIGINS = {
    "issued": "issued",
    "recording": "replayed from a recording",
    "journal": "from the journal",
    "coalesced": "shared with an equal request",
    "failed": "no answer",
}
Line = tuple[int, str, Mapping[str, Any]]


def origin(line: Mapping[str, Any]) -> str:
    """The origin of the answer of a call; "failed" without an answer."""
    return "failed" if line.get("error") else str(line.get("origin") or "")


def timeline(lines: Sequence[Line], began: float, seconds: float | None) -> dict[str, Any] | None:
    """The bands, the axis and the legend; None if no call has a time.

    Args:
        lines: The number of each call on the page, its step, and its line of `calls.jsonl`.
        began: The start of the run.
        seconds: The duration of the run.
    """
    timed = [line for line in lines if "at" in line[2]][:_BARS]
    if not timed:
        return None
    ends = (line["at"] + line["took"] - began for _, _, line in timed)
    whole = max([*ends, seconds or 0.0, 1e-6])
    steps: dict[str, list[Line]] = {}
    for line in timed:
        steps.setdefault(line[1], []).append(line)
    rest = f" The first {count(_BARS)} calls." if len(lines) > _BARS else ""
    counted = f"{plural(len(timed), 'call')} of {plural(len(steps), 'step')}"
    origins = dict.fromkeys(origin(line) for _, _, line in timed)
    return {
        "bands": [_band(step, calls, began, whole) for step, calls in steps.items()],
        "axis": [
            {"text": duration(t) if t else "0", "left": f"{t / whole * 100:.2f}"}
            for t in ticks(whole * 0.93)
        ],
        "caption": f"{counted} in {duration(whole)}.{rest} Details are in the table of calls.",
        "legend": [(name, ORIGINS[name]) for name in origins if name in ORIGINS],
    }


def _band(step: str, calls: Sequence[Line], began: float, whole: float) -> dict[str, Any]:
    free: list[float] = []
    bars = []
    for n, _, line in calls:
        start = max(0.0, line["at"] - began)
        lane = next((i for i, until in enumerate(free) if until <= start), len(free))
        lane = min(lane, _LANES - 1)
        free[lane : lane + 1] = [max(start + line["took"], start + whole * 0.004)]
        left = min(start / whole * 100, 99.6)
        wide = max(line["took"] / whole * 100, 0.2)
        kind = origin(line)
        answer = ORIGINS.get(kind, "")
        title = f"call {n + 1}: {answer}, {duration(line['took'])}, at {duration(start)}"
        style = f"left:{left:.2f}%;width:min({wide:.2f}%,{100 - left:.2f}%);top:{lane * _HIGH}px"
        bars.append({"call": n, "kind": kind, "title": title, "style": style})
    return {"step": step, "bars": bars, "height": len(free) * _HIGH}
