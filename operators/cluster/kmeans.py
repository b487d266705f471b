"""At most `k` groups of rows with close vectors, by k-means.

Vectors are compared by Euclidean distance; `cosine=true` scales them to length 1 before. Rows with
equal vectors share a group. Needs `pip install "semgraph[kmeans]"`.

Source: Lloyd: Least squares quantization in PCM (1982); Arthur, Vassilvitskii: k-means++ (2007), by
scikit-learn.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from semgraph.operator import Vectors

EXTRA = "kmeans"


def refuses(k: int, starts: int, cosine: bool) -> str | None:
    """Refuse parameters out of range."""
    if k < 1:
        return "k must be at least 1"
    if starts < 1:
        return "starts must be at least 1"
    return None


def cluster(
    keys: Sequence[Any],
    edges: None,
    vectors: Vectors,
    seed: int,
    k: int = 8,
    starts: int = 10,
    cosine: bool = False,
) -> list[int]:
    """The best of `starts` runs from random centres, in one thread, so that sums are reproducible."""
    from sklearn.cluster import KMeans
    from threadpoolctl import threadpool_limits

    points = vectors
    if cosine:
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        points = vectors / np.where(lengths == 0, 1, lengths)
    different, place = np.unique(points, axis=0, return_inverse=True)
    times = np.bincount(place.ravel(), minlength=len(different))
    means = KMeans(min(k, len(different)), n_init=starts, random_state=seed)
    with threadpool_limits(limits=1):
        labels = means.fit_predict(different, sample_weight=times)
    return [int(label) for label in labels[place.ravel()]]
