"""What holds after statements that arrive in any order and are read any number together.

Memories with times (graphiti, mem0g) follow `timeline`. Mem0 has no past: of a matter it keeps the
statement that arrived last. In raptor, graphrag and hipporag nothing ends.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import permutations, product
from typing import Any

import pytest

from benchmarks.world import StandIn
from semgraph.stores.sqlite.store import SqliteStore
from tests.memories.conftest import turn
from tests.plans.timeline import Held, Statement, timeline

Told = Sequence[Statement]
HOMES = ("Oslo", "Riga")
DAYS = (2, 4, 6)


def cases(together: Sequence[int]) -> Iterator[Told]:
    """Three statements of two states on distinct days, once for each order that differs if so many
    arrive `together`.
    """
    for days in permutations(DAYS):
        parts = _parts(days, together)
        if all(list(part) == sorted(part) for part in parts):
            for homes in product(HOMES, repeat=3):
                yield [Statement(home, day) for home, day in zip(homes, days, strict=True)]


def _parts(told: Sequence[Any], together: Sequence[int]) -> list[Sequence[Any]]:
    ends = [sum(together[: n + 1]) for n in range(len(together))]
    return [told[end - count : end] for end, count in zip(ends, together, strict=True)]


async def tell(memory: Any, told: Sequence[Told], together: Sequence[int], **options: Any) -> None:
    """Tell each case in a conversation of its own, in one run for each part of it."""
    for part in range(len(together)):
        turns = [
            turn(one.at, f"I live in {one.state}.", conversation=f"c{n}") | {"id": f"c{n}-{one.at}"}
            for n, case in enumerate(told)
            for one in _parts(case, together)[part]
        ]
        result = await memory.tell(*turns, **options)
        assert not result.failed


def spans(rows: Sequence[dict[str, Any]], count: int, **names: str) -> list[list[Held]]:
    """The relations of each case as spans, sorted."""
    found = defaultdict(list)
    zero = turn(0, "")["at"]
    for row in rows:
        since, until = (
            row[names[name]] and (row[names[name]] - zero).days for name in ("at", "until")
        )
        state = row[names["text"]].removesuffix(".").rpartition(" ")[2]
        found[row[names["group"]]].append(Held(state, since, until))
    return [sorted(found[f"c{n}"]) for n in range(count)]


ORDERS = ((3,), 1), ((3,), 3), ((1, 2), 3)
"""How many statements arrive together, and how many are read together."""
MORE = ((1, 1, 1), 1), ((3,), 2), ((2, 1), 3), ((1, 2), 1), ((2, 1), 2)
"""The same, nightly."""


@pytest.mark.parametrize(
    ("together", "window"),
    [*ORDERS, *(pytest.param(*one, marks=pytest.mark.nightly) for one in MORE)],
    ids=str,
)
async def test_mem0g_follows_the_times_of_statements(
    memory: Any, together: tuple[int, ...], window: int
) -> None:
    mem0g, told = memory("mem0g"), list(cases(together))
    await tell(mem0g, told, together, params={"pair": window})
    rows = await mem0g.rows("RELATES")
    found = spans(rows, len(told), at="at", until="invalid_at", text="text", group="conversation")
    assert found == [timeline(case) for case in told]
    assert sorted({id_ for row in rows for id_ in row["turns"]}) == sorted(
        f"c{n}-{day}" for n in range(len(told)) for day in DAYS
    )
    assert all(row["turns"] == sorted(row["turns"]) for row in rows)


@pytest.mark.parametrize(
    ("together", "options"),
    [
        *((together, {"params": {"window": window}}) for together, window in ORDERS),
        *(
            pytest.param(together, {"params": {"window": window}}, marks=pytest.mark.nightly)
            for together, window in MORE
        ),
        *(((3,), {"preset": preset}) for preset in ("ready", "bulk")),
    ],
    ids=str,
)
async def test_graphiti_follows_the_times_of_statements(
    memory: Any, together: tuple[int, ...], options: dict[str, Any]
) -> None:
    graphiti, told = memory("graphiti"), list(cases(together))
    await tell(graphiti, told, together, **options)
    rows = await graphiti.rows("RELATES_TO")
    found = spans(rows, len(told), at="valid_at", until="invalid_at", text="fact", group="group_id")
    assert found == [timeline(case) for case in told]


@pytest.mark.parametrize("together", [(3,), (1, 1, 1)], ids=str)
async def test_mem0_keeps_what_arrived_last(memory: Any, together: tuple[int, ...]) -> None:
    """One home, that of the statement which arrived last; a statement of an earlier time than a
    memory of another home is kept beside it.
    """
    mem0, told = memory("mem0"), list(cases(together))
    await tell(mem0, told, together, params={"pair": 1})
    found = defaultdict(list)
    for row in await mem0.rows("Memory"):
        found[row["conversation"]].append(row["text"].removesuffix(".").rpartition(" ")[2])
    for n, case in enumerate(told):
        assert case[-1].state in found[f"c{n}"], case
        if list(case) == sorted(case, key=lambda one: one.at):
            assert found[f"c{n}"] == [case[-1].state], case
        assert len(found[f"c{n}"]) == len(set(found[f"c{n}"])), case


async def test_mem0_keeps_a_memory_that_the_same_pair_replaces_and_says_again(memory: Any) -> None:
    mem0 = memory("mem0")
    await mem0.tell(turn(1, "I live in Oslo."))
    await mem0.tell(turn(2, "I live in Riga."), turn(3, "I live in Oslo."))
    (row,) = await mem0.rows("Memory")
    assert (row["text"], row["turns"]) == ("Ada Costa lives in Oslo.", ["t1", "t3"])


async def test_mem0_compares_statements_with_memories_and_not_with_each_other(memory: Any) -> None:
    """What one pair tells of a matter without a memory is kept whole, until the next statement."""
    mem0 = memory("mem0")
    await mem0.tell(turn(1, "I live in Oslo."), turn(2, "I live in Riga."))
    assert len(await mem0.rows("Memory")) == 2


MOVES = (
    ("I live in Oslo.", "Ada Costa"), ("I live in Riga. I know Ada Costa.", "Ben Ito"),
    ("I have moved to Riga.", "Ada Costa"), ("I lead Project KITE.", "Ben Ito"),
    ("I live in Oslo again.", "Ada Costa"), ("I live in Oslo.", "Ada Costa"),
    ("I lead Project Kite.", "Ben Ito"), ("I live in OSLO.", "Ada Costa"), ("I have moved to Oslo.", "Ben Ito"),
)  # fmt: skip
"""People who move and return, in several spellings."""


@pytest.mark.parametrize(
    ("name", "labels"),
    [
        ("raptor", ["Passage"]),
        ("graphrag", ["Entity", "RELATED", "Finding"]),
        ("hipporag", ["Passage", "Phrase", "SAYS", "CONTAINS", "ALIKE"]),
    ],
)
@pytest.mark.parametrize(
    "parts", [(9, 3, 8), pytest.param((9, 1), marks=pytest.mark.nightly)], ids=str
)
async def test_memories_without_ends_are_the_same_in_any_number_of_parts(
    memory: Any, model: StandIn, name: str, labels: list[str], parts: Sequence[int]
) -> None:
    """In several runs, and, where a memory has windows, in windows of several turns."""
    turns = [turn(day, text, who) for day, (text, who) in enumerate(MOVES, start=1)]
    found = []
    for together in parts:
        told = memory(name, model, SqliteStore(":memory:"))
        for first in range(0, len(turns), together):
            assert not (await told.tell(*turns[first : first + together])).failed
        found.append({label: _plain(await told.rows(label)) for label in labels})
    assert found == [found[0]] * len(found)


def _plain(rows: Sequence[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Rows by id, without vectors; turns are a set."""
    return {
        row["id"]: {name: value for name, value in row.items() if not name.endswith("_embedding")}
        | {"turns": sorted(row.get("turns") or [])}
        for row in rows
    }
