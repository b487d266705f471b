"""Answers to the prompts of LightMem, from the text of the prompt alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from benchmarks.world.answers.judging import verdict
from benchmarks.world.answers.mem0 import absolute, claims_of, event_of
from benchmarks.world.answers.reading import listed
from benchmarks.world.requests import Record

Answer = dict[str, Any]


def entries(record: Record) -> Answer:
    """The claims of a pack of messages, with the full names that it has and dates for relative days."""
    found = [
        {"fact": absolute(claim.text, message["at"]), "message": message["number"]}
        for message, claims in claims_of(listed(record["messages"]), [])
        for claim in claims
    ]
    return {"entries": found}


def settled(record: Record) -> Answer:
    """What later entries do to an earlier one: they name a day for it, or cannot hold together with it."""
    for later in listed(record["later"]):
        event = event_of(later["text"], later["at"], record["text"], record["at"])
        same = verdict(later["text"], record["text"]) == "duplicate"
        if event == "UPDATE" and same:
            return {"action": "update", "becomes": later["text"], "sources": [later["number"]]}
        if event in {"UPDATE", "DELETE"}:
            return {"action": "delete", "becomes": None, "sources": []}
    return {"action": "ignore", "becomes": None, "sources": []}


ROWS: Mapping[str, Callable[[Record], Answer]] = {
    "entries": entries,
    "action becomes sources": settled,
}
