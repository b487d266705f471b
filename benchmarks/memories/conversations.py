"""Conversations with questions whose answers are known, and the score of the answers."""

from __future__ import annotations

import re
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from typing import Any

from benchmarks.quality.scores import best_f1
from benchmarks.world.dates import iso
from benchmarks.world.messages import speaker_of
from benchmarks.world.questions import KINDS, WIDER, questions
from benchmarks.world.world import World


@dataclass(frozen=True)
class Asked:
    """A question with its answer.

    Args:
        id: Its name.
        text: In words.
        answer: Names with commas between them, or a day; "" if the conversation does not tell.
        kind: Its kind, for the table.
        evidence: Ids of turns: of each set one is needed to know the answer.
    """

    id: str
    text: str
    answer: str
    kind: str
    evidence: Sequence[frozenset[str]] = ()


@dataclass(frozen=True)
class Conversation:
    """Turns, as the write plans of memories take them, and questions after the last one.

    Args:
        name: The partition of its rows.
        turns: Rows of `turns`: conversation, id, at, speaker, text.
        asked: The questions.
        at: The time of the questions.
    """

    name: str
    turns: Sequence[Mapping[str, Any]]
    asked: Sequence[Asked]
    at: datetime

    @property
    def questions(self) -> list[dict[str, Any]]:
        """Rows of `questions`, as the read plans take them."""
        return [
            {"conversation": self.name, "id": one.id, "question": one.text, "at": iso(self.at)}
            for one in self.asked
        ]


def of_world(
    seed: int, people: int = 8, difficulty: str | int = 1, count: int = 48
) -> Conversation:
    """A conversation of a synthetic world, with questions of all kinds.

    Args:
        seed: Of the world.
        people: Its people; about nine turns for each.
        difficulty: Of the wording, as in `World.make`.
        count: The number of questions.
    """
    world = World.make(seed, people, difficulty, group=f"world-{seed}")
    return after(world, len(world.episodes), count, (*KINDS, *WIDER))


def after(world: World, messages: int, count: int, kinds: Sequence[str]) -> Conversation:
    """The first messages of a world as a conversation, with questions of these kinds about them."""
    end = world.episodes[messages - 1].at
    told = {fact.key: frozenset(fact.episodes) for fact in world.gold(messages).facts}
    found = questions(world, end, count=count, seed=world.seed, kinds=kinds)
    asked = [
        Asked(f"q{i}", one.text, one.answer, one.kind, tuple(told[key] for key in one.edges))
        for i, one in enumerate(found, start=1)
    ]
    turns = [_turn(world.group, row) for row in world.rows[:messages]]
    return Conversation(world.group, turns, asked, end)


def said_again(told: Conversation, times: int) -> Conversation:
    """A conversation in which each turn is said so often, as people who repeat themselves do.

    Args:
        told: The conversation.
        times: How often; of a fact any of its turns is evidence.
    """
    turns: list[Mapping[str, Any]] = []
    for turn in told.turns:
        turns.append(turn)
        for n in range(1, times):
            at = iso(datetime.fromisoformat(turn["at"]) + timedelta(seconds=n))
            text = f"{turn['text']} I have said so {n} times."
            turns.append({**turn, "id": f"{turn['id']}/{n}", "at": at, "text": text})
    asked = [
        replace(one, evidence=[_often(ids, times) for ids in one.evidence]) for one in told.asked
    ]
    return replace(told, turns=turns, asked=asked)


def _often(turns: frozenset[str], times: int) -> frozenset[str]:
    return turns | {f"{turn}/{n}" for turn in turns for n in range(1, times)}


def _turn(group: str, row: Mapping[str, Any]) -> dict[str, Any]:
    speaker, text = speaker_of(row["content"])
    said = {"at": row["valid_at"], "speaker": speaker, "text": text}
    return {"conversation": group, "id": row["uuid"], **said}


@dataclass(frozen=True)
class Score:
    """How good answers are.

    Args:
        f1: The mean F1 of their words; of a question without an answer 1 if it is declined, else 0.
        recall: The mean share of the needed facts of which an answer cites a turn.
        by_kind: The mean F1 of each kind of question.
    """

    f1: float
    recall: float
    by_kind: Mapping[str, float] = field(default_factory=dict)


def score(asked: Sequence[Asked], answers: Sequence[Mapping[str, Any]]) -> Score:
    """The score of answers; a question without a row counts 0.

    Args:
        asked: The questions.
        answers: Rows with `id`, `answer` (null: declined) and `evidence`, ids of turns.
    """
    given = {row["id"]: row for row in answers}
    kinds: dict[str, list[float]] = {}
    cited = []
    for one in asked:
        row = given.get(one.id)
        kinds.setdefault(one.kind, []).append(f1(one.answer, row["answer"]) if row else 0.0)
        if one.evidence:
            cited.append(_recall(one, (row or {}).get("evidence") or ()))
    return Score(
        statistics.fmean(value for values in kinds.values() for value in values),
        statistics.fmean(cited) if cited else 0.0,
        {kind: statistics.fmean(values) for kind, values in kinds.items()},
    )


def f1(truth: str, answer: str | None) -> float:
    """F1 of the words of an answer; a day counts in any form; declined answers are right where there is
    none.

    >>> f1("Luma, Acme Labs", "Acme Labs")
    0.8
    >>> f1("2025-03-01", "1 March 2025")
    1.0
    """
    if not truth or not answer:
        return float(not truth and not answer)
    truths = [truth]
    if re.fullmatch(r"\d{4}-\d\d-\d\d", truth):
        day = date.fromisoformat(truth)
        truths.append(f"{day.day} {day:%B %Y}")
    return best_f1(answer, truths)


def _recall(one: Asked, evidence: Sequence[str]) -> float:
    cited = set(evidence)
    return statistics.fmean(bool(cited & turns) for turns in one.evidence)
