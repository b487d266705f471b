"""Conversations are told to a memory, and questions are answered from it; shared by both data sets of
that kind.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from benchmarks.memories.memories import Memory
from benchmarks.real.asking import Asking

PLANS = Path(__file__).parent / "plans"
DECLINED = "Not mentioned"
"""The text for scorers and judges where a memory says that it does not know."""


@dataclass(frozen=True)
class Turn:
    """A turn. `place` is the name by which questions refer to their evidence: that of the turn, or of
    its session; `number` tells apart those of one session.
    """

    group: str
    place: str
    speaker: str
    text: str
    at: datetime
    number: int = 0

    @property
    def id(self) -> str:
        """Its name among all conversations."""
        return f"{self.group}/{self.place}/{self.number}"

    @property
    def row(self) -> dict[str, Any]:
        """As write plans take it."""
        return {
            "conversation": self.group, "id": self.id, "at": self.at, "speaker": self.speaker, "text": self.text,
        }  # fmt: skip


@dataclass(frozen=True)
class Question:
    """A question to the graph of a group.

    Args:
        id: Its name.
        group: The group to search.
        text: In words.
        truth: The answer.
        kind: Its category in the data set.
        evidence: Places of the messages with the answer.
        at: The time of the question; None: after all messages.
    """

    id: str
    group: str
    text: str
    truth: str
    kind: str
    evidence: frozenset[str]
    at: datetime | None = None


@dataclass(frozen=True)
class Part:
    """Conversations and questions about them, all or some of a data set."""

    turns: Sequence[Turn]
    questions: Sequence[Question]


@dataclass(frozen=True)
class Answer:
    """An answer, and the places of turns: those that the answer cites, and those behind the records that
    it was made from, best first. Without a text no answer came.
    """

    text: str | None
    cited: list[str]
    shown: list[str]


async def remember(asking: Asking, part: Part, memory: Memory) -> None:
    """Tell the turns."""
    texts = [turn.text for turn in part.turns]
    asking.afford(texts, memory.reads, f"reading {len(part.turns):,} turns")
    for plan, given in memory.written([turn.row for turn in part.turns]):
        await asking.run(plan, **given)


async def ask(asking: Asking, part: Part, memory: Memory) -> dict[str, Answer]:
    """Put the questions; answers by question."""
    asking.afford([q.text for q in part.questions], 1, f"asking {len(part.questions):,} questions")
    rows = [
        {"conversation": q.group, "id": q.id, "question": q.text, "at": q.at}
        for q in part.questions
    ]
    result = await asking.run(memory.read, questions=rows, **memory.read_options)
    places = {turn.id: turn.place for turn in part.turns}
    shown: dict[str, list[str]] = {}
    for row in sorted(result.tables["shown"].to_pylist(), key=lambda row: row["rank"]):
        shown.setdefault(row["question"], []).extend(places[turn] for turn in row["turns"])
    given = {row["id"]: row for row in result.tables["answers"].to_pylist()}
    return {
        q.id: Answer(
            (given[q.id]["answer"] or DECLINED) if q.id in given else None,
            once([places[turn] for turn in given.get(q.id, {}).get("evidence") or ()]),
            once(shown.get(q.id, [])),
        )
        for q in part.questions
    }


async def judged(asking: Asking, rows: Sequence[Mapping[str, str]]) -> dict[str, bool]:
    """Which answers are right, by the judge; without a verdict it is wrong."""
    result = await asking.run(PLANS / "judge.yaml", asking.judge, answers=list(rows))
    return {row["id"]: bool(row["right"]) for row in result.tables["judged"].to_pylist()}


def once(values: Sequence[str]) -> list[str]:
    """Each value once, in order."""
    return list(dict.fromkeys(values))


def mean(values: Sequence[float]) -> float | None:
    """The mean, or None of nothing."""
    return round(sum(values) / len(values), 4) if values else None
