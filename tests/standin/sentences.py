"""Short English sentences: names in them, and what they say, as far as the stand-in understands."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import pairwise

_MONTHS = "January February March April May June July August September October November December".split()  # noqa: SIM905
_NO_NAMES = frozenset(
    """A After An And At Before But Dear Finally For From Good Great He Hello Hi His Her How I In It Its Last My Next No Now Oh On
    Once Our Per She Since So Thanks That The Their Then They This Today Tomorrow We What When Where Who Why Yes Yesterday You Your
    Monday Tuesday Wednesday Thursday Friday Saturday Sunday""".split()  # noqa: SIM905 - it is read more easily so
) | frozenset(_MONTHS)
_NAME = r"(?:[A-Z][\w'&-]*(?: (?:[A-Z][\w'&-]*|\d+\b))*)"
_THING = r"(?:[\w'&-]+(?: [\w'&-]+)*?)"
_REST = r"(?P<rest>(?: (?:as|in|on|since|until|from|with|once|now|again|at some time)\b.*|, .*)?)"
_SPEAKER = re.compile(rf"^(?P<name>{_NAME}|\w+)(?:\(\w+\))?: ")
_FIRST_PERSON = {
    "I'm": "is", "I am": "is", "I've": "has", "I have": "has", "I'll": "will", "I work": "works", "I live": "lives", "I lead": "leads",
    "I own": "owns", "I know": "knows", "I like": "likes", "I love": "loves", "I manage": "manages", "I no longer": "no longer",
}  # fmt: skip


@dataclass(frozen=True)
class Claim:
    """What a sentence says: `kind` groups relations that may repeat or deny each other."""

    subject: str
    relation: str
    target: str
    text: str
    kind: str
    value: str = ""
    since: str | None = None
    until: str | None = None
    undatable: bool = False


# Patterns with the relation and the kind of what they say. `s`: subject, `o`: target.
_PATTERNS: tuple[tuple[re.Pattern[str], str, str], ...] = tuple(
    (re.compile(pattern), relation, kind)
    for pattern, relation, kind in (
        (rf"(?P<s>{_NAME}) (?:no longer works (?:at|for)|left|has left|quit) (?P<o>{_THING}){_REST}\.", "LEFT", "left"),
        (
            rf"(?P<s>{_NAME}) (?:will (?:start|work) (?:at|for)|will join|plans to join) (?P<o>{_THING}){_REST}\.",
            "WILL_JOIN",
            "plan",
        ),
        (
            rf"(?P<s>{_NAME}) (?:works|worked|has started|is working) (?:at|for) (?P<o>{_THING}){_REST}\.",
            "WORKS_AT",
            "job",
        ),
        (rf"(?P<s>{_NAME}) (?:has )?joined (?P<o>{_THING}){_REST}\.", "WORKS_AT", "job"),
        (rf"(?P<s>{_NAME}) (?:lives in|lived in|moved to|has moved to) (?P<o>{_THING}){_REST}\.", "LIVES_IN", "home"),
        (rf"(?P<s>{_NAME}) is (?:currently |now )?leading (?P<o>{_NAME}){_REST}\.", "LEADING_PROJECT", "lead"),
        (rf"(?P<s>{_NAME}) leads (?P<o>{_NAME}){_REST}\.", "LEADS", "lead"),
        (rf"(?P<s>{_NAME}) is related to (?P<o>{_NAME}){_REST}\.", "RELATED_TO", "tie"),
        (
            rf"(?P<s>{_NAME}) (?!(?:is|has|was|does)\b)(?P<verb>[a-z]+(?:s|ed)) (?:(?:in|at|by|to|with) )?(?P<o>{_NAME}){_REST}\.",
            "",
            "verb",
        ),
    )
)
_DEADLINE = re.compile(rf"The (?P<p>{_NAME}|project) deadline is (?P<day>.+?)(?:,.*)?\.")
_DEADLINE_OF = re.compile(rf"The deadline of (?P<p>{_NAME}) is (?P<day>.+)\.")
_MET = re.compile(rf"(?P<names>{_NAME}(?:, {_NAME})+) met\.")


def speaker_of(message: str) -> tuple[str, str]:
    """Who says a message ("" if no name stands there), and what."""
    match = _SPEAKER.match(message)
    if match is None:
        return "", message
    name = match["name"]
    return (name if name[0].isupper() else ""), message[match.end() :]


def names_in(text: str) -> list[str]:
    """Names in a text, in order, each once."""
    found = []
    for match in re.finditer(_NAME, re.sub(r"'s\b", ",", text)):
        words = match[0].split()
        while words and (words[0] in _NO_NAMES or re.fullmatch(r"I('\w+)?|[A-Z][a-z]+'(m|re|s|ve|ll)", words[0])):
            words.pop(0)
        name = " ".join(words)
        if name and not name[0].isdigit():
            found.append(name)
    return list(dict.fromkeys(found))


def sentences_of(message: str) -> list[str]:
    """The sentences of a message in the third person, each with a full stop."""
    speaker, said = speaker_of(message)
    found = []
    for part in re.split(r"(?<=[.!?])\s+", said.strip()):
        sentence = re.sub(r"^(Hi|Hello|Yes|No|Well), ", "", part.strip().rstrip(".!?"))
        for first, third in _FIRST_PERSON.items():
            sentence = re.sub(rf"^{first}\b", f"{speaker or 'Somebody'} {third}", sentence)
        sentence = re.sub(r"^I (?=[a-z])", f"{speaker or 'Somebody'} ", sentence)
        if sentence:
            found.append(sentence + ".")
    return found


def project_in(history: list[str]) -> str:
    """The project that was named last."""
    named = [name for text in history for name in names_in(text) if name.startswith("Project ")]
    return named[-1] if named else ""


def read(sentence: str) -> Claim | None:
    """What one sentence says, as far as it is understood."""
    deadline = _DEADLINE_OF.fullmatch(sentence)
    if deadline:
        return Claim("", "PROJECT_DEADLINE", deadline["p"], sentence, "deadline", deadline["day"])
    for pattern, relation, kind in _PATTERNS:
        match = pattern.fullmatch(sentence)
        if match:
            name = relation or match["verb"].upper()
            claim = Claim(match["s"], name, match["o"], sentence, kind if kind != "verb" else name)
            return replace(claim, undatable=bool(re.search(r"\b(once|at some time)\b", match["rest"])))
    return None


def claims_in(message: str, history: list[str]) -> list[Claim]:
    """What a message says, sentence by sentence; "the project" is the one that was named last."""
    speaker, _ = speaker_of(message)
    found: list[Claim] = []
    for sentence in sentences_of(message):
        met, deadline = _MET.fullmatch(sentence), _DEADLINE.fullmatch(sentence)
        if met:
            chain = met["names"].split(", ")
            ties = [read(f"{a} is related to {b}.") for a, b in pairwise(chain)]
            found += [tie for tie in ties if tie]
        elif deadline:
            found += _deadline(speaker, deadline["p"], deadline["day"], history)
        elif claim := read(sentence):
            found.append(claim)
    return found


def _deadline(speaker: str, project: str, day: str, history: list[str]) -> list[Claim]:
    project = project_in(history) if project == "project" else project
    if not project or not speaker:
        return []
    leads = [c for text in history for c in claims_in(text, []) if c.kind == "lead" and c.target == project]
    known = [Claim(speaker, "LEADS", project, f"{speaker} leads {project}.", "lead")] if leads else []
    text = f"The deadline of {project} is {day}."
    return [*known, Claim(speaker, "PROJECT_DEADLINE", project, text, "deadline", day)]


def dated(claim: Claim, said_at: str) -> Claim:
    """The claim with the time from which it holds, and until when: what it says, else since it was said."""
    if claim.undatable:
        return claim
    said = datetime.fromisoformat(said_at)
    text = claim.text
    if m := re.search(r"\bfrom (\d{4}) to (\d{4})\b", text):
        return replace(claim, since=_start(m[1]), until=_start(m[2]))
    if m := re.search(r"\buntil (\d{4})\b", text):
        return replace(claim, until=_start(m[1]))
    if m := re.search(r"\b(?:in|since|on) (\d{4}-\d\d-\d\d|\d{4})\b", text):
        return replace(claim, since=_start(m[1]))
    if m := re.search(rf"\b(?:in|since) ({'|'.join(_MONTHS)})(?: (\d{{4}}))?\b", text):
        month = _MONTHS.index(m[1]) + 1
        year = int(m[2]) if m[2] else said.year + (claim.kind == "plan" and month <= said.month)
        return replace(claim, since=_iso(datetime(year, month, 1, tzinfo=UTC)))
    return replace(claim, since=_iso(said))


def _start(text: str) -> str:
    return _iso(datetime.fromisoformat(text if "-" in text else f"{text}-01-01").replace(tzinfo=UTC))


def _iso(at: datetime) -> str:
    return at.astimezone(UTC).isoformat().replace("+00:00", "Z")
