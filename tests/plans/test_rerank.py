"""The rules by which found candidates are ordered, worked by hand."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import semgraph
from benchmarks.world import StandIn
from tests.plans.conftest import loaded

Ranked = list[tuple[str, float]]


@pytest.fixture
async def model() -> AsyncIterator[StandIn]:
    async with StandIn() as server:
        yield server


@pytest.fixture
async def session(model: StandIn, tmp_path: Path) -> AsyncIterator[semgraph.Session]:
    llm = f"openai:gpt-4.1-mini@{model.base_url}"
    async with semgraph.Session(
        llm=llm, store="memory", journal=False, runs="", folder=tmp_path
    ) as opened:
        yield opened


def pool(*ways: str, q: int = 1, **columns: dict[str, Any]) -> list[dict[str, Any]]:
    """Candidates named by letters, each way's best first; further columns by candidate."""
    return [
        {
            "q": q,
            "query": "Who leads?",
            "uuid": one,
            "way": way,
            "place": place,
            **{n: c.get(one) for n, c in columns.items()},
        }
        for way, found in enumerate(ways)
        for place, one in enumerate(found)
    ]


async def ranked(
    session: semgraph.Session, rows: list[dict[str, Any]], q: int = 1, **given: Any
) -> Ranked:
    tables = {name: given.pop(name) for name in ("near", "counted") if name in given}
    result = await session.arun(loaded("rerank", params=given), pool=rows, **tables)
    best = [row for row in result.tables["best"].to_pylist() if row["q"] == q]
    assert [row["rank"] for row in best] == list(range(len(best)))
    return [(row["uuid"], round(row["score"], 3)) for row in best]


@pytest.mark.parametrize("rule", ["rrf", True])
async def test_rrf_adds_one_over_place_and_breaks_ties_by_the_first_way(
    session: semgraph.Session, rule: Any
) -> None:
    """b 1/2 + 1/1; a 1; d 1/2; c 1/3."""
    assert await ranked(session, pool("abc", "bd"), rerank=rule) == [
        ("b", 1.5),
        ("a", 1.0),
        ("d", 0.5),
        ("c", 0.333),
    ]
    assert await ranked(session, pool("ab", "ba"), rerank=rule) == [("a", 1.5), ("b", 1.5)]
    assert await ranked(session, pool("", "x", "y"), rerank=rule) == [("x", 1.0), ("y", 1.0)]


async def test_with_a_larger_k_what_several_ways_find_is_before_the_first_of_one(
    session: semgraph.Session,
) -> None:
    """z 1/1, b 1/3 + 1/3; with 60: z 1/60 = 0.017, b 2/62 = 0.032."""
    found = pool("zxb", "yab")
    assert await ranked(session, found, limit=2) == [("z", 1.0), ("y", 1.0)]
    assert await ranked(session, found, limit=2, rrf_k=60) == [("b", 0.032), ("z", 0.017)]
    none = await session.arun(loaded("rerank", params={"rrf_k": 0}), pool=found)
    assert {failure.error for failure in none.failed} == {"rrf_k is a number above 0"}


async def test_limit_and_least_score(session: semgraph.Session) -> None:
    assert await ranked(session, pool("abc", "bd"), limit=2) == [("b", 1.5), ("a", 1.0)]
    assert await ranked(session, pool("abc", "bd"), min_score=0.5) == [
        ("b", 1.5),
        ("a", 1.0),
        ("d", 0.5),
    ]


async def test_queries_are_ranked_each_for_itself(session: semgraph.Session) -> None:
    both = [*pool("abc"), *pool("ca", q=2)]
    assert await ranked(session, both, q=2, limit=1) == [("c", 1.0)]
    assert await ranked(session, both, limit=1) == [("a", 1.0)]


# The query lies at (3, 4) / 5. Cosines with it: a .96, b .6, c .8; a and b .8, a and c .6, b and c
# 0.
LIKE = {"a": [4.0, 3.0], "b": [1.0, 0.0], "c": [0.0, 2.0]}
QUERY = {one: [3.0, 4.0] for one in "abcd"}


@pytest.mark.parametrize(
    ("rule", "weight", "expected"),
    [
        ("mmr", 1.0, [("a", 0.96), ("c", 0.8), ("b", 0.6)]),
        ("mmr", 0.5, [("a", 0.48), ("c", 0.1), ("b", -0.1)]),  # c: .4 - .3; b: .3 - .4
        (
            "mmr",
            0.0,
            [("b", 0.0), ("c", 0.0), ("a", -0.8)],
        ),  # all are 0 at first, and rrf has b before the others
        ("mmr_static", 1.0, [("a", 0.96), ("c", 0.8), ("b", 0.6)]),
        ("mmr_static", 0.5, [("c", 0.1), ("a", 0.08)]),  # a: .48 - .4; b: .3 - .4 is below 0
    ],
)
async def test_mmr(session: semgraph.Session, rule: str, weight: float, expected: Ranked) -> None:
    rows = pool("bca", like=LIKE, vector=QUERY)
    assert await ranked(session, rows, rerank=rule, **{"lambda": weight}) == expected


async def test_mmr_of_many_ways_and_a_candidate_without_a_vector(session: semgraph.Session) -> None:
    rows = pool("bd", "ab", like=LIKE, vector=QUERY)
    assert await ranked(session, rows, rerank="mmr", **{"lambda": 1.0}) == [
        ("a", 0.96),
        ("b", 0.6),
        ("d", 0.0),
    ]


async def test_node_distance_is_ten_one_or_nothing(session: semgraph.Session) -> None:
    nodes = {"a": "far", "b": "next", "c": "center", "d": "next"}
    rows = pool("abd", "cd", node=nodes, center=dict.fromkeys("abcd", "center"))
    near = [{"q": 1, "uuid": "next"}, {"q": 2, "uuid": "far"}]
    expected = [("c", 10.0), ("d", 1.0), ("b", 1.0), ("a", 0.0)]
    assert await ranked(session, rows, rerank="node_distance", near=near) == expected
    assert (
        await ranked(session, rows, rerank="node_distance", near=near, min_score=0.5)
        == expected[:3]
    )


async def test_episode_mentions_counts_and_rrf_breaks_ties(session: semgraph.Session) -> None:
    counted = [
        {"uuid": "c", "mentions": 3},
        {"uuid": "a", "mentions": 1},
        {"uuid": "b", "mentions": 1},
    ]
    expected = [("c", 3.0), ("b", 1.0), ("a", 1.0), ("d", 0.0)]
    assert (
        await ranked(session, pool("abcd", "b"), rerank="episode_mentions", counted=counted)
        == expected
    )


async def test_a_model_reads_the_best_by_rrf(session: semgraph.Session, model: StandIn) -> None:
    texts = {
        "a": "Ann works at Luma.",
        "b": "Ann leads Project Kite.",
        "c": "It rains.",
        "d": "Cats sleep.",
    }
    rows = pool("abcd", text=texts)
    found = await ranked(session, rows, rerank="cross_encoder", limit=2, shortlist=3)
    assert model.counters.by_question == {"score": 3}
    assert found[0][0] == "b"
    assert all(0 <= score <= 1 for _, score in found)
    assert len(found) == 2
