"""Hybrid search in the embedded store beside its bare parts."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from benchmarks.search.embedded import measured
from benchmarks.suite import Benchmark, Case, Chart, Column, Table, Target

KINDS = ("no very frequent words", "any words")
LARGE = 100_000


def _key(facts: int, words: str, at_once: int) -> dict[str, str | int]:
    return {"facts": facts, "words": words, "at once": at_once}


def cases() -> Sequence[Case]:
    """Three sizes, two kinds of queries, one and a hundred at once."""
    found = []
    for facts in (1_000, 10_000, LARGE):
        for words in KINDS:
            for at_once in (1, 100):
                run = partial(measured, facts, words, at_once)
                found.append(Case(_key(facts, words, at_once), run, {"k": 20, "dimensions": 384}, quick=facts == 1_000))
    return found


BENCHMARK = Benchmark(
    name="search",
    question="How long does hybrid search take, beside the parts that nobody can leave out?",
    kind="simulated",
    cases=cases,
    tables=(
        Table(
            "How long does one query take, by words and by vector?",
            ("facts", "words", "at once"),
            (
                Column("p50_ms", "ms p50", "{:.2f}"),
                Column("p95_ms", "p95", "{:.2f}"),
                Column("cpu_ms", "CPU ms", "{:.2f}"),
                Column("bare_p50_ms", "bare parts ms p50", "{:.2f}"),
                Column("of_bare", "multiple of them", "{:.2f}"),
                Column("loaded_per_s", "loaded a second"),
            ),
            note="Synthetic facts of twelve words, vectors of 384 dimensions, 20 results by each method, the query embedded "
            "already. The bare parts: one FTS5 query ordered by BM25, one product of a matrix and a vector, the rows by id; "
            "query by query in turns. With 100 at once, times are those of one of them.",
        ),
    ),
    charts=(
        Chart("size", "One query, embedded store", "facts", "p50_ms", "words", ("facts", "ms"), {"at once": 1}, "xy"),
    ),
    targets=(
        Target("100,000 facts: multiple of the bare parts", _key(LARGE, KINDS[0], 1), "of_bare", 1.2),
        Target("100,000 facts, any words: multiple of the bare parts", _key(LARGE, KINDS[1], 1), "of_bare", 1.2),
        Target("100,000 facts, 100 at once: ms each", _key(LARGE, KINDS[0], 100), "p50_ms", 10),
        Target("100,000 facts, 100 at once, any words: ms each", _key(LARGE, KINDS[1], 100), "p50_ms", 10),
    ),
    sources=("semgraph/stores",),
)
