"""A cluster entered by `ray://`, through the server of Ray's client, which does not always answer: by
night, `.venv-ray/bin/python -m pytest tests/on_ray/by_client.py`.
"""

from __future__ import annotations

import gc
import socket
import warnings
from collections.abc import Iterator

import pytest

from benchmarks.scale.clusters import cluster_here
from tests.engine.test_local import alone, rows_of_groups
from tests.execution.conftest import Work, wire
from tests.on_ray.test_ray import SHARDS, graph_of, in_a_process
from tests.patience import HANGS


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """The address at which a cluster answers processes that are not part of it."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # of the logs of Ray's client server
        patch.setenv("RAY_CLIENT_SERVER_CHECK_CHANNEL_TIMEOUT_S", f"{HANGS:.0f}")
        with cluster_here(ray_client_server_port=port):
            gc.collect()
            yield f"ray://127.0.0.1:{port}"


async def test_a_cluster_is_entered_by_its_address(simple: Work, address: str):
    """From a process that is not part of it."""
    rows = rows_of_groups()
    _, graph, asked = await alone(simple, rows)
    simple.model.arrived.clear()
    engine = f"{address}?shards={SHARDS}&workers=2"
    code, said = await in_a_process(simple, rows, engine=engine)
    assert code == 0, said
    assert "Traceback" not in said
    assert wire(simple.model.requests) == asked
    assert await graph_of(simple) == graph
