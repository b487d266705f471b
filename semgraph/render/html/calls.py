"""The calls of a page: a table in which each call opens to its prompt and answer, and the data that
this needs.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from semgraph.formats import UNKNOWN, count, dollars, duration, plural
from semgraph.provenance import Lookup
from semgraph.render.html.markup import Html, Texts, cut, el, join, table
from semgraph.render.html.records import Call, answered, sides
from semgraph.render.html.timeline import kinds

SHOWN = 1000
_ITEMS = 40
_ITEM = 4000


class Opened:
    """All calls of a page that open, numbered from 0, with their texts."""

    def __init__(self) -> None:
        self.texts = Texts()
        self.calls: list[dict[str, Any]] = []

    def add(self, call: Call, lookup: Lookup) -> int:
        """The number of a call. Its prompt and answer are kept where the journal or the record has
        them, and there is room.
        """
        found = lookup(call.id) if call.id else None
        entry: dict[str, Any] = {"id": call.id, "step": call.step}
        line = call.line
        if found is not None:
            parts = [(message.role, message.content) for message in found.request.messages]
            entry |= self._texts(parts, found.request.schema, found.reply.text)
        elif "messages" in line:
            entry |= self._texts(
                [tuple(pair) for pair in line["messages"]], line["schema"], line["answer"]
            )
        else:
            entry["lost"] = (
                "The journal does not have it (any more)." if call.id else "No text of it was kept."
            )
        if line.get("error"):
            entry["error"] = cut(str(line["error"]), _ITEM)
        entry["items"] = [self._item(item) for item in call.items[:_ITEMS]]
        entry["more"] = max(0, len(call.items) - _ITEMS)
        self.calls.append(entry)
        return len(self.calls) - 1

    def _texts(self, parts: Sequence[Any], schema: str, answer: str) -> dict[str, Any]:
        return {
            "messages": [[role, self.texts.add(content)] for role, content in parts],
            "schema": self.texts.add(_pretty(schema)),
            "answer": self.texts.add(_pretty(answer)),
        }

    def _item(self, item: Any) -> list[int | None]:
        left, right = sides(item)
        found = [left, right, item["error"] if item.get("error") else answered(item)]
        return [self.texts.add(cut(_said(value), _ITEM)) for value in found]

    @property
    def data(self) -> dict[str, Any]:
        """What the page's script reads."""
        return {"texts": self.texts.all, "calls": self.calls}


def _pretty(text: str) -> str:
    try:
        return json.dumps(json.loads(text), indent=1, ensure_ascii=False)
    except (json.JSONDecodeError, RecursionError):
        return text


def _said(value: Any) -> str:
    if value in (None, "", {}):
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def shown(calls: Sequence[Call]) -> list[Call]:
    """The calls that a page lists: all that failed (of a thousand at most), and of the others the
    first.
    """
    bad = [i for i, call in enumerate(calls) if call.line.get("error")][:SHOWN]
    good = [i for i, call in enumerate(calls) if not call.line.get("error")][
        : SHOWN - min(len(bad), SHOWN // 2)
    ]
    return [calls[i] for i in sorted({*bad, *good})]


def listed(calls: Iterable[tuple[int, Call]], total: int, began: float | None) -> Html:
    """The table.

    Args:
        calls: With their numbers on the page.
        total: How many there were.
        began: When the run began.
    """
    numbered = list(calls)
    columns: list[tuple[str, Callable[[Call], object]]] = [
        ("answer from", lambda c: kinds(c) or UNKNOWN),
        ("model", lambda c: c.line.get("model") or UNKNOWN),
        ("began after", lambda c: _since(c, began)),
        (
            "took",
            lambda c: (
                duration(c.line["seconds"] or c.line["took"]) if "took" in c.line else UNKNOWN
            ),
        ),
        ("tokens in", lambda c: _number(c, "tokens_in")),
        ("cached", lambda c: _number(c, "tokens_cached")),
        ("out", lambda c: _number(c, "tokens_out")),
        ("$", lambda c: dollars(c.line.get("dollars")) if c.line else UNKNOWN),
        ("rows", lambda c: count(len(c.items)) if c.items else UNKNOWN),
    ]
    columns = [
        column
        for column in columns
        if any(column[1](call) not in (UNKNOWN, "0") for _, call in numbered)
    ]
    rows = [[_button(n, call), call.step, *(of(call) for _, of in columns)] for n, call in numbered]
    rest = f" {count(len(numbered))} of {count(total)} are listed." if len(numbered) < total else ""
    caption = f"{plural(total, 'call')}.{rest} A call opens to its prompt, its answer, and the rows that were read from it."
    left = {"answer from", "model"}
    numbers = [i + 2 for i, (name, _) in enumerate(columns) if name not in left]
    return join([
        el("p", el("button", "Open all", type="button", cls="all"), cls="tools"),
        table(caption, ["call", "step", *(name for name, _ in columns)], rows, numbers, cls="calls"),
    ])  # fmt: skip


def _button(n: int, call: Call) -> Html:
    bad = " ✗" if call.line.get("error") else ""
    name = f"{n + 1}{bad}"
    return el(
        "button",
        name,
        type="button",
        cls="open",
        data_call=n,
        aria_expanded="false",
        aria_label=f"Call {n + 1} of {call.step}",
    )


def _since(call: Call, began: float | None) -> str:
    return (
        duration(max(0.0, call.line["at"] - began))
        if began is not None and "at" in call.line
        else UNKNOWN
    )


def _number(call: Call, name: str) -> str:
    return count(call.line[name]) if name in call.line else UNKNOWN
