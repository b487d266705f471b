"""The reader of a page: a folder, a key, and a simulated model in the place of OpenAI's endpoint."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from semgraph.llm.services import OPENAI
from tests.cli.conftest import Project
from tests.docs.answers import PageModel
from tests.docs.blocks import ROOT, WIDTH, Reader
from tests.inside import session_of_frames
from tests.served import served

ADDRESSES = ("http://localhost:11434/v1", "http://localhost:8000/v1", "http://gpu:8000/v1")


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Iterator[PageModel]:
    """The simulated model, in the place of OpenAI's endpoint."""
    server = PageModel()
    with served(server):
        monkeypatch.setitem(vars(OPENAI), "url", server.base_url)
        yield server


@pytest.fixture
def reader(model: PageModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Reader]:
    """A reader with a key, in an empty folder."""
    session_of_frames(None)
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "SEMGRAPH_HOME": str(tmp_path / "home"),
        "OPENAI_API_KEY": "a key",
        "COLUMNS": WIDTH,
    }
    folder = tmp_path / "work"
    shutil.copytree(ROOT / "docs" / "examples", folder / "docs" / "examples")
    models = {
        "SEMGRAPH_LLM": f"openai:gpt-4.1-mini@{model.base_url}",
        "SEMGRAPH_EMBEDDER": f"openai:vectors@{model.base_url}",
    }
    made = Reader(Project(folder, environment), dict.fromkeys(ADDRESSES, model.base_url), models)
    yield made
    made.close()
    if session := session_of_frames(None):
        session.close()
