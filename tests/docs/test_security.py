"""Each sentence of the page on security has the test that it names."""

from __future__ import annotations

import re
from functools import cache

from tests.docs.blocks import ROOT

PAGE = ROOT / "docs" / "security.md"


@cache
def _tests_of(file: str) -> frozenset[str]:
    """The names of the tests of a file."""
    text = (ROOT / file).read_text(encoding="utf-8")
    return frozenset(re.findall(r"^(?:async )?def (test_\w+)\(", text, re.MULTILINE))


def test_each_sentence_names_a_test_that_exists() -> None:
    rows = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    sentences = [row for row in rows if not row.endswith("| test |")]
    assert len(sentences) > 40
    for row in sentences:
        named = re.fullmatch(r"\| [^|]+ \| `(tests/[\w/]+\.py)::(test_\w+)` \|", row)
        assert named, f"no test beside: {row}"
        assert named[2] in _tests_of(named[1]), row
