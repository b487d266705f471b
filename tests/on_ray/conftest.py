"""A cluster of Ray on this machine, and runs against the stand-in for the model."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import ray
from ray.cluster_utils import Cluster

from tests.execution.conftest import model, place, simple, work

__all__ = ["model", "place", "simple", "work"]


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """One node, which stays; tests add others and remove them."""
    cluster = Cluster(
        initialize_head=True,
        head_node_args={"num_cpus": 2, "include_dashboard": False, "dashboard_port": 0},
    )
    ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
    yield cluster
    ray.shutdown()
    cluster.shutdown()
