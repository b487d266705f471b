"""The lines printed after a run: the graph or the results, steps with their costs, writes,
failures. Also records of runs: a line for each, or a page for one.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from shlex import quote
from typing import Any

from semgraph.diff import Diff
from semgraph.execution.record import RAN, Run
from semgraph.execution.result import Result
from semgraph.formats import (
    UNKNOWN,
    count,
    dollars,
    duration,
    known,
    plain_line,
    plural,
    short,
    shortened,
    stopped,
)
from semgraph.logical.plan import LogicalPlan
from semgraph.meter import Meter, StepMetrics, split
from semgraph.render.diff import lines as diff_lines
from semgraph.render.header import OWN_TEXT
from semgraph.render.picture import Picture, lines, of_run, pictures
from semgraph.render.tables import ROWS, Column, cell, fitting, folded, result_lines
from semgraph.render.tables import lines as table_lines
from semgraph.stores.registry import lasts

_PICTURES, _KEY = 5, 8  # _KEY: letters of a key that `why` accepts
_DRAWN = 20_000  # maximum written rows that are read for drawing
_FAILURES = 5
_BRIEF = 50  # letters of a plan's description
_YARDSTICK = "gpt-4.1-mini"
_PROSE = "is not one JSON document"


def outcome(
    result: Result,
    plan: LogicalPlan,
    width: int,
    seconds: float,
    *,
    every: bool = False,
    until: str | None = None,
) -> Iterator[str]:
    """All lines of a result.

    Args:
        result: The result.
        plan: The plan that was run.
        width: The width of the terminal.
        seconds: Wall time of the run.
        every: Print every step, not only those that called a model.
        until: The last step of a partial run, which prints its rows.
    """
    if plan.windows and not result.members:
        yield f"no rows of {plan.windows.input}: nothing to do"
        return
    if 0 < result.members == result.skipped and not result.failed:
        yield nothing_new(result, plan)
        return
    wrote = bool(plan.writes) and until is None
    yield from _graph(result, plan, width) if wrote else _results(result, width)
    counted = result.meter.lines()
    if steps := step_columns(counted, every=every):
        yield ""
        yield from _step_lines(steps, width)
        idle = sum(bool(m.operator) for m in counted.values()) - len(steps[0].cells)
        if idle > 0:
            yield f"  {plural(idle, 'more step')} without rows"
    yield from _counted_lines(result.meter.counts)
    if wrote:
        yield f"  {written(result.written)}       {plural(failures(result), 'row')} failed"
    if result.skipped:
        yield f"  {_known(result, plan)} (--reprocess includes them)"
    yield ""
    yield from folded(cost(result.meter.total(), seconds), width)


def first_lines(result: Result) -> Iterator[str]:
    """A line on the rows written by the plans that the example depends on."""
    if result.first:
        each = (f"{r.plan}, {written(r.written)}" for r in result.first)
        yield f"first, for the example: {'; '.join(each).replace('written:', 'wrote')}"


def nothing_new(result: Result, plan: LogicalPlan) -> str:
    """The line of a run without any work."""
    total = result.meter.total()
    queries = plural(total.round_trips, "store query", "store queries")
    return (
        f"{_known(result, plan)}: {plural(total.calls_issued, 'call')}, nothing to write ({queries}). "
        "To process them again: --reprocess"
    )


def _known(result: Result, plan: LogicalPlan) -> str:
    what = plan.windows.input if plan.windows else "rows"
    return f"{count(result.skipped)} of {count(result.members)} {what} are in the graph already"


def _graph(result: Result, plan: LogicalPlan, width: int) -> Iterator[str]:
    heads = [("", result.head(name, ROWS)) for name in result.tables]
    is_other = any(table.num_rows for _, table in heads) and not pictures(heads, plan.graph)
    # returned rows that are no graph say more than what was written
    drawn = [] if is_other else drawing(result, plan)
    members = {key: number for number, key in enumerate(result.keys, 1)}
    for picture in drawn[:_PICTURES]:
        yield from lines(picture, plan.graph, width, members)
    if len(drawn) > _PICTURES:
        yield f"… and {len(drawn) - _PICTURES} more {plan.graph.partition.removesuffix('_id')}s"
    if not drawn:
        yield from _results(result, width)


def _results(result: Result, width: int) -> Iterator[str]:
    for name in result.tables:
        yield from result_lines(name, result.head(name, ROWS), width, total=result.count(name))


def drawing(result: Result, plan: LogicalPlan) -> list[Picture]:
    """The pictures of the written graph, one per partition: those of the record, if there is one;
    none of a large result.
    """
    if result.record is None:
        return pictures((("", table) for table in result.tables.values()), plan.graph)
    return [] if sum(result.written.values()) > _DRAWN else of_run(Run(result.record))


def step_columns(steps: Mapping[str, StepMetrics], *, every: bool = False) -> list[Column]:
    """The semantic steps with rows or failures, and their costs; empty if there are none. Columns
    that repeat the plan are dropped before costs.
    """
    listed = {
        name: m
        for name, m in steps.items()
        if every or m.rows_failed or (m.operator and (m.rows_in or _answers(m)))
    }
    if not listed:
        return []
    rows = list(listed.values())
    failed = [Column("failed", [count(m.rows_failed) for m in rows], right=True)]
    return [
        Column("step", list(listed)),
        Column("operator", [m.operator or UNKNOWN for m in rows], drop=1),
        Column("how", [m.how for m in rows], drop=2),
        Column("in → out", [f"{known(m.rows_in)} → {known(m.rows_out)}" for m in rows], right=True),
        Column("calls", [_calls(m) for m in rows], right=True),
        Column("tokens in (cached)", [_tokens_in(m) for m in rows], right=True),
        Column("out", [count(m.tokens_out) if m.calls_issued else "–" for m in rows], right=True),
        Column("time", [duration(m.seconds) for m in rows], right=True),
        *(failed if any(m.rows_failed for m in rows) else []),
    ]


_CACHED = re.compile(r" \((cached|[\d,]+)\)\Z")


def _step_lines(columns: Sequence[Column], width: int) -> Iterator[str]:
    """The columns of steps as a table; a narrow one leaves out how many tokens were cached."""
    if fitting(columns, width - 2)[1] != [column.width for column in columns]:
        columns = [
            replace(c, title=_CACHED.sub("", c.title), cells=[_CACHED.sub("", t) for t in c.cells])
            for c in columns
        ]
    return table_lines(columns, width)


def _answers(m: StepMetrics) -> int:
    return m.calls_issued + m.calls_journal + m.calls_coalesced


def _calls(m: StepMetrics) -> str:
    reused = [(m.calls_journal, "journal"), (m.calls_coalesced, "shared")]
    more = ", ".join(f"+{count(number)} {where}" for number, where in reused if number)
    return f"{count(m.calls_issued)} ({more})" if more else count(m.calls_issued)


def _tokens_in(m: StepMetrics) -> str:
    if not m.calls_issued:
        return "–"
    return count(m.tokens_in) + (f" ({count(m.tokens_cached)})" if m.tokens_cached else "")


def written(rows: Mapping[str, int]) -> str:
    """The rows that were merged or deleted.

    >>> written({"Person": 3, "KNOWS": 2})
    'written: 3 Person, 2 KNOWS'
    """
    return "written: " + (
        ", ".join(f"{count(n)} {label}" for label, n in rows.items() if n) or "nothing"
    )


def cost(total: StepMetrics, seconds: float) -> str:
    """One line: calls, tokens, dollars, wall time, store queries; for a free model also the cost
    with a well-known one.
    """
    parts = [plural(total.calls_issued, "call")]
    if total.calls_journal:
        parts[0] += f" (+{count(total.calls_journal)} from the journal)"
    if total.calls_coalesced:
        parts[0] += f" (+{count(total.calls_coalesced)} shared: equal requests, sent once)"
    parts.append(f"{short(total.tokens_in)} tokens in, {short(total.tokens_out)} out")
    money = "price unknown" if total.dollars is None else dollars(total.dollars)
    if total.dollars == 0 and total.calls_issued:
        money += f" (at {_YARDSTICK} ≈ {dollars(yardstick(total))})"
    parts += [money, duration(seconds)]
    if total.round_trips:
        parts.append(plural(total.round_trips, "store query", "store queries"))
    return " · ".join(parts)


def yardstick(total: StepMetrics) -> float | None:
    """The cost of the same tokens with a well-known model; None if its price is unknown."""
    from semgraph.llm.base import Usage
    from semgraph.llm.tokens import price_of

    price = price_of(_YARDSTICK)
    usage = Usage(total.tokens_in, total.tokens_cached, total.tokens_out)
    return None if price is None else price.dollars(usage)


def remarks(
    result: Result,
    plan: LogicalPlan,
    typed: str,
    restart: str = "",
    refresh: str = "",
    *,
    verb: str = "run",
) -> Iterator[str]:
    """Remarks below the result: notes, failed rows and the command that repeats them, the reason
    for an early end.

    Args:
        result: The result.
        plan: The plan that was run.
        typed: The arguments of `semgraph run` that resume the run; the record has the rest.
        restart: The arguments of a new run with the same models and store; "": as `typed`.
        refresh: The arguments of a refresh with the same rows and choices; "": the plan.
        verb: The command that takes failed rows.
    """
    warned = {str(warning) for warning in plan.warnings}  # shown before the run
    for note in result.notes:
        if note not in warned:
            command = f"semgraph refresh {plan.name}"  # in Python it is named, not typed
            yield f"! {note.replace(command, f'semgraph refresh {refresh}') if refresh else note}"
    if _is_empty(result, plan):
        yield "! no rows. semgraph doctor lists the labels in the store; try other words, or a different --store"
    for step, m in result.meter.steps.items():
        if m.unusable:
            yield f"! {step}: {plural(m.unusable, 'packed answer')} did not answer every row; the rest was requested again"
        if m.refused:
            yield f"! {step}: {plural(m.refused, 'answer')} did not meet the check; requested again"
    if result.failed:
        yield from _failures(result, plan, f"{verb} {restart or typed}")
    if result.stopped:
        yield f"run {result.run} {stopped(result.stopped)}"
        if result.members:
            yield f"  {_safe(result.committed + result.skipped, result.members, plan, result.record)}"
        yield f"Resume: semgraph run {typed} --resume {result.run}"


def _is_empty(result: Result, plan: LogicalPlan) -> bool:
    """Whether a plan that only reads a store returned no rows."""
    if plan.writes or result.failed or result.stopped or not result.tables:
        return False
    return plan.uses_store and not any(map(result.count, result.tables))


def unfinished(
    begun: Sequence[Run],
    plan: LogicalPlan,
    typed: str,
    options: str,
    prepare: Callable[[str], LogicalPlan],
) -> Iterator[str]:
    """Lines about a run that was interrupted or failed: the written rows, and how to resume it.

    Args:
        begun: The run, preceded by the runs of the plans that its example depends on.
        plan: The plan of the command.
        typed: The plan as typed by the user.
        options: The options to repeat.
        prepare: Loads a plan by name.
    """
    run = next((run for run in reversed(begun) if run.facts), None)
    if run is None:
        return
    name = str(run.facts.get("plan") or plan.name)
    is_dependency = name != plan.name
    resumed, command = (prepare(name), name) if is_dependency else (plan, typed)
    rows = run.facts.get("members") or {}
    if rows.get("given"):
        done = rows.get("committed", 0) + rows.get("skipped", 0)
        yield f"run {run.name}: {_safe(done, rows['given'], resumed, run.folder)}"
    if run.facts.get("batches"):
        yield str(run.facts["batches"])
    then = f", then semgraph run {typed}{options}" if is_dependency else ""
    yield f"Resume: semgraph run {command}{options} --resume {run.name}{then}"


def _safe(done: int, of: int, plan: LogicalPlan, record: Path | None) -> str:
    """The number of written rows; a store in memory is lost."""
    rows = f"{count(done)} of {count(of)} {plan.windows.input if plan.windows else 'rows'}"
    facts = Run(record).facts if record is not None else {}
    if lasts(str((facts.get("settings") or {}).get("store", {}).get("value"))):
        return f"{rows} are complete, with all that follows from them"
    answers = "; the answers are in the journal" if facts.get("journal") else ""
    return f"{rows} were written to memory, which is gone: the run starts over{answers}"


def failures(result: Result) -> int:
    """The number of failed rows; an input row that fails in two steps counts once."""
    return len(
        {f.input_row if f.input_row is not None else -n for n, f in enumerate(result.failed, 1)}
    )


def _failures(result: Result, plan: LogicalPlan, typed: str) -> Iterator[str]:
    kinds = Counter((f.step, plain_line(f.error)) for f in result.failed)
    yield f"{plural(failures(result), 'row')} failed (exit {result.exit_code}):"
    for (step, error), number in kinds.most_common(_FAILURES):
        yield f"  {number} × {step}: {error}"
    if len(kinds) > _FAILURES:
        yield f"  … and {len(kinds) - _FAILURES} more kinds"
    if any(_PROSE in f.error for f in result.failed):
        yield (
            "  the answers are prose, not JSON: the endpoint may not enforce the answer schema. "
            'Enable structured outputs there, or use --llm "…?structured=tool"'
        )
    file = result.record / "failed.jsonl" if result.record else None
    if file is not None and file.exists() and not plan.windows:
        yield f"  these rows are in {_relative(file)}"
    elif file is not None and file.exists() and plan.windows:
        yield f"  these rows only: semgraph {typed} -i {plan.windows.input}={_relative(file)}"


def _relative(path: Path) -> Path:
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def hints(
    result: Result, plan: LogicalPlan, following: Mapping[str, str], stored: str | None = None
) -> Iterator[str]:
    """Suggestions: plans with examples that build on this one, the prompts behind the first edge, a page;
    the graph of the store, if it has more than this run wrote. `stored` are the options of that
    command; None: the store does not last.
    """
    drawn = drawing(result, plan) if plan.writes else []
    edges = [each for picture in drawn for each in picture.front[0].items()]
    names = [picture.name(edge.source) for picture in drawn for edge in picture.front[0].values()]
    text = quote(next(iter(names), OWN_TEXT))
    after = [
        f"Next: semgraph run {name.replace(OWN_TEXT, text)}"
        + (f"   ({shortened(doc, _BRIEF)})" if doc else "")
        for name, doc in following.items()
    ]
    if result.meter.total().calls_issued and result.record and edges:
        key, edge = edges[0]
        name = quote(edge.name if edge.name != edge.label else key[:_KEY])
        after += [
            f"Next: semgraph why {result.run} {name}   (the prompts; models make mistakes)",
            f"Next: semgraph report {result.run} -o report.html   (the graph and all prompts as a page)",
        ]
    if stored is not None and result.skipped:
        group = f" {quote(drawn[0].partition)}" if len(drawn) == 1 else ""
        after[-1:] = [f"Next: semgraph show{group}{stored}   (the whole graph; -o g.html: a page)"]
    yield from after
    if result.record:
        yield f"(run recorded: {result.run})"


def summary(run: Run) -> dict[str, Any]:
    """The main facts of a run."""
    return {
        "run": run.name,
        "started": run.started,
        "plan": run.facts.get("plan"),
        "kind": run.facts.get("kind", RAN),
        "status": run.facts.get("status", "unknown"),
        "calls": total(run).calls_issued,
        "dollars": total(run).dollars,
        "seconds": seconds(run),
    }


def total(run: Run) -> StepMetrics:
    """The counters of the whole run; zeros if it was interrupted."""
    return StepMetrics.of(run.metrics.get("total") or {})


def counters(run: Run) -> tuple[dict[str, StepMetrics], dict[str, list[StepMetrics]]]:
    """The counters of each step; those of each operator, for steps with several semantic ones."""
    meter = Meter.of(run.metrics)
    return meter.steps, meter.operators()


def counted_rows(counts: Mapping[str, Mapping[str, int]]) -> list[tuple[str, str]]:
    """The texts that a plan counts, each with its number of rows, and their step."""
    return [
        (text, f"{plural(rows, 'row')} of {step}")
        for step, own in counts.items()
        for text, rows in own.items()
    ]


def _counted_lines(counts: Mapping[str, Mapping[str, int]]) -> Iterator[str]:
    yield from (f"  {text}: {rows}" for text, rows in counted_rows(counts))


def seconds(run: Run) -> float | None:
    """The wall time; None if the run was interrupted."""
    start, end = (run.facts.get(name) for name in ("started", "ended"))
    if not start or not end:
        return None
    return (datetime.fromisoformat(str(end)) - datetime.fromisoformat(str(start))).total_seconds()


def run_lines(runs: Sequence[Run], width: int) -> Iterator[str]:
    """One line for each run."""
    yield from table_lines(run_columns([summary(run) for run in runs]), width, indent=0)


def run_columns(rows: Sequence[Mapping[str, Any]]) -> list[Column]:
    """The table of the summaries of runs."""
    times = [UNKNOWN if row["seconds"] is None else duration(row["seconds"]) for row in rows]
    return [
        Column("run", [row["run"] for row in rows]),
        Column("started", [at(row["started"]) for row in rows]),
        Column("plan", [str(row["plan"] or UNKNOWN) for row in rows]),
        Column("kind", [row["kind"] for row in rows]),
        Column("status", [row["status"] for row in rows]),
        Column("calls", [count(row["calls"]) for row in rows], right=True),
        Column("$", [dollars(row["dollars"]) for row in rows], right=True),
        Column("time", times, right=True),
    ]


def at(text: str, zone: str = "") -> str:
    """A time to the second, so that all lines have the same form.

    >>> at("2025-03-03T09:00:00+00:00"), at("2025-03-03T09:00:00+00:00", " UTC")
    ('2025-03-03 09:00:00', '2025-03-03 09:00:00 UTC')
    """
    utc = text and datetime.fromisoformat(text).astimezone(UTC).isoformat(" ")[:19]
    return f"{utc}{zone}" if text else UNKNOWN


def run_page(run: Run, width: int) -> Iterator[str]:
    """A page about a run: its facts, steps and cost."""
    yield f"run {run.name}   {run.folder}"
    for name, value in run.facts.items():
        if name in {"flow", "graph", "returns"}:
            continue
        if isinstance(value, dict) and value:
            yield f"{name}"
            yield from (f"  {inner:<22} {_value(v)}" for inner, v in value.items())
        elif value not in (None, {}, [], ""):
            yield f"{name:<24} {_value(value)}"
    steps, parts = counters(run)
    if steps:
        yield ""
        yield from _step_lines(step_columns(split(steps, parts), every=True), width)
        yield from _counted_lines(run.metrics.get("counts") or {})
        yield f"  {written(run.facts.get('written') or {})}"
        yield cost(total(run), seconds(run) or 0.0)
    if (diff := Diff.of_record(run.folder)) is not None:
        yield ""
        yield from (line.plain for line in diff_lines(diff, width))
    if command := {"comparison": "compare", "tuning": "tune"}.get(run.facts.get("kind", RAN)):
        yield f"Its table: semgraph {command} --show {run.name}"


def _value(value: Any) -> str:
    if isinstance(value, dict) and {"value", "origin"} <= set(value):
        return f"{value['value']}   ({value['origin']})"
    return cell(value)
