"""Answers to the prompts about literal words: mentions, and the relations in a turn."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.world.messages import claims_in, names_in, sentences_of
from benchmarks.world.requests import Record

Answer = dict[str, Any]
_IS = re.compile(r"^(?P<who>.+?) is an? (?P<what>[A-Za-z ]+?)\.$")
_ALSO = re.compile(r"^(?P<who>.+?) is also known as (?P<other>.+?)\.$")


def mentions(record: Record) -> Answer:
    """Names as written, and the roles of people."""
    found = [{"type": "NAME", "mention": name} for name in names_in(record["content"])]
    kinds = [match["what"] for s in sentences_of(record["content"]) if (match := _IS.match(s))]
    return {"mentions": [m for m in found if not any(m["mention"] in kind for kind in kinds)] + [
        {"type": "KIND", "mention": kind} for kind in kinds
    ]}  # fmt: skip


def relations(record: Record) -> Answer:
    """The relations between two of the mentions in the sentences of a turn."""
    known = _list(record["known"])
    found = []
    for sentence in sentences_of(record["content"]):
        for who, kind, whom in _said(sentence, record["content"]):
            source, target = _number(who, known), _number(whom, known)
            if source and target:
                ends = {"source": source, "target": target, "type": kind}
                found.append({**ends, "description": sentence, "confidence": 0.9})
    return {"relations": found}


def _said(sentence: str, content: str) -> list[tuple[str, str, str]]:
    if match := _ALSO.match(sentence):
        return [(match["who"], "ALSO_KNOWN_AS", match["other"])]
    if match := _IS.match(sentence):
        return [(match["who"], "IS_A", match["what"])]
    return [(c.subject, c.relation, c.target) for c in claims_in(content) if c.text == sentence]


def _number(name: str, known: Sequence[Mapping[str, Any]]) -> int | None:
    """Of the latest mention in these words; of "he", the first mention."""
    if name in {"He", "She", "It"}:
        return known[0]["number"] if known else None
    return next((m["number"] for m in reversed(known) if m["mention"] == name), None)


def _list(value: Any) -> list[dict[str, Any]]:
    return json.loads(value) if isinstance(value, str) else list(value or [])
