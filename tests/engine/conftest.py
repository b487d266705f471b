"""Runs in shards, against the stand-in for the model and each store; workers are in this process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from semgraph.session import sharded
from tests.engine.here import EngineHere
from tests.execution.conftest import model, place, simple, work

__all__ = ["model", "place", "simple", "work"]


@pytest.fixture(autouse=True)
def here() -> Iterator[None]:
    """Runs that name Ray have workers in this process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sharded, "RayEngine", EngineHere)
        yield
