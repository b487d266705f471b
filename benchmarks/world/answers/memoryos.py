"""Answers to the prompts of plans/memories/memoryos: what a turn is about, what is known, who somebody
is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from benchmarks.world.answers import mem0
from benchmarks.world.answers.raptor import WORDS, fitting, once, statements
from benchmarks.world.answers.reading import listed
from benchmarks.world.messages import claims_in, names_of
from benchmarks.world.requests import Record

Answer = dict[str, Any]
_TALK = "A talk about "


def described(record: Record) -> Answer:
    """The names of the message. It carries on the talk before it if it names one of its names."""
    text, before = record["text"], record["chain_before"] or ""
    names = _subjects(text)
    known = before.removeprefix(_TALK).removesuffix(".").split(", ") if before else []
    goes_on = bool(set(known) & set(names))
    chain = list(dict.fromkeys([*known, *names])) if goes_on else names
    return {
        "chain": f"{_TALK}{', '.join(chain)}.",
        "summary": f"{_TALK}{', '.join(names)}.",
        "keywords": names,
    }


def _subjects(text: str) -> list[str]:
    """Those that the claims of a text are about; without claims, its names."""
    found = [name for c in claims_in(text) for name in (c.subject, c.target) if name]
    return list(dict.fromkeys(found)) or names_of(text)


def knowledge(record: Record) -> Answer:
    """The claims of the messages."""
    messages = listed(record["messages"])
    said = [{**one, "text": one["text"].removeprefix(f"{one['speaker']}: ")} for one in messages]
    found = mem0.remembered({"summary": "", "recent": [], "messages": said})["remembered"]
    return {"knowledge": [{"fact": one["statement"], "message": one["message"]} for one in found]}


def profile(record: Record) -> Answer:
    """The statements of the profile and the messages about the person, as many as fit."""
    texts = [*(record["so_far"] or "").splitlines(), *listed(record["messages"])]
    every = once(statements((text, None) for text in texts))
    found = [one for one in every if record["name"] in one.line]
    return {"profile": "\n".join(one.line for one in fitting(found, WORDS))}


ROWS: Mapping[str, Callable[[Record], Answer]] = {
    "chain summary keywords": described, "knowledge": knowledge, "profile": profile,
}  # fmt: skip
