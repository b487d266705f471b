"""A model server that says whether a text complains, by rule or with noise; sessions in a folder of
the test's own.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import semgraph as sg
from semgraph.frontend.frame import Frame
from semgraph.llm.openai import OpenAI
from semgraph.llm.tokens import FlatPrice
from tests.llm.server import Answer, ModelServer

RECORD = re.compile(r"(\d+)\. (\{.*\})")
TEXTS = ["It leaks.", "Lovely.", "It is broken.", "Thanks!", "It leaks again.", "Blue, please."]
TRUE = [{"id": 1, "keep": True}, {"id": 2, "keep": False}, {"id": 3, "keep": True}, {"id": 4, "keep": False},
        {"id": 5, "keep": False}, {"id": 6, "keep": True}]  # fmt: skip


class Reader:
    """Says yes to texts that leak or are broken. `noise` turns an answer round, by how often it was
    asked.
    """

    def __init__(self) -> None:
        self.noisy = False
        self.invalid: set[str] = set()
        self.patience: int | None = None  # requests that are answered; the others wait
        self.asked = 0

    async def __call__(self, body: dict[str, Any]) -> str | Answer:
        self.asked += 1
        if self.patience is not None and self.asked > self.patience:
            await asyncio.Event().wait()
        user = body["messages"][-1]["content"]
        keys = list(body["response_format"]["json_schema"]["schema"]["properties"])
        if keys == ["answers"]:
            found = [
                {"id": int(n), "answer": self.says(json.loads(r)["text"])}
                for n, r in RECORD.findall(user)
            ]
            return json.dumps({"answers": found})
        if keys == ["kind"]:
            return json.dumps({"kind": "fault" if self.says(user) == "yes" else "other"})
        return json.dumps({"answer": self.says(user)})

    def says(self, text: str) -> str:
        if any(word in text for word in self.invalid):
            return "perhaps"
        complains = "leaks" in text or "broken" in text
        turned = self.noisy and self.asked % 5 == 0
        return "yes" if complains != turned else "no"


@pytest.fixture
async def reader() -> Reader:
    return Reader()


@pytest.fixture
async def server(reader: Reader) -> AsyncIterator[ModelServer]:
    async with ModelServer(reader) as started:
        yield started


@pytest.fixture
async def session(server: ModelServer, tmp_path: Path) -> AsyncIterator[sg.Session]:
    async with opened(server, tmp_path) as made:
        yield made


def opened(server: ModelServer, folder: Path, **options: Any) -> sg.Session:
    """A session with a journal and records in a folder, and a model whose price is known."""
    given = {
        "llm": f"openai:gpt-4.1-mini@{server.base_url}",
        "store": "memory",
        "folder": folder,
    } | options
    return sg.Session(**given)


@asynccontextmanager
async def priced(server: ModelServer) -> AsyncIterator[OpenAI]:
    """The server's model at a price."""
    model = OpenAI("gpt-4.1-mini", server.base_url, "none", price=FlatPrice(1.0, 4.0))
    try:
        yield model
    finally:
        await model.aclose()


@pytest.fixture
def complaints() -> Frame:
    return filtered()


def filtered(count: int = len(TEXTS)) -> Frame:
    """The tickets that complain, as the step `complaints`."""
    rows = [{"id": i, "text": text} for i, text in enumerate(TEXTS[:count], 1)]
    return sg.table(rows, key="id").sem_filter("Does “{text}” complain?").step("complaints")


WAYS = ["per_row", "packed(rows=3)"]


async def compared(session: sg.Session, plan: Any, **options: Any) -> Any:
    """Compare without a word on stderr."""
    return await session.acompare(
        plan, **{"say": None, "step": "complaints", "variants": WAYS, **options}
    )
