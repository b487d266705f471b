"""The simulated server, which also reads the prompts of the public data sets: it answers from their
texts alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.public.memories import PLANS
from benchmarks.world import StandIn
from benchmarks.world.requests import Question, Reader, Record

_WHERE = re.compile(r"Where does (?P<who>.+) live\?")
_LEADER = re.compile(r"the leader of (?P<what>.+)")
_GOOD, _BAD = re.compile(r"\b(wonderful|moving)\b"), re.compile(r"\b(dull|tedious)\b")


class Reading(StandIn):
    """Knows where somebody lives, who leads what, and what a review means."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._public = Reader(Path(PLANS))

    def answer(self, body: Mapping[str, Any]) -> tuple[str, str]:
        """The question, and the answer."""
        if "review" not in str(body["messages"]):
            found = self._public.read(body)
            if not found.shipped:
                return super().answer(body)
            return found.skill, json.dumps(_of_row(found.skill, found.lefts[1]))
        return "review", json.dumps(_of_reviews(self._public.read(body)))


def _of_row(skill: str, record: Record) -> dict[str, Any]:
    if skill == "right":
        if "Why" in record or "cannot" in record["truth"]:
            return {"right": "not mentioned" in record["answer"].lower()}
        return {"right": record["truth"].lower() in record["answer"].lower()}
    texts = record["passages"] if "passages" in record else record["facts"] + record["said"]
    return {"answer": _home(texts, record["query"])}


def _home(texts: str, query: str) -> str:
    match = _WHERE.fullmatch(query)
    if match is None:
        return "Not mentioned"
    who = match["who"]
    if leader := _LEADER.fullmatch(who):
        led = re.search(rf"([A-Z]\w+ [A-Z]\w+) leads {re.escape(leader['what'])}", texts)
        who = led[1] if led else ""
    lives = (
        re.search(rf"{re.escape(who)} (?:lives in|has moved to) ([A-Z]\w+)", texts) if who else None
    )
    return lives[1] if lives else "Not mentioned"


def _of_reviews(question: Question) -> dict[str, Any]:
    if question.form == "row":
        return _of_review(question.said, question.schema)
    if question.form == "records":
        each = {n: _of_review(str(record), question.schema) for n, record in question.lefts.items()}
        return {"answers": [{"id": n, **found} for n, found in each.items()]}
    alike = "feel alike" in str(question.asked) + question.said + question.rules
    pairs = [
        (a, b)
        for a, b in question.pairs
        if (_good(question.lefts[a]) == _good(question.rights[b])) == alike
    ]
    return {"matches": [{"left": a, "right": b} for a, b in pairs]}


def _of_review(text: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    if "label" in schema:
        return {"label": "positive" if _good(text) else "negative"}
    if "score" in schema:
        return {"score": 3 + len(_GOOD.findall(text)) - len(_BAD.findall(text))}
    return {"answer": "yes" if _good(text) else "no"}


def _good(text: object) -> bool:
    return bool(_GOOD.search(str(text)))
