"""Answers to the prompts of plans/memories/graphrag: elements of turns, reports on communities, points
for a question.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from benchmarks.world.answers.judging import is_form_of
from benchmarks.world.answers.raptor import fitting, once, statements
from benchmarks.world.answers.reading import listed
from benchmarks.world.claims import ENDS, Claim
from benchmarks.world.messages import claims_in, names_in, names_of
from benchmarks.world.requests import Record

Answer = dict[str, Any]
WORDS = 1000
"""Of a report, at most, as its prompt has it."""
_KINDS = {"job": "organisation", "left": "organisation", "home": "place", "lead": "project", "handed": "project"}  # fmt: skip
_ASKED = {
    "job": r"\b(work|works|jobs?|organisations?|leave)\b",
    "home": r"\b(live|lives|moved|places?)\b",
    "lead": r"\b(leads?|hand over)\b",
    "knows": r"\b(know|knows|whom)\b",
}
_STEPS = re.compile(r"\bthe one who|\bWho \w+ where\b")


def elements(record: Record) -> Answer:
    """The names of a turn, and its claims about two of them."""
    claims = [c for c in claims_in(record["content"]) if c.subject and c.target]
    kinds = {c.target: _KINDS.get(c.kind, "person") for c in claims}
    return {
        "entities": [{"name": n, "kind": kinds.get(n, "person")} for n in names_of(record["content"])],
        "relations": [
            {"source": c.subject, "target": c.target, "description": c.text, "strength": 5} for c in claims
        ],
    }  # fmt: skip


def report(record: Record) -> Answer:
    """A finding about each subject: its statements with their days, each once."""
    shown = listed(record["relations"])
    found = [(one, s) for one in shown for s in statements([(one["states"], one["said"])])]
    kept = fitting(once(sorted((s for _, s in found), key=lambda s: s.at)), WORDS)
    subjects = list(dict.fromkeys(s.claim.subject for s in kept))
    findings = []
    for name in subjects:
        text = "\n".join(s.line for s in kept if s.claim.subject == name)
        relations = [one["number"] for one, s in found if s.claim.subject == name]
        findings.append({"text": text, "relations": relations})
    title = ", ".join(subjects[:3])
    summary = f"{title} and others belong together." if title else ""
    return {
        "title": title, "summary": summary, "rating": min(10.0, len(shown) / 2), "findings": findings
    }  # fmt: skip


def chosen(record: Record) -> Answer:
    """Where to look: a question without a name is about all."""
    return {"scope": "named" if names_in(record["question"]) else "all"}


def points(record: Record) -> Answer:
    """Of each finding the statements of the kinds that the question is about, if one of them is about
    whom it names, or the question leads over others.
    """
    question = record["question"]
    kinds = {kind for kind, words in _ASKED.items() if re.search(words, question)}
    names = [] if _STEPS.search(question) else names_in(question)
    read = [(one, statements([(one["text"], None)])) for one in listed(record["findings"])]
    known = {end for _, said in read for s in said for end in (s.claim.subject, s.claim.target)}
    meant = {end for end in known if any(_means(end, name, known) for name in names)}
    found = []
    for one, told in read:
        said = [s for s in told if _kind(s.claim) in kinds]
        if said and (not names or any({s.claim.subject, s.claim.target} & meant for s in said)):
            point, score = "\n".join(s.line for s in said), 90 if names else 60
            found.append({"point": point, "score": score, "findings": [one["number"]]})
    return {"points": found}


def _kind(claim: Claim) -> str:
    return ENDS.get(claim.kind, claim.kind)


def _means(end: str, name: str, known: set[str]) -> bool:
    """Whether a name in a finding is the one in the question; a short one may be somebody else's."""
    if not is_form_of(end, name):
        return False
    length = len(end.split())
    fuller = {o for o in known if len(o.split()) > length and is_form_of(end, o)}
    return length >= len(name.split()) or fuller <= {name}


ROWS: Mapping[str, Callable[[Record], Answer]] = {
    "entities relations": elements, "title summary rating findings": report, "scope": chosen, "points": points,
}  # fmt: skip
