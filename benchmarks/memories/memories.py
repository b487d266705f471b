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
    """

    write: str
    read: str
    write_options: Options = field(default_factory=dict)
    read_options: Options = field(default_factory=dict)


def memory(name: str, write: Options | None = None, read: Options | None = None) -> Memory:
    """The shipped memory in `plans/memories/NAME`."""
    return Memory(f"memories/{name}/write", f"memories/{name}/read", write or {}, read or {})


MEMORIES: Mapping[str, Memory] = {
    "full context": memory("turns", read={"preset": "full_context"}),
    "turns by words": memory("turns", read={"preset": "words"}),
    "turns by vectors": memory("turns", read={"preset": "vectors"}),
    "turns by both": memory("turns"),
    "graphiti": memory("graphiti"),
    "graphiti, combined": memory("graphiti", {"preset": "combined"}),
    "graphiti, fused": memory("graphiti", {"preset": "fused"}),
    "graphiti, lean": memory("graphiti", {"preset": "lean"}),
    **{
        f"graphiti, bulk by {turns}": memory(
            "graphiti", {"preset": "bulk", "use": {"graphs": f"packed(rows={turns})"}}
        )
        for turns in (5, 10, 20)
    },
}
"""All memories of the benchmark, by the names in its table."""
