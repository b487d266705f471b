"""Answers to the prompts of the shipped plans. What is answered about a record depends on that record alone."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from benchmarks.world.answers.gathering import heading
from benchmarks.world.answers.judging import same, verdict
from benchmarks.world.claims import read
from benchmarks.world.dates import dated
from benchmarks.world.messages import claims_in, names_of
from benchmarks.world.requests import Record

Answer = dict[str, Any]


def entities(record: Record) -> Answer:
    """The speaker, the names in the message, and what "she" and "the project" stand for."""
    return {"entities": [{"name": n, "kind": "other"} for n in names_of(record["content"], _list(record["history"]))]}


def facts(record: Record, *, undated: bool = False) -> Answer:
    """The claims of the message, dated if they are asked to be."""
    found = []
    for claim in claims_in(record["content"], _list(record["history"])):
        told = claim if undated else dated(claim, record["valid_at"])
        found.append(
            {
                "fact": told.text, "source": told.subject, "relation": told.relation, "target": told.target,
                "valid_at": told.since, "invalid_at": told.until,
            }
        )  # fmt: skip
    return {"facts": found}


def dates(record: Record) -> Answer:
    """When a fact holds, from its words."""
    claim = read(record["fact"])
    if claim is None:
        return {"since": None, "until": None}
    told = dated(claim, record["said_at"])
    return {"since": told.since, "until": told.until}


def summary(record: Record) -> Answer:
    """The statements known, each once; without any, the sentences that hold the name."""
    lines = [line.strip() for line in (record["text"] or "").splitlines() if line.strip()]
    if not lines:
        said = [part for text in _list(record["heard"]) for part in re.split(r"(?<=[.!?])\s+", text)]
        lines = [part for part in said if record["name"].lower() in part.lower()]
    return {"summary": " ".join(dict.fromkeys(lines))}


def named(record: Record) -> Answer:
    """A heading for a text."""
    return {"name": heading(record["summary"] or "")}


def compared(left: Record, right: Record) -> Answer | None:
    """What a new fact is to a known one; None: nothing."""
    found = verdict(left["fact"], right["old.fact"])
    return {"verdict": found} if found else None


def matched(left: Record, right: Record) -> Answer | None:
    """An empty answer where a name in a message is that of a known entity."""
    return {} if same(left["name"], left["content"], right["cand.name"], right.get("known") or "") else None


ROWS: Mapping[str, Callable[[Record], Answer]] = {
    "entities": entities, "facts": facts, "since until": dates, "summary": summary, "name": named,
}  # fmt: skip
PAIRS: Mapping[str, Callable[[Record, Record], Answer | None]] = {"verdict": compared, "match": matched}


def _list(value: Any) -> list[str]:
    """A list, which the words of a prompt show as JSON."""
    return json.loads(value) if isinstance(value, str) and value else list(value or [])
