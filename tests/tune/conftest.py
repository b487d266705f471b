"""A folder with a plan of two filters and a question, which calls another plan, and a real model
server that answers from the words of the text alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

import semgraph as sg
from semgraph.logical.plan import LogicalPlan
from semgraph.tune import tuned
from tests.cli.conftest import Project
from tests.llm.server import ModelServer
from tests.served import served
from tests.tune.judges import Judge

PLAN = """
plan: complaints
inputs: {tickets: {id: int64, text: string}}
params: {least: 0}
presets:
  lean: {params: {least: 1}}
steps:
  rows:
    - from: tickets
    - filter: id > $least
  good:
    - from: rows
    - sem_filter: {prompt: judge_fact}
  short:
    - from: good
    - sem_filter: {prompt: "Is “{text}” short?"}
  named:
    - call: {plan: name, inputs: {rows: short}}
returns: [named]
"""
NAME = """
plan: name
inputs: {rows: {id: int64, text: string}}
steps:
  who:
    - from: rows
    - sem_map: {prompt: "Who wrote “{text}”?", returns: {who: string}}
  place:
    - from: who
    - sem_map: {prompt: "Where was “{text}” written?", returns: {place: string}}
returns: [place]
"""
JUDGE = "---\nreturns: {}\n---\n# item\nDoes “{text}” complain?\n"
TEXTS = ["It leaks.", "Lovely.", "It is broken, and nobody of you comes.", "Thanks!", "It leaks again.",
         "Blue, please, and soon."]  # fmt: skip
ROWS = [{"id": number, "text": text} for number, text in enumerate(TEXTS, 1)]
QUOTED = re.compile("“(.*?)”")


def said(question: str, text: str) -> str:
    """Yes or no, by the text."""
    short = len(text) < len(TEXTS[4])
    return (
        "yes" if ("leak" in text or "broken" in text if "complain" in question else short) else "no"
    )


async def answers(body: dict[str, Any]) -> str:
    question = body["messages"][-1]["content"]
    schema = body["response_format"]["json_schema"]["schema"]
    properties = schema["properties"]
    if "answers" in properties:
        records = re.findall(r"(\d+)\. (\{.*\})", question)
        every = " ".join(message["content"] for message in body["messages"])
        found = [{"id": int(n), "answer": said(every, json.loads(r)["text"])} for n, r in records]
        return json.dumps({"answers": found})
    if "answer" in properties:
        return json.dumps({"answer": said(question, *QUOTED.findall(question))})
    return json.dumps({name: f"{name} of {question}" for name in properties})


@pytest.fixture
def judge() -> Judge:
    return Judge()


@pytest.fixture
async def server(judge: Judge) -> AsyncIterator[ModelServer]:
    async with ModelServer(judge) as started:
        yield started


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of the plan, which has a folder of plans of its own."""
    made = tmp_path / "work"
    (made / "prompts").mkdir(parents=True)
    (made / "prompts" / "judge_fact.md").write_text(JUDGE)
    (made / "complaints.yaml").write_text(PLAN)
    (made / "name.yaml").write_text(NAME)
    (made / "briefly.yaml").write_text(
        NAME.replace("plan: name", "plan: briefly").replace("Who wrote", "Whose is")
    )
    return made


@pytest.fixture
def model() -> Iterator[ModelServer]:
    server = ModelServer(answers)
    with served(server):
        yield server


def opened(model: ModelServer, folder: Path, **options: Any) -> sg.Session:
    """A session that keeps nothing, with a model for each of two roles."""
    address = model.base_url
    models = {"small": f"openai:gpt-4.1-nano@{address}", **options.pop("models", {})}
    given = {"llm": f"openai:gpt-4.1-mini@{address}", "store": "memory", "journal": False}
    return sg.Session(**given | {"folder": folder, "models": models} | options)


@pytest.fixture
async def session(model: ModelServer, folder: Path) -> AsyncIterator[sg.Session]:
    async with opened(model, folder) as made:
        yield made


def chosen(
    session: sg.Session, folder: Path, at: str = "plans/complaints.tuned.yaml", **changes: str
) -> Path:
    """Write the file of a choice."""
    content = choice(session, folder / "complaints.yaml", changes, record="7ab2")
    return tuned.write(content, folder / at)


def choice(
    session: sg.Session, plan: Path, changes: dict[str, str], **facts: Any
) -> dict[str, Any]:
    steps = {k: v for k, v in changes.items() if k not in ("preset", "order") and "." not in k}
    made: LogicalPlan = session.prepare(plan, preset=changes.get("preset"), use=steps)
    return tuned.choice_of(
        made, changes, session._resources.name_of, session.settings.operators, **facts
    )


@pytest.fixture
def project(folder: Path, model: ModelServer, tmp_path: Path) -> Project:
    """The folder, for the command line."""
    models = {"default": "gpt-4.1-mini", "small": "gpt-4.1-nano"}.items()
    lines = [f'{role} = "openai:{name}@{model.base_url}"\n' for role, name in models]
    (folder / "semgraph.toml").write_text("".join(["[models]\n", *lines]))
    (folder / "tickets.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    env = {
        "PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "SEMGRAPH_HOME": str(tmp_path / "home"),
        "OPENAI_API_KEY": "key", "COLUMNS": "300",
    }  # fmt: skip
    return Project(folder, env)


def sent(model: ModelServer) -> list[str]:
    """The requests since the last look, as text."""
    bodies = [json.dumps(body, sort_keys=True) for body in model.requests]
    model.requests.clear()
    return sorted(bodies)
