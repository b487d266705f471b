"""Beyond one process and beyond one million."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from benchmarks.engine.growth import grown
from benchmarks.scale import equal, inputs, markers, vectors
from benchmarks.scale.engines import ALONE, Carried
from benchmarks.search.embedded import DIMENSIONS
from benchmarks.suite import Benchmark, Case, Column, Table, Target

OVERHEAD, SPEEDUP, EQUAL, GROWTH, MARKERS, VECTORS, INPUTS = (
    "overhead",
    "two workers",
    "equal",
    "many episodes",
    "markers",
    "vectors",
    "inputs",
)
LOCAL, RAY = "local?workers=1", "ray?workers=1"
TWO = "ray?workers=2"
SHARD = 100
"""Groups of a shard."""
SMALL, LARGE = (1, 2), (4, 5)
"""Shards of a run, and messages of a group."""
LATENCY, FLIGHT = 0.2, 200
EMPTY, FILLED = "groups that begin empty", "100 episodes in each group before"
MANY = ((500, 5, 0), (10_000, 1_000, 0), (10_000, 100, 100), (100_000, 1_000, 0))
"""Episodes, groups, and episodes in each group before those that are measured."""
FACTS = (20_000, 1_000_000)
ROWS = (10_000, 100_000, 1_000_000)
GIGABYTES = 1_430
"""1.5 GB, in MiB."""


def cases() -> Sequence[Case]:
    """The rows of the table; 100,000 episodes with --full only."""
    return [*_engines(), *_equal(), *_many(), *_markers(), *_vectors(), *_inputs()]


def _carried(engine: str, size: tuple[int, int], **more: Any) -> Carried:
    shards, each = size
    return Carried(engine, SHARD * shards, each, shards, **more)


def _overhead(engine: str, size: tuple[int, int]) -> dict[str, Any]:
    shards, each = size
    shown = f"{SHARD * shards * each:,} episodes of {SHARD * shards} groups"
    return {"what": OVERHEAD, "size": shown, "way": engine}


def _engines() -> Iterator[Case]:
    for size in (SMALL, LARGE):
        for engine in (ALONE, LOCAL, RAY):
            quick = size == SMALL and engine != LOCAL
            settings = {"shards": size[0]}
            yield Case(_overhead(engine, size), _carried(engine, size), settings, quick=quick)
    for engine in (RAY, TWO):
        run = _carried(engine, LARGE, latency=LATENCY, in_flight=FLIGHT)
        settings = {"latency_s": LATENCY, "in_flight": FLIGHT, "shards": LARGE[0]}
        yield Case({"what": SPEEDUP, "way": engine}, run, settings)


def _equal() -> Iterator[Case]:
    settings = {
        "groups": equal.GROUPS, "episodes": equal.EPISODES, "in_flight": equal.IN_FLIGHT, "latency_s": equal.LATENCY,
    }  # fmt: skip
    for way in equal.WAYS:
        run = partial(equal.compared, way)
        yield Case({"what": EQUAL, "way": way}, run, settings, quick=way == equal.WORKER, trials=1)


def _episodes(episodes: int, groups: int, before: int) -> dict[str, Any]:
    kind = FILLED if before else EMPTY
    return {"what": GROWTH, "way": f"{episodes:,} episodes of {groups:,} groups", "kind": kind}


def _many() -> Iterator[Case]:
    for episodes, groups, before in MANY:
        yield Case(
            _episodes(episodes, groups, before),
            partial(grown, episodes, groups, 0, before),
            quick=episodes < 1_000,
            full=episodes > 10_000,
            trials=1,
            seconds=7_200,
        )


def _committed(count: int) -> dict[str, Any]:
    return {"what": MARKERS, "way": f"{count:,} rows committed"}


def _markers() -> Iterator[Case]:
    for count in markers.COMMITTED:
        yield Case(_committed(count), partial(markers.looked_up, count), quick=True)


def _facts(facts: int, kind: str, words: str) -> dict[str, Any]:
    return {"what": VECTORS, "facts": facts, "vectors": kind, "words": words}


def _vectors() -> Iterator[Case]:
    settings = {"k": vectors.K, "dimensions": DIMENSIONS, "queries": vectors.QUERIES}
    for facts in FACTS:
        for kind in vectors.KINDS:
            for words in (vectors.RARE, vectors.ANY):
                yield Case(
                    _facts(facts, kind, words),
                    partial(vectors.measured, facts, kind, words),
                    settings,
                    quick=(facts, kind, words) == (FACTS[0], vectors.AROUND, vectors.RARE),
                    trials=1,
                    seconds=3_600,
                )


def _rows(rows: int) -> dict[str, Any]:
    return {"what": INPUTS, "way": f"{rows:,} rows"}


def _inputs() -> Iterator[Case]:
    for rows in ROWS:
        run = partial(inputs.laid_out, rows)
        settings = {"shards": inputs.SHARDS}
        yield Case(_rows(rows), run, settings, quick=rows == ROWS[0], trials=1, seconds=1_200)


def _same(way: str) -> Target:
    return Target(
        f"{way}: runs with another graph or other requests",
        {"what": EQUAL, "way": way},
        "different",
        0,
    )


def _search(words: str) -> Iterator[Target]:
    million = _facts(FACTS[-1], vectors.AROUND, words)
    for figure, must, what in (("p50_ms", 40, "one query"), ("each_ms", 5, "50 at once, each")):
        yield Target(f"1,000,000 facts in one file, {words}, {what}: ms", million, figure, must)


def _growth(of: tuple[int, int, int]) -> Iterator[Target]:
    key = _episodes(*of)
    what = f"{key['way']}, {key['kind']}"
    yield Target(f"{what}: peak MiB", key, "peak_mib", GIGABYTES, form="{:,.0f}")
    yield Target(f"{what}: CPU of an episode, last tenth against the first", key, "growth", 1.15)


BENCHMARK = Benchmark(
    name="scale",
    question="What do several workers and large graphs cost, and do they change the result?",
    kind="simulated",
    cases=cases,
    tables=(
        Table(
            "How much CPU does an engine take?",
            ("size", "way"),
            (
                Column("cpu_s", "CPU s", "{:.1f}", ratio=True),
                Column("ray_s", "Ray's own CPU s", "{:.1f}"),
                Column("seconds", "s", "{:.1f}"),
                Column("calls", "calls"),
            ),
            where={"what": OVERHEAD},
            baseline={"way": ALONE},
            note=f"add_episode, shards of {SHARD} groups, a file for each shard in all rows; the model answers at once. "
            "CPU s: the process of the run, its workers and the ledger, after a small run that starts all. "
            "Ray's own: its servers, and workers that start or wait. × is the multiple of the run without an engine.",
        ),
        Table(
            "How much faster are two workers than one?",
            ("way",),
            (
                Column("seconds", "s", "{:.1f}", ratio=True),
                Column("cpu_s", "CPU s", "{:.1f}", ratio=True),
                Column("ray_s", "Ray's own CPU s", "{:.1f}"),
            ),
            where={"what": SPEEDUP},
            baseline={"way": RAY},
            note=f"The model takes {LATENCY * 1000:.0f} ms a call, {FLIGHT} requests at one time; 2,000 episodes, 400 groups "
            "in 4 shards. The model server takes one of the two cores when it is asked.",
        ),
        Table(
            "Is a run in shards the run in one process?",
            ("way",),
            (
                Column("runs", "runs"),
                Column("different", "different"),
                Column("graphs", "other graphs"),
                Column("requests", "requests"),
                Column("beyond", "beyond those of one process"),
                Column("lacking", "lacking"),
                Column("in_flight", "most in flight"),
            ),
            where={"what": EQUAL},
            note="Counted by the server. A run is different if its graph is another, or a request lacks, or more requests are "
            f"sent twice than were in flight when something died (at most {equal.IN_FLIGHT}; in the first rows nothing dies). "
            f"With max_calls, which ends the run early, if it sends other than {equal.LIMIT} requests.",
        ),
        Table(
            "Do memory and CPU stay flat over many episodes?",
            ("way", "kind"),
            (
                Column("peak_mib", "peak MiB"),
                Column("first_mib", "MiB after the first tenth"),
                Column("last_mib", "at the end"),
                Column("first_ms", "CPU ms an episode, first tenth", "{:.1f}"),
                Column("last_ms", "last tenth", "{:.1f}"),
                Column("growth", "last / first", "{:.2f}"),
                Column("seconds", "s"),
                Column("calls", "calls"),
            ),
            where={"what": GROWTH},
            note="One process, an SQLite file, a model that answers immediately. In groups that begin empty the first "
            "episodes have nothing to search, so what one costs grows with the graph. Where each had 100 episodes before, the "
            "graph hardly grows, and what grows is the run. The peak includes the episodes before.",
        ),
        Table(
            "How long does a run look for one new row among the committed rows of its group?",
            ("way",),
            (Column("cpu_ms", "CPU ms", "{:.3f}"), Column("peak_kib", "peak KiB", "{:.1f}")),
            where={"what": MARKERS},
            note="The store alone, an SQLite file; the median of 200 lookups.",
        ),
        Table(
            "How long does a hybrid search take in a large file, and what does it miss?",
            ("facts", "vectors", "words"),
            (
                Column("p50_ms", "ms p50", "{:.1f}"),
                Column("p95_ms", "p95", "{:.1f}"),
                Column("cpu_ms", "CPU ms", "{:.1f}"),
                Column("vector_p50_ms", "by vector alone", "{:.1f}"),
                Column("each_ms", f"ms each, {vectors.AT_ONCE} at once", "{:.1f}"),
                Column("recall", "recall@10", "{:.3f}"),
                Column("peak_mib", "peak MiB"),
                Column("first_s", "first search: s", "{:.1f}"),
                Column("first_mib", "peak MiB"),
                Column("file_mib", "file MiB"),
                Column("loaded_per_s", "loaded a second"),
            ),
            where={"what": VECTORS},
            note=f"Facts of one group, twelve words and {DIMENSIONS} dimensions each; the store alone, "
            f"{vectors.K} results by each method, the query already embedded. Recall is that of the search "
            "by vector, against the exact cosines.",
        ),
        Table(
            "How much memory does it take to lay out many rows by shard?",
            ("way",),
            (
                Column("peak_mib", "peak MiB"),
                Column("seconds", "s", "{:.1f}"),
                Column("cpu_s", "CPU s", "{:.1f}"),
                Column("file_mib", "file MiB", "{:.1f}"),
            ),
            where={"what": INPUTS},
            note=f"`semgraph run add_episode` over a Parquet file with `--engine local?shards={inputs.SHARDS}&workers=1` and "
            "`--max-calls 1`: the rows are read and laid out, every shard begins, and no episode is processed.",
        ),
    ),
    targets=(
        Target("CPU of --engine ray, one worker, against no engine", _overhead(RAY, LARGE), "cpu_s", 1.15,
               of=_overhead(ALONE, LARGE)),
        Target("CPU of --engine ray, one worker, against the engine local", _overhead(RAY, LARGE), "cpu_s", 1.15,
               of=_overhead(LOCAL, LARGE)),
        *(_same(way) for way in equal.WAYS),
        *(target for of in MANY[1:] for target in _growth(of)),
        Target("one new row in a group with 100,000 rows: CPU ms", _committed(100_000), "cpu_ms", 5.0),
        *_search(vectors.RARE),
        *_search(vectors.ANY),
        *(
            Target(f"1,000,000 facts in one file, vectors {kind}: recall@10", _facts(FACTS[-1], kind, vectors.RARE),
                   "recall", 0.99, least=True)
            for kind in vectors.KINDS
        ),
        Target("1,000,000 rows laid out by shard: peak MiB", _rows(ROWS[-1]), "peak_mib", GIGABYTES, form="{:,.0f}"),
    ),
    targets_note=f"{GIGABYTES:,} MiB are 1.5 GB. 100,000 episodes are measured with `--full` only. Rows of Ray need "
    "`make bench-scale`, which installs it.",
    sources=(*Benchmark.sources, "benchmarks/engine", "benchmarks/ingest", "benchmarks/search"),
)  # fmt: skip
