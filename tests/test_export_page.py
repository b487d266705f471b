"""docs/export.md shows what its commands and examples give."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.cli.conftest import Project
from tests.pages import ROOT, run_page

PAGE = (ROOT / "docs" / "export.md").read_text(encoding="utf-8")


def test_the_commands_and_examples_of_the_page_give_what_it_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = Project(
        tmp_path,
        {"PATH": "/usr/bin", "HOME": str(tmp_path), "SEMGRAPH_HOME": str(tmp_path / "home")},
    )
    (commands,) = re.findall(r"```bash\n(.*?)```", PAGE, re.DOTALL)
    (shown,) = re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL)
    printed = ""
    for line in commands.splitlines():
        done = project(*shlex.split(line, comments=True)[1:])
        assert done.code == 0, done.err
        printed = done.out
    assert printed == shown
    monkeypatch.chdir(tmp_path)
    assert run_page("export.md") >= 12
