"""Every block of the documentation is run, and prints what the page shows."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

import semgraph.pandas
from semgraph.frontend.frame import Frame
from tests.docs.blocks import ROOT, Reader, blocks

DOCS = ROOT / "docs"
FILES = Path(__file__).parent / "files"
"""A folder for each page that needs files which its reader has: rows, plans."""

PAGES = sorted(
    page.relative_to(DOCS).as_posix()
    for page in DOCS.rglob("*.md")
    if page.parent.name not in {"plans", "prompts"}  # made from the plans; prompts are no pages
)


@pytest.mark.parametrize("name", [page for page in PAGES if blocks(DOCS / page)])
def test_the_blocks_of_a_page_run_and_print_what_it_shows(name: str, reader: Reader) -> None:
    if (files := FILES / name.removesuffix(".md")).is_dir():
        shutil.copytree(files, reader.project.folder, dirs_exist_ok=True)
    reader.check(DOCS / name)


def test_a_shell_reads_every_command_also_those_that_are_not_run() -> None:
    for page in (ROOT / "README.md", *DOCS.rglob("*.md")):
        for block in blocks(page):
            if block.language == "bash":
                done = subprocess.run(
                    ["bash", "-n"], input=block.text, text=True, capture_output=True, check=False
                )
                assert done.returncode == 0, f"{block.place}: {done.stderr}"


NOT_RUN = {
    "agents.md": ["servers that listen until they are ended; tests/serve starts them"],
    "architecture.md": ["a picture"],
    "azure-and-proxies.md": ["an error message; tests/llm/test_openai.py has such proxies"],
    "batch.md": ["a batch takes minutes; tests/llm/test_batch.py sends them"],
    "called-plans.md": ["an error message; tests/frontend has its plan"],
    "change-a-prompt.md": [
        "calls a model; tests/compare/test_variants.py runs plans with other prompts",
        "calls a model; docs/refresh.md has such a command with its output",
        "calls a model; tests/compare/test_variants.py runs such comparisons",
        "calls a model; tests/compare/test_variants.py runs such comparisons",
    ],
    "compare.md": [
        "a synopsis",
        "part of the output of a comparison; tests/compare has the estimates",
        "a chart; tests/compare/test_charts.py draws it",
        "an excerpt: its session, plan and truth are yours; tests/compare runs such calls",
        "a synopsis",
        "part of the output of a comparison; tests/compare has the estimates",
    ],
    "compare-searches.md": ["needs the extra cross-encoder, which installs torch"],
    "engines.md": ["needs Ray and a Neo4j server; tests/on_ray has both"],
    "from-graphiti.md": ["the other library"],
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
        "needs a Neo4j server; tests/cli/test_cypher.py runs on one",
        "downloads a Neo4j server",
    ],
    "ollama.md": ["needs Ollama"],
    "pydantic.md": [
        "needs a model; tests/plans/test_graphiti_classes.py runs the classes of that page"
    ],
    "resume.md": ["of a run with failed rows"],
    "seeds.md": [
        "it calls a model of yours; tests/docs/test_seed_page.py runs it with a simulated one",
        "part of the output of that comparison",
    ],
    "share-a-run.md": ["packs a folder"],
    "telemetry.md": [
        "sets the exporter of the whole process; tests/execution/test_telemetry.py runs it"
    ],
    "upgrade.md": [
        "copies a folder and installs a version",
        "an error of 0.2.1",
        "copies a file and installs a version",
    ],
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
    assert all(hasattr(Frame, f"sem_{name}") for name in methods)
