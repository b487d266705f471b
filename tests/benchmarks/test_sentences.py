"""The sentences in bold of docs/memories/findings.md and docs/benchmarks.md follow from the committed
results.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

from benchmarks.frame import Line, Lines
from benchmarks.frame.lines import ROOT
from benchmarks.frame.tables import values
from benchmarks.memories.findings import ERRS, FINDINGS, LEVEL
from benchmarks.memories.memories import MEMORIES

FOUND = (ROOT / "docs/memories/findings.md").read_text(encoding="utf-8")
LOSES = (ROOT / "docs/benchmarks.md").read_text(encoding="utf-8")
LOSES = LOSES.split("## Where semgraph loses\n")[1].split("\n## ")[0]


@cache
def lines(benchmark: str) -> list[Line]:
    return list(Lines(benchmark))


def median(benchmark: str, figure: str, **key: Any) -> float:
    """The median of a figure of one case."""
    return statistics.median(values([o for o in lines(benchmark) if o.is_of(key)], figure))


def of(way: str, figure: str = "f1", where: str | int = LEVEL) -> float:
    """The median of a figure of a memory, by the kind of conversation or the number of people."""
    key = {"what": "growth", "people": where} if isinstance(where, int) else {"conversation": where}
    return median("memories", figure, way=way, **key)


def pays_from(way: str) -> float:
    """Questions for each turn from which a memory is cheaper than the full context."""
    saved = of("full context", "usd_question") - of(way, "usd_question")
    return (of(way, "usd_turn") - of("full context", "usd_turn")) / saved


def falls(way: str, other: str, where: str = LEVEL) -> float:
    """How much lower the F1 of another memory is."""
    return of(way, where=where) - of(other, where=where)


def stream(way: str) -> float:
    return median("ingest", "seconds", stream="20 meetings, one group", way=way, store="Neo4j")


def search(way: str) -> float:
    return median("search", "cpu_ms", recipe="EDGE_HYBRID_SEARCH_RRF", facts=100_000, way=way)


def calls(way: str, task: str = "sem_filter 100 rows") -> float:
    return median("operators", "calls", task=task, way=way, noise="none")


TWENTY, FORTY, FULL = "20 turns by vectors", "40 turns by vectors", "full context"
NO_SLEEP, TWO = "lightmem, no sleep", "mem0g, two steps"
CHEAP = ("graphiti, combined", "graphiti, fused", "graphiti, lean")
Q, W, T = "usd_question", "usd_turn", "tokens_question"

SENTENCES: dict[str, Callable[[], bool]] = {
    "The full context answers best and costs nothing to write.": lambda: (
        all(of(FULL) >= of(name) for name in MEMORIES) and of(FULL, "calls_turn") == 0
    ),
    "Graphiti pays from about one question for each turn, lightmem without its sleep from one for "
    "ten turns or more.": lambda: (
        0.8 < pays_from("graphiti") < 1.3 and 0 < pays_from(NO_SLEEP) < 0.1
    ),
    "From 8 to 32 people the full context costs more than three times as much for a question, the 40 "
    "nearest turns and the relations of Mem0g about the same.": lambda: (
        of(FULL, Q, 32) > 3 * of(FULL, Q, 8)
        and all(0.8 < of(way, Q, 32) / of(way, Q, 8) < 1.2 for way in (FORTY, TWO))
    ),
    "Global search over reports grows as the full context does, and costs more.": lambda: (
        of("graphrag, global", Q, 32) > 3 * of("graphrag, global", Q, 8)
        and all(of("graphrag, global", Q, n) > of(FULL, Q, n) for n in (8, 32))
    ),
    "With eight people, graphiti and HippoRAG are at most 0.03 of F1 better than the 20 nearest "
    "turns, which take fewer tokens, and writing costs more than twenty times as much.": lambda: (
        all(
            of(way) < of(TWENTY) + 0.03
            and of(TWENTY, T) < of(way, T)
            and of(way, W) > 20 * of(TWENTY, W)
            for way in ("graphiti", "hipporag")
        )
    ),
    "The notes of A-MEM, the tiers of MemoryOS, the facts of Mem0 and the local search of GraphRAG do "
    "not beat 40 turns.": lambda: all(
        of(FORTY) > of(way)
        for way in ("amem", "memoryos", "mem0", "mem0, only added", "graphrag, local")
    ),
    "Only the relations of Mem0g do, with as many tokens.": lambda: (
        of("mem0g") > of(FORTY) + 0.05 and of("mem0g", T) < 1.05 * of(FORTY, T)
    ),
    "With 32 people Mem0g answers as well as 40 turns, and with a second step a tenth of F1 better for "
    "more tokens.": lambda: (
        abs(of("mem0g", where=32) - of(FORTY, where=32)) < 0.02
        and 0.08 < of(TWO, where=32) - of(FORTY, where=32) < 0.14
        and of(TWO, T, 32) > of(FORTY, T, 32)
    ),
    "Packed facts (lightmem) show fewer tokens than 20 turns and answer at least as well.": lambda: (
        of(NO_SLEEP, T, 32) < 0.9 * of(TWENTY, T, 32)
        and of(NO_SLEEP, where=32) >= of(TWENTY, where=32)
    ),
    "With a model without errors, 20 turns in a call change nothing in F1 and take less than a "
    "twentieth of the calls.": lambda: (
        of("graphiti") == of("graphiti, bulk by 20")
        and of("graphiti, bulk by 20", "calls_turn") < of("graphiti", "calls_turn") / 20
    ),
    "With a model that errs more in long prompts, graphiti loses over a third of its F1 by packs, "
    "lightmem next to nothing.": lambda: (
        all(
            of(f"graphiti, bulk by {n}", where=ERRS) < 0.66 * of("graphiti", where=ERRS)
            for n in (5, 20)
        )
        and of(NO_SLEEP, where=ERRS) > of(NO_SLEEP) - 0.02
    ),
    "The presets of graphiti that ask for more in one call keep the F1 for about two thirds of the "
    "calls or fewer.": lambda: all(
        of(way) == of("graphiti") and of(way, "calls_turn") < 0.7 * of("graphiti", "calls_turn")
        for way in CHEAP
    ),
    "With a model that errs they are as good as the reference.": lambda: all(
        of(way, where=ERRS) >= of("graphiti", where=ERRS) for way in CHEAP
    ),
    "Mem0's decisions more than double the price of writing, and lower the F1: they help answers over "
    "several facts and about all people, and lose the past.": lambda: (
        of("mem0", W) > 2 * of("mem0, only added", W)
        and of("mem0") < of("mem0, only added")
        and all(
            of("mem0", f"f1 {kind}") > of("mem0, only added", f"f1 {kind}") + 0.05
            for kind in ("two hops", "three hops", "global")
        )
        and of("mem0", "f1 then") < 0.3 < 0.8 < of("mem0, only added", "f1 then")
    ),
    "Memories that end a relation and keep it answer both,": lambda: all(
        of(way, f"f1 {kind}") == 1 for way in ("mem0g", "graphiti") for kind in ("now", "then")
    ),
    "The relations of Mem0g answer all questions over two and three facts with eight people; a second "
    "step from the entities of the question adds next to nothing there.": lambda: (
        of("mem0g", "f1 two hops") == of("mem0g", "f1 three hops") == 1
        and 0 <= of(TWO) - of("mem0g") < 0.02
    ),
    "Links between notes answer twice as many over two facts;": lambda: (
        1.8 < of("amem", "f1 two hops") / of("amem, no links", "f1 two hops") < 2.2
        and of(FORTY, "f1 two hops") > of("amem", "f1 two hops")
        and of(FORTY, T) < 1.05 * of("amem", T)
    ),
    "Global search over reports answers nearly all questions about all of a kind and over three facts; "
    "each question costs more than the full context.": lambda: (
        min(of("graphrag, global", f"f1 {kind}") for kind in ("global", "three hops")) > 0.95
        and of("graphrag, global", Q) > of(FULL, Q)
    ),
    "Choosing the search for each question keeps half of the gain about all of a kind for little more "
    "than local search.": lambda: (
        of("graphrag", "f1 global") - of("graphrag, local", "f1 global")
        >= 0.5 * (of("graphrag, global", "f1 global") - of("graphrag, local", "f1 global"))
        and of("graphrag", Q) < 1.2 * of("graphrag, local", Q)
    ),
    "A tree of summaries costs less to write than any other memory but lightmem without its sleep,": lambda: (
        all(
            of("raptor", W) < of(way, W)
            for way in MEMORIES
            if not way.startswith("raptor") and way != NO_SLEEP and of(way, "calls_turn")
        )
    ),
    "Without long-term facts MemoryOS falls to the level of ten nearest turns.": lambda: (
        of("memoryos") > of("memoryos, no long-term memory") + 0.2
        and of("memoryos, no long-term memory") < of("turns by both") + 0.02
    ),
    "The walk of HippoRAG changes next to nothing with eight people, and helps with 32.": lambda: (
        abs(falls("hipporag", "hipporag, no walk")) < 0.02
        and of("hipporag", where=32) > of("hipporag, no walk", where=32) + 0.05
    ),
    "The sleep of LightMem nearly doubles the price and helps nothing here.": lambda: (
        1.7 < of("lightmem", W) / of(NO_SLEEP, W) < 2 and of("lightmem") <= of(NO_SLEEP)
    ),
}

LOST: dict[str, Callable[[], bool]] = {
    "Where all messages are at hand, graphiti-core's bulk mode takes less time than semgraph as shipped,": lambda: (
        stream("window: ready") < stream("graphiti-core, bulk") < stream("as shipped")
    ),
    "A hybrid search among 100,000 facts takes semgraph on SQLite about twice the CPU of "
    "graphiti-core's client,": lambda: (
        1.7 < search("semgraph, SQLite") / search("graphiti-core, Neo4j") < 2.3
    ),
    "Implementations that ask more than once for a row, such as `vote` and `reflexion`, cost more calls than LOTUS;": lambda: (
        calls("vote") > calls("LOTUS") >= calls("per_row")
        and calls("reflexion", "sem_map 100 rows") > calls("LOTUS", "sem_map 100 rows")
    ),
}


@pytest.mark.parametrize(("page", "checks"), [(FOUND, SENTENCES), (LOSES, LOST)])
def test_every_sentence_in_bold_has_a_check(page: str, checks: dict[str, Any]) -> None:
    bold = {" ".join(text.split()) for text in re.findall(r"\*\*(.+?)\*\*", page, re.DOTALL)}
    bold = {text for text in bold if "×" not in text}
    assert bold == set(checks)


@pytest.mark.parametrize("sentence", [*SENTENCES, *LOST])
def test_a_sentence_follows_from_the_results(sentence: str) -> None:
    check = (SENTENCES | LOST)[sentence]
    assert check(), "the results have changed: correct the page and this check"


@pytest.mark.parametrize("part", FINDINGS)
def test_every_table_of_findings_is_on_the_page_with_all_its_rows(part: str) -> None:
    assert f"<!-- made: memories/{part} -->" in FOUND
    assert set(FINDINGS[part].where["way"]) <= {line.key["way"] for line in lines("memories")}
