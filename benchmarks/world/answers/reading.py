"""Answers to the prompts that read an episode: names of users' types, names and facts at once,
values of fields.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from benchmarks.world.answers.fields import CALLED, Source, filled
from benchmarks.world.answers.judging import same, verdict
from benchmarks.world.claims import Claim
from benchmarks.world.dates import dated
from benchmarks.world.messages import claims_in, names_in, names_of, speaker_of
from benchmarks.world.requests import Record

Answer = dict[str, Any]
# The names of types, by the claims about a name.
_TARGETS = {
    "job": r"compan|organi|employ|firm",
    "home": r"place|city|town|location",
    "lead": r"project",
}
_PERSON = r"person|people|human"


def listed(value: Any) -> list[Any]:
    """A list, which the words of a prompt show as JSON."""
    return json.loads(value) if isinstance(value, str) and value else list(value or [])


def entities(record: Record) -> Answer:
    """The entities of an episode, also those behind "she" and "the project", with their types if
    the user defines any.
    """
    types = listed(record.get("kinds.shown"))
    names = _names(record)
    claims = _claims(record)
    return {"entities": [{"name": n, "kind": _kind(n, record, claims, types)} for n in names]}


def facts(record: Record, *, undated: bool = False) -> Answer:
    """The claims of an episode, with dates if requested, and the user's types of facts, if any."""
    types = [entry["type"] for entry in listed(record.get("ties.shown"))]
    found = []
    for claim in _claims(record):
        told = claim if undated else dated(claim, record["valid_at"])
        found.append(
            {
                "fact": told.text, "source": told.subject, "relation": _relation(told, types), "target": told.target,
                "valid_at": told.since, "invalid_at": told.until,
            }
        )  # fmt: skip
    return {"facts": found}


def graph(record: Record, *, undated: bool = False) -> Answer:
    """Names and facts at once."""
    return entities(record) | facts(record, undated=undated)


def attributes(record: Record, form: Mapping[str, Any]) -> Answer:
    """Values of fields, from the text; null or blank if the text has none."""
    said = record["fact"] if "fact" in record else "\n".join(listed(record["heard"]))
    fields = form["properties"]
    told = {name: kind for name, kind in fields.items() if not _is_measure(kind)}
    return {"attributes": dict.fromkeys(fields) | filled(told, Source(said))}


def _is_measure(kind: Mapping[str, Any]) -> bool:
    """Whether a field is a number or a truth that no text tells."""
    return any(one.get("type") in {"number", "boolean"} for one in kind.get("anyOf", ()))


def _names(record: Record) -> list[str]:
    if record.get("source", "") != "json" and not _is_json(record["content"]):
        return names_of(record["content"], listed(record.get("history")))
    texts = _texts(json.loads(record["content"]))
    return list(dict.fromkeys(name for text in texts for name in names_in(text)))


def _is_json(text: str) -> bool:
    return text.startswith("{") and text.endswith("}")


def _texts(value: Any) -> Iterable[str]:
    """Texts among the values of JSON."""
    if isinstance(value, str):
        yield value
    inside = value.values() if isinstance(value, dict) else value
    for inner in inside if isinstance(value, dict | list) else ():
        yield from _texts(inner)


def _claims(record: Record) -> list[Claim]:
    if _is_json(record["content"]):
        texts = _texts(json.loads(record["content"]))
        return [claim for text in texts for claim in claims_in(text)]
    return claims_in(record["content"], listed(record.get("history")))


def _kind(name: str, record: Record, claims: Iterable[Claim], types: list[Any]) -> str:
    if not types:
        return "other"
    person = name in {speaker_of(record["content"])[0], *(claim.subject for claim in claims)}
    wanted = [_TARGETS[c.kind] for c in claims if c.target == name and c.kind in _TARGETS]
    wanted += [_PERSON] if person else []
    wanted += [_TARGETS["lead"]] if name.startswith("Project ") else []
    return next(
        (t["type"] for p in wanted for t in types if re.search(p, t["type"], re.IGNORECASE)),
        "Entity",
    )


def _relation(claim: Claim, types: list[str]) -> str:
    if claim.relation in types:
        return claim.relation
    called = CALLED.get(claim.kind)
    return next(
        (t for t in types if called and re.search(called, t, re.IGNORECASE)), claim.relation
    )


def linked(record: Record, *, undated: bool = False) -> Answer:
    """Names and facts at once, with their relations to the known ones."""
    known, said = listed(record["known"]), listed(record["said"])
    found = graph(record, undated=undated)
    for entity in found["entities"]:
        own = entity["name"], record["content"]
        held = (k["number"] for k in known if same(*own, k["name"], k["summary"] or ""))
        entity["known"] = next(held, None)
    for fact in found["facts"]:
        verdicts = [(k["number"], verdict(fact["fact"], k["fact"])) for k in said]
        fact["duplicates"] = [number for number, told in verdicts if told == "duplicate"]
        fact["contradicts"] = [number for number, told in verdicts if told == "contradicts"]
    return found
