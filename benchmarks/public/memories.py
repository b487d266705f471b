"""Conversations are told to add_episode, questions are put to what it remembers; what both data
sets of that kind share.
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
    """How the conversations are read: a shipped plan with what is chosen in it, and how often it
    sends each text at least.
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
    """Something said. `place` is what the data set calls it (a turn, a session); questions name
    their evidence by it.
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
    """A question to the memory of a group.

    Args:
        id: Its name.
        group: Whose memory is asked.
        text: In words.
        truth: The answer.
        kind: As the data set sorts its questions.
        evidence: Places of the messages that hold the answer.
        at: When it is asked; None: after all that was said.
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
    """An answer, None where there was none, and the places that it was made from, best first: those
    that facts name, and those that were found by words.
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
    """Which answers are right, as the judge says; one that it gave no verdict about is not."""
    result = await asking.run(PLANS / "judge.yaml", asking.judge, answers=list(rows))
    return {row["id"]: bool(row["right"]) for row in result.tables["judged"].to_pylist()}


def once(values: Sequence[str]) -> list[str]:
    """Each value once, in order."""
    return list(dict.fromkeys(values))


def mean(values: Sequence[float]) -> float | None:
    """The mean, or None of nothing."""
    return round(sum(values) / len(values), 4) if values else None
