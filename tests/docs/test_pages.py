"""Every block of the documentation is run, and prints what the page shows.

`SEMGRAPH_RENEW=1` writes the outputs of the pages anew.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import semgraph.pandas
from semgraph.frontend.frame import SemanticMethods
from semgraph.llm import openai, prices, settings
from tests.cli.conftest import Project
from tests.docs.answers import PageModel
from tests.docs.blocks import ROOT, WIDTH, Reader, blocks
from tests.served import served

DOCS = ROOT / "docs"
FILES = Path(__file__).parent / "files"
"""A folder for each page that needs files which its reader has: rows, plans."""

PAGES = sorted(
    page.relative_to(DOCS).as_posix()
    for page in DOCS.rglob("*.md")
    if page.parent.name not in {"plans", "prompts"}  # made from the plans; prompts are no pages
)
ADDRESSES = ("http://localhost:11434/v1", "http://localhost:8000/v1", "http://gpu:8000/v1")


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Iterator[PageModel]:
    """The simulated model, in the place of OpenAI's endpoint."""
    server = PageModel()
    with served(server):
        for module in (openai, prices, settings):
            monkeypatch.setattr(module, "OPENAI_URL", server.base_url)
        yield server


@pytest.fixture
def reader(model: PageModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Reader]:
    """A reader with a key, in an empty folder."""
    monkeypatch.setattr(semgraph.pandas, "_session", None)
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "SEMGRAPH_HOME": str(tmp_path / "home"),
        "OPENAI_API_KEY": "a key",
        "COLUMNS": WIDTH,
    }
    folder = tmp_path / "work"
    shutil.copytree(DOCS / "examples", folder / "docs" / "examples")
    models = {
        "SEMGRAPH_LLM": f"openai:gpt-4.1-mini@{model.base_url}",
        "SEMGRAPH_EMBEDDER": f"openai:vectors@{model.base_url}",
    }
    made = Reader(Project(folder, environment), dict.fromkeys(ADDRESSES, model.base_url), models)
    yield made
    made.close()
    if semgraph.pandas._session is not None:
        semgraph.pandas._session.close()


@pytest.mark.parametrize("name", [page for page in PAGES if blocks(DOCS / page)])
def test_the_blocks_of_a_page_run_and_print_what_it_shows(name: str, reader: Reader) -> None:
    if (files := FILES / name.removesuffix(".md")).is_dir():
        shutil.copytree(files, reader.project.folder, dirs_exist_ok=True)
    wrong = list(reader.read(blocks(DOCS / name)))
    if wrong and os.environ.get("SEMGRAPH_RENEW"):
        text = (DOCS / name).read_text(encoding="utf-8")
        for mismatch in reversed(wrong):
            block = mismatch.block
            text = text[: block.start] + mismatch.printed.strip("\n") + "\n" + text[block.end :]
        (DOCS / name).write_text(text, encoding="utf-8")
    assert not wrong, wrong[0]


NOT_RUN = {
    "agents.md": ["servers that listen until they are ended; tests/serve starts them"],
    "architecture.md": ["a picture"],
    "batch.md": ["a batch takes minutes; tests/llm/test_batch.py sends them"],
    "called-plans.md": ["an error message; tests/frontend has its plan"],
    "compare.md": [
        "a synopsis",
        "part of the output of a comparison; tests/compare has the estimates",
        "an excerpt: its session, plan and truth are yours; tests/compare runs such calls",
        "a synopsis",
        "part of the output of a comparison; tests/compare has the estimates",
    ],
    "engines.md": ["needs Ray and a Neo4j server; tests/on_ray has both"],
    "functions.md": ["an error message; tests/execution/test_functions.py has its plan"],
    "graphiti.md": [
        "needs graphiti-core and Neo4j; tests/extras/test_graphiti_database.py compares it"
    ],
    "memories.md": [
        "the output of a benchmark, shortened",
        "plans and questions of yours; tests/memories/test_interface.py compares every memory",
    ],
    "neo4j.md": [
        "needs a Neo4j server; the tests of stores run on one",
        "Cypher, in Neo4j's browser",
        "downloads a Neo4j server",
    ],
    "ollama.md": ["needs Ollama"],
    "plan-language.md": ["all keys at once, with names of several plans"],
    "resume.md": ["of a run with failed rows"],
    "shards.md": ["needs two Neo4j servers; tests/stores has them"],
    "vllm.md": ["needs a GPU with vLLM"],
    "your-own-operator.md": [
        "the example with an error in it; tests/conformance/test_checking.py makes one"
    ],
}
"""Blocks that no test runs, by page: why."""


def test_the_blocks_that_no_test_runs_are_these() -> None:
    marked = {
        name: [block.value for block in blocks(DOCS / name) if block.mark == "not-run"]
        for name in PAGES
    }
    assert {name: reasons for name, reasons in marked.items() if reasons} == NOT_RUN


def test_the_page_of_data_frames_names_every_method() -> None:
    page = (DOCS / "data-frames.md").read_text(encoding="utf-8")
    methods = re.findall(r"^\| `(\w+)\(", page, re.MULTILINE)
    own = [name for name in vars(semgraph.pandas.Semantics) if not name.startswith("_")]
    assert sorted(methods) == sorted(own)
    assert all(hasattr(SemanticMethods, f"sem_{name}") for name in methods)
