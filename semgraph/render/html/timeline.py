"""The calls of a run over its time: a band for each step, a bar for each call."""

from __future__ import annotations

from collections.abc import Sequence

from semgraph.formats import count, duration, plural
from semgraph.render.html.graph import ticks
from semgraph.render.html.markup import Html, el, join
from semgraph.render.html.records import Call

_BARS = 2000
_LANES = 16
_HIGH = 11
_KINDS = {
    "issued": "issued",
    "recording": "replayed from a recording",
    "journal": "from the journal",
    "coalesced": "asked twice, sent once",
    "failed": "no answer",
}


def kind(call: Call) -> str:
    """Where the answer came from, or that there was none."""
    return "failed" if call.line.get("error") else str(call.line.get("origin") or "")


def kinds(call: Call) -> str:
    """The same in words."""
    return _KINDS.get(kind(call), "")


def timeline(calls: Sequence[tuple[int, Call]], began: float, seconds: float | None) -> Html | None:
    """A figure; None where no call has a time.

    Args:
        calls: With their numbers on the page.
        began: When the run began.
        seconds: How long it took.
    """
    timed = [(n, call) for n, call in calls if "at" in call.line][:_BARS]
    if not timed:
        return None
    ends = [call.line["at"] + call.line["took"] - began for _, call in timed]
    whole = max([*ends, seconds or 0.0, 1e-6])
    steps: dict[str, list[tuple[int, Call]]] = {}
    for n, call in timed:
        steps.setdefault(call.step, []).append((n, call))
    bands = [_band(step, members, began, whole) for step, members in steps.items()]
    found = dict.fromkeys(kind(call) for _, call in timed)
    marks = [
        el("span", el("i", cls=f"bar {name}"), _KINDS[name], cls="key")
        for name in found
        if name in _KINDS
    ]
    rest = f" The first {count(_BARS)} calls." if len(calls) > _BARS else ""
    counted = f"{plural(len(timed), 'call')} of {plural(len(steps), 'step')}"
    said = f"{counted} in {duration(whole)}.{rest} Details are in the table of calls."
    axis = [
        el("span", duration(t) if t else "0", style=f"left:{t / whole * 100:.2f}%")
        for t in ticks(whole * 0.93)
    ]
    drawn = el(
        "div", *bands, el("div", el("span"), el("div", *axis, cls="ticks"), cls="band axis"),
        cls="timeline", role="img", aria_label=f"Timeline: {said}",
    )  # fmt: skip
    return el("figure", drawn, el("figcaption", said, " ", *marks))


def _band(step: str, members: Sequence[tuple[int, Call]], began: float, whole: float) -> Html:
    free: list[float] = []
    bars = []
    for n, call in members:
        start = max(0.0, call.line["at"] - began)
        end = start + call.line["took"]
        lane = next((i for i, until in enumerate(free) if until <= start), len(free))
        lane = min(lane, _LANES - 1)
        free[lane : lane + 1] = [max(end, start + whole * 0.004)]
        left = min(start / whole * 100, 99.6)
        wide = max(call.line["took"] / whole * 100, 0.2)
        title = f"call {n + 1}: {kinds(call)}, {duration(call.line['took'])}, at {duration(start)}"
        place = f"left:{left:.2f}%;width:min({wide:.2f}%,{100 - left:.2f}%);top:{lane * _HIGH}px"
        bars.append(el("i", cls=f"bar {kind(call)}", style=place, title=title, data_call=n))
    label = el("span", step, title=step, cls="label")
    track = el("div", *bars, cls="track", style=f"height:{len(free) * _HIGH}px")
    return join([el("div", label, track, cls="band")])
