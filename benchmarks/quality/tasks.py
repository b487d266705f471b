"""Synthetic worlds for a real model: a few messages with a known truth, and questions about them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchmarks.frame.cases import rounded
from benchmarks.memories.conversations import Conversation, after, score
from benchmarks.memories.memories import MEMORIES, Memory
from benchmarks.quality.asking import Asking, Figures
from benchmarks.world import World
from benchmarks.world.questions import KINDS
from benchmarks.world.scoring import as_graph, held
from semgraph.scores import score_graph

WORLDS = {
    "6 messages of a world": (2, 0, 6),
    **{f"world of 6 people, difficulty {d}": (6, d, None) for d in range(3)},
}
"""People, difficulty, and the number of messages; each trial has its own world."""
WAYS: Mapping[str, tuple[str, dict[str, Any], int]] = {
    "as shipped": ("add_episode", {}, 2),
    "combined": ("add_episode", {"preset": "combined"}, 1),
    "lean": ("add_episode_lean", {}, 1),
}
"""A shipped plan, its options, and the minimal number of times that each text is sent."""
_ASKED = 10
"""The number of questions about a world."""
_READING = ("calls", "seconds", "cpu_s")
"""The costs that are shown without those of the questions, too."""


async def remembered(stream: str, way: str, asking: Asking, trial: int) -> Figures:
    """The quality of the graph after ingestion: F1 of entities, facts and facts with times; and of
    answers to questions from this graph.
    """
    people, difficulty, most = WORLDS[stream]
    world = World.make(trial + 1, people, difficulty)
    count = most or len(world.episodes)
    rows, (plan, options, reads) = world.rows[:count], WAYS[way]
    asking.afford([str(row["content"]) for row in rows], reads, f"reading {count} messages")
    result = await asking.run(plan, episodes=rows, **options)
    written = ", ".join(f"{n} {label}" for label, n in sorted(result.written.items()) if n)
    own = score_graph(await held(asking.store, world), as_graph(world.gold(after=count)))
    read = {f"read_{name}": value for name, value in asking.figures().items() if name in _READING}
    return {
        "messages": count,
        "graph": written,
        "entities_f1": rounded(own.pairs.f1),
        "facts_f1": rounded(own.edges.f1),
        "valid_f1": rounded(own.validity.f1) if own.validity else None,
        **read,
        **await _asked(asking, after(world, count, _ASKED, KINDS), MEMORIES["graphiti"]),
    }


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
