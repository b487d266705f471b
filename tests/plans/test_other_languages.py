"""Episodes in several languages: wording changes dates in each as it does in English."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from benchmarks.world import StandIn
from benchmarks.world.requests import Record
from tests.plans.conftest import Memory, both_stores

SAID = datetime(2025, 1, 12, 9, tzinfo=UTC)
NAME = re.compile(r"Ann Weber|Kite|Luma|Orion|Vega")
DAY = re.compile(r"\d{4}-\d\d-\d\d")
SAYINGS = {
    "en": (
        "Ann Weber will lead Kite from 2025-02-01. Ann Weber works at Luma until 2025-06-01. "
        "Ann Weber plans to leave Orion by 2025-03-01. Vega is being led by Ann Weber."
    ),
    "de": (
        "Ann Weber wird Kite ab dem 2025-02-01 leiten. Ann Weber arbeitet noch bis 2025-06-01 bei Luma. "
        "Ann Weber hat vor, Orion bis spätestens 2025-03-01 zu verlassen. Vega wird von Ann Weber geleitet."
    ),
    "fr": (
        "Ann Weber dirigera Kite dès 2025-02-01. Ann Weber travaille chez Luma jusqu'au 2025-06-01. "
        "Ann Weber prévoit de quitter Orion d'ici le 2025-03-01. Vega est dirigé par Ann Weber."
    ),
    "es": (
        "Ann Weber dirigirá Kite desde 2025-02-01. Ann Weber trabaja en Luma hasta el 2025-06-01. "
        "Ann Weber piensa dejar Orion antes del 2025-03-01. Vega está dirigido por Ann Weber."
    ),
    "zh": (
        "Ann Weber将于2025-02-01起领导Kite项目。Ann Weber在Luma工作到2025-06-01为止。"
        "Ann Weber打算在2025-03-01之前离开Orion公司。Vega项目由Ann Weber负责。"
    ),
}  # fmt: skip
"""An announced start, a stated end, a deadline, and a fact that names who did it."""


def stated(content: str) -> list[dict[str, Any]]:
    """The facts of a text: each sentence with two names. A day is its start or its end, as the place says."""
    found = []
    for number, sentence in enumerate(filter(None, re.split(r"[.。] ?", content)), 1):
        source, target = NAME.findall(sentence)
        days = [f"{day}T00:00:00Z" for day in DAY.findall(sentence)]
        since, until = {1: (days[:1], []), 4: ([], [])}.get(number, ([], days))
        found.append(
            {
                "fact": f"{sentence}.", "source": source, "relation": f"R{number}", "target": target,
                "valid_at": since[0] if since else "2025-01-12T09:00:00Z",
                "invalid_at": until[0] if until else None,
            }
        )  # fmt: skip
    return found


class Polyglot(StandIn):
    """A model that reads those names, and a fact in each sentence."""

    def _row(self, skill: str, record: Record) -> dict[str, Any]:
        content = str(record.get("content", ""))
        if skill == "entities":
            names = dict.fromkeys(NAME.findall(content))
            return {"entities": [{"name": name, "kind": "other"} for name in names]}
        return {"facts": stated(content)} if skill == "facts" else super()._row(skill, record)


@pytest.fixture
async def polyglot(remember: Callable[[StandIn], Memory]) -> AsyncIterator[Memory]:
    """A memory whose model reads every language."""
    async with Polyglot() as model:
        yield remember(model)


async def dates(memory: Memory, *languages: str, **options: Any) -> dict[str, dict[str, Any]]:
    """The start and the end of what is said of each thing, in each language, in a group of its own."""
    said = [memory.episode(SAYINGS[name], SAID, group=name) for name in languages]
    await memory.hear(*said, **options)
    graph = await memory.graph()
    found: dict[str, dict[str, Any]] = {name: {} for name in languages}
    for fact in graph.facts:
        about = next(name for name in NAME.findall(fact["fact"]) if name != "Ann Weber")
        found[fact["group_id"]][about] = (fact["valid_at"], fact["invalid_at"])
    return found


@both_stores
async def test_announced_facts_and_deadlines_behave_as_in_english(polyglot: Memory) -> None:
    found = await dates(polyglot, *SAYINGS)
    assert found["en"] == {
        "Kite": (SAID, None),
        "Luma": (SAID, datetime(2025, 6, 1, tzinfo=UTC)),
        "Orion": (SAID, None),
        "Vega": (SAID, None),
    }
    assert found == dict.fromkeys(SAYINGS, found["en"])


async def test_the_cues_of_one_language_can_stand_for_all(polyglot: Memory) -> None:
    german = await dates(polyglot, "de", use={"settle/date/cues": "cues_de"})
    assert german["de"]["Orion"] == (SAID, None)


async def test_the_cues_of_another_language_leave_dates_as_they_were_read(
    polyglot: Memory,
) -> None:
    spanish = await dates(polyglot, "de", use={"settle/date/cues": "cues_es"})
    assert spanish["de"]["Orion"] == (SAID, datetime(2025, 3, 1, tzinfo=UTC))
