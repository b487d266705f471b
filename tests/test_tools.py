"""Tools that judge a change: what weighs, and mutants that are kept as diffs."""

from __future__ import annotations

import pytest

from tools.mutate import applied, difference, mutants
from tools.weigh import Weight, weight

SOURCE = '''"""One line.

Two more.
"""


def larger(a: int, b: int) -> int:
    """The larger of two."""
    if a > b:  # fmt: skip
        return a
    return b


def positive(a: int) -> bool:
    return a > 0
'''


def test_lines_statements_and_docstrings_are_counted() -> None:
    assert weight(SOURCE) == Weight(lines=15, statements=8, docstrings=5, files=1, fmt=1)


@pytest.mark.parametrize("before", ["", "import os\n\n\n"])
def test_a_mutant_applies_as_a_diff_where_its_lines_have_moved(before: str) -> None:
    found = mutants(SOURCE, 20, seed=1)
    assert len(found) == 7
    for _, changed in found:
        diff = difference("larger.py", SOURCE, changed)
        assert applied(diff, before + SOURCE) == before + changed


def test_a_mutant_does_not_apply_where_its_line_was_changed() -> None:
    _, changed = next(m for m in mutants(SOURCE, 20, seed=1) if "a > 0" in m[0])
    diff = difference("larger.py", SOURCE, changed)
    assert applied(diff, SOURCE.replace("def positive(a: int)", "def sign(a: float)")) is not None
    assert applied(diff, SOURCE.replace("a > 0", "0 < a")) is None
