"""Episodes that name and state so much that a model cannot list it in one answer of its first limit."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import semgraph
from benchmarks.world import StandIn
from benchmarks.world.requests import Record
from semgraph.execution.result import Result
from tests.patience import HANGS
from tests.plans.conftest import loaded
from tests.served import served

COUNT = 200
NAMES = [f"Person{i:03}" for i in range(COUNT)]
RING = list(zip(NAMES, [*NAMES[1:], NAMES[0]], strict=True))
SENTENCES = " ".join(f"{a} trusts {b}." for a, b in RING)
LINES = "\n".join(f"{a} trusts {b}" for a, b in RING)
TRUST = re.compile(r"(Person\d{3}) trusts (Person\d{3})")


class Reader(StandIn):
    """A model that reads who trusts whom, and obeys `max_tokens`."""

    def _row(self, skill: str, record: Record) -> dict[str, Any]:
        content = record.get("content", "")
        pairs = TRUST.findall(content)
        names = dict.fromkeys(re.findall(r"Person\d{3}", content))
        facts = [
            {
                "fact": f"{a} trusts {b}", "source": a, "relation": "TRUSTS", "target": b,
                "valid_at": "2025-01-15T09:00:00Z", "invalid_at": None,
            }
            for a, b in pairs
        ]  # fmt: skip
        entities = [{"name": name, "kind": "person"} for name in names]
        answers = {"entities": {"entities": entities}, "facts": {"facts": facts}}
        return answers[skill] if skill in answers else super()._row(skill, record)


class Told:
    """A session whose model is a server's."""

    def __init__(
        self, server: StandIn, folder: Path, store: str = "memory", options: str = ""
    ) -> None:
        self.server = server
        self.session = semgraph.Session(
            llm=f"openai:gpt-4.1-mini@{server.base_url}?timeout={HANGS:.0f}{options}",
            embedder=f"openai:stand-in@{server.base_url}?dimensions=64",
            store=store,
            folder=folder,
        )

    def tell(self, content: str, **settled: Any) -> Result:
        """Add one episode."""
        episode = {"content": content, "valid_at": "2025-01-15T09:00:00Z", "group_id": "g"}
        return self.session.run(loaded("add_episode", **settled), episodes=[episode])

    def graph(self) -> tuple[set[str], list[str]]:
        """The names of its entities, and its facts."""
        found = self.session.run(loaded(Path(__file__).with_name("whole_graph.yaml"))).tables
        return (
            {row["name"] for row in found["entities"].to_pylist()},
            sorted(row["fact"] for row in found["facts"].to_pylist()),
        )


def read_all(told: Told) -> None:
    names, facts = told.graph()
    assert set(NAMES) <= names
    assert facts == sorted(f"{a} trusts {b}" for a, b in RING)


def counted(result: Result, server: StandIn) -> None:
    """The meter has each call that the server answered."""
    assert not result.failed
    total = result.meter.total()
    assert total.calls_issued == len(server.requests)


@pytest.mark.parametrize("store", ["memory", pytest.param("sqlite", marks=pytest.mark.nightly)])
def test_200_names_and_200_facts_in_one_episode_are_read(tmp_path: Path, store: str) -> None:
    server = Reader()
    with served(server):
        told = Told(server, tmp_path, store if store == "memory" else f"sqlite:{tmp_path}/graph.db")
        result = told.tell(SENTENCES)
        counted(result, server)
        read_all(told)
        told.session.close()


@pytest.mark.parametrize(
    "options",
    [
        pytest.param("&max_output=32000", marks=pytest.mark.nightly),
        "&min_output=20000&max_output=32000",
    ],
)
def test_an_answer_is_not_split_if_the_model_gives_longer_ones(
    tmp_path: Path, options: str
) -> None:
    server = Reader()
    with served(server):
        told = Told(server, tmp_path, options=options)
        result = told.tell(SENTENCES)
        counted(result, server)
        read_all(told)
        told.session.close()
    assert not [note for note in result.notes if "split" in note]
    if "min_output" in options:
        assert {body["max_tokens"] for body in server.requests} == {20000}


@pytest.mark.parametrize("content", [SENTENCES, LINES], ids=["sentences", "lines"])
def test_a_text_is_read_in_halves_if_the_model_gives_1024_tokens(
    tmp_path: Path, content: str
) -> None:
    server = Reader(max_output=1024)
    with served(server):
        told = Told(server, tmp_path, options="&max_output=1024")
        result = told.tell(content)
        counted(result, server)
        read_all(told)
        told.session.close()
    assert {body["max_tokens"] for body in server.requests} <= {512, 1024, 128, 256}
    assert [note for note in result.notes if "split a row whose answer was too long" in note]
