"""Functions of vectors: worked by hand, and as DuckDB has them."""

from __future__ import annotations

import doctest
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

import semgraph.expr.functions
from semgraph.errors import Fault
from semgraph.expr.duckdb import connection
from semgraph.expr.functions import mean_vector, mmr, mmr_static
from semgraph.expr.types import parse_type, type_of_arrow

ANGLES = st.lists(st.integers(0, 360), min_size=1, max_size=6)


def at(degrees: float) -> list[float]:
    return [math.cos(math.radians(degrees)), math.sin(math.radians(degrees))]


def test_the_examples_in_the_docs_hold() -> None:
    assert doctest.testmod(semgraph.expr.functions).failed == 0


def test_the_next_is_relevant_and_unlike_those_before() -> None:
    """Query at 0°. Relevance cos 10 = .985, cos 20 = .940, cos −40 = .766; after the first, cos(10,
    20) = .985, cos(10, −40) = .643.
    """
    picks = mmr(at(0), [at(10), at(20), at(-40)], 0.5)
    assert [pick.nth for pick in picks] == [1, 3, 2]
    assert [round(pick.score, 3) for pick in picks] == [0.492, 0.062, -0.023]


def test_the_static_one_compares_with_all_others() -> None:
    """.492 − .492, .470 − .492, .383 − .321."""
    picks = mmr_static(at(0), [at(10), at(20), at(-40)], 0.5)
    assert [(pick.nth, round(pick.score, 3)) for pick in picks] == [
        (3, 0.062),
        (1, 0.0),
        (2, -0.023),
    ]


@given(ANGLES, st.sampled_from([mmr, mmr_static]))
def test_relevance_alone_sorts_by_cosine_and_every_candidate_is_there_once(
    angles: list[int], rank: object
) -> None:
    picks = rank(at(0), [at(a) for a in angles], 1.0)  # type: ignore[operator]
    assert sorted(p.nth for p in picks) == list(range(1, len(angles) + 1))
    cosines = [round(math.cos(math.radians(angles[p.nth - 1])), 6) for p in picks]
    assert cosines == sorted(cosines, reverse=True)


def test_what_has_no_direction_is_like_nothing() -> None:
    assert [(p.nth, p.score) for p in mmr(at(0), [None, at(0), [0, 0]], 1.0)] == [
        (2, 1.0),
        (1, 0.0),
        (3, 0.0),
    ]
    assert [p.nth for p in mmr(None, [at(0), at(90)], 0.5)] == [1, 2]
    assert mmr(at(0), [], 0.5) == []
    assert mean_vector([None]) is None


def test_in_plans_they_are_functions_of_lists() -> None:
    sql = "SELECT mmr([1, 0], [[0, 1], NULL, [1, 0]], 1.0), mean_vector([[1, 2], [3, 4]]), mmr([1, 0], NULL, 1.0)"
    [(picks, mean, missing)] = connection().cursor().sql(sql).fetchall()
    assert picks == [{"nth": 3, "score": 1.0}, {"nth": 1, "score": 0.0}, {"nth": 2, "score": 0.0}]
    assert (mean, missing) == ([2.0, 3.0], None)


def test_vectors_of_two_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match="vectors of 2 and of 3 numbers"):
        mmr([1, 0], [[1, 0, 0]], 0.5)


def test_a_vector_has_a_length_or_any() -> None:
    assert (str(parse_type("vector")), str(parse_type("vector null"))) == ("vector", "vector null")
    assert type_of_arrow(parse_type("vector").arrow) == parse_type("vector")
    assert parse_type("vector[3]").size == 3
    with pytest.raises(Fault, match="a vector has a number of elements"):
        parse_type("vector[x]")
