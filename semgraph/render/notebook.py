"""Results, comparisons and sessions as HTML, for notebooks."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from semgraph.compare.comparison import Comparison, Evidence
from semgraph.display import Drawing, as_chart, as_html, as_text
from semgraph.execution.record import Run, exchanges, read_answers
from semgraph.execution.result import Result
from semgraph.formats import UNKNOWN, dollars, plural, shortened
from semgraph.llm.base import LLM, Embedder, Usage
from semgraph.llm.settings import Settings
from semgraph.llm.specs import ModelSpec
from semgraph.logical.prompt import show
from semgraph.provenance import FIXED, Lookup, parsed
from semgraph.render import chart, comparison
from semgraph.render.html import rendered
from semgraph.render.why import evidence_lines

_ROWS = 10
_CELL, _BRIEF, _TEXT = 200, 160, 20_000
_MILLION = 1_000_000
Data = dict[str, Any]


# Results


@as_html.register
def _result_html(result: Result) -> str:
    """The cost in a line, the first rows of each table, the items of each step."""
    total = result.meter.total()
    facts = [
        f"run {result.run}",
        f"{total.calls_issued:,} calls (+{total.calls_journal:,} from the journal)",
        f"{total.tokens_in:,} tokens in, {total.tokens_out:,} out",
        "price unknown" if total.dollars is None else dollars(total.dollars, exact=True),
    ]
    if result.members:
        facts.append(
            f"{result.committed:,} of {result.members:,} committed, {result.skipped:,} skipped"
        )
    return rendered(
        "notebook.html.j2",
        title=result.plan,
        facts=facts,
        failed=f"{len(result.failed):,} failed" if result.failed else "",
        notes=(*result.notes, *((result.stopped,) if result.stopped else ())),
        tables=[_table(result, name) for name in result.tables],
        steps=[] if result.record is None else _steps(result.record),
    )


def _table(result: Result, name: str) -> Data:
    first = result.head(name, _ROWS)
    return {
        "name": name,
        "count": f"{result.count(name):,} rows",
        "heads": first.column_names,
        "rows": [
            [shortened(show(value), _CELL) for value in row.values()] for row in first.to_pylist()
        ],
    }


def _steps(record: Path) -> list[Data]:
    """The first rows of each step that called a model; each opens to messages, answers and tokens."""
    steps = []
    with exchanges(Run(record)) as lookup:
        for step, items in read_answers(record).items():
            rows: dict[tuple[Any, str], list[Mapping[str, Any]]] = {}
            for item in items:
                rows.setdefault((item.get("_m"), str(item.get("left"))), []).append(item)
            more = f", the first {_ROWS} here" if len(rows) > _ROWS else ""
            first = [_row(items, lookup) for items in list(rows.values())[:_ROWS]]
            steps.append({"name": step, "count": plural(len(rows), "row") + more, "rows": first})
    return steps


def _row(items: list[Mapping[str, Any]], lookup: Lookup) -> Data:
    calls = dict.fromkeys(call for item in items for call in item.get("calls") or ())
    return {
        "about": shortened(_plain(parsed(items[0].get("left"))), _BRIEF),
        "answers": shortened("; ".join(map(_answer, items)), _BRIEF),
        "calls": [_call(call, lookup) for call in calls],
    }


def _answer(item: Mapping[str, Any]) -> str:
    if item.get("error"):
        return f"no answer: {item['error']}"
    return _plain({n: value for n, value in item.items() if n not in FIXED and value is not None})


def _call(call: str, lookup: Lookup) -> Data:
    exchange = lookup(call)
    if exchange is None:
        return {"id": call}
    reply, usage = exchange.reply, exchange.reply.usage
    texts = [(message.role, message.content) for message in exchange.request.messages]
    return {
        "used": f"{reply.model} · {usage.prompt:,} → {usage.completion:,} tokens · {reply.seconds:.1f} s",
        "texts": [
            (role, shortened(text, _TEXT)) for role, text in (*texts, ("answer", reply.text))
        ],
    }


def _plain(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_plain(inner)}" for name, inner in value.items())
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


# Comparisons


@as_html.register
def _comparison_html(value: Comparison) -> str:
    columns = comparison.columns(value)
    rows = [
        [
            {
                "text": column.texts[i],
                "side": "right" if column.right else "left",
                "best": i in column.best,
            }
            for column in columns
        ]
        for i in range(len(value))
    ]
    return rendered(
        "notebook.html.j2",
        tables=[{"heads": [column.title for column in columns], "rows": rows}],
        lines=comparison.footer(value),
        drawing=chart.svg(value, f"comparison-{value.id}"),
    )


@as_text.register
def _comparison_text(value: Comparison) -> str:
    return comparison.plain(value, _columns())


@as_chart.register
def _comparison_chart(value: Comparison) -> Drawing:
    result, drawing = Drawing(chart.text(value, _columns())), chart.svg(value, f"chart-{value.id}")
    if drawing is not None:
        result.html = rendered("notebook.html.j2", drawing=drawing)
    return result


@as_text.register
def _evidence_text(value: Evidence) -> str:
    return "\n".join(evidence_lines(value))


def _columns() -> int:
    """The width of the terminal."""
    return shutil.get_terminal_size((120, 24)).columns


# Sessions

Row = tuple[str, str, str, str]


def session_html(
    settings: Settings,
    llm: LLM | None = None,
    embedder: Embedder | None = None,
    store: object | None = None,
) -> str:
    """The session as a table.

    Args:
        settings: The resolved settings.
        llm: A model passed to the session, which replaces those of the settings.
        embedder: Likewise.
        store: Likewise.
    """
    rows = [*_models(settings, llm, embedder), _store(settings, store), *_limits(settings)]
    heads = ("", "", "$ a million tokens in / out", "from")
    return rendered("notebook.html.j2", tables=[{"heads": heads, "rows": rows}])


def _models(settings: Settings, llm: LLM | None, embedder: Embedder | None) -> Iterator[Row]:
    if llm is not None:
        yield "model", llm.name, _prices(llm.dollars), "argument"
    else:
        for role in settings.roles:
            spec = settings.model(role)
            name = "model" if role == "default" else f"model {role}"
            yield name, str(spec), _price(spec), settings[f"models.{role}"].origin
    if embedder is not None:
        yield "embedder", embedder.name, "", "argument"
    else:
        yield "embedder", str(settings.embedder), "", settings["models.embed"].origin


def _price(spec: ModelSpec) -> str:
    from semgraph.llm.prices import price_of

    if spec.provider in {"local", "recorded"}:
        return "0 (runs here)" if spec.provider == "local" else "0 (replayed)"
    price = price_of(spec.model, spec.base_url)
    return UNKNOWN if price is None else _prices(price.dollars)


def _prices(of: Callable[[Usage], float | None]) -> str:
    sent, answered = of(Usage(prompt=_MILLION)), of(Usage(completion=_MILLION))
    return f"{dollars(sent)} / {dollars(answered)}"


def _store(settings: Settings, store: object | None) -> Row:
    if store is not None:
        return "store", str(getattr(store, "name", type(store).__name__)), "", "argument"
    return "store", str(settings["store"].value), "", settings["store"].origin


def _limits(settings: Settings) -> list[Row]:
    rows = [
        (f"at most {key.removeprefix('limits.max_')}", value, "", origin)
        for key, value, origin in settings.rows()
        if key.startswith("limits.max_") and value != "none"
    ]
    return rows or [
        ("limits", "none: max_usd=, max_calls=, max_tokens=, max_seconds= set them", "", "default")
    ]
