"""Nearest neighbours are exact: the same as by comparing everything, whatever the batch."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from semgraph.stores.cosine import Block, candidates, exact, lengths
from tests.examples import examples

SIZE = 5
numbers = st.integers(-4, 4).map(float) | st.floats(-1e3, 1e3, width=32)
matrices = st.integers(1, 40).flatmap(lambda n: arrays(np.float32, (n, SIZE), elements=numbers))


def block_of(vectors, first=0):
    block = Block(vectors.shape[1])
    block.put(np.arange(first, first + len(vectors)), np.asarray(vectors, np.float32))
    return block


def by_comparing_all(vectors, query):
    """Cosines by number of the row; rows of zeros have none."""
    wide = vectors.astype(np.float64)
    norms = np.sqrt((wide * wide).sum(axis=1)) * np.sqrt((query * query).sum())
    return {
        i: float(np.clip((wide[i] * query).sum() / norms[i], -1, 1))
        for i in range(len(vectors))
        if norms[i] > 0
    }


def best(blocks, query, above, k):
    [among] = candidates(blocks, query[None], above, k)
    found = []
    for i, block in enumerate(blocks):
        places = among.places[among.block == i]
        found += zip(block.ids[places].tolist(), exact(block, places, query).tolist(), strict=True)
    found = [(score, row) for row, score in found if score > above]
    return [row for _, row in sorted(found, key=lambda hit: (-hit[0], hit[1]))][:k]


@given(
    matrices,
    arrays(np.float32, SIZE, elements=numbers),
    st.sampled_from([-1.0, 0.0, 0.5]),
    st.integers(1, 6),
    st.integers(1, 3),
)
@settings(max_examples=examples(60, 150), deadline=None)
def test_the_best_are_the_best_by_comparing_all(vectors, query, above, k, parts):
    query = query.astype(np.float64)
    if not query.any():
        return
    scores = by_comparing_all(vectors, query)
    expected = sorted(
        (i for i, score in scores.items() if score > above), key=lambda i: (-scores[i], i)
    )[:k]
    cuts = np.array_split(np.arange(len(vectors)), parts)
    blocks = [block_of(vectors[cut], cut[0]) for cut in cuts if len(cut)]
    assert best(blocks, query, above, k) == expected


def test_equal_vectors_tie_exactly_whatever_the_batch():
    rng = np.random.default_rng(3)
    one, many = rng.standard_normal(384), rng.standard_normal((501, 384)).astype(np.float32)
    many[::5] = many[0]
    block = block_of(many)
    scores = exact(block, np.arange(501), one)
    assert len(set(scores[::5])) == 1
    assert scores[:7].tolist() == exact(block, np.arange(7), one).tolist()
    alone = candidates([block], one[None], -1.0, 10)[0]
    among = candidates([block], np.stack([rng.standard_normal(384), one, one]), -1.0, 10)[2]
    assert set(alone.places.tolist()) >= set(np.argsort(-scores, kind="stable")[:10].tolist())
    assert set(among.places.tolist()) >= set(np.argsort(-scores, kind="stable")[:10].tolist())


def test_vectors_left_out_are_below_the_floor():
    rng = np.random.default_rng(4)
    vectors, query = rng.standard_normal((2000, 64)).astype(np.float32), rng.standard_normal(64)
    block = block_of(vectors)
    [among] = candidates([block], query[None], -1.0, 25)
    scores = exact(block, np.arange(2000), query)
    outside = np.setdiff1d(np.arange(2000), among.places)
    assert 25 <= len(among.places) < 40
    assert scores[outside].max() < among.floor <= np.sort(scores)[-25]


def test_cosines_are_of_the_vectors_as_given():
    block = block_of(np.array([[3, 4], [-6, -8], [4, -3]], np.float32))
    assert exact(block, np.arange(3), np.array([1.0, 0.0])).tolist() == [0.6, -0.6, 0.8]
    assert exact(block, np.arange(3), np.array([3.0, 4.0])).tolist() == [1.0, -1.0, 0.0]


def test_no_cosine_is_beyond_one():
    vectors = np.random.default_rng(5).standard_normal((500, 7)).astype(np.float32)
    block = block_of(vectors)
    scores = [
        exact(block, np.array([i]), sign * vectors[i].astype(np.float64))[0]
        for i in range(500)
        for sign in (1, -1)
    ]
    assert (min(scores), max(scores)) == (-1.0, 1.0)
    assert np.abs(scores).min() > 1 - 1e-12


steps = st.lists(
    st.lists(
        st.tuples(st.integers(0, 9), arrays(np.float32, 2, elements=st.integers(-1, 1).map(float))),
        min_size=1,
        max_size=6,
    ),
    max_size=8,
)


@given(steps)
@settings(deadline=None)
def test_a_block_holds_the_latest_of_each_row(steps):
    block, expected = Block(2), {}
    for step in steps:
        rows = dict(step)
        block.put(np.fromiter(rows, np.int64, len(rows)), np.stack([*rows.values()]))
        expected |= {row: tuple(vector) for row, vector in rows.items()}
    kept = {row: vector for row, vector in expected.items() if any(vector)}
    assert {
        int(row): tuple(vector) for row, vector in zip(block.ids, block.vectors, strict=True)
    } == kept
    assert block.norms == pytest.approx(lengths(block.vectors))
    assert block.inverse == pytest.approx(1 / block.norms)
    places = block.places(range(10))
    assert [place >= 0 for place in places] == [row in kept for row in range(10)]
    assert all(block.ids[place] == row for row, place in enumerate(places) if place >= 0)
