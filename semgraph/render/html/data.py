"""The document of a report: all content of the page, as plain data for its template.

The sources are records of runs and comparisons, and their journals. Long texts are shortened, with
a note.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from typing import Any

from semgraph.compare.comparison import FILE, Arm, Comparison, load_comparison
from semgraph.diff import Diff
from semgraph.execution.record import (
    RAN,
    Run,
    exchanges,
    read_answers,
    read_calls,
    read_lines,
)
from semgraph.formats import UNKNOWN, count, dollars, duration, known, plural
from semgraph.meter import StepMetrics, split
from semgraph.provenance import FIXED, Lookup, Row, as_text, parsed
from semgraph.render import tuning as tuned
from semgraph.render.chart import svg
from semgraph.render.comparison import columns, footer, graph_lines
from semgraph.render.html.changes import changed
from semgraph.render.html.dag import ORIGINS, Operators, PlanDrawing, origin, timeline
from semgraph.render.html.graph import graphs
from semgraph.render.outcome import at, counted_rows, counters, seconds, total
from semgraph.render.picture import Picture, of_run
from semgraph.render.tables import Column, cell, of_arrow, page_table
from semgraph.tune.tuning import FILE as TUNING
from semgraph.tune.tuning import Tuning, load_tuning

CALLS = 1000
_PICTURES, _FAILED, _DIFFERENCES = 5, 200, 100
_ITEMS, _ITEM, _CELL, _PLAN = 40, 4000, 2000, 200_000
_VARIANTS = "Cost and quality of each variant. Bold: the best of each column."
_UNFIT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")

Data = dict[str, Any]


def clean(text: str) -> str:
    """A text in which U+FFFD replaces characters that are invalid in UTF-8 or HTML."""
    return _UNFIT.sub("\ufffd", text)


def cut(text: str, longest: int = _ITEM) -> str:
    """A text of at most `longest` characters, with a note on the number of omitted ones.

    >>> cut("abcdef", 4)
    'abcd … 2 more characters'
    """
    if len(text) <= longest:
        return text
    return f"{text[:longest]} … {len(text) - longest:,} more characters"


def script_data(value: Any) -> str:
    """Plain data for the page's script, as JSON that cannot end the script element."""
    text = clean(json.dumps(value, ensure_ascii=False, separators=(",", ":")))
    for char in "<\u2028\u2029":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return text


def document(records: Sequence[Run]) -> Data:
    """The document of some runs and comparisons."""
    texts = CallTexts()
    articles = [_article(record, f"r{i}", texts) for i, record in enumerate(records)]
    single = len(articles) == 1
    links = [(article["sections"][0]["anchor"], article["title"]) for article in articles]
    if single:
        links = [(part["anchor"], part["heading"]) for part in articles[0]["sections"]]
    return {
        "title": articles[0]["title"] if single else f"{len(articles)} records of semgraph",
        "alone": single,
        "links": links,
        "overview": None if single else _overview(records, articles),
        "articles": articles,
        "left_out": count(texts.left_out) if texts.left_out else "",
        "calls": {"texts": texts.all, "calls": texts.calls},
    }


def _article(record: Run, anchor: str, texts: CallTexts) -> Data:
    with ExitStack() as closing:
        title, first = "", list[Data]()
        if (record.folder / TUNING).exists():
            tuning = load_tuning(record.name, record.folder.parent)
            title = f"{tuning.plan} · tuning {tuning.id}"
            first = [*_tuning_sections(tuning, anchor)]
        if (record.folder / FILE).exists():
            comparison = load_comparison(record.name, record.folder.parent)
            lookup = closing.enter_context(exchanges(record, comparison.journal))
            first += _comparison_sections(comparison, record, lookup, texts, anchor)
            what = f"{comparison.plan} · {comparison.step}" if comparison.step else comparison.plan
            title = title or f"{what} · comparison {comparison.id}"
        if first:
            return {"title": title, "sections": first}
        recorded = RecordedRun(record, closing.enter_context(exchanges(record)))
        kind = record.facts.get("kind", RAN)
        title = f"{record.facts.get('plan') or 'a run'} · {kind} {record.name}"
        return {"title": title, "sections": list(_run_sections(recorded, texts, anchor))}


def _overview(records: Sequence[Run], articles: Sequence[Data]) -> Data:
    """The records side by side."""
    totals, lasted = list(map(total, records)), list(map(seconds, records))
    links = [{"link": a["sections"][0]["anchor"], "text": a["title"]} for a in articles]
    columns = [
        Column("record", links),
        Column("ended", [str(record.facts.get("status", "unknown")) for record in records]),
        Column("calls issued", [count(m.calls_issued) for m in totals], right=True),
        Column("tokens in", [count(m.tokens_in) for m in totals], right=True),
        Column("tokens out", [count(m.tokens_out) for m in totals], right=True),
        Column("$", [dollars(m.dollars) for m in totals], right=True),
        Column("wall time", [UNKNOWN if s is None else duration(s) for s in lasted], right=True),
    ]
    return page_table(columns, "The records of this page, and what was paid for each")


def _section(anchor: str, kind: str, heading: str, **content: Any) -> Data:
    return {"anchor": f"{anchor}-{kind}", "kind": kind, "heading": heading, **content}


# Calls


@dataclass(frozen=True)
class RecordedCall:
    """One call. Its costs are unknown if the record has only its id.

    Args:
        id: Its id; "" for a call without an answer.
        step: The step that made it.
        line: Its line of `calls.jsonl`, if any.
        items: The rows of `answers` that the step read from it.
    """

    id: str
    step: str
    line: Mapping[str, Any]
    items: tuple[Row, ...] = ()


class CallTexts:
    """The calls of a page, numbered from 0, and their distinct texts, up to a limit.

    Args:
        longest: Maximum characters of one text.
        budget: Maximum characters of all texts in the page.
    """

    def __init__(self, longest: int = 40_000, budget: int = 1_000_000) -> None:
        self.longest, self.budget = longest, budget
        self.all: list[str] = []
        self.calls: list[Data] = []
        self.left_out = 0
        self._places: dict[str, int] = {}

    def text(self, text: str) -> int | None:
        """The index of a text; None if it exceeds the limit."""
        if text in self._places:
            return self._places[text]
        shortened = cut(text, self.longest)
        size = len(script_data(shortened))
        if size > self.budget:
            self.left_out += 1
            return None
        self.budget -= size
        self.all.append(shortened)
        return self._places.setdefault(text, len(self.all) - 1)

    def add(self, call: RecordedCall, lookup: Lookup) -> int:
        """Add a call, with its prompt and answer if the journal or the record has them. Returns its
        number.
        """
        exchange = lookup(call.id) if call.id else None
        entry: Data = {"id": call.id, "step": call.step}
        line = call.line
        if exchange is not None:
            messages = [(message.role, message.content) for message in exchange.request.messages]
            entry |= self._messages(messages, exchange.request.schema, exchange.reply.text)
        elif "messages" in line:
            entry |= self._messages(line["messages"], line["schema"], line["answer"])
        else:
            gone = "The journal does not have it (any more)."
            entry["lost"] = gone if call.id else "Its texts were not recorded."
        if line.get("error"):
            entry["error"] = cut(str(line["error"]))
        entry["items"] = [self._item(item) for item in call.items[:_ITEMS]]
        entry["more"] = max(0, len(call.items) - _ITEMS)
        self.calls.append(entry)
        return len(self.calls) - 1

    def _messages(self, messages: Sequence[Any], schema: str, answer: str) -> Data:
        return {
            "messages": [[role, self.text(content)] for role, content in messages],
            "schema": self.text(_indented(schema)),
            "answer": self.text(_indented(answer)),
        }

    def _item(self, item: Row) -> list[int | None]:
        answers = {name: value for name, value in item.items() if name not in FIXED}
        told = [*_sides(item), item.get("error") or answers]
        return [self.text(cut("" if v in (None, "", {}) else as_text(v))) for v in told]


def _indented(text: str) -> str:
    try:
        return json.dumps(json.loads(text), indent=1, ensure_ascii=False)
    except (json.JSONDecodeError, RecursionError):
        return text


def _sides(item: Row) -> tuple[Any, Any]:
    """The row, or the pair of rows, of an item."""
    return parsed(item.get("left")), parsed(item.get("right"))


def _measured(call: RecordedCall, lookup: Lookup) -> RecordedCall:
    """The call with its costs, from the journal if its record has no line."""
    exchange = lookup(call.id) if call.id and not call.line else None
    if exchange is None:
        return call
    reply, usage = exchange.reply, exchange.reply.usage
    line = {
        "model": reply.model or exchange.model, "seconds": reply.seconds, "took": reply.seconds, "dollars": reply.dollars,
        "tokens_in": usage.prompt, "tokens_cached": usage.cached, "tokens_out": usage.completion,
    }  # fmt: skip
    return replace(call, line=line)


def _listed_calls(calls: Sequence[RecordedCall]) -> list[RecordedCall]:
    """The calls that a page lists: failed ones (at most a thousand), and the first of the others."""
    failed = [i for i, call in enumerate(calls) if call.line.get("error")][:CALLS]
    answered = [i for i, call in enumerate(calls) if not call.line.get("error")]
    answered = answered[: CALLS - min(len(failed), CALLS // 2)]
    return [calls[i] for i in sorted({*failed, *answered})]


def _call_table(calls: Sequence[tuple[int, RecordedCall]], of: int, began: float | None) -> Data:
    """A table with a row for each of these calls, with their numbers on the page, `of` so many;
    the row opens to the texts of the call.
    """
    lines = [call.line for _, call in calls]
    times = [line["seconds"] or line["took"] if "took" in line else None for line in lines]
    costs = [
        Column("answer from", [ORIGINS.get(origin(line), UNKNOWN) for line in lines]),
        Column("model", [line.get("model") or UNKNOWN for line in lines]),
        Column("began after", [_began_after(line, began) for line in lines], right=True),
        Column("took", [UNKNOWN if t is None else duration(t) for t in times], right=True),
        Column("tokens in", [known(line.get("tokens_in")) for line in lines], right=True),
        Column("cached", [known(line.get("tokens_cached")) for line in lines], right=True),
        Column("out", [known(line.get("tokens_out")) for line in lines], right=True),
        Column("$", [dollars(line.get("dollars")) for line in lines], right=True),
        Column("rows", [count(len(c.items)) if c.items else UNKNOWN for _, c in calls], right=True),
    ]
    columns = [
        Column("call", [_opened(n, call) for n, call in calls]),
        Column("step", [call.step for _, call in calls]),
        *(column for column in costs if not {UNKNOWN, "0"}.issuperset(column.cells)),
    ]
    rest = f" {count(len(calls))} of {count(of)} are listed." if len(calls) < of else ""
    caption = f"{plural(of, 'call')}.{rest} Open a call for its prompt, its answer and the rows read from it."
    return page_table(columns, caption, "calls")


def _opened(n: int, call: RecordedCall) -> Data:
    """The cell that opens a call."""
    failed = " ✗" if call.line.get("error") else ""
    return {"call": n, "text": f"{n + 1}{failed}", "step": call.step}


def _began_after(line: Mapping[str, Any], began: float | None) -> str:
    if began is None or "at" not in line:
        return UNKNOWN
    return duration(max(0.0, line["at"] - began))


# Runs


class RecordedRun:
    """A run, read from its record and its journal.

    Args:
        run: The record.
        lookup: Looks up a call in the journal by its id.
    """

    def __init__(self, run: Run, lookup: Lookup) -> None:
        self.run, self.lookup = run, lookup

    @cached_property
    def began(self) -> float | None:
        """The start of the run, in seconds since the epoch."""
        return datetime.fromisoformat(self.run.started).timestamp() if self.run.started else None

    @cached_property
    def steps(self) -> dict[str, StepMetrics]:
        """The counters of each named step."""
        return {name: own for name, own in counters(self.run)[0].items() if name}

    @cached_property
    def operators(self) -> dict[str, list[StepMetrics]]:
        """The counters of each operator, for the steps with several semantic operators."""
        return counters(self.run)[1]

    @cached_property
    def items(self) -> dict[str, list[Row]]:
        """The items with their answers, by step."""
        return {step: list(rows) for step, rows in read_answers(self.run.folder).items()}

    @cached_property
    def calls(self) -> list[RecordedCall]:
        """All calls, ordered by their start."""
        items: dict[str, list[Row]] = {}
        steps: dict[str, str] = {}
        for step, rows in self.items.items():
            for row in rows:
                for call in row.get("calls") or ():
                    items.setdefault(call, []).append(row)
                    steps.setdefault(call, step)
        lines = sorted(read_calls(self.run.folder), key=lambda line: line["at"])
        calls = [
            RecordedCall(line["call"] or "", line["step"], line, tuple(items.get(line["call"], ())))
            for line in lines
        ]
        other = items.keys() - {call.id for call in calls}
        return calls + [RecordedCall(c, steps[c], {}, tuple(items[c])) for c in items if c in other]

    @cached_property
    def pictures(self) -> list[Picture]:
        """The graph of the run, one picture per partition."""
        return of_run(self.run)

    @cached_property
    def failed(self) -> list[dict[str, Any]]:
        """The failed rows, with `_step` and `_error`."""
        return read_lines(self.run.folder, "failed.jsonl")

    @cached_property
    def unanswered(self) -> list[tuple[str, Row]]:
        """The items without an answer, by step."""
        every = [(step, row) for step, rows in self.items.items() for row in rows]
        return [(step, row) for step, row in every if row.get("error")]

    def setting(self, name: str) -> str:
        """A setting of the run; a dash if it is unknown."""
        setting = (self.run.facts.get("settings") or {}).get(name)
        return str(setting["value"]) if isinstance(setting, Mapping) else UNKNOWN


def _run_sections(run: RecordedRun, texts: CallTexts, anchor: str) -> Iterator[Data]:
    yield _section(anchor, "summary", "Summary", **_summary(run))
    if run.failed or run.unanswered:
        yield _section(anchor, "failed", "Failures", tables=list(_failures(run)))
    if (diff := Diff.of_record(run.run.folder)) is not None:
        yield _section(anchor, "changes", "What changed", **changed(diff, f"{anchor}-changes"))
    if run.pictures:
        left, shown = len(run.pictures) - _PICTURES, graphs(run.pictures[:_PICTURES], anchor)
        more = plural(left, "more partition") if left > 0 else ""
        yield _section(anchor, "graph", "The graph", graphs=shown, more=more)
    calls = [(texts.add(c, run.lookup), _measured(c, run.lookup)) for c in _listed_calls(run.calls)]
    if run.steps:
        yield _section(anchor, "steps", "Steps", **_steps(run))
    if run.run.facts.get("flow"):
        plan = run.run.folder / "plan.yaml"
        source = plan.read_text(encoding="utf-8") if plan.exists() else ""
        layers = PlanDrawing(run.run.facts["flow"], run.steps, run.operators).layers()
        yield _section(anchor, "plan", "The plan", layers=layers, source=cut(source, _PLAN))
    if calls:
        lines = [(n, call.step, call.line) for n, call in calls]
        drawn = None if run.began is None else timeline(lines, run.began, seconds(run.run))
        if drawn is not None:
            yield _section(anchor, "time", "Timeline of calls", timeline=drawn)
        listed = _call_table(calls, len(run.calls), run.began)
        yield _section(anchor, "calls", "Prompts and answers", table=listed)


def _summary(run: RecordedRun) -> Data:
    facts, metrics, lasted = run.run.facts, total(run.run), seconds(run.run)
    models = list(dict.fromkeys(str(c.line["model"]) for c in run.calls if c.line.get("model")))
    replayed = any(call.line.get("origin") == "recording" for call in run.calls)
    model = ", ".join(models or [run.setting("models.default")]) + " (replayed)" * replayed
    pairs = [
        ("plan", f"{facts.get('plan')} ({facts.get('file') or 'made in code'})"),
        ("model", model if metrics.calls_issued or run.calls else "not called"),
        ("embedder", run.setting("models.embed")),
        ("store", run.setting("store")),
        ("began", at(run.run.started, " UTC")),
        *([("applied", at(facts["applied"], " UTC"))] if "applied" in facts else []),
        ("semgraph", facts.get("semgraph") or UNKNOWN),
        *counted_rows(run.run.metrics.get("counts") or {}),
    ]
    return {
        "head": _head(run, metrics, lasted),
        "facts": [*pairs, *_written(run, metrics)],
        "notes": [*(facts.get("notes") or ()), *([facts["why"]] if facts.get("why") else [])],
        "scope": _scope(metrics, replayed=replayed),
        "chosen": _chosen(facts),
    }


def _head(run: RecordedRun, metrics: StepMetrics, lasted: float | None) -> list[str]:
    """Status, failed rows, calls, tokens, dollars and time."""
    failed = max(metrics.rows_failed, len(run.failed))
    reused = metrics.calls_journal + metrics.calls_coalesced
    cached = f" ({count(metrics.tokens_cached)} cached)" if metrics.tokens_cached else ""
    return [
        str(run.run.facts.get("status", "unknown")),
        *([f"{plural(failed, 'row')} failed"] if failed else []),
        plural(metrics.calls_issued, "call") + (f" (+ {count(reused)} reused)" if reused else ""),
        f"{count(metrics.tokens_in)}{cached} + {count(metrics.tokens_out)} tokens",
        "price unknown" if metrics.dollars is None else dollars(metrics.dollars),
        *([] if lasted is None else [duration(lasted)]),
    ]


def _written(run: RecordedRun, metrics: StepMetrics) -> Iterator[tuple[str, str]]:
    """What became of the rows."""
    rows = run.run.facts.get("members") or {}
    written = run.run.facts.get("written") or {}
    if labels := ", ".join(f"{count(n)}\u00a0{name}" for name, n in written.items() if n):
        yield "written", labels
    if rows.get("given"):
        skipped = f", {count(rows['skipped'])} skipped" if rows.get("skipped") else ""
        committed = f"{count(rows.get('committed', 0))} of {count(rows['given'])} committed"
        yield "rows", committed + skipped
    if metrics.round_trips:
        yield "store queries", count(metrics.round_trips)


def _scope(metrics: StepMetrics, *, replayed: bool) -> str:
    scope = (
        f"All numbers are of this run alone. Tokens and dollars are those of the {plural(metrics.calls_issued, 'call')} "
        "that it issued and of the texts that it embedded; answers from the journal, or shared with an equal request in "
        "flight, cost nothing. Steps run concurrently: their times do not add up to the wall time."
    )
    if replayed:
        scope += (
            " The answers were replayed from a recording: tokens and durations of calls are recorded; dollars, the times "
            "of steps and the timeline are those of the replay."
        )
    return scope


def _chosen(facts: Mapping[str, Any]) -> Data | None:
    """Parameters, implementations and settings."""
    settings = (facts.get("settings") or {}).items()
    groups = {
        "parameter": facts.get("params") or {},
        "implementation of step": facts.get("use") or {},
        "setting": {name: f"{s['value']} ({s['origin']})" for name, s in settings},
    }
    rows = [(kind, n, _cut_cell(v)) for kind, group in groups.items() for n, v in group.items()]
    caption = "Parameters, implementations and settings"
    return _listed(caption, ["kind", "name", "value"], rows) if rows else None


def _listed(caption: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Data:
    """A table of rows of texts."""
    columns = zip(heads, zip(*rows, strict=True), strict=True)
    return page_table([Column(head, cells) for head, cells in columns], caption)


def _cut_cell(value: Any) -> str:
    return cut(cell(value), _CELL)


def _failures(run: RecordedRun) -> Iterator[Data]:
    if run.failed:
        rows = []
        for row in run.failed[:_FAILED]:
            own = {n: v for n, v in row.items() if not n.startswith("_")}
            rows.append([str(row.get("_step")), _cut_cell(row.get("_error")), _cut_cell(own)])
        caption = f"{plural(len(run.failed), 'failed row')}, as in failed.jsonl of the record."
        yield _listed(caption + _first_listed(run.failed), ["step", "error", "row"], rows)
    if run.unanswered:
        rows = [
            [step, _cut_cell(item["error"]), _cut_cell([s for s in _sides(item) if s])]
            for step, item in run.unanswered[:_FAILED]
        ]
        caption = f"{plural(len(run.unanswered), 'item')} without an answer."
        yield _listed(caption + _first_listed(run.unanswered), ["step", "error", "item"], rows)


def _first_listed(rows: Sequence[Any]) -> str:
    return f" The first {count(_FAILED)} are listed." if len(rows) > _FAILED else ""


def _steps(run: RecordedRun) -> Data:
    busy = {n: m for n, m in run.steps.items() if m.operator or m.rows_failed or m.calls_issued}
    idle = {name: m for name, m in run.steps.items() if name not in busy}
    return {
        "busy": _step_table("Steps that may call the model", busy, run.operators) if busy else None,
        "idle": _step_table("Steps without a model", idle) if idle else None,
        "idle_count": plural(len(idle), "more step"),
    }


def _step_table(
    caption: str, steps: Mapping[str, StepMetrics], operators: Operators | None = None
) -> Data:
    """A table with a row for each step, or for each operator of a step. Steps without a model have
    fewer columns.
    """
    sums = StepMetrics()
    for metrics in steps.values():
        sums.add(metrics)
    heads = ["step", "operator", "implementation", "rows in", "rows out", "failed", "calls issued", "journal", "coalesced",
             "tokens in", "cached", "tokens out", "$", "seconds", "store queries", "embedded"]  # fmt: skip
    used = [0, 4, 13, 14, 15] if operators is None else range(len(heads))
    own = split(steps, operators or {}).items()
    rows = [[name, m.operator or UNKNOWN, m.how or UNKNOWN, *_counters(m)] for name, m in own]
    cells = list(zip(*rows, ["total", "", "", *_counters(sums)], strict=True))
    columns = [Column(heads[i], cells[i], right=i > 2) for i in used]
    return page_table(columns, caption, "steps")


def _counters(m: StepMetrics) -> list[str]:
    return [
        known(m.rows_in),
        known(m.rows_out),
        *(count(n) for n in (m.rows_failed, m.calls_issued, m.calls_journal, m.calls_coalesced)),
        *(count(n) for n in (m.tokens_in, m.tokens_cached, m.tokens_out)),
        dollars(m.dollars), f"{m.seconds:,.2f}", count(m.round_trips), count(m.embeddings),
    ]  # fmt: skip


# Tunings


def _tuning_sections(tuning: Tuning, anchor: str) -> Iterator[Data]:
    told = [*tuned.headline(tuning), *tuned.outcome(tuning)]
    yield _section(anchor, "choice", "The choice", lines=told)
    caption = "The reference, then the candidates in the order of trial."
    tables = [page_table(tuned.columns(tuning), caption, "tried")]
    tables += [page_table(tuned.losses(tuning), f"Steps: {tuned.STEPS}.")] if tuning.losses else []
    lines, drawn = tuned.checked(tuning), svg(tuned.plot(tuning), f"{anchor}-tuning")
    charts = [drawn] if drawn else []
    yield _section(anchor, "search", "The search", lines=lines, tables=tables, charts=charts)


# Comparisons


def _comparison_sections(
    comparison: Comparison, run: Run, lookup: Lookup, texts: CallTexts, anchor: str
) -> Iterator[Data]:
    facts = [
        ("plan", f"{comparison.plan} ({run.facts.get('file') or 'made in code'})"),
        ("step", comparison.step or "all: whole plans"),
        ("model", comparison.model),
        ("store", comparison.store),
        ("reference", comparison.reference),
        ("trials", f"{count(comparison.trials)} of each variant, independent"),
        ("began", at(run.started, " UTC")),
        ("ended", run.facts.get("status") or UNKNOWN),
    ]
    table, notes = page_table(columns(comparison), _VARIANTS), footer(comparison)
    yield _section(anchor, "table", "The variants", table=table, notes=notes, facts=facts)
    drawn = [svg(comparison, anchor, kind) for kind in ("quality", "time", "steps")]
    if any(drawn):
        yield _section(anchor, "charts", "Charts", charts=filter(None, drawn))
    differences = list(_differences(comparison))
    if differences:
        yield _section(anchor, "rows", "Differences", differences=differences)
    for i, arm in enumerate(comparison):
        if arm.graph is not None and arm.graph.diff.changes:
            heading, kind = f"{arm.name} and {comparison.reference}: graphs", f"changes-{i}"
            parts, left_out = changed(arm.graph.diff, f"{anchor}-{kind}"), arm.graph.left_out
            more = f"The first {plural(len(arm.graph.diff), 'row')}; {count(left_out)} more differ."
            parts["notes"] += [*graph_lines(comparison, arm), *([more] if left_out else [])]
            yield _section(anchor, kind, heading, **parts)
    every = _comparison_calls(comparison)
    calls = [(texts.add(call, lookup), _measured(call, lookup)) for call in _listed_calls(every)]
    if calls:
        listed = _call_table(calls, len(every), None)
        yield _section(anchor, "calls", "Prompts and answers", table=listed)


def _differences(comparison: Comparison) -> Iterator[Data]:
    """For each variant, the rows on which it differs from the reference."""
    if comparison.kind != "step" or not comparison.reference:
        return
    reference = comparison[comparison.reference]
    for arm in comparison:
        if arm is reference or not _has_rows(arm) or not _has_rows(reference):
            continue
        different = comparison.disagreements(arm.name, reference.name)
        verb = "differs" if different.num_rows == 1 else "differ"
        number = plural(different.num_rows, "row")
        summary = f"{arm.name} and {reference.name}: {number} {verb} in the first trial"
        more = f" The first {count(_DIFFERENCES)}." if different.num_rows > _DIFFERENCES else ""
        rows = of_arrow(different, cell, rows=_DIFFERENCES)
        listed = page_table(rows, f"{summary}.{more}") if different.num_rows else None
        yield {"summary": summary, "table": listed}


def _has_rows(arm: Arm) -> bool:
    return any(trial.number == 1 and trial.rows is not None for trial in arm.trials)


def _comparison_calls(comparison: Comparison) -> list[RecordedCall]:
    """The calls of all variants and trials, each with the rows that were read from it."""
    calls = []
    for arm in comparison:
        for trial in arm.trials:
            items: dict[str, list[Any]] = {}
            for row in trial.answers.to_pylist() if trial.answers is not None else ():
                for call in row.get("calls") or ():
                    items.setdefault(call, []).append(row)
            name = f"{arm.name}, trial {trial.number}" if comparison.trials > 1 else arm.name
            calls += [RecordedCall(call, name, {}, tuple(rows)) for call, rows in items.items()]
    return calls
