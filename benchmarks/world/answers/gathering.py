"""Answers to those prompts of the shipped plans that are about several records at once."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from benchmarks.world.answers.raptor import summed_up
from benchmarks.world.answers.words import distinct
from benchmarks.world.messages import names_in, sentences_of
from benchmarks.world.requests import Record

Answer = dict[str, Any]


def merged(records: Sequence[Record], _: Record) -> Answer:
    """All sentences, each once; and a heading."""
    text = _text(records, "summary")
    return {"name": heading(text) or records[0]["name"], "summary": text}


def heading(text: str) -> str:
    """After the name that most of the sentences of a text name; of equals the first in the
    alphabet.
    """
    named = Counter(name for sentence in distinct([text]) for name in names_in(sentence))
    most = min(named, key=lambda name: (-named[name], name), default="")
    return f"Around {most}" if most else ""


def united(records: Sequence[Record], _: Record) -> Answer:
    """All sentences, each once."""
    return {"summary": _text(records, "summary")}


def retold(records: Sequence[Record], context: Record) -> Answer:
    """The known summary, then the sentences of the episodes, each once."""
    said = [
        " ".join(sentences_of(r["content"])) if "content" in r else r["summary"] for r in records
    ]
    return {"summary": " ".join(distinct([context.get("known", ""), *said]))}


def stated(records: Sequence[Record], _: Record) -> Answer:
    """The facts, each once."""
    return {"summary": _text(records, "fact" if "fact" in records[0] else "summary")}


def about(records: Sequence[Record], context: Record) -> Answer:
    """The sentences of the episodes that hold a name."""
    said, name = distinct([retold(records, {})["summary"]]), context.get("name", "").lower()
    return {"summary": " ".join(s for s in said if name in s.lower())}


def _text(records: Sequence[Record], field: str) -> str:
    return " ".join(distinct([re.sub(r"\s+", " ", record[field] or "") for record in records]))


GROUPS: Mapping[str, Callable[[Sequence[Record], Record], Answer]] = {
    "merge_summaries": merged, "merge_texts": united, "summarise_saga": retold, "summarise_from_episodes": about,
    "sum_up_passages": summed_up, "summarise_facts": stated,
}  # fmt: skip
