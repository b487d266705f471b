"""Pages with examples in the form of doctest: ```` ```python ```` blocks that begin with `>>>`, run in
the order of the page in one namespace.
"""

from __future__ import annotations

import doctest
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]


def run_page(name: str) -> int:
    """Run the examples of a page of docs/; how many there were. Raises AssertionError with each that
    gives another output.
    """
    text = (ROOT / "docs" / name).read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(>>> .*?)^```", text, re.DOTALL | re.MULTILINE)
    parsed = doctest.DocTestParser().get_doctest("\n".join(blocks), {}, name, name, 0)
    said: list[str] = []
    doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(parsed, out=said.append)
    assert not said, "".join(said)
    return len(parsed.examples)
