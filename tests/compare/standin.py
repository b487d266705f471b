"""The stand-in model, from wherever it lives."""

from benchmarks.world import StandIn

__all__ = ["StandIn"]
