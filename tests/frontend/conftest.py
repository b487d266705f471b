"""A folder to write plans into, with a graph and a prompt."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from semgraph.frontend.load import load_plan
from semgraph.logical.plan import LogicalPlan

GRAPH = """
graph: library
nodes:
  Book:
    properties: {title: string, year: int64}
    derived: {title_key: key(title), title_embedding: {embed: title}}
    fulltext: {book_title: [title]}
  Author: {properties: {name: string}}
edges:
  WROTE: {source: Author, target: Book}
"""
SAME = """---
returns: {why: string}
---
# item
{title}
# other
{title}
"""


class Folder:
    """Files that a test writes."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, name: str, text: str) -> Path:
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text).lstrip("\n"))
        return path

    def load(self, text: str, **options: Any) -> LogicalPlan:
        return load_plan(self.write("plan.yaml", text), **options)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folder:
    monkeypatch.chdir(tmp_path)
    found = Folder(tmp_path)
    found.write("graph.yaml", GRAPH)
    found.write("prompts/same_book.md", SAME)
    return found


Load = Callable[..., LogicalPlan]


@pytest.fixture
def load(folder: Folder) -> Load:
    return folder.load
