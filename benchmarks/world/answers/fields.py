"""Answers of any schema, from the claims in a text: field by field, by the fields' names and
types.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from benchmarks.world.answers.words import Asked, apart, bare, distinct, holds, strength
from benchmarks.world.claims import Claim
from benchmarks.world.dates import dated
from benchmarks.world.messages import claims_in, names_in, speaker_of
from benchmarks.world.requests import NotUnderstood

Schema = Mapping[str, Any]
_JSON = re.compile(r"(?:\[[\[{\"].*\]|\{\".*\})\s*$")
_NUMBERED = '{"number":'
"""How records begin that an answer names by their numbers."""
_TIME = re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d)?(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)")
# The names of the kinds of claims in values of an enumeration.
CALLED = {
    "job": r"job|work|employ|career", "home": r"home|mov|resid|place|city|liv", "lead": r"lead|project|manag",
    "knows": r"know|friend|social|tie", "left": r"left|leav|quit|resign|job|work|employ", "handed": r"hand|lead|project",
}  # fmt: skip
_NOTHING = re.compile(r"none|other|nothing|small.?talk|chat|unknown|neither", re.IGNORECASE)
Value = Any


@dataclass(frozen=True)
class Source:
    """The text that fields are filled from, and the question about it."""

    question: str
    rules: str = ""

    @cached_property
    def asked(self) -> Asked:
        """The question apart: its text without the "that" clause."""
        asked = apart(self.question)
        return asked if asked.wanted else replace(apart(self.rules), text=self.question)

    @cached_property
    def said_at(self) -> str | None:
        """The time of the text, from the question."""
        match = _TIME.search(self.question)
        return match[0] if match else None

    @cached_property
    def claims(self) -> list[Claim]:
        """The claims of the text, dated if possible."""
        said = [claim for line in lines(self.asked.text) for claim in claims_in(bare(line))]
        return [self._dated(claim) for claim in said]

    def _dated(self, claim: Claim) -> Claim:
        if self.said_at:
            return dated(claim, self.said_at)
        told = dated(claim, "0001-01-01T00:00:00Z")
        return (
            told if told.since and not told.since.startswith("0001") else replace(told, since=None)
        )

    @cached_property
    def wanted(self) -> list[Claim]:
        """The claims that match a "that" clause; without one, all."""
        clause = self.asked.wanted
        return [c for c in self.claims if clause is None or clause.met_by(c) == 1]


def lines(text: str) -> list[str]:
    """The lines of a text; of a list or record in JSON the texts in it, each as a line.

    >>> lines('Said: [{"number": 1, "text": "Ada: I live in Riga."}]')
    ['Ada: I live in Riga.']
    >>> lines('{"speaker": "Ada", "text": "I live in Riga."}')
    ['Ada: I live in Riga.']
    """
    return [part for line in text.splitlines() for part in _parts(line)]


def _parts(line: str) -> list[str]:
    match = _JSON.search(line)
    try:
        return list(_texts_in(json.loads(match[0]))) if match else [line]
    except ValueError:
        return [line]


def _texts_in(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield from value.splitlines()
    if isinstance(value, dict) and isinstance(speaker := value.get("speaker"), str):
        rest = {name: inner for name, inner in value.items() if name != "speaker"}
        for line in _texts_in(rest):
            yield line if speaker_of(line)[0] else f"{speaker}: {line}"
        return
    inside = value.values() if isinstance(value, dict) else value
    for inner in inside if isinstance(value, dict | list) else ():
        yield from _texts_in(inner)


def filled(schema: Mapping[str, Schema], source: Source) -> dict[str, Value]:
    """An answer of a schema's fields."""
    return {name: value(kind, name, source, source.wanted) for name, kind in schema.items()}


def value(schema: Schema, name: str, source: Source, claims: Sequence[Claim]) -> Value:
    """The value of one field. Raises NotUnderstood."""
    if "anyOf" in schema:
        inner = next(one for one in schema["anyOf"] if one.get("type") != "null")
        found = value(inner, name, source, claims)
        return None if found in ("", []) else found
    if "enum" in schema:
        return chosen(schema["enum"], source, claims)
    kind = str(schema.get("type"))
    if _NUMBERED in source.question and _counts(schema):
        what = f'"{name}" is a number, and the question shows numbered records'
        raise NotUnderstood(f"{what}: only the choices of the shipped plans are understood")
    if kind not in _BY_TYPE:
        raise NotUnderstood(f'no way to answer "{name}" of {dict(schema)}')
    return _BY_TYPE[kind](schema, name, source, claims)


def _counts(schema: Schema) -> bool:
    """Whether an answer is a whole number, or a list of them."""
    return "integer" in {schema.get("type"), schema.get("items", {}).get("type")}


def _text(_: Schema, name: str, source: Source, claims: Sequence[Claim]) -> str:
    found = texts(name, source, claims)
    return " ".join(found) if "summary" in name.lower() else next(iter(found), "")


def _object(schema: Schema, _: str, source: Source, claims: Sequence[Claim]) -> dict[str, Value]:
    return {
        name: value(kind, name, source, claims[:1]) for name, kind in schema["properties"].items()
    }


def _listed(schema: Schema, name: str, source: Source, claims: Sequence[Claim]) -> list[Value]:
    items = schema["items"]
    if items.get("type") == "object":
        return [value(items, name, source, [claim]) for claim in claims]
    if items.get("type") == "string" and "enum" not in items:
        return texts(name.removesuffix("s"), source, claims)
    return list(dict.fromkeys(value(items, name, source, [claim]) for claim in claims))


_BY_TYPE: Mapping[str, Callable[[Schema, str, Source, Sequence[Claim]], Value]] = {
    "boolean": lambda _, __, source, ___: holds(source.question, source.rules),
    "integer": lambda _, __, ___, claims: len(claims),
    "number": lambda _, __, source, ___: strength(source.question, source.rules),
    "array": _listed,
    "object": _object,
    "string": _text,
}


def chosen(values: Sequence[str], source: Source, claims: Sequence[Claim]) -> str:
    """The value that names the kind of the first claim; without a claim, the value for nothing;
    else the last.
    """
    if {v.lower() for v in values} == {"yes", "no"}:
        said = holds(source.question, source.rules)
        return next(v for v in values if (v.lower() == "yes") == said)
    for claim in claims:
        called = CALLED.get(claim.kind, re.escape(claim.kind.lower()))
        for one in values:
            if re.search(called, one, re.IGNORECASE):
                return one
    return next((one for one in values if _NOTHING.search(one)), values[-1])


def texts(name: str, source: Source, claims: Sequence[Claim]) -> list[str]:
    """The texts for a field, by its name, each once, in order. Raises NotUnderstood."""
    asked = set(re.findall(r"[a-z]+", name.lower()))
    for called, take in _FIELDS:
        if asked & set(called.split()):
            return [text for text in dict.fromkeys(take(source, claims)) if text]
    raise NotUnderstood(f'no field of claims is called "{name}"')


def _targets(*kinds: str) -> Callable[[Source, Sequence[Claim]], list[str]]:
    return lambda _, claims: [c.target for c in claims if c.kind in kinds]


def _names(source: Source, _: object) -> list[str]:
    return [name for line in lines(source.asked.text) for name in names_in(bare(line))]


# Words in a field's name, and their meaning; the first match counts.
_FIELDS: tuple[tuple[str, Callable[[Source, Sequence[Claim]], Sequence[str | None]]], ...] = (
    ("since from start valid date when at began", lambda _, claims: [c.since for c in claims]),
    ("until end ended to invalid", lambda _, claims: [c.until for c in claims]),
    (
        "speaker author",
        lambda source, _: [speaker_of(bare(line))[0] for line in lines(source.asked.text)],
    ),
    ("fact statement sentence claim summary text", lambda _, claims: [c.text for c in claims]),
    ("relation verb predicate", lambda _, claims: [c.relation for c in claims]),
    ("organisation organization employer company firm", _targets("job", "left")),
    ("place city town home location headquarters", _targets("home")),
    ("project", _targets("lead", "handed")),
    ("friend acquaintance", _targets("knows")),
    ("target object other", lambda _, claims: [c.target for c in claims]),
    (
        "person people who subject source name",
        lambda source, claims: [c.subject for c in claims] or _names(source, claims),
    ),
    ("entity entitie thing mention names", _names),
    ("occupation position industry category type duration", lambda *_: []),  # never told
)


def combined(
    schema: Mapping[str, Schema], source: list[Source], earlier: Sequence[Mapping[str, Value]]
) -> dict[str, Value]:
    """One answer for several texts and earlier answers: sentences and lists united, numbers added,
    else the commonest.
    """
    answers = [*earlier, *(_one(schema, one) for one in source)]
    return {
        name: _united(kind, [answer[name] for answer in answers]) for name, kind in schema.items()
    }


def _one(schema: Mapping[str, Schema], source: Source) -> dict[str, Value]:
    """The share of a text in a summary: its sentences."""
    free = {name: kind for name, kind in schema.items() if _is_text(kind)}
    said = " ".join(claim.text for claim in source.wanted)
    rest = filled({name: kind for name, kind in schema.items() if name not in free}, source)
    return {name: said if name in free else rest[name] for name in schema}


def _is_text(schema: Schema) -> bool:
    inner = next(
        (one for one in schema.get("anyOf", [schema]) if one.get("type") != "null"), schema
    )
    return inner.get("type") == "string" and "enum" not in inner and "format" not in inner


def _united(schema: Schema, values: Sequence[Value]) -> Value:
    if _is_text(schema):
        return " ".join(distinct([v for v in values if v]))
    kept = [v for v in values if v is not None]
    if kept and isinstance(kept[0], list):
        flat = [item for value in kept for item in value]
        return [item for i, item in enumerate(flat) if item not in flat[:i]]
    if kept and isinstance(kept[0], bool):
        return any(kept)
    if kept and isinstance(kept[0], int | float):
        return sum(kept)
    return Counter(map(str, kept)).most_common(1)[0][0] if kept else None
