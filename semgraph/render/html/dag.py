"""A run as drawings. The steps of its plan with their costs: one drawing for the plan and one for
each called plan, in layers, with lines that bend around them. And its calls over time, with a band
for each step.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

from semgraph.formats import count, dollars, duration, plural
from semgraph.meter import StepMetrics
from semgraph.render.svg import Box, Point, ticks

Operators = Mapping[str, Sequence[StepMetrics]]  # for steps with several operators
_LETTER, _BOLD, _LINE, _MARGIN = 6.6, 7.7, 16.0, 12.0  # pixels
_LEAST = 90.0
_WRITES = ("merge ", "delete ")


class _Shown(NamedTuple):
    """A box of a drawing: a step, a called plan, or a step outside of the called plan."""

    kind: str
    name: str
    lines: Sequence[str]
    step: str = ""
    link: str = ""

    @property
    def size(self) -> tuple[float, float]:
        """Width and height, in pixels."""
        longest = max(len(self.name) * _BOLD, *(len(line) * _LETTER for line in self.lines), 0.0)
        return max(_LEAST, longest + 24), _LINE * (len(self.lines) + 1) + 14


def drawings(
    flow: Mapping[str, Sequence[str]],
    steps: Mapping[str, StepMetrics],
    operators: Operators,
    anchor: str,
) -> list[dict[str, Any]]:
    """The drawing of a plan, then those of its called plans, for the template.

    Args:
        flow: Each step, including writes and inputs, with the steps that it reads.
        steps: The counters of steps.
        operators: The counters of each operator, of steps with several.
        anchor: The prefix of the ids of the drawings.
    """
    paths = list(dict.fromkeys(tuple(path) for step in flow for path in _groups_of(step)))
    place = {path: i for i, path in enumerate(paths)}
    paths.sort(key=lambda path: [place[path[: i + 1]] for i in range(len(path))])
    groups = ["/".join(path) for path in paths]
    plan = _PlanDrawings(
        flow, steps, operators, {name: f"{anchor}-{i}" for i, name in enumerate(groups)}
    )
    return [plan.drawing(group) for group in groups]


def _groups_of(step: str) -> list[list[str]]:
    """The paths of the groups around a step, outermost first.

    >>> _groups_of("settle/find/same")
    [[], ['settle'], ['settle', 'find']]
    """
    parts = step.split("/")[:-1]
    return [parts[:i] for i in range(len(parts) + 1)]


def _inside(step: str, group: str) -> bool:
    return not group or step.startswith(group + "/")


def _child(step: str, group: str) -> str:
    """The step, or the called plan around it, in the drawing of a group.

    >>> _child("settle/find/same", "settle"), _child("settle/find/same", "settle/find")
    ('settle/find/', 'settle/find/same')
    """
    start = len(group) + 1 if group else 0
    head, slash, _ = step[start:].partition("/")
    return step[:start] + head + slash


class _PlanDrawings:
    """A plan with its counters and the ids of its drawings."""

    def __init__(
        self,
        flow: Mapping[str, Sequence[str]],
        steps: Mapping[str, StepMetrics],
        operators: Operators,
        ids: Mapping[str, str],
    ) -> None:
        self.flow, self.steps, self.operators, self.ids = flow, steps, operators, ids

    def drawing(self, group: str) -> dict[str, Any]:
        """The drawing of the plan ("") or of a called plan."""
        edges: dict[tuple[str, str], None] = {}
        names: dict[str, None] = {}
        for step, sources in self.flow.items():
            if not _inside(step, group):
                continue
            names.setdefault(_child(step, group))
            for source in sources:
                known = _inside(source, group)
                edges.setdefault(
                    (_child(source, group) if known else f"/{source}", _child(step, group))
                )
        boxes = {name: self._shown(name) for name in (*names, *(pair[0] for pair in edges))}
        placed = in_layers({name: box.size for name, box in boxes.items()}, edges)
        own = [step for step in self.flow if _inside(step, group)]
        return {
            "id": self.ids[group],
            "group": group,
            "summary": f"{group}: {' · '.join([plural(len(own), 'step'), *self._sums(own)])}",
            "box": f"{-_MARGIN} {-_MARGIN} {placed.width + 2 * _MARGIN:.0f} {placed.height + 2 * _MARGIN:.0f}",
            "width": f"{placed.width + 2 * _MARGIN:.0f}",
            "height": f"{placed.height + 2 * _MARGIN:.0f}",
            "lines": [_curve(points) for points in placed.lines.values()],
            "boxes": [_drawn(boxes[name], at.left, at.top) for name, at in placed.boxes.items()],
        }

    def _shown(self, name: str) -> _Shown:
        if name.startswith("/"):
            return _Shown("outside", name[1:], [])
        if name.endswith("/"):
            own = [step for step in self.flow if step.startswith(name)]
            lines = [plural(len(own), "step"), *self._sums(own)]
            group = name[:-1]
            return _Shown("group", f"{group.rpartition('/')[2]} ▾", lines, link=self.ids[group])
        return self._step(name)

    def _step(self, step: str) -> _Shown:
        metrics, last = self.steps.get(step), step.rpartition("/")[2]
        kind = "writes" if last.startswith(_WRITES) else "step"
        if metrics is None:
            return _Shown(kind if kind == "writes" else "idle", last, [], step)
        lines = []
        if metrics.operator:
            kind = "asks"
            lines += [f"{m.operator} {m.how}" for m in self.operators.get(step) or [metrics]]
        rows = "" if metrics.rows_out is None else plural(metrics.rows_out, "row")
        if metrics.rows_in is not None and metrics.operator and rows:
            rows = f"{count(metrics.rows_in)} → {rows}"
        lines += [rows] if rows else []
        if metrics.rows_failed:
            lines.append(f"{count(metrics.rows_failed)} failed")
        return _Shown(kind, last, [*lines, *cost(metrics)], step)

    def _sums(self, steps: Sequence[str]) -> list[str]:
        """The total costs of some steps."""
        total = StepMetrics()
        for step in steps:
            if step in self.steps:
                total.add(self.steps[step])
        return cost(total)


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


def _curve(points: Sequence[Point]) -> str:
    """A path with vertical tangents at its points."""
    (x, y), *_ = points
    path = f"M{x:.1f} {y:.1f}"
    for (x1, y1), (x2, y2) in pairwise(points):
        half = (y1 + y2) / 2
        path += (
            f"L{x2:.1f} {y2:.1f}"
            if x1 == x2
            else f"C{x1:.1f} {half:.1f} {x2:.1f} {half:.1f} {x2:.1f} {y2:.1f}"
        )
    return path


def _drawn(box: _Shown, left: float, top: float) -> dict[str, Any]:
    width, height = box.size
    return {
        "kind": box.kind,
        "step": box.step,
        "link": box.link,
        "x": f"{left:.1f}",
        "y": f"{top:.1f}",
        "width": f"{width:.1f}",
        "height": f"{height:.1f}",
        "lines": [
            {"x": f"{left + width / 2:.1f}", "y": f"{top + 19 + _LINE * i:.1f}", "text": text}
            for i, text in enumerate((box.name, *box.lines))
        ],
    }


_ACROSS, _DOWN = 22.0, 40.0  # pixels between boxes of a layer, and between layers
_SWEEPS = 12
_BEND = (10.0, 0.0)  # the space for a line that passes a layer
Pair = tuple[str, str]
Node = Any  # a name, or the passage (source, target, layer) of a line through a layer


@dataclass(frozen=True)
class Layers:
    """Boxes by name; the points of each line, from the source's lower edge to the target's upper
    edge; the size of the drawing.
    """

    boxes: Mapping[str, Box]
    lines: Mapping[Pair, Sequence[Point]]
    width: float
    height: float


def in_layers(sizes: Mapping[str, tuple[float, float]], edges: Iterable[Pair]) -> Layers:
    """Place boxes in layers. Deterministic.

    Args:
        sizes: Width and height of each box, in pixels.
        edges: Pairs (source, target). In a cycle, one line leads upwards.
    """
    lines = [pair for pair in dict.fromkeys(edges) if pair[0] != pair[1]]
    ranks = _ranks(sizes, _without_circles(sizes, lines))
    routes = {pair: _route(*pair, ranks) for pair in lines}
    every: dict[Node, tuple[float, float]] = dict(sizes)
    every |= {n: _BEND for route in routes.values() for n in route if n not in every}
    layers, centres = _placed(ranks, routes, every)
    tops, top = [], 0.0
    for layer in layers:
        tops.append(top)
        top += max(every[node][1] for node in layer) + _DOWN
    left = min((centres[n] - every[n][0] / 2 for layer in layers for n in layer), default=0.0)
    boxes = {
        node: Box(x, tops[i], x + every[node][0], tops[i] + every[node][1])
        for i, layer in enumerate(layers)
        for node in layer
        for x in (centres[node] - every[node][0] / 2 - left,)
    }
    heights = [max(every[node][1] for node in layer) for layer in layers]
    return Layers(
        {name: boxes[name] for name in sizes},
        {pair: _points(route, boxes, tops, heights) for pair, route in routes.items()},
        max((box.right for box in boxes.values()), default=0.0),
        max((box.bottom for box in boxes.values()), default=0.0),
    )


def _without_circles(names: Iterable[str], pairs: Sequence[Pair]) -> Any:
    import networkx as nx

    graph = nx.DiGraph()
    graph.add_nodes_from(names)
    graph.add_edges_from(pairs)
    while True:
        try:
            circle = nx.find_cycle(graph)
        except nx.NetworkXNoCycle:
            return graph
        graph.remove_edge(*circle[-1])


def _ranks(names: Iterable[str], graph: Any) -> dict[str, int]:
    """The layer of each name; a name without sources is just above its targets."""
    import networkx as nx

    ranks = {name: i for i, layer in enumerate(nx.topological_generations(graph)) for name in layer}
    for name in names:
        after = [ranks[target] for target in graph.successors(name)]
        if after and not graph.in_degree(name):
            ranks[name] = min(after) - 1
    return ranks


def _route(source: str, target: str, ranks: Mapping[str, int]) -> list[Node]:
    """The source, the layers that the line passes, and the target."""
    first, last = ranks[source], ranks[target]
    step = 1 if first < last else -1
    return [source, *((source, target, i) for i in range(first + step, last, step)), target]


def _placed(
    ranks: Mapping[str, int],
    routes: Mapping[Pair, Sequence[Node]],
    sizes: Mapping[Node, tuple[float, float]],
) -> tuple[list[list[Node]], dict[Node, float]]:
    """The nodes of each layer, ordered to reduce crossings, and their centres: each near the mean of
    its neighbours.
    """
    import networkx as nx

    layers: list[list[Node]] = [[] for _ in range(max(ranks.values(), default=-1) + 1)]
    for node in sizes:
        layers[ranks[node] if node in ranks else node[2]].append(node)
    down = nx.DiGraph()
    down.add_nodes_from(sizes)
    for route in routes.values():
        nx.add_path(down, route)
    centres: dict[Node, float] = {}
    for layer in layers:
        centres |= _packed(layer, dict.fromkeys(layer, 0.0), sizes)
    for sweep in range(2 * _SWEEPS):
        near = down.succ if sweep % 2 else down.pred
        for layer in reversed(layers) if sweep % 2 else layers:
            wanted = {n: _mean([centres[o] for o in near[n]], centres[n]) for n in layer}
            layer.sort(key=wanted.__getitem__)
            centres |= _packed(layer, wanted, sizes)
    return layers, centres


def _mean(values: Sequence[float], default: float) -> float:
    return sum(values) / len(values) if values else default


def _packed(
    layer: Sequence[Node], wanted: Mapping[Node, float], sizes: Mapping[Node, tuple[float, float]]
) -> dict[Node, float]:
    """Centres near the wanted ones that keep the order and the space between boxes: the mean of
    packing from the left and from the right.
    """
    space = [(sizes[a][0] + sizes[b][0]) / 2 + _ACROSS for a, b in pairwise(layer)]
    right = [wanted[node] for node in layer]
    left = list(right)
    for i, gap in enumerate(space):
        right[i + 1] = max(right[i + 1], right[i] + gap)
    for i in reversed(range(len(space))):
        left[i] = min(left[i], left[i + 1] - space[i])
    return {node: (a + b) / 2 for node, a, b in zip(layer, left, right, strict=True)}


def _points(
    route: Sequence[Node],
    boxes: Mapping[Node, Box],
    tops: Sequence[float],
    heights: Sequence[float],
) -> list[Point]:
    """The points of a line; it is straight through a layer."""
    down = boxes[route[0]].top < boxes[route[-1]].top
    first, last = boxes[route[0]], boxes[route[-1]]
    points = [((first.left + first.right) / 2, first.bottom if down else first.top)]
    for node in route[1:-1]:
        x, top = (boxes[node].left + boxes[node].right) / 2, tops[node[2]]
        ends = [(x, top), (x, top + heights[node[2]])]
        points += ends if down else ends[::-1]
    return [*points, ((last.left + last.right) / 2, last.top if down else last.bottom)]


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
    whole = max(
        [*(line["at"] + line["took"] - began for _, _, line in timed), seconds or 0.0, 1e-6]
    )
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
        bars.append(
            {
                "call": n,
                "kind": kind,
                "title": f"call {n + 1}: {answer}, {duration(line['took'])}, at {duration(start)}",
                "style": f"left:{left:.2f}%;width:min({wide:.2f}%,{100 - left:.2f}%);top:{lane * _HIGH}px",
            }
        )
    return {"step": step, "bars": bars, "height": len(free) * _HIGH}
