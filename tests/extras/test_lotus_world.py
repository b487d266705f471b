"""LOTUS by itself asks the world's server: without errors it finds what is true, and its errors are
those that were put in.
"""

from __future__ import annotations

import asyncio
import gc
import warnings
from collections.abc import Iterator

import pytest

from benchmarks.operators.cases import tasks
from benchmarks.operators.lotus_itself import asking
from benchmarks.world import Noise, StandIn

pytestmark = pytest.mark.filterwarnings("default")
ASKED = [
    ("sem_filter 100 rows", "LOTUS"),
    ("sem_map 100 rows", "LOTUS"),
    ("sem_join 20 x 20", "LOTUS"),
    ("sem_agg 10 groups of 10", "LOTUS"),
    ("sem_topk 5 of 50", "LOTUS (heap)"),
]


@pytest.fixture(autouse=True)
def connections() -> Iterator[None]:
    """It leaves its connections open: they are let go here, where nobody minds."""
    yield
    import litellm

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        litellm.in_memory_llm_clients_cache.flush_cache()
        gc.collect()


async def found(server: StandIn, name: str, way: str) -> bool:
    """Whether what LOTUS finds is what is true."""
    task = tasks()[name]
    with warnings.catch_warnings():  # they are not ours to mend
        warnings.simplefilter("ignore")
        answer = await asyncio.to_thread(asking(server.base_url, task, way))
    assert not isinstance(answer, str), answer
    return answer == task.truth


@pytest.mark.parametrize(("name", "way"), ASKED)
async def test_lotus_finds_what_is_true(name: str, way: str) -> None:
    async with StandIn() as server:
        assert await found(server, name, way)
        assert set(server.calls) == {"lotus"}


@pytest.mark.parametrize(("name", "way"), [(name, way) for name, way in ASKED if "map" not in name])
async def test_lotus_is_told_what_is_wrong_as_often_as_others(name: str, way: str) -> None:
    async with StandIn(noise=Noise(verdict=0.3, drop=0.3)) as server:
        assert not await found(server, name, way)
