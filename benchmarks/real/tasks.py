"""The tasks for a real model: a few messages with a known truth, and rows to judge."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from benchmarks.memories.conversations import Conversation, after, score
from benchmarks.memories.memories import MEMORIES, Memory
from benchmarks.operators.cases import Task
from benchmarks.operators.cases import tasks as simulated
from benchmarks.real.asking import Asking, Figures
from benchmarks.world import World
from benchmarks.world.questions import KINDS
from benchmarks.world.scoring import as_graph, held
from semgraph.scores import score_graph
from semgraph.scores.rows import Score

WORLDS = {
    "6 messages of a world": (2, 0, 6),
    **{f"world of 6 people, difficulty {d}": (6, d, None) for d in range(3)},
}
"""People, difficulty, and the number of messages; each trial has its own world."""
_ASKED = 10
"""The number of questions about a world."""
_READING = ("calls", "seconds", "cpu_s")
"""The costs that are shown without those of the questions, too."""


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
    """A world, the number of its messages that are read, and questions about these."""

    world: World
    count: int
    asked: Conversation

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The messages."""
        return self.world.rows[: self.count]


def told(stream: str, trial: int) -> Told:
    """The messages of a stream."""
    people, difficulty, count = WORLDS[stream]
    world = World.make(trial + 1, people, difficulty)
    count = count or len(world.episodes)
    return Told(world, count, after(world, count, _ASKED, KINDS))


async def remembered(asking: Asking, stream: Told, way: Way) -> Figures:
    """The quality of the graph after ingestion: F1 of entities, facts and facts with times; and of
    answers to questions from this graph.
    """
    asking.afford(
        [str(row["content"]) for row in stream.rows],
        way.reads,
        f"reading {stream.count} messages",
    )
    result = await asking.run(way.plan, episodes=stream.rows, **way.options)
    graph = ", ".join(
        f"{count} {label}" for label, count in sorted(result.written.items()) if count
    )
    truth = as_graph(stream.world.gold(after=stream.count))
    own = score_graph(await held(asking.store, stream.world), truth)
    read = {f"read_{name}": value for name, value in asking.figures().items() if name in _READING}
    return {
        "messages": stream.count,
        "graph": graph,
        "entities_f1": _rounded(own.pairs.f1),
        "facts_f1": _rounded(own.edges.f1),
        "valid_f1": _rounded(own.validity.f1) if own.validity else None,
        **read,
        **await _asked(asking, stream.asked, MEMORIES["graphiti"]),
    }


async def questioned(asking: Asking, told: Conversation, memory: Memory) -> Figures:
    """F1 of a memory's answers to questions about a conversation, and the evidence that they cite."""
    texts = [str(turn["text"]) for turn in told.turns]
    asking.afford(texts, memory.reads, f"reading {len(texts)} turns")
    for plan, given in memory.written(told.turns):
        await asking.run(plan, **given)
    return {"turns": len(texts), **await _asked(asking, told, memory)}


async def _asked(asking: Asking, told: Conversation, memory: Memory) -> Figures:
    """F1 of the answers to questions about what is in the store."""
    result = await asking.run(memory.read, questions=told.questions, **memory.read_options)
    answers = result.tables["answers"].to_pylist()
    found = score(told.asked, answers)
    return {
        "asked": len(told.asked),
        "answered": sum(row["answer"] is not None for row in answers),
        "f1": round(found.f1, 4),
        "cited": round(found.recall, 4),
        **{f"f1 {kind}": round(share, 4) for kind, share in found.by_kind.items()},
    }


def tasks() -> dict[str, Task]:
    """The operators' own tasks that fit some hundreds of calls, of operators without labelled rows."""
    found = simulated()
    return {name: found[name] for name in ("sem_map 100 rows", "sem_agg 10 groups of 10")}


async def answered(asking: Asking, task: Task, way: str) -> Figures:
    """The share of right answers, by the truth of the generated rows."""
    asking.afford(task.left, 1, f"{task.name} by {way}")
    found = task.found(await asking.answer(task.node, task.rows, way))
    own = Score.of(len(found & task.truth), len(found), len(task.truth))
    return {
        "rows": len(task.left),
        "precision": _rounded(own.precision),
        "recall": _rounded(own.recall),
        "f1": _rounded(own.f1),
    }


def _rounded(share: float | None) -> float | None:
    return None if share is None else round(share, 4)
