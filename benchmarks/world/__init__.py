"""A small world with a known truth, messages about it, and a model that answers from its prompts
alone.
"""

from benchmarks.world.batches import BatchFault
from benchmarks.world.caching import PrefixCache
from benchmarks.world.faults import Fault, Faults
from benchmarks.world.noise import Noise
from benchmarks.world.server import StandIn
from benchmarks.world.waiting import Rates
from benchmarks.world.world import World

__all__ = [
    "BatchFault",
    "Fault",
    "Faults",
    "Noise",
    "PrefixCache",
    "Rates",
    "StandIn",
    "World",
]
