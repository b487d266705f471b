"""The tasks for a real model: a few messages with a known truth, and rows to judge."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from benchmarks.memories.conversations import Conversation, score
from benchmarks.memories.memories import Memory
from benchmarks.operators.cases import Task
from benchmarks.operators.cases import tasks as simulated
from benchmarks.real.asking import Asking, Figures
from benchmarks.world import World
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


@dataclass(frozen=True)
class Way:
    """The ingestion of messages: a shipped plan with its options, and the minimal number of times that
    each text is sent.
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
    score = score_graph(await held(asking.store, stream.world), truth)
    return figures | {
        "entities_f1": _rounded(score.pairs.f1),
        "facts_f1": _rounded(score.edges.f1),
        "valid_f1": _rounded(score.validity.f1) if score.validity else None,
    }


async def questioned(asking: Asking, told: Conversation, memory: Memory) -> Figures:
    """F1 of a memory's answers to questions about a conversation, and the evidence that they cite."""
    texts = [str(turn["text"]) for turn in told.turns]
    asking.afford(texts, memory.reads, f"reading {len(texts)} turns")
    for plan, given in memory.written(told.turns):
        await asking.run(plan, **given)
    result = await asking.run(memory.read, questions=told.questions, **memory.read_options)
    answers = result.tables["answers"].to_pylist()
    found = score(told.asked, answers)
    return {
        "turns": len(texts),
        "asked": len(told.asked),
        "answered": sum(row["answer"] is not None for row in answers),
        "f1": round(found.f1, 4),
        "cited": round(found.recall, 4),
        **{f"f1 {kind}": round(share, 4) for kind, share in found.by_kind.items()},
    }


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
