"""Answers to the prompts of plans/memories/hipporag: names, triples, and the triples that help with a
question.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from benchmarks.world.answers.judging import is_form_of
from benchmarks.world.answers.reading import listed
from benchmarks.world.claims import Claim
from benchmarks.world.messages import claims_in, names_in, names_of
from benchmarks.world.requests import Record

Answer = dict[str, Any]


def named(record: Record) -> Answer:
    """The names of a passage."""
    return {"named_entities": names_of(record["text"])}


def triples(record: Record) -> Answer:
    """The claims of a passage, in the words of their sentences between the two names."""
    found = [c for c in claims_in(record["text"]) if c.subject and c.target]
    told = [{"subject": c.subject, "relation": _between(c), "object": c.target} for c in found]
    return {"triples": told}


def _between(claim: Claim) -> str:
    ends = re.escape(claim.subject), re.escape(claim.target)
    match = re.match(rf"{ends[0]} (.+?) {ends[1]}\b", claim.text)
    return match[1] if match else "is about"


def helpful(record: Record) -> Answer:
    """The triples with a name of the question in them."""
    names = names_in(record["question"])
    triples = [(one["number"], names_in(one["triple"])) for one in listed(record["triples"])]
    found = [n for n, others in triples if any(is_form_of(a, b) for a in names for b in others)]
    return {"helpful": found}


ROWS: Mapping[str, Callable[[Record], Answer]] = {
    "named_entities": named,
    "triples": triples,
    "helpful": helpful,
}
