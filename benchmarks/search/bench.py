"""Search: the hits and the time of each recipe, over both stores and beside graphiti-core; and the
store alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from benchmarks.search.embedded import measured
from benchmarks.search.ours import ALONE, AT_ONCE, MORE, graphiti, semgraph
from benchmarks.suite import Benchmark, Case, Chart, Column, Contest, Table, Target

KINDS = ("no very frequent words", "any words")
SMALL, MIDDLE, LARGE = 1_000, 10_000, 100_000
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


def _key(facts: int, words: str, at_once: int) -> dict[str, str | int]:
    return {"facts": facts, "words": words, "at once": at_once}


def _alone() -> list[Case]:
    """The store without a plan: three sizes, two kinds of queries, one and a hundred at once."""
    return [
        Case(
            _key(facts, words, at_once),
            partial(measured, facts, words, at_once),
            {"k": 20, "dimensions": 384},
            quick=facts == SMALL,
            full=facts == LARGE,
        )
        for facts in (SMALL, MIDDLE, LARGE)
        for words in KINDS
        for at_once in (1, 100)
    ]


def _default(recipe: str, way: str, facts: int) -> bool:
    """Whether a search is measured without `--full`: not where a model ranks hundreds of candidates
    for each query, nor where it takes a minute to fill a Neo4j for it.
    """
    if recipe.endswith("CROSS_ENCODER"):
        return (recipe, way, facts) == (FACTS[-1], SQLITE, SMALL)
    if facts == SMALL:
        return way == SQLITE or recipe in MAIN
    return (facts, way) == (MIDDLE, SQLITE) and recipe in {FACTS[0], COMBINED[0]}


def _searches(facts: int, recipes: Sequence[str]) -> list[Case]:
    """The whole plan by each recipe over each store, and graphiti-core beside."""
    found = []
    for recipe in recipes:
        settings = {"questions": AT_ONCE, "alone": ALONE, **MORE.get(recipe, {})}
        for way, store in WAYS.items():
            run = partial(semgraph, recipe, store, facts)
            found.append(_case(recipe, way, facts, run, settings))
        if recipe not in MORE:
            found.append(_case(recipe, GRAPHITI, facts, partial(graphiti, recipe, facts), settings))
    return found


def _case(recipe: str, way: str, facts: int, run: Any, settings: Any) -> Case:
    small = facts == SMALL and way == SQLITE and recipe in MAIN
    limit = {SMALL: 300, MIDDLE: 900, LARGE: 3600}[facts]
    full = not _default(recipe, way, facts)
    return Case(
        {"recipe": recipe, "way": way, "facts": facts},
        run,
        settings,
        quick=small,
        full=full,
        seconds=limit,
    )


def cases() -> Sequence[Case]:
    """By size, so that a store of a size is filled once; all recipes up to 10,000 facts, the main
    ones beyond.
    """
    searches = [
        case
        for facts in (SMALL, MIDDLE, LARGE)
        for case in _searches(facts, (*FACTS, *MORE, *RECIPES[5:]) if facts < LARGE else MAIN)
    ]
    return [*_alone(), *searches]


COSTS = (
    Column("p50_ms", "ms p50", "{:.0f}"),
    Column("p95_ms", "p95", "{:.0f}"),
    Column("each_ms", f"ms each, {AT_ONCE} at once", "{:.1f}"),
    Column("statements", "round trips", "{:.1f}"),
    Column("calls", "calls of the model", "{:.1f}"),
    Column("cpu_ms", "CPU ms", "{:.0f}"),
)


def _quality(scope: str, title: str) -> tuple[Column, ...]:
    return (
        Column(f"{scope}_recall", f"{title}: recall@10", "{:.3f}"),
        Column(f"{scope}_ndcg", "nDCG@10", "{:.3f}"),
        Column(f"{scope}_mrr", "MRR", "{:.3f}"),
        Column(f"{scope}_gold", "gold", "{:.1f}"),
        Column(f"{scope}_questions", "n"),
    )


EMBEDDINGS = (
    "Vectors are the simulated server's: hashed words and letters, 256 dimensions. They compare recipes and engines over "
    "the same vectors, and say nothing about the quality of a real embedding model. A cross-encoder here is the simulated "
    "model too: it scores a passage by the same vectors, without waiting."
)
SAME = (
    f"Each trial draws {AT_ONCE} other questions of the same world; {ALONE} are asked one by one (p50, p95, CPU of the "
    "asking process, round trips), then all at once (ms each, and the hits). “gold”: the mean number of right results of a "
    "question; “n”: the questions with any. graphiti-core 0.31.2 uses the same "
    "Neo4j and embedding server; its `search()` stands for the two recipes that it runs, `search_()` for the others."
)

BENCHMARK = Benchmark(
    name="search",
    question="What does a search find, how long does it take, and how much of that is the store?",
    kind="simulated",
    cases=cases,
    sources=(*Benchmark.sources, "benchmarks/graphiti_core.py"),
    tables=(
        Table(
            "Which recipe finds the facts that answer a question, and what does it cost?",
            ("recipe", "way", "facts"),
            (*_quality("facts", "facts"), *COSTS),
            where={"facts": (SMALL, MIDDLE), "recipe": (*FACTS, *MORE, *COMBINED)},
            note=f"{SAME} {EMBEDDINGS} “{next(iter(MORE))}” has graphiti-core's threshold on Neo4j, whose 0.6 is "
            "(1 + cosine) / 2.",
        ),
        Table(
            "Which recipe finds the entities at the ends of those facts?",
            ("recipe", "way", "facts"),
            (*_quality("entities", "entities"), *COSTS),
            where={"facts": (SMALL, MIDDLE), "recipe": (*ENTITIES, *COMBINED)},
            note="Most questions name one end and ask for the other, which only a walk along facts can find: without one, "
            "a search can find about half. nDCG and MRR tell the rank of the named end.",
        ),
        Table(
            "Which recipe finds the communities of the entity in question, and the episodes that state the facts?",
            ("recipe", "way", "facts"),
            (*_quality("communities", "communities"), *_quality("episodes", "episodes"), *COSTS),
            where={"facts": (SMALL, MIDDLE), "recipe": (*COMMUNITIES, *COMBINED)},
            note="A community is the staff of an organisation, named by its members. Its columns leave out questions about "
            "entities without a community. COMMUNITY_HYBRID_SEARCH_CROSS_ENCODER gives 3 results, all others 10.",
        ),
        Table(
            "What do more facts cost, in time and in recall?",
            ("recipe", "way", "facts"),
            (Column("facts_recall", "facts: recall@10", "{:.3f}"), Column("facts_ndcg", "nDCG@10", "{:.3f}"), *COSTS),
            where={"way": (*WAYS, GRAPHITI), "recipe": MAIN},
            note="Further facts come from other worlds in the same group, with similar names. Each size has a database "
            "of its own; Neo4j has a heap of 768 MB and a page cache of 128 MB.",
        ),
        Table(
            "How long does one query take in the embedded store alone, by words and by vector?",
            ("facts", "words", "at once"),
            (
                Column("p50_ms", "ms p50", "{:.2f}"),
                Column("p95_ms", "p95", "{:.2f}"),
                Column("cpu_ms", "CPU ms", "{:.2f}"),
                Column("bare_p50_ms", "bare parts ms p50", "{:.2f}"),
                Column("of_bare", "multiple of them", "{:.2f}"),
                Column("loaded_per_s", "loaded a second"),
            ),
            where={"words": KINDS},
            note="Synthetic facts of twelve words, vectors of 384 dimensions, 20 results by each method, the query already "
            "embedded. The bare parts: one FTS5 query ordered by BM25, one product of a matrix and a vector, the rows by id; "
            "query by query in turns. With 100 at once, times are per query.",
        ),
    ),
    charts=(
        Chart(
            "plan", "EDGE_HYBRID_SEARCH_RRF, one query", "facts", "p50_ms", "way", ("facts", "ms p50"),
            {"recipe": FACTS[0]}, "xy",
        ),
        Chart(
            "together", f"EDGE_HYBRID_SEARCH_RRF, {AT_ONCE} queries at once", "facts", "each_ms", "way", ("facts", "ms each"),
            {"recipe": FACTS[0]}, "xy",
        ),
        Chart(
            "recipes", "1,000 facts, SQLite", "p50_ms", "facts_recall", "recipe", ("ms p50", "facts: recall@10"),
            {"way": SQLITE, "facts": SMALL, "recipe": (*FACTS, *MORE)},
        ),
        Chart("size", "One query, embedded store", "facts", "p50_ms", "words", ("facts", "ms"), {"at once": 1}, "xy"),
    ),
    targets=(
        Target("100,000 facts: multiple of the bare parts", _key(LARGE, KINDS[0], 1), "of_bare", 1.2),
        Target("100,000 facts, any words: multiple of the bare parts", _key(LARGE, KINDS[1], 1), "of_bare", 1.2),
        Target("100,000 facts, any words: ms", _key(LARGE, KINDS[1], 1), "p50_ms", 10),
        Target(
            f"100,000 facts, whole plan on SQLite, {AT_ONCE} at once: ms each",
            {"recipe": FACTS[0], "way": SQLITE, "facts": LARGE}, "each_ms", 5,
        ),
    ),
    contests=(
        Contest(
            "way",
            (GRAPHITI,),
            costs={"p50_ms": "ms p50", "each_ms": f"ms each, {AT_ONCE} at once", "cpu_ms": "CPU ms", "calls": "calls"},
            quality={f"{scope}_{name}": f"{scope}: {title}" for scope in ("facts", "entities", "episodes", "communities")
                   for name, title in (("recall", "recall@10"), ("ndcg", "nDCG@10"))},
        ),
    ),
    loses="A search is a plan: what it takes besides the store, some 4 ms of CPU, is most of the time of one query in a "
    "small graph. Each run opens its store first, which takes further round trips. "
    "Facts with a cosine of 0.6 or less are no candidates (`similar`); graphiti-core's 0.6 on Neo4j is a "
    "cosine of 0.2, which lets more candidates in.",
)  # fmt: skip
