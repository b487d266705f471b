"""The tasks for a real model: a few messages with a known truth, and rows to judge."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta

from benchmarks.operators.cases import Task
from benchmarks.operators.cases import tasks as simulated
from benchmarks.public.memories import Message, Part, Question, Way, ask, mean, remember
from benchmarks.public.scores import best_f1, locomo, recall_at
from benchmarks.real.asking import Asking, Figures
from benchmarks.world import World
from benchmarks.world.questions import KINDS, questions
from benchmarks.world.scoring import as_graph, held
from semgraph.scores import score_graph

_TURNS = (
    "Alice Chen(user): Hi, I'm Alice Chen. I work at TechCorp as a senior software engineer.",
    "Alice Chen(user): I'm currently leading Project Phoenix, a major cloud migration initiative.",
    "Alice Chen(user): The project deadline is February 15th, and we have 3 team members.",
)
"""The shipped example."""
_START = datetime(2025, 1, 15, 9, tzinfo=UTC)
WORLDS = {
    "6 messages of a world": (2, 0, 6),
    **{f"world of 6 people, difficulty {d}": (6, d, None) for d in range(3)},
}
"""People, difficulty, and the number of messages; each trial has its own world."""
TURNS = "three turns"
ASKED = 24
"""Questions to a world."""


@dataclass(frozen=True)
class Told:
    """Messages, and the world that they tell of, if the truth is known."""

    rows: list[dict[str, object]]
    world: World | None = None


def told(stream: str, trial: int) -> Told:
    """The messages of a stream."""
    if stream == TURNS:
        at = (_START + timedelta(minutes=i) for i in range(len(_TURNS)))
        return Told(
            [
                {"group_id": "g", "valid_at": t, "content": text}
                for t, text in zip(at, _TURNS, strict=True)
            ]
        )
    people, difficulty, count = WORLDS[stream]
    world = World.make(trial + 1, people, difficulty)
    return Told(world.rows[:count], world)


async def remembered(asking: Asking, stream: Told, way: Way) -> Figures:
    """The quality of the graph after ingestion: F1 of entities, facts, facts with times, and ended
    facts.
    """
    asking.afford(
        [str(row["content"]) for row in stream.rows],
        way.reads,
        f"reading {len(stream.rows)} messages",
    )
    result = await asking.run(way.plan, episodes=stream.rows, **way.options)
    graph = ", ".join(
        f"{count} {label}" for label, count in sorted(result.written.items()) if count
    )
    figures: Figures = {"messages": len(stream.rows), "graph": graph}
    if stream.world is None:
        return figures
    truth = as_graph(stream.world.gold(after=len(stream.rows)))
    score = score_graph(await held(asking.store, stream.world.group), truth)
    return figures | {
        "entities_f1": _rounded(score.pairs.f1),
        "facts_f1": _rounded(score.edges.f1),
        "valid_f1": _rounded(score.validity.f1) if score.validity else None,
    }


async def questioned(asking: Asking, world: World, way: Way, count: int = ASKED) -> Figures:
    """F1 of answers from the graph of a world, by kind of question, and the share of the evidence
    in the hits.
    """
    at, gold = world.episodes[-1].at, {fact.key: fact.episodes for fact in world.gold().facts}
    messages = [Message(world.group, e.uuid, e.content, e.at) for e in world.episodes]
    found = [
        Question(
            str(i), world.group, q.text, q.answer, q.kind, frozenset(e for key in q.edges for e in gold.get(key, ())), at
        )
        for i, q in enumerate(questions(world, at, count=count))
    ]  # fmt: skip
    part = Part(messages, found)
    await remember(asking, part, way)
    answers = await ask(asking, part)
    scores: dict[str, list[float]] = {kind: [] for kind in KINDS}
    for question in found:
        scores[question.kind].append(answer_score(answers[question.id].text or "", question.truth))
    answerable = [one for kind, own in scores.items() if kind != "unanswerable" for one in own]
    seen = [recall_at(10, answers[q.id].by_facts, q.evidence) for q in found if q.evidence]
    return {
        "messages told": len(messages),
        "asked": len(found),
        "f1": mean(answerable),
        **{f"f1 {kind}": mean(own) for kind, own in scores.items() if kind != "unanswerable"},
        "declined": mean(scores["unanswerable"]),
        "recall@10": mean(seen),
    }


def answer_score(answer: str, truth: str) -> float:
    """F1 of words with a name, the mean over several names, or with a day in any form; whether it
    is declined, of no truth.
    """
    if not truth:
        return locomo(answer, "", 5)
    if re.fullmatch(r"\d{4}-\d\d-\d\d", truth):
        day = date.fromisoformat(truth)
        return best_f1(answer, (truth, f"{day.day} {day:%B %Y}"))
    return locomo(answer, truth, 1)


def tasks() -> dict[str, Task]:
    """Rows to judge: twelve of the operators' own, then all that fit some hundreds of calls."""
    found = simulated()
    some = found["sem_filter 100 rows"]
    few = replace(
        some,
        name="sem_filter 12 rows",
        left=some.left[:12],
        truth={i for i in some.truth if i < 12},
    )
    names = (
        "sem_filter 100 rows",
        "sem_map 100 rows",
        "sem_join 20 x 20",
        "sem_agg 10 groups of 10",
        "sem_topk 5 of 50",
    )
    return {few.name: few, **{name: found[name] for name in names}}


async def answered(asking: Asking, task: Task, way: str) -> Figures:
    """The share of right answers, by the truth of the generated rows."""
    asking.afford(task.left, 1, f"{task.name} by {way}")
    found = task.found(await asking.answer(task.node, task.rows, way))
    right = len(found & task.truth)
    precision, recall = right / max(1, len(found)), right / len(task.truth)
    return {
        "rows": len(task.left),
        "precision": round(precision, 4),
        "recall": round(recall, 4),
        "f1": round(2 * precision * recall / (precision + recall), 4) if right else 0.0,
    }


def _rounded(share: float | None) -> float | None:
    return None if share is None else round(share, 4)
