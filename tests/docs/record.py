"""Records the answers of the tutorials: `python -m tests.docs.record [first_graph]`.

They are those of the simulated model of the pages, with vectors of the local embedder. Readers replay them (`--llm recorded`), so that a
tutorial prints the same everywhere, without a model. Run this when a tutorial asks something else, then
renew the page.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any
from unittest.mock import patch

import semgraph as sg
from semgraph.llm.catalogue import DEFAULT_EMBEDDER
from semgraph.llm.embed import LocalEmbedder
from semgraph.llm.openai import OpenAI
from semgraph.llm.recording import Recorder
from semgraph.session.resources import Resources
from tests.docs.answers import PageModel
from tests.docs.blocks import ROOT, blocks
from tests.served import served

EXAMPLES = ROOT / "docs" / "examples"
MODEL = "simulated:gpt-4.1-mini"


@contextmanager
def recording(name: str) -> Iterator[sg.Session]:
    """A session whose answers become the recording of this name."""
    recorder, server = Recorder(), PageModel()
    with served(server), tempfile.TemporaryDirectory() as folder:
        llm = recorder.llm(OpenAI("gpt-4.1-mini", server.base_url, "none"))
        embedder = LocalEmbedder(DEFAULT_EMBEDDER)
        clock = recorder.clock(lambda _name: datetime.now(UTC))
        with (
            patch.object(Resources, "_clock", lambda *_: clock),
            sg.Session(llm=llm, embedder=recorder.embedder(embedder), folder=folder) as session,
        ):
            yield session
    recorder.recording.model = MODEL
    path = EXAMPLES / "recordings" / f"{name}.jsonl"
    path.parent.mkdir(exist_ok=True)
    recorder.write(path)
    path.chmod(0o644)


def first_graph() -> None:
    """The runs of docs/first-graph.md."""
    page = "".join(b.text for b in blocks(ROOT / "docs" / "first-graph.md") if b.language == "bash")
    rows = [json.loads(line) for line in re.findall(r"echo '(\{.*\})'", page)]
    query = re.findall(r'queries="([^"]*)"', page)[0]
    with recording("first_graph") as session:
        session.run("add_episode", episodes=rows[:-1])
        session.run("add_episode", episodes=rows[-1:])
        session.run("search", queries=query)


def first_filter() -> None:
    """The blocks of docs/first-filter.md."""
    names: dict[str, Any] = {}
    with recording("first_filter") as session, patch.object(sg, "Session", lambda **_: session):
        for block in blocks(ROOT / "docs" / "first-filter.md"):
            if block.language == "python":
                exec(block.text, names)


def memory() -> None:
    """The plans of docs/your-own-memory.md."""
    for name, before in {"remember": (), "recall": ("remember",)}.items():
        with recording(name) as session:
            for plan in (*before, name):
                session.run(EXAMPLES / f"{plan}.yaml")


if __name__ == "__main__":
    for record in (first_graph, first_filter, memory):
        if record.__name__ in (sys.argv[1:] or record.__name__):
            record()
