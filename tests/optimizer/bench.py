"""Plans of a few lines, run with and without the optimizer over a small graph in memory, with a
model that is a function of its row.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

import semgraph
from semgraph.conformance.cases import Mind, Oracle, filled
from semgraph.errors import RowError
from semgraph.execution.result import Result
from semgraph.logical.plan import LogicalPlan
from semgraph.optimizer import mark_empty
from semgraph.session import run as running
from semgraph.stores.base import Store

FIXTURES = Path(__file__).parents[1] / "fixtures" / "optimizer"
Rewrite = Callable[[LogicalPlan], LogicalPlan]
NUMBERS = re.compile(r"(?:\d+\. )+")


def drawn(text: str) -> int:
    """A number that depends on a text alone."""
    return zlib.crc32(text.encode())


def yes(text: str) -> bool:
    return bool(drawn(text.strip()) % 3)  # a prompt is trimmed, a question within one is not


def answered(text: str) -> dict[str, Any]:
    """`Code: ...` and `Mark: ...` are questions for a word, every other one for yes or no.

    Questions that were put together are answered one by one, a list record by record.
    """
    if "\n\nRecords: " in text:
        question, _, records = text.partition("\n\nRecords: ")
        return {"numbers": [r["number"] for r in json.loads(records) if yes(filled(question, r))]}
    if text.startswith("For "):
        parts = [part.split(":\n", 1)[1] for part in text.split("\n\n")]
        return {name: value for part in parts for name, value in answered(part).items()}
    if text.startswith("1. "):
        return {
            "answer": "yes"
            if all(yes(NUMBERS.sub("", part)) for part in text.split("\n\n"))
            else "no"
        }
    head = text.split(":", maxsplit=1)[0].lower()
    if head in {"code", "mark"}:
        return {head: f"c{drawn(text) % 5}"}
    return {"answer": "yes" if yes(text) else "no"}


def matched(left: str, right: str) -> dict[str, Any] | None:
    """Whether a pair matches: by the text about both, or by the texts of its sides."""
    if left.startswith("1. "):
        return {} if answered(left)["answer"] == "yes" else None
    return {} if yes(left + right) else None


class Bench:
    """Runs plans as some rewrite leaves them."""

    def __init__(
        self, folder: Path, patch: pytest.MonkeyPatch, store: str | Store = "memory"
    ) -> None:
        self.oracle = Oracle(Mind(answer=self._answer, match=self._match, score=drawn))
        self.refusing = False  # whether some questions, by their texts, have no answer
        self.session = semgraph.Session(
            llm=self.oracle, store=store, journal=False, runs="", folder=folder
        )
        self._patch = patch

    async def run(
        self, plan: LogicalPlan, rewrite: Rewrite, inputs: Mapping[str, Any], *, told: bool = True
    ) -> Result:
        """Run a plan, rewritten by nothing else than `rewrite`; counts the requests anew.

        Args:
            told: Whether the plan is told which inputs are given.
        """
        self.oracle.requests.clear()
        with self._patch.context() as patch:
            patch.setattr(
                running,
                "optimized",
                lambda plan, inputs: rewrite(mark_empty(plan, inputs) if told else plan),
            )
            return await self.session.arun(plan, again=True, **inputs)

    def _answer(self, text: str) -> dict[str, Any]:
        self._refuse(text)
        return answered(text)

    def _match(self, left: str, right: str) -> dict[str, Any] | None:
        self._refuse(left + right)
        return matched(left, right)

    def _refuse(self, text: str) -> None:
        if self.refusing and drawn(text) % 5 == 0:
            raise RowError("refused", "no")

    @property
    def asked(self) -> list[str]:
        """The last messages that the last run sent."""
        return sorted(request.messages[-1].content for request in self.oracle.requests)


@pytest.fixture
async def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Bench]:
    """A bench over the graph of `fixtures/optimizer/fill.yaml`."""
    made = Bench(tmp_path, monkeypatch)
    await made.session.arun(FIXTURES / "fill.yaml")
    yield made
    await made.session.aclose()
