"""A cluster of Ray on this machine, and runs against the stand-in for the model."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from ray.cluster_utils import Cluster

from benchmarks.scale.clusters import cluster_here
from tests.execution.conftest import model, place, simple, work

__all__ = ["model", "place", "simple", "work"]


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """One node, which stays; tests add others and remove them."""
    with cluster_here() as cluster:
        yield cluster
