"""The memories that are compared: a plan that writes and a plan that reads, each with options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Options = Mapping[str, Any]


@dataclass(frozen=True)
class Memory:
    """A memory of the interface in docs/memories.md.

    Args:
        write: The plan that takes `turns`; a name or a path.
        read: The plan that takes `questions` and returns `answers`.
        write_options: Of `Session.arun` for the first: params, preset, use.
        read_options: For the second.
        reads: How often the text of each turn is sent at least.
    """

    write: str
    read: str
    write_options: Options = field(default_factory=dict)
    read_options: Options = field(default_factory=dict)
    reads: int = 1


def memory(
    name: str, write: Options | None = None, read: Options | None = None, *, reads: int = 1
) -> Memory:
    """The shipped memory in `plans/memories/NAME`."""
    plans = (f"memories/{name}/{which}" for which in ("write", "read"))
    return Memory(*plans, write or {}, read or {}, reads)


MEMORIES: Mapping[str, Memory] = {
    "full context": memory("turns", read={"preset": "full_context"}, reads=0),
    "turns by words": memory("turns", read={"preset": "words"}, reads=0),
    "turns by vectors": memory("turns", read={"preset": "vectors"}, reads=0),
    "turns by both": memory("turns", reads=0),
    "graphiti": memory("graphiti", reads=2),
    "graphiti, combined": memory("graphiti", {"preset": "combined"}),
    "graphiti, fused": memory("graphiti", {"preset": "fused"}),
    "graphiti, lean": memory("graphiti", {"preset": "lean"}),
    "mem0": memory("mem0"),
    "mem0, only added": memory("mem0", {"params": {"decide": False}}),
    "mem0g": memory("mem0g", reads=2),
    "mem0g, two steps": memory("mem0g", read={"params": {"further": 1}}, reads=2),
    **{
        f"graphiti, bulk by {turns}": memory(
            "graphiti", {"preset": "bulk", "use": {"graphs": f"packed(rows={turns})"}}
        )
        for turns in (5, 10, 20)
    },
    "amem": memory("amem"),
    "amem, no links": memory("amem", read={"params": {"links": 0}}),
    "hipporag": memory("hipporag"),
    "hipporag, no walk": memory("hipporag", read={"params": {"damping": 0}}),
    "graphrag": memory("graphrag"),
    "graphrag, global": memory("graphrag", read={"preset": "global"}),
    "graphrag, local": memory("graphrag", read={"preset": "local"}),
    "memoryos": memory("memoryos"),
    "memoryos, no long-term memory": memory("memoryos", {"params": {"hot": 1000000}}),
    "raptor": memory("raptor"),
    "raptor, top down": memory("raptor", read={"preset": "top_down"}),
}
"""All memories of the benchmark, by the names in its table."""
