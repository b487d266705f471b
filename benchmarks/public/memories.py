"""Conversations are ingested by add_episode, and questions are answered from the graph; shared by
both data sets of that kind.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from benchmarks.real.asking import Asking

PLANS = Path(__file__).parent / "plans"
_NAMES = uuid.UUID("6b7b4f0e-27b1-5c1d-9a0d-3f0e5a1f9d55")


@dataclass(frozen=True)
class Way:
    """The ingestion of the conversations: a shipped plan with its options, and the minimal number
    of times that each text is sent.
    """

    plan: str = "add_episode"
    options: Mapping[str, Any] = field(default_factory=dict)
    reads: int = 2


WAYS = {
    "as shipped": Way(),
    "combined": Way(options={"preset": "combined"}, reads=1),
    "lean": Way("add_episode_lean", reads=1),
}


@dataclass(frozen=True)
class Message:
    """A message. `place` is its name in the data set (a turn, a session), by which questions refer
    to their evidence.
    """

    group: str
    place: str
    content: str
    at: datetime

    @property
    def row(self) -> dict[str, Any]:
        """As add_episode takes it."""
        name = str(
            uuid.uuid5(_NAMES, f"{self.group}/{self.place}/{self.at.isoformat()}/{self.content}")
        )
        return {
            "uuid": name, "group_id": self.group, "name": self.place, "source": "message", "content": self.content,
            "valid_at": self.at,
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

    messages: Sequence[Message]
    questions: Sequence[Question]


@dataclass(frozen=True)
class Answer:
    """An answer, or None, and the places of its sources, best first: those that facts name, and
    those of word search.
    """

    text: str | None
    by_facts: list[str]
    by_words: list[str]


async def remember(asking: Asking, part: Part, way: Way) -> None:
    """Tell the messages."""
    asking.afford(
        [m.content for m in part.messages], way.reads, f"reading {len(part.messages):,} messages"
    )
    await asking.run(way.plan, episodes=[message.row for message in part.messages], **way.options)


async def ask(asking: Asking, part: Part) -> dict[str, Answer]:
    """Put the questions; answers by question."""
    asking.afford([q.text for q in part.questions], 1, f"asking {len(part.questions):,} questions")
    rows = [
        {"id": q.id, "group_id": q.group, "query": q.text, "asked_at": q.at} for q in part.questions
    ]
    result = await asking.run(PLANS / "ask_memory.yaml", questions=rows)
    places = {str(row["uuid"]): row["name"] for row in (message.row for message in part.messages)}
    facts: dict[str, list[str]] = {}
    for row in sorted(result.tables["facts"].to_pylist(), key=lambda row: row["rank"]):
        facts.setdefault(row["id"], []).extend(
            places[name] for name in row["episodes"] or [] if name in places
        )
    said: dict[str, list[str]] = {}
    for row in sorted(result.tables["said"].to_pylist(), key=lambda row: row["rank"]):
        said.setdefault(row["id"], []).append(places[row["uuid"]])
    texts = {row["id"]: row["answer"] for row in result.tables["answers"].to_pylist()}
    return {
        q.id: Answer(texts.get(q.id), once(facts.get(q.id, [])), once(said.get(q.id, [])))
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
