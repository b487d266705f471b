"""A run in which every row of an operator failed teaches `explain` nothing about it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import semgraph
from benchmarks.world import StandIn
from semgraph.llm.openai import OpenAI
from tests.partial import maybe_partial

PLAN = """
plan: places
inputs: {turns: {id: string, text: string}}
steps:
  read: [{from: turns}, {sem_map: {prompt: "Text: {text}", returns: {FIELD: list<string>}}}]
returns: [read]
"""
TURNS = [
    {"id": "a", "text": "Ada Costa lives in Riga."},
    {"id": "b", "text": "Bo Lindt lives in Oslo."},
]


async def estimated(folder: Path, field: str) -> str:
    """What `explain` says after a run."""
    plan = folder / "places.yaml"
    plan.write_text(PLAN.replace("FIELD", field), encoding="utf-8")
    async with StandIn() as server:
        llm = OpenAI("gpt-4.1-mini", server.base_url, "none")
        async with semgraph.Session(
            llm=llm, store="memory", journal=folder / "journal.db", runs="", folder=folder
        ) as session:
            await maybe_partial(session.arun(plan, turns=TURNS))
            said = await asyncio.to_thread(lambda: session.explain(plan, inputs={"turns": TURNS}))
        await llm.aclose()
    return said


async def test_refused_calls_are_no_observation(tmp_path: Path) -> None:
    assert "≤ 2 calls" in await estimated(tmp_path, "headlines")  # the simulated model refuses it


async def test_answered_calls_are_an_observation(tmp_path: Path) -> None:
    assert "≈ 2 calls" in await estimated(tmp_path, "places")
