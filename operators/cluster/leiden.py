"""Communities as of louvain, each of them connected, by moving, splitting and merging.

`resolution` above 1 makes more and smaller communities. Weights must not be negative. Needs
`pip install "semgraph[leiden]"`.

Source: Traag, Waltman, van Eck: From Louvain to Leiden: guaranteeing well-connected communities
(Scientific Reports, 2019), by graspologic-native (MIT).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from semgraph.operator import Edges

EXTRA = "leiden"


def refuses(resolution: float, iterations: int) -> str | None:
    """Refuse parameters out of range."""
    if resolution <= 0:
        return "resolution must be above 0"
    if iterations < 1:
        return "iterations must be at least 1"
    return None


def cluster(
    keys: Sequence[Any],
    edges: Edges,
    vectors: None,
    seed: int,
    resolution: float = 1.0,
    iterations: int = 2,
) -> list[int]:
    """The communities of graspologic-native; a node without edges is a community by itself."""
    from graspologic_native import leiden

    if any(weight < 0 for *_, weight in edges):
        raise ValueError("a weight is negative")
    if not any(weight for *_, weight in edges):
        return list(range(len(keys)))
    named = [(str(a), str(b), weight) for a, b, weight in edges]
    _, community = leiden(named, resolution=resolution, iterations=iterations, seed=seed)
    return [community.get(str(i), len(keys) + i) for i in range(len(keys))]
