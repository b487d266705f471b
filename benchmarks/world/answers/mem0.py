"""Answers to the prompts of Mem0 and Mem0g, from the text of the prompt alone."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from benchmarks.world.answers.judging import verdict
from benchmarks.world.answers.reading import listed
from benchmarks.world.claims import ENDS, Claim, read
from benchmarks.world.dates import dated, iso, midnight
from benchmarks.world.messages import claims_in, fullest, names_in, sentences_of
from benchmarks.world.requests import Record

Answer = dict[str, Any]
_NAMED_DAY = re.compile(r"\b\d{4}-\d\d-\d\d\b|\b\d{4}\b")
_SENTENCES = 10
_TYPES = {
    "job": "organisation",
    "left": "organisation",
    "home": "place",
    "lead": "project",
    "handed": "project",
}


def remembered(record: Record) -> Answer:
    """The claims of the new messages, with full names and with dates for relative days."""
    history = [*sentences_of(record["summary"] or ""), *listed(record["recent"])]
    found = []
    for message, claims in claims_of(listed(record["messages"]), history):
        at, number = message["at"], message["number"]
        found += [{"statement": absolute(c.text, at), "message": number} for c in claims]
    return {"remembered": found}


def claims_of(
    messages: Sequence[Record], history: Sequence[str]
) -> Iterable[tuple[Record, list[Claim]]]:
    """The claims of each message, in the names of all that is shown."""
    said = [f"{one['speaker']}: {one['text']}" for one in messages]
    names = [name for text in (*history, *said) for name in names_in(text)]
    for i, message in enumerate(messages):
        claims = claims_in(said[i], (*history, *said[:i]))
        yield message, [_in_full(claim, names) for claim in claims]


def _in_full(claim: Claim, names: Sequence[str]) -> Claim:
    subject, target = fullest(claim.subject, names), fullest(claim.target, names)
    text = subject + claim.text.removeprefix(claim.subject)
    if target != subject:
        text = subject + text.removeprefix(subject).replace(claim.target, target, 1)
    return replace(claim, subject=subject, target=target, text=text)


def absolute(text: str, at: str) -> str:
    """A text with the day before a time in place of "yesterday"."""
    day = iso(midnight(datetime.fromisoformat(at)) - timedelta(days=1))[:10]
    return re.sub(r"\byesterday\b", f"on {day}", text)


def decided(record: Record) -> Answer:
    """What happens to the first memory that the statement is about."""
    said = record["statement"], record["at"]
    each = [(event_of(*said, k["text"], k["at"]), k) for k in listed(record["known"])]
    choices = [(event, known) for event, known in each if event] or [("ADD", {})]
    event, known = next((one for one in choices if one[0] == "NOOP"), choices[0])
    return {"event": event, "memory": known.get("number"), "becomes": None}


def event_of(statement: str, at: str, known: str, known_at: str) -> str | None:
    """What a statement does to a memory; None: they are about two matters or two times."""
    told, new, old = verdict(statement, known), read(statement), read(known)
    if told == "duplicate":
        more = _NAMED_DAY.search(statement) and not _NAMED_DAY.search(known)
        return "UPDATE" if more else "NOOP"
    if told is None or new is None or old is None:
        return None
    return _change(new, at, old, known_at)


def _change(new: Claim, at: str, old: Claim, known_at: str) -> str | None:
    """The same of two claims that cannot hold together."""
    now, before = dated(new, at), dated(old, known_at)
    if new.wrong or new.kind == "never":
        return "UPDATE" if new.wrong else "DELETE"
    past = now.until or before.until or new.undatable or old.undatable
    if past or (now.since or "") < (before.since or ""):
        return None  # one is of a time before the other
    return "DELETE" if new.kind in ENDS else "UPDATE"


def overview(record: Record) -> Answer:
    """The latest sentences that name somebody or something that no later one names, in order."""
    told = [
        *sentences_of(record["summary"] or ""),
        *(s for m in listed(record["messages"]) for s in sentences_of(m)),
    ]
    kept: list[str] = []
    named: set[str] = set()
    for sentence in reversed(list(dict.fromkeys(told))):
        names = {name for name in names_in(sentence) if " " in name}
        if names - named and len(kept) < _SENTENCES:
            kept.append(sentence)
            named |= names
    return {"overview": " ".join(reversed(kept))}


def things(record: Record) -> Answer:
    """The names of the new messages, each once, with a type from what is said of them."""
    history = [*sentences_of(record["summary"] or ""), *listed(record["recent"])]
    messages = listed(record["messages"])
    shown = [*history, *(f"{one['speaker']}: {one['text']}" for one in messages)]
    names = [name for text in shown for name in names_in(text)]
    found: dict[str, Answer] = {}
    for message, claims in claims_of(messages, history):
        for name in (*_named(claims), *names_in(message["text"]), message["speaker"]):
            full = fullest(name, names)
            thing = {"name": full, "type": _type(full, claims), "message": message["number"]}
            found.setdefault(full, thing)
    return {"things": list(found.values())}


def _named(claims: Iterable[Claim]) -> list[str]:
    return [name for claim in claims for name in (claim.subject, claim.target) if name]


def _type(name: str, claims: Iterable[Claim]) -> str:
    return next((_TYPES[c.kind] for c in claims if c.target == name and c.kind in _TYPES), "person")


def triplets(record: Record) -> Answer:
    """The claims of the new messages between listed names, as name, words, name, days."""
    named = set(listed(record["names"]))
    found = []
    shown = [*named, *listed(record["recent"])]
    for message, claims in claims_of(listed(record["messages"]), shown):
        for claim in claims:
            words, _, rest = claim.text.removeprefix(claim.subject).partition(claim.target)
            if {claim.subject, claim.target} <= named and words.strip():
                days = absolute(rest.strip(" ."), message["at"]) or None
                said = {"source": claim.subject, "relation": words.strip(), "target": claim.target}
                found.append({**said, "days": days, "message": message["number"]})
    return {"triplets": found}


def ended(record: Record) -> Answer:
    """The known relations that cannot hold together with a later one about the present."""
    pairs = [
        {"known": known["number"], "fresh": fresh["number"]}
        for known in listed(record["known"])
        for fresh in listed(record["fresh"])
        if known["at"] < fresh["at"] and _over(fresh, known)
    ]
    return {"ended": pairs}


def _over(fresh: Record, known: Record) -> bool:
    """Whether a relation is over by a fresh one: they cannot hold together, and neither is of the past."""
    texts = f"{fresh['text']}.", f"{known['text']}."
    claims = [read(text) for text in texts]
    return verdict(*texts) == "contradicts" and all(
        claim is not None and dated(claim, one["at"]).until is None
        for claim, one in zip(claims, (fresh, known), strict=True)
    )


def names(record: Record) -> Answer:
    """The names in a question."""
    return {"names": names_in(record["question"])}


ROWS: Mapping[str, Callable[[Record], Answer]] = {
    "remembered": remembered, "event memory becomes": decided, "overview": overview,
    "things": things, "triplets": triplets, "ended": ended, "names": names,
}  # fmt: skip
