"""Answers to the prompts of plans/memories/amem: what a turn is about, and which notes belong
together. Two notes do if they name somebody or something in common.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from benchmarks.world.answers.judging import is_form_of
from benchmarks.world.answers.reading import listed
from benchmarks.world.messages import claims_in, names_of, speaker_of
from benchmarks.world.requests import Record

Answer = dict[str, Any]
_TAGS = {
    "job": "work", "left": "work", "home": "home", "lead": "projects", "handed": "projects", "knows": "friends",
}  # fmt: skip


def described(record: Record) -> Answer:
    """Names and verbs; who talks about whom; kinds of claims."""
    text, claims = record["text"], claims_in(record["text"])
    speaker = speaker_of(text)[0]
    verbs = [claim.relation.lower().replace("_", " ") for claim in claims]
    names = [name for name in names_of(text) if name != speaker]
    return {
        "keywords": list(dict.fromkeys([*names, *verbs])),
        "context": _context(names_of(text)),
        "tags": list(dict.fromkeys(_TAGS.get(c.kind, "talk") for c in claims)) or ["small talk"],
    }


def _context(names: Sequence[str]) -> str:
    return f"A talk about {', '.join(names)}."


def linked(record: Record) -> Answer:
    """Links to the notes nearby that share a name with the new one. Their context gets its names,
    and their tags its tags.
    """
    names, tags = _named(record["text"]), listed(record["tags"])
    links, changes = [], []
    for note in listed(record["near"]):
        mine = _named(note["text"])
        if not any(is_form_of(a, b) for a in names for b in mine):
            continue
        links.append(note["number"])
        known = note["context"].removeprefix("A talk about ").removesuffix(".").split(", ")
        context = _context(list(dict.fromkeys([*known, *names])))
        both = list(dict.fromkeys([*note["tags"], *tags]))
        if (context, both) != (note["context"], note["tags"]):
            changes.append({"note": note["number"], "context": context, "tags": both})
    return {"links": links, "own_tags": [], "changes": changes}


def _named(text: str) -> list[str]:
    """Those that the claims of a text are about; who speaks of others is none of them."""
    return list(
        dict.fromkeys(name for c in claims_in(text) for name in (c.subject, c.target) if name)
    )


ROWS: Mapping[str, Callable[[Record], Answer]] = {
    "keywords context tags": described, "links own_tags changes": linked,
}  # fmt: skip
