"""From when until when facts hold that say when they began and ended, whatever their order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import permutations

import pytest

from tests.plans.conftest import Memory, at

FORMS = ("since", "until", "now", "once", "from to")
PLACES = ("Rome", "Oslo", "Bern")
YEARS = {"Rome": 2018, "Oslo": 2020, "Bern": 2022}
# What is said of the three places, in the order of PLACES.
TOLD = [
    ("since", "since", "since"),
    ("now", "now", "now"),
    ("once", "once", "once"),
    ("until", "until", "until"),
    ("since", "now", "once"),
    ("since", "until", "now"),
    ("until", "since", "since"),
    ("from to", "since", "now"),
    ("since", "from to", "since"),
    ("from to", "once", "since"),
]


def day(year: int) -> datetime:
    return datetime(year, 1, 1, tzinfo=UTC)


@dataclass
class Told:
    """A home, from when until when it was told to be one, and when it was told."""

    place: str
    valid: datetime | None
    invalid: datetime | None
    said: datetime

    @classmethod
    def of(cls, place: str, form: str, said: datetime) -> Told:
        year = YEARS[place]
        valid = {"since": day(year), "now": said, "from to": day(year)}.get(form)
        return cls(place, valid, day(year + 5) if form in {"until", "from to"} else None, said)

    @property
    def begun(self) -> datetime:
        """From when it counts: without a date from when it was told, or just before its end."""
        return self.valid or min(self.said, self.invalid or self.said)


def sentence(place: str, form: str) -> str:
    year = YEARS[place]
    said = {
        "since": f"I live in {place} since {year}-01-01.",
        "until": f"I lived in {place} until {year + 5}-01-01.",
        "now": f"I live in {place}.",
        "once": f"I lived in {place} once.",
        "from to": f"I lived in {place} from {year}-01-01 to {year + 5}-01-01.",
    }
    return f"Ann(user): {said[form]}"


def at_once(homes: Sequence[Told]) -> dict[str, tuple[datetime | None, datetime | None]]:
    """What holds after all were told, in any order: nobody has two homes at one time."""
    ends = {
        home.place: [home.invalid, *(o.valid for o in homes if o.valid and o.valid > home.begun)]
        for home in homes
    }
    return {
        home.place: (home.valid, min((end for end in ends[home.place] if end), default=None))
        for home in homes
    }


@pytest.mark.parametrize("each", [3, pytest.param(1, marks=pytest.mark.nightly)])
async def test_three_statements_about_one_thing_in_every_order(memory: Memory, each: int) -> None:
    """Of the orders every third, and nightly each."""
    episodes, expected = [], {}
    for number, forms in enumerate(TOLD):
        for order in list(permutations(range(3)))[number % each :: each]:
            group = f"t{number}-{''.join(map(str, order))}"
            homes = []
            for turn, which in enumerate(order):
                place, form = PLACES[which], forms[which]
                episodes.append(memory.episode(sentence(place, form), at(turn), group))
                homes.append(Told.of(place, form, at(turn)))
            expected[group] = at_once(homes)
    result = await memory.hear(*episodes)
    assert not result.failed
    found: dict[str, dict[str, tuple[datetime | None, datetime | None]]] = {}
    graph = await memory.graph()
    for fact in graph.facts:
        place = next(place for place in PLACES if place in fact["fact"])
        found.setdefault(fact["group_id"], {})[place] = (fact["valid_at"], fact["invalid_at"])
    assert {group: told for group, told in found.items() if told != expected[group]} == {}
    assert set(found) == set(expected)
    assert all((fact["invalid_at"] is None) == (fact["expired_at"] is None) for fact in graph.facts)


async def test_facts_about_others_do_not_crowd_out_the_one_that_is_ended(memory: Memory) -> None:
    others = [f"{name}(user): I work at Acme." for name in
              ("Bob", "Carl", "Dora", "Emil", "Fred", "Gina", "Hugo", "Ines", "Jana", "Kurt", "Lena", "Mara")]  # fmt: skip
    await memory.hear("I have joined Luma.", *others, "I work at Acme.")
    graph = await memory.graph()
    assert (
        graph.fact("Ann has joined Luma")["invalid_at"]
        == graph.fact("Ann works at Acme")["valid_at"]
    )


async def test_an_earlier_time_of_the_same_is_a_fact_of_its_own(memory: Memory) -> None:
    await memory.hear("I work at Luma.", "I worked at Acme in 2022.", "I worked at Luma in 2019.")
    graph = await memory.graph()
    held = sorted(
        (
            f["valid_at"].year,
            f["fact"].split()[3].strip("."),
            f["invalid_at"] and f["invalid_at"].year,
        )
        for f in graph.facts
    )
    assert held == [(2019, "Luma", 2022), (2022, "Acme", 2025), (2025, "Luma", None)]


async def test_an_earlier_mention_with_nothing_in_between_is_the_same(memory: Memory) -> None:
    await memory.hear("I work at Luma.", "I worked at Luma in 2019.")
    graph = await memory.graph()
    assert [(len(f["episodes"]), f["valid_at"].year) for f in graph.facts] == [(2, 2019)]
