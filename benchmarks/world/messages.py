"""Messages of a chat: who speaks, which names are named, and which claims are made."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from benchmarks.world.claims import NAME, Claim, read, straight
from benchmarks.world.dates import MONTHS

_NO_NAMES = frozenset(
    re.findall(
        r"\w+",
        """
    A After An And Are At Before But Did Do Does Dear Finally For From Good Great Have He Hello Hi His Her How I In Is It
    Its Last My Next No Now Oh On Once Our Per Say She Since So Thanks That The Their Then They This Today Tomorrow
    We What When Where Which Who Why Yes Yesterday You Your Monday Tuesday Wednesday Thursday Friday Saturday Sunday""",
    )
) | frozenset(MONTHS)
_SPEAKER = re.compile(rf"^(?P<name>{NAME}|\w+)(?:\(\w+\))?: ")
_FIRST_PERSON = {
    "I'm": "is", "I am": "is", "I've": "has", "I have": "has", "I'll": "will", "I work": "works", "I live": "lives",
    "I lead": "leads", "I own": "owns", "I know": "knows", "I like": "likes", "I love": "loves", "I manage": "manages",
    "I do": "does", "I no longer work": "no longer works", "I no longer lead": "no longer leads", "I no longer": "no longer",
}  # fmt: skip
_IN_THIRD_PERSON = [
    (re.compile(rf"^{first}\b"), third)
    for first, third in sorted(_FIRST_PERSON.items(), key=lambda pair: -len(pair[0]))
]
_PRONOUN = re.compile(r"^(?:She|He) (?=[a-z])")
_PROJECT_DEADLINE = re.compile(rf"The (?P<p>{NAME}|project) deadline is (?P<day>.+?)(?:,.*)?\.")
_MET = re.compile(rf"(?P<names>{NAME}(?:, {NAME})+) met\.")


def speaker_of(message: str) -> tuple[str, str]:
    """The speaker of a message ("" if it names none), and the text."""
    match = _SPEAKER.match(message)
    if match is None:
        return "", message
    name = match["name"]
    return (name if name[0].isupper() else ""), message[match.end() :]


def names_in(text: str) -> list[str]:
    """Names in a text, in order, each once."""
    found = []
    for match in re.finditer(NAME, re.sub(r"'s\b", ",", text)):
        words = match[0].split()
        while words and (
            words[0] in _NO_NAMES or re.fullmatch(r"I('\w+)?|[A-Z][a-z]+'(m|re|s|ve|ll)", words[0])
        ):
            words.pop(0)
        name = " ".join(words)
        if name and not name[0].isdigit():
            found.append(name)
    return list(dict.fromkeys(found))


def names_of(message: str, history: Sequence[str] = ()) -> list[str]:
    """Names in a message, in their fullest form, also those behind "she" and "the project"."""
    speaker, said = speaker_of(message)
    found = [*([speaker] if speaker else []), *names_in(said)]
    if re.search(r"\bthe project\b", said, re.IGNORECASE) and project_in(history):
        found.append(project_in(history))
    if re.search(r"\b(?:She|He) [a-z]", said):
        found += [claim.subject for claim in claims_in(message, history) if claim.subject]
    return list(dict.fromkeys(fullest(name, found) for name in found))


def fullest(name: str, names: Sequence[str]) -> str:
    """A first name as the full name beside it, if exactly one matches."""
    full = {other for other in names if other.startswith(name + " ")}
    return full.pop() if len(full) == 1 and " " not in name else name


def sentences_of(message: str, history: Sequence[str] = ()) -> list[str]:
    """The sentences of a message in the third person, each with a full stop."""
    speaker, said = speaker_of(message)
    found: list[str] = []
    for part in re.split(r"(?<=[.!?])\s+", said.strip()):
        sentence = straight(re.sub(r"^(Hi|Hello|Yes|No|Well), ", "", part.strip().rstrip(".!?")))
        if sentence.startswith("I"):
            for first, third in _IN_THIRD_PERSON:
                sentence = first.sub(f"{speaker or 'Somebody'} {third}", sentence)
        sentence = re.sub(r"^I (?=[a-z])", f"{speaker or 'Somebody'} ", sentence)
        if _PRONOUN.match(sentence) and (meant := _meant(found, history)):
            sentence = _PRONOUN.sub(f"{meant} ", sentence)
        if sentence:
            found.append(sentence + ".")
    return found


def _meant(before: Sequence[str], history: Sequence[str]) -> str:
    """Whom "she" means: the one that the last sentence with a name begins with."""
    said = [*(s for text in history for s in sentences_of(text)), *before]
    for sentence in reversed(said):
        if names := names_in(sentence):
            return names[0]
    return ""


def project_in(history: Sequence[str]) -> str:
    """The project that was named last."""
    named = [name for text in history for name in names_in(text) if name.startswith("Project ")]
    return named[-1] if named else ""


def claims_in(message: str, history: Sequence[str] = ()) -> list[Claim]:
    """The claims of a message, sentence by sentence; "the project" is the last one named."""
    speaker, said = speaker_of(message)
    names = [speaker, *names_in(said)]
    found: list[Claim] = []
    for sentence in sentences_of(message, history):
        met, deadline = _MET.fullmatch(sentence), _PROJECT_DEADLINE.fullmatch(sentence)
        if met:
            ties = [read(f"{a} is related to {b}.") for a, b in pairwise(met["names"].split(", "))]
            found += [tie for tie in ties if tie]
        elif deadline:
            found += _deadline(speaker, deadline["p"], deadline["day"], history)
        elif claim := read(sentence):
            found.append(_in_full(claim, names))
    return found


def _in_full(claim: Claim, names: Sequence[str]) -> Claim:
    """A claim with the full names of its message."""
    subject, target = fullest(claim.subject, names), fullest(claim.target, names)
    if (subject, target) == (claim.subject, claim.target) or subject == target:
        return claim
    rest = claim.text.removeprefix(claim.subject).replace(claim.target, target, 1)
    return replace(claim, subject=subject, target=target, text=subject + rest)


def _deadline(speaker: str, project: str, day: str, history: Sequence[str]) -> list[Claim]:
    project = project_in(history) if project == "project" else project
    if not project or not speaker:
        return []
    text = f"The deadline of {project} is {day}."
    found = [Claim(speaker, "PROJECT_DEADLINE", project, text, "deadline", day)]
    earlier = (claim for said in history for claim in claims_in(said))
    if any(claim.kind == "lead" and claim.target == project for claim in earlier):
        leads = f"{speaker} leads {project}."
        return [Claim(speaker, "LEADS", project, leads, "lead"), *found]
    return found
