"""The calls of a run over its time: a band for each step, a bar for each call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from semgraph.formats import count, duration, plural
from semgraph.render.chart import ticks

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
        began: When the run began.
        seconds: How long it took.
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
