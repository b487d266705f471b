"""The memory of docs/your-own-memory.md: statements are added, change what is kept, deny it, or are
known already.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest

import semgraph
from benchmarks.world import StandIn
from semgraph.execution.result import Result
from semgraph.stores.base import Store
from tests.cli.conftest import Project
from tests.llm.server import ModelServer
from tests.plans.conftest import both_stores, loaded
from tests.served import served

DOCS = Path(__file__).parents[2] / "docs"
EXAMPLES = DOCS / "examples"
PAGE = (DOCS / "your-own-memory.md").read_text(encoding="utf-8")
_SAID = re.compile(r"I (no longer )?(\w+)( [^.]*)?\.")
_MATTER = re.compile(r"User (no longer )?(\w+)")


def statements(message: str) -> list[str]:
    """The sentences of a message that begin with I, in the third person."""
    return [f"User {no or ''}{verb}s{rest or ''}." for no, verb, rest in _SAID.findall(message)]


def decision(statement: str, known: list[dict[str, Any]]) -> dict[str, Any]:
    """What becomes of the listed memories: one with the same verb is about the same matter."""
    nothing = {"event": "ADD", "memory": None, "becomes": None}
    denied, matter = _MATTER.findall(statement)[0]
    for memory in known:
        if memory["text"] == statement:
            return nothing | {"event": "NOOP"}
        if _MATTER.findall(memory["text"])[0][1] == matter:
            change = {"event": "DELETE"} if denied else {"event": "UPDATE", "becomes": statement}
            return nothing | {"memory": memory["number"]} | change
    return nothing


async def answer(body: dict[str, Any]) -> str:
    """Answers from the words of the prompt alone."""
    asked = body["messages"][-1]["content"]
    if found := re.search(r"New statement: (.*)\nMemories: (.*)", asked):
        return json.dumps(decision(found[1], json.loads(found[2])))
    if found := re.search(r"Memories: (.*) Question: (.*)", asked):
        verb = re.findall(r"[Dd]o I (\w+)", found[2])[0]
        fitting = [text for text in json.loads(found[1]) if f" {verb}s" in text]
        return json.dumps({"answer": (fitting or ["I do not know."])[0]})
    return json.dumps({"statements": statements(asked.partition("New message: ")[2])})


class Remembering:
    """The plans of the page over one store."""

    def __init__(self, store: str | Store, chat: str, vectors: str, folder: Path) -> None:
        self.session = semgraph.Session(
            llm=f"openai:test@{chat}",
            embedder=f"openai:stand-in@{vectors}?dimensions=256",
            store=store,
            journal=False,
            runs="",
            folder=folder,
        )
        self.day = 0

    async def tell(self, *texts: str, user: str = "ann", **options: Any) -> Result:
        """Messages of a user, a day apart."""
        rows = []
        for text in texts:
            self.day += 1
            rows.append(
                {"user_id": user, "at": datetime(2025, 1, self.day, tzinfo=UTC), "text": text}
            )
        settled = {"params": options.pop("params")} if "params" in options else {}
        return await self.session.arun(
            loaded(EXAMPLES / "remember.yaml", **settled), messages=rows, **options
        )

    async def kept(self, user: str = "ann") -> list[dict[str, Any]]:
        """What is remembered of a user."""
        found = await self.session.arun(loaded(EXAMPLES / "memories.yaml"))
        return [row for row in found.tables["memories"].to_pylist() if row["user_id"] == user]

    async def ask(self, question: str, user: str = "ann") -> str:
        """The answer to a question."""
        asked = [{"user_id": user, "question": question}]
        found = await self.session.arun(
            loaded(EXAMPLES / "recall.yaml", params={"similar": 0.05}), questions=asked
        )
        ((answered,),) = (table.to_pylist() for table in found.tables.values())
        return str(answered["answer"])


@pytest.fixture
async def chat() -> AsyncIterator[ModelServer]:
    """The model."""
    async with ModelServer(answer) as server:
        yield server


@pytest.fixture
async def mind(
    store: str | Store, chat: ModelServer, model: StandIn, tmp_path: Path
) -> AsyncIterator[Remembering]:
    """An empty memory."""
    made = Remembering(store, chat.base_url, model.base_url, tmp_path)
    yield made
    await made.session.aclose()


def events(result: Result) -> list[str]:
    """What was decided, in order."""
    return [str(event) for event in result.tables["decided"].column("event").to_pylist()]


@both_stores
async def test_a_memory_is_added_changed_known_and_denied(mind: Remembering) -> None:
    told = await mind.tell(
        "I live in Lisbon. I love sushi.",
        "I live in Porto.",
        "I live in Porto. I no longer love sushi.",
    )
    assert events(told) == ["ADD", "ADD", "UPDATE", "NOOP", "DELETE"]
    home, food = sorted(await mind.kept(), key=lambda row: row["denied"] is not None)
    assert (home["text"], home["history"], home["denied"]) == (
        "User lives in Porto.",
        ["User lives in Lisbon."],
        None,
    )
    assert (food["text"], food["denied"]) == ("User loves sushi.", datetime(2025, 1, 3, tzinfo=UTC))


async def test_what_was_denied_is_not_shown_and_may_be_said_again(mind: Remembering) -> None:
    await mind.tell("I love sushi.", "I no longer love sushi.")
    assert await mind.ask("What do I love?") == "I do not know."
    assert events(await mind.tell("I love sushi.")) == ["ADD"]
    assert await mind.ask("What do I love?") == "User loves sushi."
    assert [row["denied"] is None for row in await mind.kept()] == [False, True]


async def test_what_was_denied_is_deleted_where_that_is_wanted(mind: Remembering) -> None:
    await mind.tell(
        "I love sushi.", "I live in Lisbon.", "I no longer love sushi.", params={"forget": "delete"}
    )
    assert [row["text"] for row in await mind.kept()] == ["User lives in Lisbon."]


async def test_of_two_statements_about_one_memory_the_last_counts(mind: Remembering) -> None:
    await mind.tell("I live in Lisbon.", "I live in Porto. I live in Faro.")
    ((home,)) = await mind.kept()
    assert (home["text"], home["history"]) == ("User lives in Faro.", ["User lives in Lisbon."])


async def test_users_see_nothing_of_each_other(mind: Remembering) -> None:
    await mind.tell("I live in Lisbon.")
    assert events(await mind.tell("I live in Porto.", user="bob")) == ["ADD"]
    assert await mind.ask("Where do I live?") == "User lives in Lisbon."
    assert await mind.ask("Where do I live?", user="cleo") == "I do not know."


async def test_an_answer_that_names_no_memory_of_the_list_sets_its_message_aside(
    mind: Remembering, chat: ModelServer
) -> None:
    await mind.tell("I live in Lisbon.")

    async def wrong(body: dict[str, Any]) -> str:
        said = json.loads(await answer(body))
        return json.dumps(said | {"memory": 7} if "memory" in said else said)

    chat.answer = wrong
    told = await mind.tell("I live in Porto.")
    assert "memory has 7, which is the number of no record" in str(told.failed)
    assert [row["text"] for row in await mind.kept()] == ["User lives in Lisbon."]


def test_the_page_shows_the_files_and_what_they_print(tmp_path: Path) -> None:
    plan = (EXAMPLES / "remember.yaml").read_text(encoding="utf-8")
    for block in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL):
        assert any(block in path.read_text(encoding="utf-8") for path in EXAMPLES.glob("*.yaml")), (
            block
        )
    assert len((plan + (EXAMPLES / "memory.yaml").read_text(encoding="utf-8")).splitlines()) < 100
    shown = dict(re.findall(r"```bash\n(semgraph [^\n]*)\n```\n\n```\n(.*?)```", PAGE, re.DOTALL))
    assert len(shown) == 3
    server, vectors = ModelServer(answer), StandIn()
    with served(server), served(vectors):
        project = Project(
            tmp_path,
            {
                "PATH": "/usr/bin",
                "HOME": str(tmp_path),
                "SEMGRAPH_HOME": str(tmp_path),
                "OPENAI_API_KEY": "key",
                "COLUMNS": "130",
            },
        )
        copytree(EXAMPLES, tmp_path / "docs" / "examples")
        (tmp_path / "semgraph.toml").write_text(
            f'store = "sqlite:graph.db"\n[models]\ndefault = "openai:test@{server.base_url}"\n'
            f'embed = "openai:stand-in@{vectors.base_url}?dimensions=256"\n[journal]\npath = "journal.db"\n'
        )
        for command, printed in shown.items():
            done = project(*command.split()[1:])
            assert done.code == 0, done.err
            assert printed in done.out, done.out
