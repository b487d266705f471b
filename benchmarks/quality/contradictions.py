"""Stories of two messages each: the second ends a fact of the first, or ends none.

What is tried is chosen on the stories of `development`; those of `test` have no influence.
A story has the known facts, the words by which each is recognised in a graph, what the new fact is
to it, and the new fact itself.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.quality.asking import Asking, Figures, rounded
from semgraph.expr.functions import key
from semgraph.frontend.load import load_plan

DATA = Path(__file__).parent / "data" / "contradictions.jsonl"
PLAN = Path(__file__).parents[2] / "plans" / "add_episode.yaml"
SPLITS = ("test", "development")
GIVEN, READ = "facts are given", "messages are read"
_BEGIN = datetime(2025, 3, 3, 9, tzinfo=UTC)
_ENDS = "contradicts"


@dataclass(frozen=True)
class Story:
    """Two messages, and the facts in them.

    Args:
        name: What it is about.
        split: development or test.
        turns: The messages.
        known: The facts of the first: `fact`, `words`, `is` (contradicts, duplicate, neither).
        new: The fact of the second.
    """

    name: str
    split: str
    turns: Sequence[str]
    known: Sequence[Mapping[str, Any]]
    new: str

    def recognised(self, fact: str) -> int | None:
        """The number of the known fact that a sentence states: that with the most of its words, all
        of which the sentence has.
        """
        sentence = key(fact)
        fits = [
            (len(one["words"]), -number)
            for number, one in enumerate(self.known)
            if all(key(word) in sentence for word in one["words"])
        ]
        return -max(fits)[1] if fits else None


def stories(split: str) -> list[Story]:
    """The stories of one split."""
    lines = DATA.read_text(encoding="utf-8").splitlines()
    return [Story(**line) for line in map(json.loads, lines) if line["split"] == split]


async def contradicted(own: Asking, split: str, how: str) -> Figures:
    """Whether the facts that should end do, and no others: of given facts, or of messages that are
    read by add_episode.
    """
    chosen = [story for story in stories(split) if how == GIVEN or story.turns]
    if how == READ:
        own.afford([turn for story in chosen for turn in story.turns], 2, "reading the stories")
    ended = [await (_compared if how == GIVEN else _read)(own, story) for story in chosen]
    return _figures(chosen, ended)


async def _compared(own: Asking, story: Story) -> set[int | None]:
    """The numbers of the known facts that the new one contradicts, by the step that compares."""
    fact = {
        "uuid": "new",
        "group_id": story.name,
        "said_at": _BEGIN,
        "fact": story.new,
        "valid_at": _BEGIN,
        "invalid_at": None,
    }
    pairs = [
        {
            "uuid": "new",
            "known": str(n),
            "pool": "rival",
            "old": {"fact": known["fact"]},
            "rank": n + 1,
        }
        for n, known in enumerate(story.known)
    ]
    result = await own.run("ask_apart", facts=[fact], pairs=pairs)
    return {
        int(row["known"])
        for row in result.tables["verdicts"].to_pylist()
        if row["verdict"] == _ENDS
    }


async def _read(own: Asking, story: Story) -> set[int | None]:
    """The numbers of the known facts that end with the last message; None: a fact that is no known
    one.
    """
    group = key(story.name).replace(" ", "_")
    rows = [
        {"group_id": group, "valid_at": _BEGIN + timedelta(days=n), "content": text}
        for n, text in enumerate(story.turns)
    ]
    await own.run("add_episode", episodes=rows[:-1])
    before = await _open(own, group)
    await own.run("add_episode", episodes=rows[-1:])
    after = await _open(own, group)
    return {story.recognised(fact) for uuid, fact in before.items() if uuid not in after}


async def _open(own: Asking, group: str) -> dict[str, str]:
    """The facts of a group without an end."""
    table = await own.store.scan("RELATES_TO", _columns(), [group], ())
    return {row["uuid"]: row["fact"] for row in table.to_pylist() if row["invalid_at"] is None}


@cache
def _columns() -> list[str]:
    return list(load_plan(PLAN).graph.labels["RELATES_TO"].columns)


def _figures(chosen: Iterable[Story], ended: Iterable[set[int | None]]) -> Figures:
    right, wrong, missed = list[str](), list[str](), list[str]()
    for story, numbers in zip(chosen, ended, strict=True):
        due = {n for n, known in enumerate(story.known) if known["is"] == _ENDS}
        right += [story.name for _ in numbers & due]
        wrong += [story.name for _ in numbers - due]
        missed += [story.name for _ in due - numbers]
    ends, found = len(right) + len(missed), len(right) + len(wrong)
    return {
        "to end": ends,
        "ended": len(right),
        "ended wrongly": len(wrong),
        "recall": rounded(len(right) / ends if ends else None),
        "precision": rounded(len(right) / found if found else None),
        "missed": ", ".join(missed),
        "wrong": ", ".join(wrong),
    }
