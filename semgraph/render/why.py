"""The provenance chain of `semgraph why`, newest first, optionally with exact requests and answers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from semgraph.compare.comparison import Evidence
from semgraph.formats import count, dollars, duration, plural, shortened
from semgraph.provenance import UUID, AskedItem, Chain, Row
from semgraph.render.tables import cell, clipped, hanging

if TYPE_CHECKING:
    from semgraph.llm.journal import Exchange


_MORE_ROWS = 5
_KEY = 8
_TEXT = 120
_INDENT = 14


def described(chain: Chain) -> dict[str, Any]:
    """The chain as plain data, with requests and answers."""
    links = [
        {"step": link.step, "row": dict(link.row), "asked": list(map(_asked, link.asked))}
        for link in chain.links
    ]
    others = [{"step": step, "row": dict(row)} for step, row in chain.others]
    return {"run": chain.run, "what": chain.what, "links": links, "others": others}


def _asked(item: AskedItem) -> dict[str, Any]:
    calls = [{"id": call, **(_exchange(made) if made else {})} for call, made in item.calls]
    answers = {"answers": dict(item.answers), "error": item.error, "calls": calls}
    return {"left": item.left, "right": item.right} | answers


def _exchange(exchange: Exchange) -> dict[str, Any]:
    return {
        "model": exchange.model,
        "role": exchange.request.role,
        "messages": [asdict(message) for message in exchange.request.messages],
        "schema": exchange.request.schema,
        "answer": exchange.reply.text,
        "usage": asdict(exchange.reply.usage),
        "seconds": exchange.reply.seconds,
        "dollars": exchange.reply.dollars,
    }


def lines(
    chain: Chain, width: int, *, messages: bool = False, every: bool = False
) -> Iterator[str]:
    """The lines of a chain; with exact requests and answers (`messages`), and with the steps that
    left the row unchanged (`every`).
    """
    printed: set[str] = set()
    last = len(chain.links) - 1
    for i, link in enumerate(chain.links):
        if not (every or link.asked or i in (0, last)):
            continue
        row = row_text(link.row) if link.row else ""
        if i:
            yield clipped(f"← {link.step}   {row}", width)
        else:
            lead = f"{link.step}   "
            yield from hanging(lead + row, max(width, 40), min(len(lead), _INDENT))
        for item in link.asked:
            yield from _item_lines(item, width, printed, messages=messages)
    if not any(link.asked for link in chain.links):
        yield "  no model was called for it"
    if chain.others:
        yield ""
        yield f'"{chain.what}" is in {plural(len(chain.others), "more row")} of that step:'
        for step, other in chain.others[:_MORE_ROWS]:
            yield clipped(f"  {step}   {row_text(other)}", width)
        yield "  to see one of them, name its key"


def row_text(row: Row) -> str:
    """A row on one line: texts first, then shortened keys, without NULLs and hidden columns."""
    visible = {n: v for n, v in row.items() if v not in (None, "", []) and not n.startswith("_")}
    parts = sorted(visible.items(), key=lambda part: _is_key(part[1]))
    return " · ".join(f"{name} {value_text(value)}" for name, value in parts) or "(empty)"


def _is_key(value: Any) -> bool:
    return isinstance(value, str) and UUID.match(value) is not None


def value_text(value: Any) -> str:
    """A value on one line; keys are shortened."""
    if _is_key(value):
        return str(value)[:_KEY]
    if isinstance(value, dict):
        known = (f"{k} {value_text(v)}" for k, v in value.items() if v not in (None, "", []))
        return f"{{{', '.join(known)}}}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(value_text(v) for v in value) + "]"
    text = shortened(cell(value), _TEXT)
    return f"“{text}”" if isinstance(value, str) and " " in text else text


def _item_lines(item: AskedItem, width: int, printed: set[str], *, messages: bool) -> Iterator[str]:
    yield clipped(f"    asked about {value_text(item.left)}", width)
    if item.right not in (None, {}, ""):
        yield clipped(f"      beside {value_text(item.right)}", width)
    answer = f"failed: {item.error}" if item.error else row_text(item.answers)
    yield from hanging(f"      answer  {answer}", max(width, 40), _INDENT)
    if not item.calls:
        yield "      decided without a call"
    for call, exchange in item.calls:
        yield clipped(f"      {_call(call, exchange)}", width)
        if messages and exchange is not None and call not in printed:
            yield from _messages(exchange, " " * 8)
        printed.add(call)


def _call(call: str, exchange: Exchange | None) -> str:
    if exchange is None:
        return f"call {call}: the journal does not have it (any more)"
    usage, reply = exchange.reply.usage, exchange.reply
    tokens = f"{count(usage.prompt)} → {count(usage.completion)} tokens"
    return f"call {call} · {exchange.model} · {tokens} · {duration(reply.seconds)} · {dollars(reply.dollars)}"


def _messages(exchange: Exchange, indent: str) -> Iterator[str]:
    for message in exchange.request.messages:
        yield f"{indent}── {message.role}"
        yield from (f"{indent}{line}" for line in message.content.splitlines())
    yield f"{indent}── schema  {exchange.request.schema}"
    yield f"{indent}── answer"
    yield from (f"{indent}{line}" for line in exchange.reply.text.splitlines())


def evidence_lines(evidence: Evidence) -> Iterator[str]:
    """The rows of a comparison, then each question about them with its answer and exact prompt."""
    yield from (f"row {row_text(row)}" for row in evidence.rows)
    asked = "" if evidence.asked else " sent no request about it"
    yield f"← {evidence.variant}, trial {evidence.trial}{asked}"
    for item in evidence.asked:
        yield from _item_lines(item, _TEXT, set(), messages=True)
