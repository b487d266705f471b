"""A small project in a folder of its own, and a real model server that reads one kind of sentence:
`Ann knows Bob.`
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from typer import testing
from typer.main import get_command
from typer.testing import CliRunner

from semgraph.cli import app
from semgraph.folders import plans_folder
from semgraph.frontend.plan_files import PlanFile
from semgraph.logical.plan import LogicalPlan
from tests.llm.server import Answer, Fault, ModelServer
from tests.patience import HANGS, default_signals
from tests.served import served

GRAPH = """
graph: people
key: uuid
partition: group_id
common: {created_at: timestamp}
nodes:
  Note: {properties: {text: string, at: timestamp}}
  Person: {properties: {name: string}, index: [name]}
edges:
  KNOWS: {source: Person, target: Person, properties: {name: string, says: string, since: timestamp, notes: list<string>}}
draw: {node: name, edge: name, text: says, from: since, sources: notes}
"""
PLAN = """
plan: people
doc: Who knows whom.
graph: graph.yaml
inputs:
  notes: {uuid: string null, group_id: string null, text: string, at: timestamp}
params: {least: 0}
windows: {input: notes, partition: group_id, order: [at], key: uuid, key_of: [group_id, at, text]}
steps:
  told:
    - from: notes
    - sem_map: {prompt: "Who knows whom in: {text}", returns: {pairs: "list<struct<a: string, b: string>>"}}
    - unnest: {column: pairs, alias: pair, position: nth}
    - filter: nth > $least
  ends:
    - from: told
    - project: {note: uuid, group_id, names: "[pair.a, pair.b]"}
    - unnest: {column: names, alias: name}
    - distinct: [note, name]
    - project: {uuid: "id(group_id, name)", group_id, name}
  ties:
    - from: told
    - project:
        uuid: "id(group_id, pair.a, pair.b)"
        group_id:
        source: "id(group_id, pair.a)"
        target: "id(group_id, pair.b)"
        name: "'KNOWS'"
        says: text
        since: at
        notes: "[uuid]"
writes:
  - merge: {from: notes, node: Note, first: true}
  - merge: {from: ends, node: Person}
  - merge: {from: ties, edge: KNOWS, unite: [notes]}
returns: {people: ends, ties: ties}
example:
  inputs:
    notes:
      - {group_id: demo, at: "2025-01-15T09:00:00Z", text: "Ann knows Bob."}
      - {group_id: demo, at: "2025-01-16T09:00:00Z", text: "Bob knows Cleo."}
      - {group_id: demo, at: "2025-01-17T09:00:00Z", text: "Ann knows Cleo."}
"""
FIND = """
plan: find
doc: People by name.
graph: graph.yaml
inputs: {queries: {query: string, group_id: string null}}
steps:
  hits:
    - from: queries
    - search: {over: Person, alias: hit, k: 3, methods: [{equal: name, to: query}], partition: all}
    - project: {query, name: hit.name, uuid: hit.uuid, score: hit.score}
returns: [hits]
example: {inputs: {queries: [{query: Cleo, group_id: demo}]}, after: [people]}
"""
setattr(testing, "_get_command", cache(get_command))  # noqa: B010 - the commands are made once
SENTENCE = re.compile(r"(\w+) knows (\w+)\.")


@dataclass
class Serving:
    """A model server in a thread of its own."""

    server: ModelServer
    loop: asyncio.AbstractEventLoop

    @property
    def calls(self) -> int:
        """Requests that came."""
        return len(self.server.requests)

    def until(self, condition: Callable[[ModelServer], object]) -> None:
        """Wait until something has arrived."""
        asyncio.run_coroutine_threadsafe(self.server.until(condition), self.loop).result(HANGS)


async def pairs(body: dict[str, Any]) -> str | Answer | Fault:
    """What the server answers: the pairs in the last message; a note about nobody is refused."""
    text = body["messages"][-1]["content"]
    if "nobody" in text:
        return Answer(None, refusal="I would rather not say.")
    if "slow" in text:
        await asyncio.sleep(HANGS)
    return json.dumps({"pairs": [{"a": a, "b": b} for a, b in SENTENCE.findall(text)]})


@pytest.fixture
def serving() -> Iterator[Serving]:
    """The server, for the time of a test."""
    server = ModelServer(pairs)
    with served(server) as loop:
        yield Serving(server, loop)


@dataclass
class Ended:
    """A command that ended."""

    code: int
    out: str
    err: str


@dataclass
class Project:
    """A folder with plans, and how to run `semgraph` there: in this process, or as one of its own
    where that matters.
    """

    folder: Path
    env: dict[str, str]

    @contextmanager
    def inside(self) -> Iterator[None]:
        """This process is in the folder, with its environment."""
        with pytest.MonkeyPatch.context() as patched:
            patched.chdir(self.folder)
            for name in set(os.environ) - set(self.env):
                patched.delenv(name)
            for name, value in self.env.items():
                patched.setenv(name, value)
            yield

    def __call__(self, *args: str, text: str | None = None, **more: Any) -> Ended:
        """Run a command to its end; `text` is its standard input."""
        with self.inside():
            done = CliRunner().invoke(app, list(args), input=text, **more)
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        return Ended(done.exit_code, done.stdout, done.stderr)

    def start(self, *args: str) -> subprocess.Popen[str]:
        """Start a command as a process."""
        command = [sys.executable, "-c", "from semgraph.cli import main; main()", *args]
        return subprocess.Popen(
            command, cwd=self.folder, env=self.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, preexec_fn=default_signals,
        )  # fmt: skip

    def process(self, *args: str) -> Ended:
        """Run a command as a process, to its end."""
        started = self.start(*args)
        out, err = started.communicate(timeout=HANGS)
        return Ended(started.returncode, out, err)

    def write(self, name: str, text: str) -> Path:
        """Write a file."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path


@pytest.fixture(scope="session", autouse=True)
def shipped_plans_are_loaded_once() -> Iterator[None]:
    """`plans` loads all of them: 1.5 s. Where no plan of one's own hides a shipped one, they are
    those of the last time.
    """
    loaded: dict[Path, LogicalPlan] = {}
    names = {path.name for path in plans_folder().rglob("*.yaml")} - {"graph.yaml"}
    load = PlanFile.load

    def once(self: PlanFile, **options: Any) -> LogicalPlan:
        own = {path.name for path in Path("plans").rglob("*.yaml")}
        if options or self.functions or own & names or not self.path.is_relative_to(plans_folder()):
            return load(self, **options)
        if self.path not in loaded:
            loaded[self.path] = load(self)
        return loaded[self.path]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PlanFile, "load", once)
        yield


@pytest.fixture
def project(tmp_path: Path, serving: Serving) -> Project:
    """A folder with two plans and their graph; the environment names the server as its model."""
    clean = {
        k: v
        for k, v in os.environ.items()
        if not k.startswith(("SEMGRAPH_", "OPENAI_", "NEO4J_", "COV_"))
    }
    env = clean | {
        "SEMGRAPH_LLM": f"openai:test-model@{serving.server.base_url}",
        "SEMGRAPH_HOME": str(tmp_path / "home"),
        "OPENAI_API_KEY": "key",
        "COLUMNS": "120",
    }
    made = Project(tmp_path / "work", env)
    made.write("plans/graph.yaml", GRAPH)
    made.write("plans/people.yaml", PLAN)
    made.write("plans/find.yaml", FIND)
    return made
