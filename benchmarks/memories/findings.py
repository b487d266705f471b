"""The tables of docs/memories/findings.md: for each finding the rows that it rests on.

tests/benchmarks/test_findings.py checks that the sentences of the page follow from these figures.
"""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks.suite import Column, Table

LEVEL, ERRS = "level 1", "level 1, a model that errs"
_F1 = Column("f1", "answer F1", "{:.3f}")
_WRITE = (
    Column("calls_turn", "calls a turn", "{:.2f}"),
    Column("usd_turn", "$ for 1,000 turns", "{:.3f}"),
)
_READ = (
    Column("tokens_question", "tokens in a question"),
    Column("usd_question", "$ for 1,000 questions", "{:.3f}"),
)
_KINDS = {
    "now": "the present",
    "then": "a past month",
    "two hops": "two facts",
    "three hops": "three facts",
    "global": "all of a kind",
}
"""Titles of the columns with the F1 of one kind of questions."""


def _kinds(*kinds: str) -> tuple[Column, ...]:
    return tuple(Column(f"f1 {kind}", _KINDS[kind], "{:.2f}") for kind in kinds)


def _table(*ways: str, columns: tuple[Column, ...], errs: bool = False) -> Table:
    """Rows of the conversations of level 1; with `errs` also those of a model that errs."""
    rows = ("conversation", "way") if errs else ("way",)
    return Table("", rows, columns, {"way": ways, "conversation": (LEVEL, ERRS) if errs else LEVEL})


def _grown(*ways: str, columns: tuple[Column, ...]) -> Table:
    """Rows of the conversations of 8 and of 32 people."""
    where = {"what": "growth", "people": (8, 32), "way": ways}
    return Table("", ("people", "way"), (Column("turns", "turns"), *columns), where)


FINDINGS: Mapping[str, Table] = {
    "fits": _table(
        "full context", "raptor", "graphrag, global", "graphrag", "lightmem, no sleep", columns=(_F1, *_WRITE, *_READ)
    ),
    "grows": _grown("full context", "40 turns by vectors", "mem0g, two steps", "graphrag, global", columns=(_F1, *_READ)),
    "turns": _table(
        "20 turns by vectors", "40 turns by vectors", "lightmem, no sleep", "mem0g", "graphiti", "hipporag", "memoryos",
        "graphrag, local", "amem", columns=(_F1, *_WRITE, *_READ),
    ),
    "turns-grown": _grown(
        "20 turns by vectors", "40 turns by vectors", "lightmem, no sleep", "mem0g", "mem0g, two steps", "hipporag",
        "graphrag, local", "amem", columns=(_F1, *_READ),
    ),
    "packs": _table(
        "graphiti", "graphiti, bulk by 5", "graphiti, bulk by 20", "lightmem, no sleep", columns=(_F1, *_WRITE), errs=True
    ),
    "calls": _table(
        "graphiti", "graphiti, combined", "graphiti, fused", "graphiti, lean", columns=(_F1, *_WRITE), errs=True
    ),
    "past": _table(
        "mem0, only added", "mem0", "mem0g", "graphiti", columns=(_F1, *_kinds("now", "then", "global"), *_WRITE)
    ),
    "steps": _table(
        "mem0g", "mem0g, two steps", "amem, no links", "amem", "40 turns by vectors",
        columns=(_F1, *_kinds("two hops", "three hops"), *_READ),
    ),
    "all": _table(
        "graphrag, local", "graphrag", "graphrag, global", "raptor", "raptor, top down", "full context",
        columns=(_F1, *_kinds("three hops", "global"), *_WRITE, *_READ),
    ),
    "facts": _table(
        "memoryos, no long-term memory", "memoryos", columns=(_F1, *_kinds("now", "then", "two hops"), *_WRITE, *_READ)
    ),
    "walk": _grown("hipporag, no walk", "hipporag", columns=(_F1, *_READ)),
    "sleep": _table(
        "lightmem, no sleep", "lightmem", "lightmem, sleep in packs", columns=(_F1, *_kinds("now", "then", "global"), *_WRITE)
    ),
}  # fmt: skip
"""The tables, by the names of their parts."""
