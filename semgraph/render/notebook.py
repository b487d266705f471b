"""A result as HTML, for notebooks: one line of what it took, the first rows of each table, what was
asked about each row.

Everything is escaped.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from semgraph.compare.comparison import Comparison, Evidence
from semgraph.display import as_chart, as_html, as_text
from semgraph.execution.record import Run, exchanges, read_answers
from semgraph.execution.result import Result
from semgraph.formats import UNKNOWN, dollars
from semgraph.llm.base import LLM, Embedder, Usage
from semgraph.llm.prices import price_of
from semgraph.llm.settings import Settings
from semgraph.llm.specs import ModelSpec
from semgraph.logical.prompt import show
from semgraph.provenance import parsed
from semgraph.render import comparison
from semgraph.render.why import evidence_lines

if TYPE_CHECKING:
    from semgraph.llm.journal import Exchange
if TYPE_CHECKING:
    import pyarrow as pa


ROWS = 10
_BRIEF, _TEXT = 160, 20_000
_FIXED = {"_m", "left", "right", "error", "calls"}
Lookup = Callable[[str], "Exchange | None"]


def folds(record: Path) -> Iterator[str]:
    """For each step that asked, its first rows; each opens to messages, answers and tokens."""
    with exchanges(Run(record)) as lookup:
        for step, items in read_answers(record).items():
            rows: dict[tuple[Any, str], list[Mapping[str, Any]]] = {}
            for item in items:
                rows.setdefault((item.get("_m"), str(item.get("left"))), []).append(item)
            more = f", the first {ROWS} here" if len(rows) > ROWS else ""
            yield f"<p><b>{escape(step)}</b> asked about {len(rows):,} row{'s' * (len(rows) != 1)}{more}</p>"
            yield from (_fold(items_of_row, lookup) for items_of_row in list(rows.values())[:ROWS])


def _fold(items: Sequence[Mapping[str, Any]], lookup: Lookup) -> str:
    answers = "; ".join(_answer(item) for item in items)
    head = f"<summary>{_brief(parsed(items[0].get('left')))} → {_cut(answers, _BRIEF)}</summary>"
    calls = dict.fromkeys(call for item in items for call in item.get("calls") or ())
    return f"<details>{head}{''.join(_call(call, lookup(call)) for call in calls) or '<p>no call</p>'}</details>"


def _answer(item: Mapping[str, Any]) -> str:
    if item.get("error"):
        return f"no answer: {item['error']}"
    answers = {
        name: value for name, value in item.items() if name not in _FIXED and value is not None
    }
    return _plain(answers)


def _call(call: str, found: Exchange | None) -> str:
    if found is None:
        return f"<p>call {escape(call)}: the journal does not have it</p>"
    usage, reply = found.reply.usage, found.reply
    parts = [
        f"<p>{escape(reply.model)} · {usage.prompt:,} → {usage.completion:,} tokens · {reply.seconds:.1f} s</p>"
    ]
    texts = [
        *((message.role, message.content) for message in found.request.messages),
        ("answer", reply.text),
    ]
    parts += [f"<p><i>{escape(role)}</i></p><pre>{_cut(text, _TEXT)}</pre>" for role, text in texts]
    return "".join(parts)


def _plain(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_plain(inner)}" for name, inner in value.items())
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _brief(value: Any) -> str:
    return _cut(_plain(value), _BRIEF)


def _cut(text: str, longest: int) -> str:
    return escape(text if len(text) <= longest else text[: longest - 1] + "…")


_ROWS = 10
_TEXT = 200


def html(result: Result) -> str:
    """The whole as one piece of HTML."""
    asked = folds(result.record) if result.record is not None else ()
    return "\n".join(
        ['<div class="semgraph">', *_summary(result), *_tables(result), *asked, "</div>"]
    )


class Drawing(str):
    """A drawing in characters, which a notebook shows as it stands."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return f"<pre>{escape(self)}</pre>"


def _summary(result: Result) -> Iterator[str]:
    total = result.meter.total()
    money = "price unknown" if total.dollars is None else dollars(total.dollars, exact=True)
    parts = [
        f"<b>{escape(result.plan)}</b> · run {escape(result.run)}",
        f"{total.calls_issued:,} calls (+{total.calls_journal:,} from the journal)",
        f"{total.tokens_in:,} tokens in, {total.tokens_out:,} out",
        money,
    ]
    if result.members:
        parts.append(
            f"{result.committed:,} of {result.members:,} committed, {result.skipped:,} were there"
        )
    if result.failed:
        parts.append(f"<b>{len(result.failed):,} failed</b>")
    yield f"<p>{' · '.join(parts)}</p>"
    for note in (*result.notes, *((result.stopped,) if result.stopped else ())):
        yield f"<p>! {escape(note)}</p>"


def _tables(result: Result) -> Iterator[str]:
    for name, table in result.tables.items():
        yield f"<p><b>{escape(name)}</b>: {table.num_rows:,} rows</p>"
        if table.num_rows:
            yield _table(table)


def _table(table: pa.Table) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in table.column_names)
    rows = (
        f"<tr>{''.join(f'<td>{_cell(value)}</td>' for value in row.values())}</tr>"
        for row in table.slice(0, _ROWS).to_pylist()
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def _cell(value: Any) -> str:
    text = show(value)
    return escape(text if len(text) <= _TEXT else text[: _TEXT - 1] + "…")


_MILLION = 1_000_000


def session_html(
    settings: Settings,
    llm: LLM | None = None,
    embedder: Embedder | None = None,
    store: object | None = None,
) -> str:
    """The session as a table.

    Args:
        settings: As resolved.
        llm: A model that was given as an object, and stands in place of the settings'.
        embedder: Likewise.
        store: Likewise.
    """
    rows = [
        *_models(settings, llm, embedder),
        ("store", *_store(settings, store)),
        *_limits(settings),
    ]
    head = "".join(f"<th>{name}</th>" for name in ("", "", "$ a million tokens in / out", "from"))
    body = "".join(
        f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows
    )
    return f'<div class="semgraph"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


Row = tuple[str, str, str, str]


def _models(settings: Settings, llm: LLM | None, embedder: Embedder | None) -> Iterator[Row]:
    roles = [
        key.removeprefix("models.") for key, _, _ in settings.rows() if key.startswith("models.")
    ]
    if llm is not None:
        yield "model", llm.name, _prices(llm.dollars), "given"
    for role in roles:
        if role == "embed" or llm is not None:
            continue
        spec = settings.model(role)
        name = "model" if role == "default" else f"model {role}"
        yield name, str(spec), _price(spec), settings[f"models.{role}"].origin
    if embedder is not None:
        yield "embedder", embedder.name, "", "given"
    else:
        yield "embedder", str(settings.embedder), "", settings["models.embed"].origin


def _price(spec: ModelSpec) -> str:
    if spec.provider in {"local", "recorded"}:
        return "0 (runs here)" if spec.provider == "local" else "0 (replayed)"
    price = price_of(spec.model, spec.base_url)
    return UNKNOWN if price is None else _prices(price.dollars)


def _prices(of: Callable[[Usage], float | None]) -> str:
    sent, answered = of(Usage(prompt=_MILLION)), of(Usage(completion=_MILLION))
    return f"{dollars(sent)} / {dollars(answered)}"


def _store(settings: Settings, store: object | None) -> tuple[str, str, str]:
    if store is not None:
        return str(getattr(store, "name", type(store).__name__)), "", "given"
    return str(settings["store"].value), "", settings["store"].origin


def _limits(settings: Settings) -> Iterator[Row]:
    known = {
        key: (value, origin)
        for key, value, origin in settings.rows()
        if key.startswith("limits.max_")
    }
    shown = {
        key.removeprefix("limits.max_"): found for key, found in known.items() if found[0] != "none"
    }
    if not shown:
        yield (
            "limits",
            "none: max_usd=, max_calls=, max_tokens=, max_seconds= set them",
            "",
            "default",
        )
    for name, (value, origin) in shown.items():
        yield f"at most {name}", value, "", origin


@as_html.register
def _result_html(value: Result) -> str:
    return html(value)


@as_html.register
def _comparison_html(value: Comparison) -> str:
    return comparison.html(value)


@as_text.register
def _comparison_text(value: Comparison) -> str:
    return comparison.plain(value, shutil.get_terminal_size((120, 24)).columns)


@as_chart.register
def _comparison_chart(value: Comparison) -> Any:
    return comparison.chart(value)


@as_text.register
def _evidence_text(value: Evidence) -> str:
    return "\n".join(evidence_lines(value))
