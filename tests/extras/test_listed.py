"""With every extra installed, the command line lists every implementation, and none is refused for
want of a package.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from semgraph.conformance.cases import LIBRARY, node
from semgraph.llm.base import Limits
from semgraph.logical.plan import Choice
from semgraph.lotus import lacking
from semgraph.semantic.contract import OPERATORS

SEMGRAPH = Path(sys.executable).parent / "semgraph"


def test_all_are_listed_without_an_import_of_what_they_need() -> None:
    command = [SEMGRAPH, "operators", "list"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.count("lotus") == len(OPERATORS)
    assert "cross_encoder" in done.stdout
    asked = "import semgraph.lotus, sys, json; print(json.dumps([m for m in ('lotus', 'litellm', 'torch') if m in sys.modules]))"
    loaded = subprocess.run(
        [sys.executable, "-c", asked], capture_output=True, text=True, check=True
    )
    assert json.loads(loaded.stdout) == []


def test_logging_and_warnings_are_as_before_when_lotus_is_imported() -> None:
    asked = """
import asyncio, json, logging, warnings
from semgraph.lotus import loaded
state = lambda: [logging.getLogger().level, len(logging.getLogger().handlers), len(warnings.filters), warnings.showwarning.__name__]
before = state()
asyncio.run(loaded())
print(json.dumps([before, state()]))
"""
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    before, after = json.loads(done.stdout)
    assert before == after


def test_none_lacks_a_package() -> None:
    said = [
        LIBRARY.get(operator, Choice(one.name)).refuses(node(operator, answers=False), Limits())
        or ""
        for operator in OPERATORS
        for one in LIBRARY.list(operator)
    ]
    assert [text for text in said if "pip install" in text] == []
    assert lacking() is None
