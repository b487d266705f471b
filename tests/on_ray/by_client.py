"""A cluster entered by `ray://`, through the server of Ray's client, which does not always answer: by
night, `SEMGRAPH_RAY_CLIENT=1 .venv-ray/bin/python -m pytest tests/on_ray/by_client.py`.
"""

from __future__ import annotations

import pytest

from tests.engine.test_local import alone, rows_of_groups
from tests.execution.conftest import Work, wire
from tests.on_ray.conftest import client_port
from tests.on_ray.test_ray import SHARDS, graph_of, in_a_process

pytestmark = pytest.mark.usefixtures("cluster")


async def test_a_cluster_is_entered_by_its_address(simple: Work):
    """From a process that is not part of it."""
    rows = rows_of_groups()
    _, graph, asked = await alone(simple, rows)
    simple.model.arrived.clear()
    address = f"ray://127.0.0.1:{client_port()}?shards={SHARDS}&workers=2"
    code, said = await in_a_process(simple, rows, engine=address)
    assert code == 0, said
    assert "Traceback" not in said
    assert wire(simple.model.requests) == asked
    assert await graph_of(simple) == graph
