"""What the stand-in answers to each question about a record. A record's answer depends on that record alone."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from tests.standin.reading import Record
from tests.standin.sentences import Claim, claims_in, dated, names_in, project_in, read, speaker_of
from tests.standin.vectors import COMMON

Answer = dict[str, Any]


def entities(record: Record) -> Answer:
    """The speaker, the names in the message, and the project that it speaks of."""
    history = _list(record["history"])
    speaker, said = speaker_of(record["content"])
    found = [*([speaker] if speaker else []), *names_in(said)]
    if re.search(r"\bthe project\b", said, re.IGNORECASE) and project_in(history):
        found.append(project_in(history))
    return {"entities": [{"name": name, "kind": "other"} for name in dict.fromkeys(found)]}


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


def verdict(left: Record, right: Record) -> str | None:
    """`duplicate`, `contradicts` or None, for a new and a known fact."""
    new, known = left["fact"], right["old.fact"]
    if _words(new) == _words(known):
        return "duplicate"
    a, b = read(new), read(known)
    if a is None or b is None:
        return None
    if {a.kind, b.kind} == {"job", "left"}:
        return "contradicts" if _same(a.subject, b.subject) and _same(a.target, b.target) else None
    return _verdict(a, b) if a.kind == b.kind else None


def _verdict(a: Claim, b: Claim) -> str | None:
    subjects, targets = _same(a.subject, b.subject), _same(a.target, b.target)
    if a.kind == "deadline":
        return None if not targets else "duplicate" if a.value == b.value else "contradicts"
    if subjects and targets:
        return "duplicate"
    one_target = a.kind in {"job", "home"} and subjects
    one_subject = a.kind in {"lead", "OWNS"} and targets
    return "contradicts" if one_target or one_subject else None


def same(left: Record, right: Record) -> bool:
    """Whether a name in a message is that of a known entity: by the name, and for equal names by what is known."""
    name, known = left["name"], right["cand.name"]
    if _words(name) == _words(known):
        about = _telling(right.get("known") or "") - set(_words(name))
        return not about or bool(about & _telling(left["content"]))
    mine, theirs = set(_words(name)), set(_words(known))
    initials = "".join(word[0] for word in _words(known))
    return mine < theirs or theirs < mine or (name.isupper() and name.lower() == initials)


def summary(record: Record) -> Answer:
    """The statements known, each once; without any, the sentences that hold the name."""
    lines = [line.strip() for line in (record["text"] or "").splitlines() if line.strip()]
    if not lines:
        said = [part for text in _list(record["heard"]) for part in re.split(r"(?<=[.!?])\s+", text)]
        lines = [part for part in said if record["name"].lower() in part.lower()]
    return {"summary": " ".join(dict.fromkeys(lines))}


ROWS: Mapping[str, Callable[[Record], Answer]] = {
    "entities": entities, "facts": facts, "since until": dates, "summary": summary,
}  # fmt: skip
PAIRS: Mapping[str, Callable[[Record, Record], Answer | None]] = {
    "verdict": lambda left, right: {"verdict": v} if (v := verdict(left, right)) else None,
    "match": lambda left, right: {} if same(left, right) else None,
}


def _list(value: Any) -> list[str]:
    """A list, which the words of a prompt show as JSON."""
    return json.loads(value) if isinstance(value, str) and value else list(value or [])


def _words(text: str) -> list[str]:
    return re.findall(r"[^\W_]+", text.lower())


def _telling(text: str) -> set[str]:
    return {word for word in _words(text) if word not in COMMON and len(word) > 2}


def _same(a: str, b: str) -> bool:
    mine, theirs = set(_words(a)), set(_words(b))
    return mine <= theirs or theirs <= mine
