"""Answers to the prompts of the shipped plans. The answer about a record depends on that record
alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from benchmarks.world.answers import amem, graphrag, hipporag, lightmem, mem0, memoryos
from benchmarks.world.answers.gathering import heading
from benchmarks.world.answers.judging import same, verdict
from benchmarks.world.answers.mentions import mentions, relations
from benchmarks.world.answers.reading import entities, facts, graph, linked, listed
from benchmarks.world.answers.words import distinct
from benchmarks.world.claims import read
from benchmarks.world.dates import dated
from benchmarks.world.messages import claims_in
from benchmarks.world.requests import Record

Answer = dict[str, Any]


def dates(record: Record) -> Answer:
    """The validity of a fact, from its words."""
    claim = read(record["fact"])
    if claim is None:
        return {"since": None, "until": None}
    told = dated(claim, record["said_at"])
    return {"since": told.since, "until": told.until}


def judged(record: Record) -> Answer:
    """The validity of a fact, and its relation to each known one."""
    found = [
        (known["number"], verdict(record["fact"], known["fact"]))
        for known in listed(record["known"])
    ]
    lists = {
        name: [n for n, said in found if said == name] for name in ("duplicate", "contradicts")
    }
    return dates(record) | {"duplicates": lists["duplicate"], "contradicts": lists["contradicts"]}


def placed(record: Record) -> Answer:
    """The candidate of each open name; the relation of each new fact to the known ones with its
    numbers.
    """
    entities = {k["number"]: k for k in listed(record["entities"])}
    known = {k["number"]: k["fact"] for k in listed(record["known"])}
    names, facts = [], []
    for name in listed(record["open_names"]):
        shown, own = [entities[number] for number in name["candidates"]], name["name"]
        said = own, record["content"]
        held = (k["number"] for k in shown if same(*said, k["name"], k["known"] or ""))
        names.append({"number": name["number"], "known": next(held, None)})
    for fact in listed(record["open_facts"]):
        shown = [{"number": number, "fact": known[number]} for number in fact["compare"]]
        told = judged({"fact": fact["fact"], "known": shown, "said_at": record["valid_at"]})
        when = {} if fact["date"] else {"since": None, "until": None}
        facts.append({"number": fact["number"]} | told | when)
    return {"names": names, "facts": facts}


def summary(record: Record) -> Answer:
    """The known statements, each once, without ended and contradicted ones; if there are none, the
    sentences with the name.
    """
    if "gone" in record:
        over = set(listed(record["gone"]))
        told = re.split(r"(?<=[.!?])\s+", record["before"] or "") + listed(record["pending"])
        left = dict.fromkeys(line for line in told if line and line not in over)
        return {"summary": " ".join(left)}
    if "history" in record:
        return {"summary": " ".join(_mended(record))}
    lines = [line.strip() for line in (record["text"] or "").splitlines() if line.strip()]
    if not lines:
        said = [re.split(r"(?<=[.!?])\s+", text) for text in listed(record["heard"])]
        name = record["name"].lower()
        lines = [part for parts in said for part in parts if name in part.lower()]
    return {"summary": " ".join(dict.fromkeys(lines))}


def _mended(record: Record) -> list[str]:
    """The sentences of a summary after new messages: their claims about the name replace those that
    they contradict. If there are none at all, the sentences with the name.
    """
    name, history, heard = record["name"], listed(record["history"]), listed(record["heard"])
    left = distinct([record["known"] or ""])
    for claim in (claim for text in heard for claim in claims_in(text, history)):
        if name in {claim.subject, claim.target}:
            verdicts = {line: verdict(claim.text, line) for line in left}
            left = [line for line in left if verdicts[line] != "contradicts"]
            left += [] if "duplicate" in verdicts.values() else [claim.text]
    return left or [line for line in distinct(heard) if name.lower() in line.lower()]


def named(record: Record) -> Answer:
    """A heading for a text."""
    return {"name": heading(record["summary"] or "")}


def compared(left: Record, right: Record) -> Answer | None:
    """The relation of a new fact to a known one; None: none."""
    found = verdict(left["fact"], right["old.fact"])
    return {"verdict": found} if found else None


def weighed(record: Record) -> Answer:
    """The related facts that state the same, and the candidates that a new fact ends."""
    said = {
        name: [(k["number"], verdict(record["fact"], k["fact"])) for k in listed(record[name])]
        for name in ("related", "candidates")
    }
    return {
        "identical": [n for n, told in said["related"] if told == "duplicate"],
        "contradicted": [n for n, told in said["candidates"] if told == "contradicts"],
    }


def matched(left: Record, right: Record) -> Answer | None:
    """An empty answer where two facts say the same, or a name in a message is that of a known entity
    of no other type.
    """
    if "old.fact" in right:
        return {} if verdict(left["fact"], right["old.fact"]) == "duplicate" else None
    mine, kinds = (str(side.get("kind") or "").partition(":")[0] for side in (left, right))
    if mine and kinds and mine not in kinds.split(", "):
        return None
    known = right["cand.name"], right.get("known") or ""
    said, spoken = [left["content"]], f"{left['name']}("
    if said[0].startswith(spoken):  # a speaker is the one who spoke before
        said += [text for text in listed(left["history"]) if text.startswith(spoken)]
    return {} if same(left["name"], "\n".join(said), *known) else None


ROWS: Mapping[str, Callable[[Record], Answer]] = {
    "entities": entities, "facts": facts, "entities facts": graph, "since until": dates,
    "since until duplicates contradicts": judged, "names facts": placed, "identical contradicted": weighed,
    "summary": summary, "name": named, "mentions": mentions, "relations": relations, **mem0.ROWS,
    **amem.ROWS, **graphrag.ROWS, **hipporag.ROWS, **lightmem.ROWS, **memoryos.ROWS,
}  # fmt: skip
DATED: Mapping[str, Callable[..., Answer]] = {
    "facts": facts,
    "entities facts": graph,
    "read": linked,
}
PAIRS: Mapping[str, Callable[[Record, Record], Answer | None]] = {
    "verdict": compared,
    "match": matched,
}
