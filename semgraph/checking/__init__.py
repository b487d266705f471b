"""The contract of implementations as checks that need no test framework, over a model that answers from the request alone.

`semgraph operators check DIR` and the tests of the shipped implementations run the same checks. Nothing here is asked of a
real model, and nothing leaves the machine.
"""

from semgraph.checking.agreement import Agreement, agreement
from semgraph.checking.folder import Checked, check_folder, told
from semgraph.checking.skeleton import skeleton
from semgraph.checking.suite import CHECKS, Outcomes, run_checks
from semgraph.checking.way import Broken, Way

__all__ = [
    "CHECKS", "Agreement", "Broken", "Checked", "Outcomes", "Way", "agreement", "check_folder", "run_checks", "skeleton",
    "told",
]  # fmt: skip
