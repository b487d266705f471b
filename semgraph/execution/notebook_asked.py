"""What was asked and answered in a run, as HTML for notebooks: a fold for each row. Everything is escaped."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from semgraph.execution.calls import exchanges, read_answers
from semgraph.execution.likeness import parsed
from semgraph.execution.runs import Run

if TYPE_CHECKING:
    from semgraph.llm.journal import Exchange

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
            yield from (_fold(found, lookup) for found in list(rows.values())[:ROWS])


def _fold(items: Sequence[Mapping[str, Any]], lookup: Lookup) -> str:
    said = "; ".join(_answer(item) for item in items)
    head = f"<summary>{_brief(parsed(items[0].get('left')))} → {_cut(said, _BRIEF)}</summary>"
    calls = dict.fromkeys(call for item in items for call in item.get("calls") or ())
    return f"<details>{head}{''.join(_call(call, lookup(call)) for call in calls) or '<p>no call</p>'}</details>"


def _answer(item: Mapping[str, Any]) -> str:
    if item.get("error"):
        return f"no answer: {item['error']}"
    answers = {name: value for name, value in item.items() if name not in _FIXED and value is not None}
    return _plain(answers)


def _call(call: str, found: Exchange | None) -> str:
    if found is None:
        return f"<p>call {escape(call)}: the journal does not have it</p>"
    usage, reply = found.reply.usage, found.reply
    parts = [f"<p>{escape(reply.model)} · {usage.prompt:,} → {usage.completion:,} tokens · {reply.seconds:.1f} s</p>"]
    texts = [*((message.role, message.content) for message in found.request.messages), ("answer", reply.text)]
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
