"""Texts that are longer than a call: read in pieces, and one episode each."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import semgraph
from benchmarks.world import Fault, StandIn
from benchmarks.world.faults import Faults
from benchmarks.world.requests import Record
from semgraph.function import token_spans
from semgraph.stores.base import Store
from tests.patience import HANGS
from tests.plans.conftest import Memory, at, both_stores

COUNT = 150
NAMES = ["Alice Chen", *(f"Person{n:03}" for n in range(1, COUNT)), "Alice"]
PAIRS = list(zip(NAMES, [*NAMES[1:], NAMES[1]], strict=True))
FILLER = (
    "nothing of note was said in the town that day, as the long chronicle of these years puts it"
)
TEXT = " ".join(
    f"In year {n} {a} trusts {b}. " + " ".join(f"In season {k}, {FILLER}." for k in range(8))
    for n, (a, b) in enumerate(PAIRS)
)
TRUST = re.compile(r"(Alice Chen|Alice|Person\d{3}) trusts (Alice Chen|Alice|Person\d{3})")


class Reader(StandIn):
    """A model that reads who trusts whom."""

    def _row(self, skill: str, record: Record) -> dict[str, Any]:
        if skill != "entities facts":
            return super()._row(skill, record)
        pairs = TRUST.findall(record["content"])
        facts = [
            {
                "fact": f"{a} trusts {b}.", "source": a, "relation": "TRUSTS", "target": b,
                "valid_at": "2025-01-15T09:00:00Z", "invalid_at": None,
            }
            for a, b in pairs
        ]  # fmt: skip
        # the target of a fact is named in the piece where it trusts somebody
        names = dict.fromkeys(a for a, _ in pairs)
        return {"entities": [{"name": name, "kind": "person"} for name in names], "facts": facts}


@pytest.fixture
async def model() -> AsyncIterator[Reader]:
    async with Reader() as server:
        yield server


@pytest.fixture
async def memory(store: str | Store, model: Reader, tmp_path: Path) -> AsyncIterator[Memory]:
    """A memory whose model has a context of 6,000 tokens."""
    made = Memory(store, model, tmp_path)
    await made.session.aclose()
    made.session = semgraph.Session(
        llm=f"openai:gpt-4.1-mini@{model.base_url}?context=6000&timeout={HANGS:.0f}",
        embedder=f"openai:stand-in@{model.base_url}?dimensions=64&timeout={HANGS:.0f}",
        store=store, journal=False, runs="", folder=tmp_path,
    )  # fmt: skip
    yield made
    await made.session.aclose()


def document(memory: Memory, text: str = TEXT) -> dict[str, Any]:
    return memory.episode(text, at(0), uuid="chronicle", source="text")


@both_stores
async def test_a_text_of_27000_tokens_is_one_episode(memory: Memory) -> None:
    assert len(token_spans(TEXT)) > 27_000
    whole = await memory.hear(document(memory), preset="combined")
    assert len(whole.failed) == 1, "in one call it does not fit"

    result = await memory.hear(document(memory), preset="documents")
    graph = await memory.graph()
    assert not result.failed
    assert [e["uuid"] for e in graph.episodes] == ["chronicle"]
    assert graph.episodes[0]["content"] == TEXT
    assert graph.names == sorted(NAMES[:-1]), "Alice of the last piece is Alice Chen of the first"
    assert [m["source"] for m in graph.mentions] == ["chronicle"] * COUNT
    assert {tuple(f["episodes"]) for f in graph.facts} == {("chronicle",)}
    told = {
        ("Alice Chen" if a == "Alice" else a, "Alice Chen" if b == "Alice" else b) for a, b in PAIRS
    }
    assert {(a, b) for a, _, b in graph.arrows} == told
    assert len(graph.arrows) == len(told)
    assert sorted(graph.episodes[0]["entity_edges"]) == sorted(f["uuid"] for f in graph.facts)


async def test_pieces_repeat_sentences_and_show_the_beginning(
    memory: Memory, model: Reader
) -> None:
    use = {"read": "read_documents(piece_tokens=200, overlap_tokens=40, opening_chars=60)"}
    result = await memory.hear(document(memory, TEXT[:6000]), preset="documents", use=use)
    assert not result.failed
    asked = [r["messages"][-1]["content"] for r in model.requests]
    pieces = [text for text in asked if text.startswith("Names and facts of:")]
    assert len(pieces) > 5
    assert all(len(token_spans(text)) < 400 for text in pieces)
    assert "In year 0 Alice Chen trusts Person001." in pieces[1].partition("Earlier messages:")[2]
    first, second = (text.partition("\nSaid at")[0].split(". ") for text in sorted(pieces)[:2])
    assert first[-1].removesuffix(".") in {
        line.removesuffix(".") for text in pieces[1:] for line in text.split(". ")
    }
    assert second


async def test_types_of_the_user_are_read_from_every_piece(memory: Memory, model: Reader) -> None:
    await memory.hear(
        document(memory, TEXT[:12000]),
        preset="documents",
        entity_types=[{"name": "Person", "description": "a human being"}],
    )
    asked = [r["messages"][-1]["content"] for r in model.requests]
    pieces = [text for text in asked if "Names and facts to read:" in text]
    assert len(pieces) > 1
    assert all("a human being" in text for text in pieces)


async def test_facts_of_a_later_piece_end_and_repeat_those_of_an_earlier_one(
    tmp_path: Path,
) -> None:
    said = ["Ann works at Luma since 2024-03-01.", "Ann works at Acme since 2024-09-01."]
    said += ["Ann is employed by Acme since 2024-09-01."]
    async with StandIn() as model:
        memory = Memory("memory", model, tmp_path)
        use = {"read": "read_documents(piece_tokens=20, overlap_tokens=0)"}
        await memory.hear(document(memory, " ".join(said)), preset="documents", use=use)
        assert model.calls["entities facts"] == 3
        graph = await memory.graph()
        await memory.session.aclose()
    assert {f["fact"]: f["invalid_at"] for f in graph.facts} == {
        "Ann works at Luma since 2024-03-01.": at(-540, year=2024, month=9, day=1),
        "Ann works at Acme since 2024-09-01.": None,
    }


async def test_a_document_with_a_piece_that_fails_is_set_aside_and_read_by_the_next_run(
    tmp_path: Path,
) -> None:
    refused = tuple(range(3, 9))
    async with Reader(faults=(Fault("refusal", on=refused),)) as model:
        memory = Memory("memory", model, tmp_path)
        first = await memory.hear(document(memory, TEXT[:12000]), preset="documents")
        assert {failure.input_row for failure in first.failed} == {0}
        assert (await memory.graph()).facts == []
        model.faults = Faults(())
        again = await memory.hear(document(memory, TEXT[:12000]), preset="documents")
        assert not again.failed
        assert (await memory.graph()).facts
        await memory.session.aclose()


async def test_a_second_run_of_a_document_asks_nothing(memory: Memory, model: Reader) -> None:
    await memory.hear(document(memory, TEXT[:3000]), preset="documents")
    asked = len(model.requests)
    await memory.hear(document(memory, TEXT[:3000]), preset="documents")
    assert len(model.requests) == asked
