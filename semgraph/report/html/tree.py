"""The plan of a run as a tree, from what is written down to the inputs, each step with what it cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from semgraph.meter import StepMetrics
from semgraph.report.formats import count, dollars, duration, plural
from semgraph.report.html.markup import Html, el, join


def tree(
    flow: Mapping[str, Sequence[str]],
    steps: Mapping[str, StepMetrics],
    operators: Mapping[str, Sequence[StepMetrics]] | None = None,
) -> Html:
    """Nested lists; a step that stands above already is only named there.

    Args:
        flow: For each step what it reads.
        steps: Counters.
        operators: Those of each operator, of the steps that have several.
    """
    read = {source for sources in flow.values() for source in sources}
    tops = [step for step in flow if step not in read]
    seen: set[str] = set()

    def item(step: str) -> Html:
        if step in seen:
            return el("li", el("span", step, cls="step"), el("span", " (above)", cls="quiet"))
        seen.add(step)
        found = steps.get(step)
        children = [item(source) for source in flow.get(step, ())]
        label = join([el("span", step, cls="step"), *_cost(found, (operators or {}).get(step, ()))])
        return el(
            "li", label, *([el("ul", *children)] if children else []), cls="asks" if found and found.operator else None
        )

    return el("ul", *(item(step) for step in tops), cls="tree")


def _cost(found: StepMetrics | None, operators: Sequence[StepMetrics]) -> list[Html]:
    if found is None:
        return []
    parts = [] if found.rows_out is None else [plural(found.rows_out, "row")]
    kept = found.calls_journal + found.calls_coalesced
    if found.calls_issued + kept:
        parts.append(plural(found.calls_issued, "call") + (f" (+{count(kept)} kept)" if kept else ""))
        parts.append(f"{count(found.tokens_in)} + {count(found.tokens_out)} tokens")
        parts.append(dollars(found.dollars))
        parts.append(duration(found.seconds))
    if found.round_trips:
        parts.append(plural(found.round_trips, "store query", "store queries"))
    named = " + ".join(f"{part.operator} {part.how}" for part in operators or [found])
    how = el("span", f" {named}", cls="how") if found.operator else Html("")
    return [how, el("span", " ", " · ".join(parts), cls="cost")]
