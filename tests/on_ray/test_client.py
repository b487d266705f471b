"""A cluster entered by processes that are not workers of it: by `ray://HOST:PORT`, through the server
of Ray's client, and by `ray://auto`, on a machine of the cluster.
"""

from __future__ import annotations

import psutil
import pytest
from ray.cluster_utils import Cluster

from tests.engine.test_shards import alone, rows_of_groups
from tests.execution.conftest import Work, wire
from tests.on_ray.test_ray import PART, SHARDS, assert_resumed, driver, graph_of, in_a_process


async def assert_one_run(work: Work, engine: str) -> None:
    """A process of its own runs all, with the graph and the requests of a run without an engine."""
    rows = rows_of_groups()
    _, graph, asked = await alone(work, rows)
    code, said = await in_a_process(work, rows, engine=f"{engine}?shards={SHARDS}&workers=2")
    assert code == 0, said
    assert "Traceback" not in said
    assert wire(work.model.requests) == asked
    assert await graph_of(work) == graph


async def test_a_cluster_is_entered_by_its_address(
    simple: Work, cluster: Cluster, client_port: int
):
    await assert_one_run(simple, f"ray://127.0.0.1:{client_port}")


async def test_the_cluster_of_this_machine_is_entered_without_a_client(
    simple: Work, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("RAY_ADDRESS", cluster.address)
    await assert_one_run(simple, "ray://auto")


def client_servers() -> list[psutil.Process]:
    """The processes of clients, which the server of Ray's client has started."""
    own = psutil.Process()
    return [
        each
        for each in psutil.process_iter(["cmdline"])
        if "--mode=specific-server" in (each.info["cmdline"] or ()) and own in each.parents()
    ]


async def test_a_run_that_loses_its_cluster_says_so_and_is_resumed(
    simple: Work, cluster: Cluster, client_port: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("RAY_CLIENT_RECONNECT_GRACE_PERIOD", "1")
    rows = rows_of_groups(texts=28)
    _, graph, asked = await alone(simple, rows)
    simple.model.arrived.clear()
    engine = f"ray://127.0.0.1:{client_port}?shards={SHARDS}&workers=2"
    process = await driver(simple, rows, engine=engine)
    arrived = simple.model.arrived
    await simple.model.until(lambda: len(arrived) >= PART or process.returncode is not None)
    for each in client_servers():
        each.kill()
    _, said = await process.communicate()
    assert process.returncode == 1
    assert "UnavailableError: the connection to the cluster of Ray was lost" in said.decode()
    first = simple.records[-1]
    assert first["status"] == "failed"
    await assert_resumed(simple, first["run"], graph, asked)
