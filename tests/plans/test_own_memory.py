"""The memory of docs/your-own-memory.md: statements are added, change what is kept, deny it, or are
known already.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import semgraph
from benchmarks.world import StandIn
from semgraph.execution.result import Result
from semgraph.stores.base import Store
from tests.docs.answers import memory_answer
from tests.llm.server import ModelServer
from tests.partial import maybe_partial
from tests.plans.conftest import both_stores, loaded

DOCS = Path(__file__).parents[2] / "docs"
EXAMPLES = DOCS / "examples"
PAGE = (DOCS / "your-own-memory.md").read_text(encoding="utf-8")


async def answer(body: dict[str, Any]) -> str:
    """What the model says."""
    return memory_answer(body)


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
        return await maybe_partial(
            self.session.arun(
                loaded(EXAMPLES / "remember.yaml", **settled), messages=rows, **options
            )
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


def test_the_page_shows_parts_of_the_files() -> None:
    files = [path.read_text(encoding="utf-8") for path in EXAMPLES.glob("*.yaml")]
    shown = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    assert [block for block in shown if not any(block in text for text in files)] == []
    written = [(EXAMPLES / name).read_text("utf-8") for name in ("memory.yaml", "remember.yaml")]
    assert f"two files with {sum(len(text.splitlines()) for text in written)} lines" in PAGE
