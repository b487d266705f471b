"""Each node joins the label of most weight among its neighbours, one after another, until none
moves.

A node takes the label of greatest summed weight, if that exceeds its own label's, or equals it and
is larger. Nodes go in key order and see each change at once. A move raises (weight inside labels,
sum of labels), so it ends; networkx's asynchronous version breaks ties at random.

Source: Raghavan, Albert, Kumara: Near linear time algorithm to detect community structures in
large-scale networks (Physical Review E, 2007).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from semgraph.operator import Edges

_ROUNDS = 1_000_000  # each move raises a bounded sum, so this is never reached


def cluster(keys: Sequence[Any], edges: Edges, vectors: None, seed: int) -> list[int]:
    """Labels by propagation, without randomness."""
    neighbours: list[dict[int, float]] = [{} for _ in keys]
    for a, b, weight in edges:
        neighbours[a][b] = neighbours[b][a] = weight
    label = list(range(len(keys)))
    for _ in range(_ROUNDS):
        moved = False
        for key, near in enumerate(neighbours):
            sums: dict[int, float] = {}
            for other, weight in near.items():
                sums[label[other]] = sums.get(label[other], 0.0) + weight
            if not sums:
                continue
            best = max(sums, key=lambda name: (sums[name], name))
            own = sums.get(label[key], 0.0)
            if sums[best] > own or (sums[best] == own and best > label[key]):
                label[key] = best
                moved = True
        if not moved:
            break
    return label
