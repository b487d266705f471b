"""A model for tests and benchmarks: it answers, over HTTP, from the text of the prompt alone, by rules, always the same.

It understands short English sentences ("Ada works at Luma.", "Ada moved to Rome in 2024."), so what a plan makes of its answers
can be foretold. It says nothing about the quality of any real model.
"""

from tests.standin.faults import Fault, Faults
from tests.standin.server import StandIn

__all__ = ["Fault", "Faults", "StandIn"]
