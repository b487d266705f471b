"""A cluster of Ray on this machine, and runs against the stand-in for the model."""

from __future__ import annotations

import gc
import os
import socket
import warnings
from collections.abc import Iterator
from functools import cache

import pytest
from ray.cluster_utils import Cluster

from benchmarks.scale.clusters import cluster_here
from tests.execution.conftest import model, place, simple, work
from tests.patience import HANGS

__all__ = ["model", "place", "simple", "work"]

BY_CLIENT = os.environ.get("SEMGRAPH_RAY_CLIENT") == "1"
"""Whether the cluster has a server for Ray's client too, which does not always answer."""


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """One node, which stays; tests add others and remove them."""
    os.environ["RAY_CLIENT_SERVER_CHECK_CHANNEL_TIMEOUT_S"] = f"{HANGS:.0f}"
    client = {"ray_client_server_port": client_port()} if BY_CLIENT else {}
    with warnings.catch_warnings():  # Ray leaves the logs of its client's server to the collector
        warnings.simplefilter("ignore", ResourceWarning)
        cluster = cluster_here(**client)
        opened = cluster.__enter__()
        gc.collect()
    try:
        yield opened
    finally:
        cluster.__exit__(None, None, None)


@cache
def client_port() -> int:
    """The port at which the cluster answers processes of other machines."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port
