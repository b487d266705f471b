"""The tables of docs/memories/findings.md: for each finding the rows that it rests on.

tests/benchmarks/test_sentences.py checks that the sentences of the page follow from these figures.
"""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks.frame import Table

GROWN = (8, 32)
LEVEL, ERRS = "level 1", "level 1, a model that errs"
_F1 = "answer F1=f1:.3f"
_WRITE = "calls a turn=calls_turn:.2f; $ for 1,000 turns=usd_turn:.3f"
_READ = "tokens in a question=tokens_question; $ for 1,000 questions=usd_question:.3f"
_KINDS = {
    "now": "the present",
    "then": "a past month",
    "two hops": "two facts",
    "three hops": "three facts",
}
_KINDS |= {"global": "all of a kind"}
"""Titles of the columns with the F1 of one kind of questions."""


def _kinds(*kinds: str) -> str:
    return "; ".join(f"{_KINDS[kind]}=f1 {kind}:.2f" for kind in kinds)


def _table(*ways: str, columns: tuple[str, ...], errs: bool = False) -> Table:
    """Rows of the conversations of level 1; with `errs` also those of a model that errs."""
    where = {"way": ways, "conversation": (LEVEL, ERRS) if errs else LEVEL}
    return Table("", "conversation, way" if errs else "way", "; ".join((_F1, *columns)), where)


def _grown(*ways: str) -> Table:
    """Rows of the conversations of 8 and of 32 people."""
    where = {"what": "growth", "people": GROWN, "way": ways}
    return Table("", "people, way", f"turns; {_F1}; {_READ}", where)


FINDINGS: Mapping[str, Table] = {
    "fits": _table(
        "full context", "raptor", "graphrag, global", "graphrag", "lightmem, no sleep", columns=(_WRITE, _READ)
    ),
    "grows": _grown("full context", "40 turns by vectors", "mem0g, two steps", "graphrag, global"),
    "turns": _table(
        "20 turns by vectors", "40 turns by vectors", "lightmem, no sleep", "mem0g", "graphiti", "hipporag", "memoryos",
        "graphrag, local", "amem", columns=(_WRITE, _READ),
    ),
    "turns-grown": _grown(
        "20 turns by vectors", "40 turns by vectors", "lightmem, no sleep", "mem0g", "mem0g, two steps", "hipporag",
        "graphrag, local", "amem",
    ),
    "packs": _table(
        "graphiti", "graphiti, bulk by 5", "graphiti, bulk by 20", "lightmem, no sleep", columns=(_WRITE,), errs=True
    ),
    "calls": _table("graphiti", "graphiti, combined", "graphiti, fused", "graphiti, lean", columns=(_WRITE,), errs=True),
    "past": _table("mem0, only added", "mem0", "mem0g", "graphiti", columns=(_kinds("now", "then", "global"), _WRITE)),
    "steps": _table(
        "mem0g", "mem0g, two steps", "amem, no links", "amem", "40 turns by vectors",
        columns=(_kinds("two hops", "three hops"), _READ),
    ),
    "all": _table(
        "graphrag, local", "graphrag", "graphrag, global", "raptor", "raptor, top down", "full context",
        columns=(_kinds("three hops", "global"), _WRITE, _READ),
    ),
    "facts": _table(
        "memoryos, no long-term memory", "memoryos", columns=(_kinds("now", "then", "two hops"), _WRITE, _READ)
    ),
    "walk": _grown("hipporag, no walk", "hipporag"),
    "sleep": _table(
        "lightmem, no sleep", "lightmem", "lightmem, sleep in packs", columns=(_kinds("now", "then", "global"), _WRITE)
    ),
}  # fmt: skip
"""The tables, by the names of their parts."""
GROWS = {way for table in FINDINGS.values() if "what" in table.where for way in table.where["way"]}
"""The memories whose growth is compared."""
