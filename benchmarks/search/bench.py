"""Search: the hits and the time of each recipe, over both stores and beside graphiti-core; and the
store alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from benchmarks.frame import Benchmark, Case, Chart, Table
from benchmarks.search.embedded import KINDS, measured
from benchmarks.search.ours import ALONE, AT_ONCE, MORE, graphiti, semgraph

SMALL, MIDDLE, LARGE, HUGE = 1_000, 10_000, 100_000, 1_000_000
SQLITE, NEO4J, GRAPHITI = "semgraph, SQLite", "semgraph, Neo4j", "graphiti-core, Neo4j"
WAYS = {SQLITE: "SQLite", NEO4J: "Neo4j"}
RANKS = ("RRF", "MMR", "NODE_DISTANCE", "EPISODE_MENTIONS", "CROSS_ENCODER")
COMBINED = tuple(f"COMBINED_HYBRID_SEARCH_{rank}" for rank in ("RRF", "MMR", "CROSS_ENCODER"))
FACTS = tuple(f"EDGE_HYBRID_SEARCH_{rank}" for rank in RANKS)
ENTITIES = tuple(f"NODE_HYBRID_SEARCH_{rank}" for rank in RANKS)
COMMUNITIES = tuple(f"COMMUNITY_HYBRID_SEARCH_{rank}" for rank in ("RRF", "MMR", "CROSS_ENCODER"))
RECIPES = (*FACTS, *ENTITIES, *COMMUNITIES, *COMBINED)
MAIN = (FACTS[0], ENTITIES[0], COMBINED[0])
"""The recipes that show how time grows with the number of facts."""


def _alone() -> Iterator[Case]:
    """The store without a plan: by size, two kinds of queries, one and a hundred at once."""
    settings = {"k": 20, "dimensions": 384}
    for facts in (SMALL, MIDDLE, LARGE, HUGE):
        for words in KINDS:
            for at_once in (1, 100):
                key = {"facts": facts, "words": words, "at once": at_once}
                more: dict[str, Any] = {"trials": 1, "seconds": 3600} if facts >= LARGE else {}
                run = partial(measured, facts, words, at_once)
                yield Case(key, run, settings, quick=facts == SMALL, full=facts == HUGE, **more)


def _default(recipe: str, way: str, facts: int) -> bool:
    """Whether a search is measured without `--full`: not where a model ranks hundreds of candidates
    for each query; beyond 1,000 facts the first recipe, for which a Neo4j is filled for minutes.
    """
    if recipe.endswith("CROSS_ENCODER"):
        return (recipe, way, facts) == (FACTS[-1], SQLITE, SMALL)
    if facts == SMALL:
        return way == SQLITE or recipe in MAIN
    return recipe == FACTS[0] or (recipe, way, facts) == (COMBINED[0], SQLITE, MIDDLE)


def _searches(facts: int, recipes: Sequence[str]) -> Iterator[Case]:
    """The whole plan by each recipe over each store, and graphiti-core beside."""
    limit = {SMALL: 300, MIDDLE: 900, LARGE: 3600}[facts]
    for recipe in recipes:
        settings = {"questions": AT_ONCE, "alone": ALONE, **MORE.get(recipe, {})}
        runs: dict[str, Any] = {
            way: partial(semgraph, recipe, store, facts) for way, store in WAYS.items()
        }
        if recipe not in MORE:
            runs[GRAPHITI] = partial(graphiti, recipe, facts)
        for way, run in runs.items():
            key = {"recipe": recipe, "way": way, "facts": facts}
            quick = facts == SMALL and way == SQLITE and recipe in MAIN
            full, trials = not _default(recipe, way, facts), 3 if facts == SMALL else 1
            more = {"quick": quick, "full": full, "trials": trials, "seconds": limit}
            yield Case(key, run, settings, **more)


def cases() -> Sequence[Case]:
    """By size, so that a store of a size is filled once; all recipes up to 10,000 facts, the main
    ones beyond.
    """
    whole = (*FACTS, *MORE, *RECIPES[5:])
    sizes = {SMALL: whole, MIDDLE: whole, LARGE: MAIN}
    return [*_alone(), *(case for size in sizes.items() for case in _searches(*size))]


COSTS = f"""; ms p50=p50_ms; p95=p95_ms; ms each, {AT_ONCE} at once=each_ms:.1f; round trips=statements:.1f;
    calls of the model=calls:.1f; CPU ms=cpu_ms"""


def _quality(scope: str) -> str:
    return (
        f"{scope}: recall@10={scope}_recall:.3f; nDCG@10={scope}_ndcg:.3f; MRR={scope}_mrr:.3f; gold={scope}_gold:.1f; "
        f"n={scope}_questions"
    )


BENCHMARK = Benchmark(
    "search",
    "What does a search find, how long does it take, and how much of that is the store?",
    cases,
    (
        Table(
            "Which recipe finds the facts that answer a question, and what does it cost?", "recipe, way, facts",
            _quality("facts") + COSTS, {"facts": (SMALL, MIDDLE), "recipe": (*FACTS, *MORE, *COMBINED)},
            note=f"Each trial draws {AT_ONCE} other questions of the same world; {ALONE} are asked one by one (p50, p95, CPU "
            "of the asking process, round trips), then all at once (ms each, and the hits). “gold”: the mean number of right "
            "results of a question; “n”: the questions with any. graphiti-core 0.31.2 uses the same Neo4j and embedding "
            "server; its `search()` stands for the two recipes that it runs, `search_()` for the others. Vectors are the "
            "simulated server's: hashed words and letters, 256 dimensions. They compare recipes and engines over the same "
            "vectors, and say nothing about the quality of a real embedding model. A cross-encoder here is the simulated "
            "model too: it scores a passage by the same vectors, without waiting. "
            f"“{next(iter(MORE))}” has graphiti-core's threshold on Neo4j, whose 0.6 is (1 + cosine) / 2.",
        ),
        Table(
            "Which recipe finds the entities at the ends of those facts?", "recipe, way, facts", _quality("entities") + COSTS,
            {"facts": (SMALL, MIDDLE), "recipe": (*ENTITIES, *COMBINED)},
            note="Most questions name one end and ask for the other, which only a walk along facts can find: without one, "
            "a search can find about half. nDCG and MRR tell the rank of the named end.",
        ),
        Table(
            "Which recipe finds the communities of the entity in question, and the episodes that state the facts?",
            "recipe, way, facts", f"{_quality('communities')}; {_quality('episodes')}{COSTS}",
            {"facts": (SMALL, MIDDLE), "recipe": (*COMMUNITIES, *COMBINED)},
            note="A community is the staff of an organisation, named by its members. Its columns leave out questions about "
            "entities without a community. COMMUNITY_HYBRID_SEARCH_CROSS_ENCODER gives 3 results, all others 10.",
        ),
        Table(
            "What do more facts cost, in time and in recall?", "recipe, way, facts",
            f"facts: recall@10=facts_recall:.3f; nDCG@10=facts_ndcg:.3f{COSTS}", {"way": (*WAYS, GRAPHITI), "recipe": MAIN},
            note="Further facts come from other worlds in the same group, with similar names. Each size has a database "
            "of its own; Neo4j has a heap of 768 MB and a page cache of 128 MB. A search is a plan: what it takes besides the "
            "store, some 4 ms of CPU, is most of the time of one query in a small graph. Each run opens its store first, "
            "which takes further round trips.",
        ),
        Table(
            "How long does one query take in the embedded store alone, by words and by vector?", "facts, words, at once",
            """ms p50=p50_ms:.2f; p95=p95_ms:.2f; CPU ms=cpu_ms:.2f; bare parts ms p50=bare_p50_ms:.2f; multiple=of_bare:.2f;
            by vector: multiple of a product=of_product:.2f; recall@10=recall:.3f; loaded a second=loaded_per_s""",
            {"words": tuple(KINDS)},
            note="Synthetic facts of twelve words, vectors of 384 dimensions, 20 results by each method, the query already "
            "embedded. The bare parts: one FTS5 query ordered by BM25, one product of a matrix and a vector, the rows by id; "
            "query by query in turns. With 100 at once, times are per query. By vector alone: the multiple of one product in "
            "float32, and the share of the exact ten nearest.",
        ),
    ),
    (
        Chart(
            "plan", "EDGE_HYBRID_SEARCH_RRF, one query", "facts", "p50_ms", "way", ("facts", "ms p50"), {"recipe": FACTS[0]},
            "xy",
        ),
    ),
    sources=(*Benchmark.sources, "benchmarks/graphiti_itself.py"),
)  # fmt: skip
