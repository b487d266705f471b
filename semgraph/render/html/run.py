"""The page of one run: what it was, what it cost, what it wrote, what was asked and answered."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from semgraph.formats import UNKNOWN, count, dollars, duration, known, plural
from semgraph.meter import StepMetrics, split
from semgraph.render.html.calls import Opened, listed, shown
from semgraph.render.html.graph import graph
from semgraph.render.html.markup import Html, cut, el, join, listed_facts, table, when
from semgraph.render.html.markup import text as whole
from semgraph.render.html.records import RunPage, measured, models, sides
from semgraph.render.html.timeline import timeline
from semgraph.render.runs import seconds, total
from semgraph.render.tables import cell


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
            "li",
            label,
            *([el("ul", *children)] if children else []),
            cls="asks" if found and found.operator else None,
        )

    return el("ul", *(item(step) for step in tops), cls="tree")


def _cost(found: StepMetrics | None, operators: Sequence[StepMetrics]) -> list[Html]:
    if found is None:
        return []
    parts = [] if found.rows_out is None else [plural(found.rows_out, "row")]
    kept = found.calls_journal + found.calls_coalesced
    if found.calls_issued + kept:
        parts.append(
            plural(found.calls_issued, "call") + (f" (+{count(kept)} kept)" if kept else "")
        )
        parts.append(f"{count(found.tokens_in)} + {count(found.tokens_out)} tokens")
        parts.append(dollars(found.dollars))
        parts.append(duration(found.seconds))
    if found.round_trips:
        parts.append(plural(found.round_trips, "store query", "store queries"))
    named = " + ".join(f"{part.operator} {part.how}" for part in operators or [found])
    how = el("span", f" {named}", cls="how") if found.operator else Html("")
    return [how, el("span", " ", " · ".join(parts), cls="cost")]


_PICTURES, _FAILED, _TEXT, _PLAN = 5, 200, 2000, 200_000
Operators = Mapping[str, Sequence[StepMetrics]]  # of the steps that have several


def sections(page: RunPage, opened: Opened, anchor: str) -> Iterator[tuple[str, str, Html]]:
    """The parts of a run's page: anchor, heading, content.

    Args:
        page: What is known of the run.
        opened: Takes its calls.
        anchor: What its anchors begin with.
    """
    yield f"{anchor}-summary", "What it took", _summary(page)
    if page.failed or page.without_answer:
        yield f"{anchor}-failed", "What failed", _failed(page)
    if page.pictures:
        yield f"{anchor}-graph", "The graph", _graphs(page, anchor)
    calls = [
        (opened.add(call, page.lookup), measured(call, page.lookup)) for call in shown(page.calls)
    ]
    if page.steps:
        yield f"{anchor}-steps", "Steps", _steps(page.steps, page.operators)
    if page.run.facts.get("flow"):
        yield f"{anchor}-plan", "The plan", _plan(page)
    if calls:
        drawn = timeline(calls, page.began, seconds(page.run)) if page.began is not None else None
        if drawn is not None:
            yield f"{anchor}-time", "When it asked", drawn
        yield f"{anchor}-calls", "Prompts and answers", listed(calls, len(page.calls), page.began)


def title(page: RunPage) -> str:
    """Plan and run."""
    return f"{page.run.facts.get('plan') or 'a run'} · run {page.run.name}"


def _setting(page: RunPage, name: str) -> str:
    said = (page.run.facts.get("settings") or {}).get(name)
    return str(said["value"]) if isinstance(said, Mapping) else UNKNOWN


def _summary(page: RunPage) -> Html:
    facts, whole = page.run.facts, total(page.run)
    who = models(page.calls) or [_setting(page, "models.default")]
    answered = {call.line.get("origin") for call in page.calls}
    replayed = " (replayed)" if "recording" in answered else ""
    lasted = seconds(page.run)
    pairs: list[tuple[str, object]] = [
        ("plan", f"{facts.get('plan')} ({facts.get('file') or 'made in code'})"),
        (
            "model",
            ", ".join(who) + replayed if whole.calls_issued or page.calls else "none was asked",
        ),
        ("embedder", _setting(page, "models.embed")),
        ("store", _setting(page, "store")),
        ("began", when(page.run.started)),
        (
            "ended",
            f"{facts.get('status', 'unknown')}{f', after {duration(lasted)}' if lasted is not None else ''}",
        ),
        ("semgraph", facts.get("semgraph")),
    ]
    told = listed_facts(pairs)
    notes = [*(facts.get("notes") or ()), *([facts["why"]] if facts.get("why") else [])]
    listed_notes = [el("ul", *(el("li", note) for note in notes), cls="notes")] if notes else []
    return join(
        [
            _numbers(page, whole, lasted),
            told,
            *listed_notes,
            el("p", _scope(page, whole), cls="scope"),
            _chosen(facts),
        ]
    )


def _numbers(page: RunPage, whole: StepMetrics, lasted: float | None) -> Html:
    kept = whole.calls_journal + whole.calls_coalesced
    members = page.run.facts.get("members") or {}
    written = page.run.facts.get("written") or {}
    found: list[tuple[str, str, str]] = [
        (count(whole.calls_issued), "calls", f"+ {count(kept)} kept" if kept else ""),
        (
            count(whole.tokens_in),
            "tokens in",
            f"{count(whole.tokens_cached)} cached" if whole.tokens_cached else "",
        ),
        (count(whole.tokens_out), "tokens out", ""),
        (dollars(whole.dollars), "dollars" if whole.dollars is not None else "price unknown", ""),
        (UNKNOWN if lasted is None else duration(lasted), "wall time", ""),
        (count(whole.round_trips), "store queries", ""),
        (
            count(sum(written.values())),
            "nodes and edges written",
            ", ".join(f"{count(n)} {name}" for name, n in written.items() if n),
        ),
        (count(max(whole.rows_failed, len(page.failed))), "rows failed", ""),
    ]
    if members.get("given"):
        found.append(
            (
                count(members.get("committed", 0)),
                f"of {count(members['given'])} rows committed",
                f"{count(members['skipped'])} were there" if members.get("skipped") else "",
            )
        )
    return el(
        "ul",
        *(
            el("li", el("b", n), " ", el("span", what), *([" ", el("small", more)] if more else []))
            for n, what, more in found
        ),
        cls="numbers",
    )


def _scope(page: RunPage, whole: StepMetrics) -> str:
    said = (
        f"All numbers are of this run alone. Tokens and dollars are of the {plural(whole.calls_issued, 'call')} that it "
        "issued and of the texts that it had embedded; answers from the journal, or to a question that was under way "
        "already, cost nothing again. Steps run side by side: their times do not add up to the wall time."
    )
    if any(call.line.get("origin") == "recording" for call in page.calls):
        said += (
            " The answers were replayed from a recording: tokens, and how long a call took, are those of then; dollars, "
            "the times of steps and the timeline are of the replay."
        )
    return said


def _chosen(facts: Mapping[str, Any]) -> Html:
    """Parameters, ways and settings, folded."""
    settings = {
        name: f"{s['value']} ({s['origin']})" for name, s in (facts.get("settings") or {}).items()
    }
    groups = {
        "parameter": facts.get("params") or {},
        "way of step": facts.get("use") or {},
        "setting": settings,
    }
    rows = [
        [kind, name, _text(value)]
        for kind, group in groups.items()
        for name, value in group.items()
    ]
    if not rows:
        return Html("")
    made = table("What was chosen", ["kind", "name", "value"], rows)
    return el("details", el("summary", "Parameters, ways, settings"), made)


def _text(value: Any) -> str:
    return cut(cell(value), _TEXT)


def _failed(page: RunPage) -> Html:
    rows = [
        [
            str(row.get("_step")),
            _text(row.get("_error")),
            _text({n: v for n, v in row.items() if not n.startswith("_")}),
        ]
        for row in page.failed[:_FAILED]
    ]
    parts = []
    if rows:
        more = f" The first {count(_FAILED)} are listed." if len(page.failed) > _FAILED else ""
        caption = f"{plural(len(page.failed), 'row')} set aside. They are in failed.jsonl of the record.{more}"
        parts.append(table(caption, ["step", "why", "the row"], rows))
    items = page.without_answer
    if items:
        told = [
            [step, _text(item["error"]), _text([s for s in sides(item) if s])]
            for step, item in items[:_FAILED]
        ]
        more = f" The first {count(_FAILED)} are listed." if len(items) > _FAILED else ""
        parts.append(
            table(
                f"{plural(len(items), 'question')} without an answer.{more}",
                ["step", "why", "asked about"],
                told,
            )
        )
    return join(parts)


def _graphs(page: RunPage, anchor: str) -> Html:
    drawn = [graph(picture, f"{anchor}-{i}") for i, picture in enumerate(page.pictures[:_PICTURES])]
    more = len(page.pictures) - _PICTURES
    return join(
        [*drawn, *([el("p", f"… and {plural(more, 'more partition')}")] if more > 0 else [])]
    )


def _steps(steps: Mapping[str, StepMetrics], operators: Operators) -> Html:
    busy = {name: m for name, m in steps.items() if m.operator or m.rows_failed or m.calls_issued}
    idle = {name: m for name, m in steps.items() if name not in busy}
    parts = [_step_table("Steps that may ask a model", busy, operators)] if busy else []
    if idle:
        parts.append(
            el(
                "details",
                el("summary", f"{plural(len(idle), 'more step')}, without a model"),
                _step_table("Steps without a model", idle),
            )
        )
    return join(parts)


def _step_table(
    caption: str, steps: Mapping[str, StepMetrics], operators: Operators | None = None
) -> Html:
    """A line for each step, of several operators for each of them; steps that ask no model have
    fewer columns.
    """
    whole = StepMetrics()
    for found in steps.values():
        whole.add(found)
    heads = ["step", "operator", "way", "rows in", "rows out", "failed", "calls issued", "journal", "coalesced",
             "tokens in", "cached", "tokens out", "$", "seconds", "store queries", "embedded"]  # fmt: skip
    used = [0, 4, 13, 14, 15] if operators is None else range(len(heads))
    each = split(steps, operators or {})
    rows = [
        [name, m.operator or UNKNOWN, m.how or UNKNOWN, *_counters(m)] for name, m in each.items()
    ]
    rows.append(["all of these", "", "", *_counters(whole)])
    return table(
        caption,
        [heads[i] for i in used],
        [[row[i] for i in used] for row in rows],
        [j for j, i in enumerate(used) if i > 2],
        cls="steps",
    )


def _counters(m: StepMetrics) -> list[str]:
    return [
        known(m.rows_in),
        known(m.rows_out),
        *(count(n) for n in (m.rows_failed, m.calls_issued, m.calls_journal, m.calls_coalesced)),
        *(count(n) for n in (m.tokens_in, m.tokens_cached, m.tokens_out)),
        dollars(m.dollars), f"{m.seconds:,.2f}", count(m.round_trips), count(m.embeddings),
    ]  # fmt: skip


def _plan(page: RunPage) -> Html:
    said = el(
        "p",
        "From what is written down to the inputs: each step stands above the steps that it reads.",
    )
    plan = page.run.folder / "plan.yaml"
    text = plan.read_text(encoding="utf-8") if plan.exists() else ""
    source = (
        [
            el(
                "details",
                el("summary", "The plan as it was run"),
                el("pre", whole(text, _PLAN), tabindex="0"),
            )
        ]
        if text
        else []
    )
    return join(
        [
            said,
            el(
                "div",
                tree(page.run.facts["flow"], page.steps, page.operators),
                cls="scroll tall",
                role="region",
                aria_label="The plan as a tree",
                tabindex="0",
            ),
            *source,
        ]
    )
