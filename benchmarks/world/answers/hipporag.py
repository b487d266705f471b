"""Answers to the prompts of plans/memories/hipporag: names, triples, and the triples that help with a
question.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from benchmarks.world.answers.judging import is_form_of
from benchmarks.world.answers.reading import listed
from benchmarks.world.messages import claims_in, names_in, names_of
from benchmarks.world.requests import Record

Answer = dict[str, Any]


def named(record: Record) -> Answer:
    """The names of a passage."""
    return {"named_entities": names_of(record["text"])}


def triples(record: Record) -> Answer:
    """The claims of a passage, in the words of their sentences between the two names."""
    found = claims_in(record["text"])
    return {
        "triples": [
            {"subject": c.subject, "relation": _between(c.subject, c.text, c.target), "object": c.target}
            for c in found
            if c.subject and c.target
        ]
    }  # fmt: skip


def _between(subject: str, text: str, target: str) -> str:
    match = re.match(rf"{re.escape(subject)} (.+?) {re.escape(target)}\b", text)
    return match[1] if match else "is about"


def helpful(record: Record) -> Answer:
    """The triples with a name of the question in them."""
    names = names_in(record["question"])
    return {
        "helpful": [
            one["number"]
            for one in listed(record["triples"])
            if any(is_form_of(name, other) for name in names for other in names_in(one["triple"]))
        ]
    }


ROWS: Mapping[str, Callable[[Record], Answer]] = {
    "named_entities": named,
    "triples": triples,
    "helpful": helpful,
}
