"""Without its package `lotus` is a plan's error, which says what to install and what that
brings.
"""

from __future__ import annotations

from importlib.metadata import distributions

import pytest

from semgraph import lotus as installed
from semgraph.conformance.cases import LIBRARY, node
from semgraph.llm.base import Limits
from semgraph.logical.plan import Choice
from semgraph.semantic.contract import OPERATORS

SAID = (
    'it needs LOTUS (lotus-ai 1.2.4): pip install "semgraph[lotus]", in a separate environment '
    "(it installs torch, and numpy below 2)"
)


@pytest.mark.parametrize("operator", OPERATORS)
def test_the_install_command_is_said(operator: str) -> None:
    assert "lotus-ai" not in {found.metadata["Name"] for found in distributions()}
    assert (
        LIBRARY.get(operator, Choice("lotus")).refuses(node(operator, answers=False), Limits())
        == SAID
    )


def test_another_version_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installed, "version", lambda _: "1.3.0")
    said = installed.lacking() or ""
    assert said.startswith("it needs lotus-ai 1.2.4, and 1.3.0 is installed: pip install")
