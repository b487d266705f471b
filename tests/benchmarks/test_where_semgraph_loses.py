"""The sentences in bold of docs/benchmarks.md follow from the committed results."""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable
from typing import Any

import pytest

from benchmarks.ingest.bench import STREAMED
from benchmarks.operators.bench import FILTERED
from benchmarks.suite import Lines
from benchmarks.suite.made import ROOT
from benchmarks.suite.tables import values

PAGE = (ROOT / "docs/benchmarks.md").read_text(encoding="utf-8")
SECTION = PAGE.split("## Where semgraph loses\n")[1].split("\n## ")[0]


def of(benchmark: str, figure: str, **key: Any) -> float:
    """The median of a figure of one case."""
    found = values([line for line in Lines(benchmark) if line.is_of(key)], figure)
    assert found, (benchmark, key)
    return statistics.median(found)


def stream(way: str) -> float:
    return of("ingest", "seconds", stream=STREAMED, way=way, store="Neo4j")


def search(way: str) -> float:
    return of("search", "cpu_ms", recipe="EDGE_HYBRID_SEARCH_RRF", facts=100_000, way=way)


def calls(way: str, task: str = FILTERED) -> float:
    return of("operators", "calls", task=task, way=way, noise="none")


SENTENCES: dict[str, Callable[[], bool]] = {
    "Where all messages are at hand, graphiti-core's bulk mode takes less time than semgraph as shipped,": lambda: (
        stream("window: ready") < stream("graphiti-core, bulk") < stream("as shipped")
    ),
    "A hybrid search among 100,000 facts takes semgraph on SQLite more than twice the CPU of graphiti-core's client,": lambda: (
        search("semgraph, SQLite") > 2 * search("graphiti-core, Neo4j")
    ),
    "Implementations that ask more than once for a row, such as `vote` and `reflexion`, cost more calls than LOTUS;": lambda: (
        calls("vote") > calls("LOTUS") >= calls("per_row")
        and calls("reflexion", "sem_map 100 rows") > calls("LOTUS", "sem_map 100 rows")
    ),
}


def test_each_sentence_is_checked() -> None:
    bold = re.findall(r"\*\*(.+?)\*\*", SECTION, re.DOTALL)
    assert {" ".join(sentence.split()) for sentence in bold} == set(SENTENCES)


@pytest.mark.parametrize("sentence", SENTENCES)
def test_it_follows_from_the_results(sentence: str) -> None:
    assert SENTENCES[sentence]()
