"""A cluster of Ray on this machine, and runs against the stand-in for the model."""

from __future__ import annotations

import gc
import socket
import warnings
from collections.abc import Iterator

import pytest
from ray.cluster_utils import Cluster

from tests.execution.conftest import model, place, simple, work
from tests.on_ray.clusters import cluster_here
from tests.patience import HANGS

__all__ = ["model", "place", "simple", "work"]


@pytest.fixture(scope="session")
def client_port() -> int:
    """The port at which the cluster answers processes that are not part of it."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    return port


@pytest.fixture(scope="session")
def cluster(client_port: int) -> Iterator[Cluster]:
    """One node, which stays; tests add others and remove them."""
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # of the logs of Ray's client server
        patch.setenv("RAY_CLIENT_SERVER_CHECK_CHANNEL_TIMEOUT_S", f"{HANGS:.0f}")
        with cluster_here(ray_client_server_port=client_port) as cluster:
            gc.collect()
            yield cluster
