"""The contract of implementations as checks that need no test framework, with a model that answers
from the request alone.

`semgraph operators check DIR` and the tests of the shipped implementations run the same checks.
No real model is called, and nothing leaves the machine.
"""

from __future__ import annotations

from semgraph.conformance.folder import CheckedFile, check_folder, report_lines, skeleton
from semgraph.conformance.suite import (
    CHECKS,
    Agreement,
    Broken,
    Outcomes,
    Subject,
    agreement,
    run_checks,
)

__all__ = [
    "CHECKS", "Agreement", "Broken", "CheckedFile", "Outcomes", "Subject", "agreement",
    "check_folder", "report_lines", "run_checks", "skeleton",
]  # fmt: skip
