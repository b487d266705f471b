"""Results, comparisons and sessions as HTML, for notebooks."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from semgraph.compare.comparison import Comparison, Evidence
from semgraph.diff import Diff
from semgraph.display import Drawing, as_html, as_text, exported
from semgraph.errors import PlanError
from semgraph.execution.record import Run, exchanges, read_answers
from semgraph.execution.result import Result, RunHistory
from semgraph.formats import UNKNOWN, dollars, plural, shortened
from semgraph.llm.base import LLM, Embedder, ModelSpec, Usage
from semgraph.llm.endpoints import means
from semgraph.llm.journal import Exchange
from semgraph.llm.providers import PROVIDERS
from semgraph.llm.settings import Settings
from semgraph.logical.prompt import show
from semgraph.provenance import AskedItem, Chain, Lookup, asked_item
from semgraph.render import chart, comparison
from semgraph.render import diff as differences
from semgraph.render import tuning as tuned
from semgraph.render.exports import export
from semgraph.render.html import rendered
from semgraph.render.html.changes import changed
from semgraph.render.html.data import RecordedRun
from semgraph.render.html.graph import IN_NOTEBOOK, graphs
from semgraph.render.outcome import run_columns
from semgraph.render.tables import Column, lines, of_arrow, page_table
from semgraph.render.why import evidence_lines, row_text, value_text
from semgraph.tune.tuning import Tuning

_ROWS, _PICTURES = 10, 3
_CELL, _BRIEF, _TEXT = 200, 160, 20_000
_MILLION = 1_000_000
_KEY = re.compile(r"\b([0-9a-f]{8})-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b")
Data = dict[str, Any]


# Results


@as_html.register
def _result_html(result: Result) -> str:
    """The cost on a line, the first rows of each table (the first one that has any is open), the
    graph, and the items of each step.
    """
    total = result.meter.total()
    reused = f" (+{total.calls_journal:,} from the journal)" if total.calls_journal else ""
    facts = [
        f"run {result.run}",
        f"{plural(total.calls_issued, 'call')}{reused}",
        f"{total.tokens_in:,} tokens in, {total.tokens_out:,} out",
        "price unknown" if total.dollars is None else dollars(total.dollars, exact=True),
    ]
    if result.members:
        done = f"{result.committed:,} of {result.members:,} committed"
        facts.append(f"{done}, {result.skipped:,} skipped")
    first = next((name for name in result.tables if result.count(name)), None)
    graphs, steps = ([], []) if result.record is None else _recorded(Run(result.record))
    tables = [
        _table(result, name) | {"folded": name != first and result.count(name) > 0}
        for name in result.tables
    ]
    return rendered(
        "notebook.html.j2", title=result.plan, facts=facts, graphs=graphs, tables=tables, steps=steps,
        failed=f"{len(result.failed):,} failed" if result.failed else "",
        notes=(*result.notes, *((result.stopped,) if result.stopped else ())),
    )  # fmt: skip


def _table(result: Result, name: str) -> Data:
    """The first rows of a result."""
    first, rows = result.head(name, _ROWS), result.count(name)
    counted = plural(rows, "row") + (f", the first {_ROWS} here" if rows > _ROWS else "")
    return {"name": name, "count": counted, **page_table(of_arrow(first, _cell, rows=_ROWS))}


def _cell(value: Any) -> str:
    """A value. Generated keys are shortened, as in `why`."""
    return shortened(_KEY.sub(r"\1…", show(value)), _CELL)


def _recorded(run: Run) -> tuple[list[Data], list[Data]]:
    """The graphs that a run wrote, and the first rows of each step that called a model. Each row
    opens to messages, answers and tokens.
    """
    with exchanges(run) as lookup:
        pictures = RecordedRun(run, lookup).pictures[:_PICTURES] if run.facts.get("written") else []
        steps = read_answers(run.folder).items()
        drawn = graphs(pictures, run.name, IN_NOTEBOOK)
        return drawn, [_step(step, items, lookup) for step, items in steps]


def _step(step: str, items: Iterable[Mapping[str, Any]], lookup: Lookup) -> Data:
    rows: dict[tuple[Any, str], list[AskedItem]] = {}
    for item in items:
        key = item.get("_m"), str(item.get("left"))
        rows.setdefault(key, []).append(asked_item(item, lookup))
    more = f", the first {_ROWS} here" if len(rows) > _ROWS else ""
    first = [_asked(*items) for items in list(rows.values())[:_ROWS]]
    return {"name": step, "count": plural(len(rows), "row") + more, "rows": first}


def _asked(*items: AskedItem) -> Data:
    """The items of a row, which open to their calls."""
    right = items[0].right if len(items) == 1 else None
    both = [
        row_text(each) if isinstance(each, Mapping) else value_text(each)
        for each in (items[0].left, right)
        if each not in (None, {}, "")
    ]
    answers = (f"no answer: {i.error}" if i.error else row_text(i.answers) for i in items)
    return {
        "about": shortened(" beside ".join(both), _BRIEF),
        "answers": shortened("; ".join(answers), _BRIEF),
        "calls": [_call(*call) for call in dict(c for i in items for c in i.calls).items()],
    }


def _call(call: str, exchange: Exchange | None) -> Data:
    if exchange is None:
        return {"id": call}
    reply, usage = exchange.reply, exchange.reply.usage
    texts = [(message.role, message.content) for message in exchange.request.messages]
    tokens = f"{usage.prompt:,} → {usage.completion:,} tokens"
    listed = [(role, shortened(text, _TEXT)) for role, text in (*texts, ("answer", reply.text))]
    return {"used": f"{reply.model} · {tokens} · {reply.seconds:.1f} s", "texts": listed}


# Comparisons


@as_html.register
def _comparison_html(value: Comparison) -> str:
    return rendered(
        "notebook.html.j2",
        tables=[page_table(sorted(comparison.columns(value), key=lambda column: column.drop > 1))],
        lines=comparison.footer(value),
        drawing=chart.svg(value, f"comparison-{value.id}"),
    )


@as_text.register
def _comparison_text(value: Comparison) -> str:
    return comparison.plain(value, _columns())


@exported.register
def _comparison_form(value: Comparison, form: str, **options: Any) -> Any:
    return _chart(value, value.id, **options) if form == "chart" else export(value, form, **options)


def _chart(value: chart.Drawable, name: str, kind: str = "quality") -> Drawing:
    result = Drawing(chart.text(value, _columns(), kind))
    drawing = chart.svg(value, f"chart-{name}", kind)
    if drawing is not None:
        result.html = rendered("notebook.html.j2", drawing=drawing)
    return result


@as_html.register
def _tuning_html(value: Tuning) -> str:
    steps = page_table(tuned.losses(value)) | {"name": "steps", "count": tuned.STEPS}
    return rendered(
        "notebook.html.j2",
        first=tuned.headline(value),
        tables=[page_table(tuned.columns(value)), *([steps] if value.losses else [])],
        lines=[*tuned.checked(value), *tuned.outcome(value)],
        drawing=chart.svg(tuned.plot(value), f"tuning-{value.id}"),
    )


@as_text.register
def _tuning_text(value: Tuning) -> str:
    return "\n".join(line.plain for line in tuned.lines(value, _columns()))


@exported.register
def _tuning_form(value: Tuning, form: str) -> Any:
    return tuned.rows(value) if form == "rows" else _chart(tuned.plot(value), value.id)


@as_text.register
def _history_text(value: RunHistory) -> str:
    return "\n".join(lines(run_columns(value), _columns(), indent=0)) if value else "no runs"


@as_html.register
def _history_html(value: RunHistory) -> str:
    return rendered("notebook.html.j2", tables=[page_table(run_columns(value))])


@as_text.register
def _evidence_text(value: Evidence) -> str:
    return "\n".join(evidence_lines(value))


@as_html.register
def _evidence_html(value: Evidence) -> str:
    title, rows = f"{value.variant}, trial {value.trial}", [*map(_asked, value.asked)]
    step = {"name": title, "count": "" if rows else "sent no request about it", "rows": rows}
    first = [f"row {row_text(row)}" for row in value.rows]
    return rendered("notebook.html.j2", first=first, steps=[step])


def chain_html(chain: Chain, *first: str) -> str:
    """The provenance of a row: its steps, newest first; each question opens to its calls."""
    links = [k for i, k in enumerate(chain.links) if k.asked or i in (0, len(chain.links) - 1)]
    steps = [
        {"name": "← " * bool(i) + k.step, "count": row_text(k.row), "rows": [*map(_asked, k.asked)]}
        for i, k in enumerate(links)
    ]
    other = f'"{chain.what}" is in {plural(len(chain.others), "more row")} of that step'
    return rendered("notebook.html.j2", steps=steps, first=[*first, *[other] * bool(chain.others)])


@as_text.register
def _diff_text(value: Diff) -> str:
    return "\n".join(line.plain for line in differences.lines(value, _columns()))


@as_html.register
def _diff_html(value: Diff) -> str:
    made = changed(value, f"diff-{id(value)}")
    *reasons, headline = made["notes"]
    table, drawn = made["table"], made["graphs"]
    parts = {"tables": [table | {"caption": ""}], "lines": [table["caption"]]} if table else {}
    return rendered("notebook.html.j2", title=headline, facts=reasons, graphs=drawn, **parts)


def _columns() -> int:
    """The width of the terminal."""
    return shutil.get_terminal_size((120, 24)).columns


# Sessions

Row = tuple[str, str, str, str]
_ORIGINS = {"option": "argument"}  # a command's options are a session's arguments


def session_html(
    settings: Settings,
    models: Mapping[str, LLM | ModelSpec],
    embedder: Embedder | None = None,
    store: object | None = None,
) -> str:
    """The session as a table; `embedder` and `store` replace those of the settings."""
    rows = [*_models(settings, models, embedder), _store(settings, store), *_limits(settings)]
    heads = ("", "", "$ a million tokens in / out", "from")
    cells = zip(*((*row[:-1], _ORIGINS.get(row[-1], row[-1])) for row in rows), strict=True)
    table = page_table([Column(head, own) for head, own in zip(heads, cells, strict=True)])
    return rendered("notebook.html.j2", tables=[table])


def _models(
    settings: Settings, models: Mapping[str, LLM | ModelSpec], embedder: Embedder | None
) -> Iterator[Row]:
    for role, model in models.items():
        name = "model" if role == "default" else f"model {role}"
        if isinstance(model, ModelSpec):
            yield name, str(model), _price(model, settings), settings.bound(role).origin
        else:
            yield name, model.name, _prices(model.dollars), "argument"
    named = str(settings.embedder), "", settings["models.embed"].origin
    yield "embedder", *(named if embedder is None else (embedder.name, "", "argument"))


def _price(spec: ModelSpec, settings: Settings) -> str:
    provider = PROVIDERS[spec.provider]
    if provider.free:
        return f"0 ({provider.free})"
    with suppress(PlanError):  # a run says why the price is wrong
        if price := provider.price(spec, means(settings)):
            return _prices(price.dollars)
    return UNKNOWN


def _prices(of: Callable[[Usage], float | None]) -> str:
    sent, answered = of(Usage(prompt=_MILLION)), of(Usage(completion=_MILLION))
    return f"{dollars(sent)} / {dollars(answered)}"


def _store(settings: Settings, store: object | None) -> Row:
    if store is not None:
        return "store", str(getattr(store, "name", type(store).__name__)), "", "argument"
    return "store", str(settings["store"].value), "", settings["store"].origin


def _limits(settings: Settings) -> list[Row]:
    limits = (row for row in settings.rows() if row[0].startswith("limits.max_"))
    rows = [(f"at most {key[11:]}", v, "", origin) for key, v, origin in limits if v != "none"]
    none = "none: max_usd=, max_calls=, max_tokens=, max_seconds= set them"
    return rows or [("limits", none, "", "default")]
