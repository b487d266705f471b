"""Questions that one word answers, yes or no or a digit, and how probable each word is."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

_YES_NO = "Answer with exactly one word: yes or no."
_DIGIT = "Answer with exactly one digit, from 0 "
_LEFT = "Left record:\n"
_SURE = 0.9
_SCHEMAS: dict[str, dict[str, Any]] = {
    "answer": {"enum": ["yes", "no"]},
    "match": {"type": "boolean"},
    "score": {"type": "number"},
}
Chances = tuple[tuple[str, float], ...]


def as_json(body: Mapping[str, Any]) -> dict[str, Any] | None:
    """The chat with the same question for a JSON object; None if it does not ask for one word."""
    first, last = body["messages"][0]["content"], body["messages"][-1]["content"]
    if not body.get("logprobs") or not first.startswith((_YES_NO, _DIGIT)):
        return None
    name = "score" if first.startswith(_DIGIT) else "match" if _LEFT in last else "answer"
    rules, left, rest = last.partition(_LEFT) if name == "match" else ("", "", last)
    schema = {"type": "object", "properties": {name: _SCHEMAS[name]}, "required": [name]}
    said = [{"role": "system", "content": rules}, {"role": "user", "content": left + rest}]
    form = {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}
    return {**body, "messages": said, "response_format": form}


def chances(document: Mapping[str, Any]) -> Chances:
    """The words with their probabilities, the most probable first, equivalent to a JSON answer."""
    if "score" in document:
        digit = document["score"] / 100 * 9
        low = math.floor(digit)
        found = {str(low): 1 - digit % 1, str(low + 1): digit % 1}
    else:
        yes = document.get("answer") == "yes" or document.get("match") is True
        found = {"Yes": _SURE if yes else 1 - _SURE, "No": 1 - _SURE if yes else _SURE}
    return tuple(sorted(found.items(), key=lambda one: -one[1]))
