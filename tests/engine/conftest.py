"""Runs in shards, against the stand-in for the model and each store."""

from __future__ import annotations

from tests.execution.conftest import model, place, simple, work

__all__ = ["model", "place", "simple", "work"]
