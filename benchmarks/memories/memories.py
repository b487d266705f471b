"""The memories that are compared: a plan that writes and a plan that reads, each with options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
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
        then: A plan that takes `conversations` and runs after the writing; "": none.
        then_options: For it.
    """

    write: str
    read: str
    write_options: Options = field(default_factory=dict)
    read_options: Options = field(default_factory=dict)
    reads: int = 1
    then: str = ""
    then_options: Options = field(default_factory=dict)

    def with_options(self, write: Options, read: Options) -> Memory:
        """The memory with further options of its two plans; parameters and implementations are
        joined with its own.
        """
        return replace(
            self,
            write_options=_joined(self.write_options, write),
            read_options=_joined(self.read_options, read),
        )

    def written(self, turns: Sequence[Mapping[str, Any]]) -> list[tuple[str, dict[str, Any]]]:
        """The plans that write turns, in their order, each with its inputs and options."""
        names = dict.fromkeys(turn["conversation"] for turn in turns)
        told = {"turns": [dict(turn) for turn in turns], **self.write_options}
        rows = [{"conversation": name} for name in names]
        after = [(self.then, {"conversations": rows, **self.then_options})] if self.then else []
        return [(self.write, told), *after]


def _joined(own: Options, further: Options) -> Options:
    joined = {**own, **further}
    for name in ("params", "use"):
        if name in own and name in further:
            joined[name] = {**own[name], **further[name]}
    return joined


def memory(
    name: str,
    write: Options | None = None,
    read: Options | None = None,
    *,
    reads: int = 1,
    then: str = "",
    then_options: Options | None = None,
) -> Memory:
    """The shipped memory in `plans/memories/NAME`; `then` is a plan in it."""
    writes, answers = (f"memories/{name}/{which}" for which in ("write", "read"))
    after = f"memories/{name}/{then}" if then else ""
    return Memory(writes, answers, write or {}, read or {}, reads, after, then_options or {})


MEMORIES: Mapping[str, Memory] = {
    "full context": memory("turns", read={"preset": "full_context"}, reads=0),
    "turns by words": memory("turns", read={"preset": "words"}, reads=0),
    "turns by vectors": memory("turns", read={"preset": "vectors"}, reads=0),
    "turns by both": memory("turns", reads=0),
    **{
        f"{k} turns by vectors": memory(
            "turns", read={"preset": "vectors", "params": {"k": k}}, reads=0
        )
        for k in (20, 40)
    },
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
    "lightmem": memory("lightmem", then="sleep"),
    "lightmem, no sleep": memory("lightmem"),
    "lightmem, sleep in packs": memory(
        "lightmem",
        then="sleep",
        then_options={"params": {"alike": 0.3}, "use": {"decided": "packed(rows=10)"}},
    ),
    "raptor": memory("raptor"),
    "raptor, top down": memory("raptor", read={"preset": "top_down"}),
}
"""All memories of the benchmark, by the names in its table."""
