"""Facts that arrive late, such as those of an episode that failed at first: the graph is that of
the order of time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import permutations
from typing import Any

import pytest

from semgraph.execution.result import Result
from tests.plans.conftest import Graph, Memory, at
from tests.plans.test_add_triplet import triplet

Held = list[tuple[str, str, str | None]]

# What is said on which day of 2025, and what holds from when until when once all of it has arrived.
TOLD: dict[str, tuple[list[tuple[int, str]], Held]] = {
    "repeated": (
        [(1, "I work at Luma."), (2, "I work at Luma."), (3, "I am employed by Luma.")],
        [("Luma", "01-15", None)],
    ),
    "ends another": (
        [(1, "I work at Acme."), (2, "I work at Luma."), (3, "I work at Luma.")],
        [("Acme", "01-15", "02-15"), ("Luma", "02-15", None)],
    ),
    "followed by another": (
        [(1, "I work at Luma."), (2, "I am employed by Luma."), (3, "I work at Acme.")],
        [("Luma", "01-15", "03-15"), ("Acme", "03-15", None)],
    ),
    "denied in between": (
        [(1, "I work at Luma."), (2, "I do not work at Luma any more."), (3, "I am employed by Luma.")],
        [("Luma", "01-15", "02-15"), ("Luma", "02-15", "03-15"), ("Luma", "03-15", None)],
    ),
    "another in between": (
        [(1, "I work at Luma."), (2, "I work at Acme."), (3, "I work at Luma.")],
        [("Luma", "01-15", "02-15"), ("Acme", "02-15", "03-15"), ("Luma", "03-15", None)],
    ),
    "with dates": (
        [(1, "I work at Luma since 2025-01-01."), (2, "I worked at Luma until 2025-12-01."),
         (3, "I work at Luma.")],
        [("Luma", "01-01", "12-01")],
    ),
}  # fmt: skip


def held(graph: Graph) -> dict[str, Held]:
    """What holds in each group: the target of each fact, and its dates as month and day."""
    names = {entity["uuid"]: entity["name"] for entity in graph.entities}
    rows = defaultdict(list)
    for fact in graph.facts:
        dates = (date and f"{date:%m-%d}" for date in (fact["valid_at"], fact["invalid_at"]))
        rows[fact["group_id"]].append((names[fact["target"]], *dates))
    return {group: sorted(facts) for group, facts in rows.items()}  # type: ignore[type-var]


async def arrive(
    memory: Memory, orders: Sequence[int] = range(6), **settled: Any
) -> tuple[dict[str, Held], dict[str, Held]]:
    """Say everything in every order, or some orders, each in a group of its own; what holds, and
    what should.
    """
    expected, rounds = {}, defaultdict(list)
    for name, (said, facts) in TOLD.items():
        every = list(permutations(said))
        for number in orders:
            group = f"{name.replace(' ', '_')}-{number}"
            expected[group] = sorted(facts)
            for turn, (month, text) in enumerate(every[number]):
                rounds[turn].append(memory.episode(f"Ann(user): {text}", at(0, month=month), group))
    for turn in sorted(rounds):
        result = await memory.hear(*rounds[turn], **settled)
        assert not result.failed
    return held(await memory.graph()), expected


async def test_facts_hold_from_the_earliest_time_whatever_the_order_of_arrival(
    memory: Memory,
) -> None:
    facts, expected = await arrive(memory)
    assert facts == expected
    assert all(len(f["episodes"]) in {1, 2, 3} for f in (await memory.graph()).facts)


@pytest.mark.parametrize(
    "orders", [(3, 5), pytest.param(range(6), marks=pytest.mark.nightly)], ids=len
)
@pytest.mark.parametrize("preset", ["graphiti", "combined", "fused", "lean", "bulk"])
async def test_the_order_of_arrival_does_not_matter_in_any_preset(
    memory: Memory, preset: str, orders: Sequence[int]
) -> None:
    facts, expected = await arrive(memory, orders, preset=preset)
    assert facts == expected


async def test_what_was_denied_and_said_again_twice_is_the_same_in_every_order(
    memory: Memory,
) -> None:
    said = [
        (1, "I work at Luma."),
        (2, "I work at Acme."),
        (3, "I work at Luma."),
        (4, "I work at Acme."),
    ]
    rounds = defaultdict(list)
    for number, order in enumerate(permutations(said)):
        for turn, (month, text) in enumerate(order):
            rounds[turn].append(
                memory.episode(f"Ann(user): {text}", at(0, month=month), f"g{number}")
            )
    for turn in sorted(rounds):
        await memory.hear(*rounds[turn])
    facts = [("Acme", "02-15", "03-15"), ("Acme", "04-15", None)]
    facts += [("Luma", "01-15", "02-15"), ("Luma", "03-15", "04-15")]
    assert held(await memory.graph()) == {f"g{number}": facts for number in range(24)}


async def test_an_earlier_time_is_reported_as_a_change(memory: Memory) -> None:
    await memory.hear(memory.episode("Felix(user): I work at Luma.", at(0, month=3)))
    result: Result = await memory.hear(
        memory.episode("Felix(user): I work at Luma.", at(0, month=1))
    )
    (edge,) = result.tables["edges"].to_pylist()
    assert (edge["change"], edge["valid_at"]) == ("earlier", at(0, month=1))
    assert len((await memory.graph()).fact("Felix works at Luma")["episodes"]) == 2


async def test_an_earlier_time_before_a_denial_is_a_fact_of_its_own(memory: Memory) -> None:
    """The same words: nobody would be asked about them, were there nothing in between."""
    for month, text in (
        (3, "I work at Luma."),
        (2, "I do not work at Luma any more."),
        (1, "I work at Luma."),
    ):
        await memory.hear(memory.episode(f"Ann(user): {text}", at(0, month=month)))
    jobs = sorted(
        (f"{f['valid_at']:%m}", f["invalid_at"] and f"{f['invalid_at']:%m}")
        for f in (await memory.graph()).facts
        if f["name"] == "WORKS_AT"
    )
    assert jobs == [("01", "02"), ("03", None)]


async def test_a_stated_fact_holds_from_the_earliest_time_whatever_the_order(
    memory: Memory,
) -> None:
    said = [triplet("Ann", "WORKS_AT", "Acme", valid_at=at(0, month=1))]
    said += [triplet("Ann", "WORKS_AT", "Luma", valid_at=at(0, month=month)) for month in (2, 3)]
    for round_ in zip(*permutations(said), strict=True):
        told = [{**one, "group_id": f"g{number}"} for number, one in enumerate(round_)]
        await memory.run("add_triplet", triplets=told)
    facts = [("Acme", "01-15", "02-15"), ("Luma", "02-15", None)]
    assert held(await memory.graph()) == {f"g{number}": facts for number in range(6)}
