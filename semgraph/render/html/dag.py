"""The plan of a run as drawings: its steps with their costs, one drawing for the plan and one for
each called plan.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from semgraph.formats import count, dollars, duration, plural
from semgraph.meter import StepMetrics
from semgraph.render.boxes import Point
from semgraph.render.html.layers import in_layers

Operators = Mapping[str, Sequence[StepMetrics]]  # of steps with several operators
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
        flow: Each step, also writes and inputs, with the steps that it reads.
        steps: The counters of steps.
        operators: The counters of each operator, of steps with several.
        anchor: The beginning of the ids of the drawings.
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
        """The drawing of the plan ("") or of a called one."""
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
        """The costs of some steps together."""
        total = StepMetrics()
        for step in steps:
            if step in self.steps:
                total.add(self.steps[step])
        return cost(total)


def cost(metrics: StepMetrics) -> list[str]:
    """Calls; tokens; dollars and seconds; store queries: a line for each that there was."""
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
    """A path that leaves and reaches each point upright."""
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
