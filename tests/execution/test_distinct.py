"""Counting different keys."""

from __future__ import annotations

import random

import pytest

from semgraph.execution import commit
from semgraph.execution.commit import DistinctKeys


@pytest.mark.parametrize("recent", [1, 3, 64])
def test_different_keys_are_counted_once_however_they_come(
    recent: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit, "_RECENT", recent)
    draw, keys, known = random.Random(1), DistinctKeys(), set[object]()
    for _ in range(400):
        some = [draw.choice([f"k{n}", n]) for n in draw.sample(range(3_000), draw.randrange(9))]
        keys.add(some + some[:2])
        known.update(some)
        assert keys.count == len(known)
    keys.add(known)
    assert keys.count == len(known)


def test_most_of_many_keys_take_eight_bytes_each() -> None:
    keys = DistinctKeys()
    for start in range(0, 300_000, 1_000):
        keys.add(f"key {n}" for n in range(start - min(start, 500), start + 1_000))
    assert keys.count == 300_000
    assert keys._sorted.nbytes <= 8 * 300_000
    assert len(keys._recent) <= 300_000 / 16
