"""The contract of implementations as checks that need no test framework, over a model that answers
from the request alone.

`semgraph operators check DIR` and the tests of the shipped implementations run the same checks.
Nothing here is asked of a real model, and nothing leaves the machine.
"""

from __future__ import annotations

from semgraph.conformance.folder import Checked, check_folder, told
from semgraph.conformance.new_operator import skeleton
from semgraph.conformance.suite import (
    CHECKS,
    Agreement,
    Broken,
    Outcomes,
    Way,
    agreement,
    run_checks,
)

__all__ = [
    "CHECKS", "Agreement", "Broken", "Checked", "Outcomes", "Way", "agreement", "check_folder", "run_checks", "skeleton",
    "told",
]  # fmt: skip
