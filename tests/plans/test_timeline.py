"""Facts hold as the rules of `timeline` say, in whatever order they are told and however many of
them are settled together. Each case is a group of its own.
"""

from __future__ import annotations

import os
import random
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import combinations, permutations, product
from typing import Any, TypeVar

import pytest

from tests.plans.conftest import Memory, at
from tests.plans.timeline import Held, Statement, timeline

Told = Sequence[Statement]
Case = TypeVar("Case")
STATEMENTS = int(os.environ.get("STATEMENTS") or 3)
"""How many are told in every order: 4 in `make nightly`."""
WINDOWS = (1, 2, "all", "ready")
windows = pytest.mark.parametrize("window", WINDOWS)


def few(count: int) -> pytest.MarkDecorator:
    """So many of the cases, drawn; nightly all of them."""
    return pytest.mark.parametrize(
        "few", [count, pytest.param(None, marks=pytest.mark.nightly, id="all of them")]
    )


def drawn(cases: Iterable[Case], few: int | None) -> list[Case]:
    """So many of the cases, or all of them."""
    found = list(cases)
    return found if few is None else random.Random(7).sample(found, few)


def day(number: int | None) -> datetime | None:
    return None if number is None else at(0) + timedelta(days=number)


def rows(group: str, told: Told, *, late: bool = False) -> Iterator[dict[str, Any]]:
    """The facts of a case in the order of arrival. Each is said when it begins to hold, or if it is told
    `late`, after all of that, one a day.
    """
    for n, one in enumerate(told):
        yield {
            "uuid": f"{group}-{n}", "group_id": group, "arrival": n, "name": "LIVES_IN",
            "source": f"{group}-Ann", "target": f"{group}-{one.state}", "fact": f"Ann lives in {one.state}.",
            "said_at": day(100 + n if late else one.at), "valid_at": day(one.at), "invalid_at": day(one.until),
        }  # fmt: skip


async def held(
    memory: Memory, cases: Iterable[Told], window: int | str, *, late: bool = False, **chosen: Any
) -> list[list[Held]]:
    """What the graph says of each case, all of which are told in one run."""
    cases = list(cases)
    facts = [row for n, told in enumerate(cases) for row in rows(f"g{n}", told, late=late)]
    chosen |= {"preset": window} if isinstance(window, str) else {"params": {"window": window}}
    result = await memory.run(memory.here("told.yaml"), facts=facts, **chosen)
    assert not result.failed
    return await found_in(memory, len(cases))


async def found_in(memory: Memory, count: int) -> list[list[Held]]:
    """What the graph says of so many cases."""
    found = defaultdict(list)
    for fact in (await memory.graph()).facts:
        since, until = (
            None if time is None else (time - at(0)).days
            for time in (fact["valid_at"], fact["invalid_at"])
        )
        state = fact["fact"].removeprefix("Ann lives in ").removesuffix(".")
        found[fact["group_id"]].append(Held(state, since, until))  # type: ignore[arg-type]
    return [sorted(found[f"g{n}"]) for n in range(count)]


async def removed(
    memory: Memory, cases: Sequence[Told], places: Sequence[Sequence[int]], **options: Any
) -> list[list[Held]]:
    """What the graph says of each case when the statements at some of its places are removed, all in
    one run.
    """
    ids = {(e["group_id"], e["valid_at"]): e["uuid"] for e in (await memory.graph()).episodes}
    uuids = [
        ids[f"g{n}", day(told[place].at)]
        for n, (told, which) in enumerate(zip(cases, places, strict=True))
        for place in which
    ]
    result = await memory.run(
        "remove_episode", episodes=[{"uuid": uuid} for uuid in uuids], **options
    )
    assert not result.failed
    return await found_in(memory, len(cases))


def overlapping(facts: Sequence[Held]) -> bool:
    """Whether two states hold at one time."""
    never = 1 << 30
    return any(
        a.state != b.state and a.since < (b.until or never) and b.since < (a.until or never)
        for a, b in combinations(facts, 2)
    )


def distinct(
    count: int, states: Sequence[str], ends: Sequence[int | None] = (None,)
) -> Iterator[Told]:
    """Statements of distinct times, in every order of arrival."""
    for times in permutations(range(2, 2 * count + 1, 2)):
        for chosen in product(product(states, ends), repeat=count):
            yield [
                Statement(state, time, end and time + end)
                for time, (state, end) in zip(times, chosen, strict=True)
            ]


@windows
async def test_statements_of_two_states_in_every_order(memory: Memory, window: int | str) -> None:
    cases = list(distinct(STATEMENTS, ("Rome", "Porto")))
    assert await held(memory, cases, window) == [timeline(told) for told in cases]


@few(48)
@pytest.mark.parametrize("window", [2, "all"])
async def test_three_statements_some_of_which_say_when_they_end(
    memory: Memory, window: int | str, few: int | None
) -> None:
    """Of a state that is told more than once, the graph forgets to which statement an end belongs."""
    cases = drawn(distinct(3, ("Rome", "Porto"), (None, 3)), few)
    found = await held(memory, cases, window)
    for told, facts in zip(cases, found, strict=True):
        assert not overlapping(facts), (told, facts)
        ending = {one.state for one in told if one.until}
        if all(sum(one.state == state for one in told) == 1 for state in ending):
            assert facts == timeline(told), told


@pytest.mark.parametrize("window", [pytest.param(1, marks=pytest.mark.nightly), 2])
async def test_the_same_again_at_one_time(memory: Memory, window: int | str) -> None:
    """Equal times are one statement, unless two states contradict each other from the same time."""
    places = ("Rome", "Porto")
    cases = [
        told
        for times in product((1, 2, 3), repeat=3)
        for told in (
            [Statement(state, time) for state, time in zip(states, times, strict=True)]
            for states in product(places, repeat=3)
        )
        if len(set(times)) < 3
        and not any(a.at == b.at and a.state != b.state for a, b in combinations(told, 2))
    ]
    assert await held(memory, cases, window) == [timeline(told) for told in cases]


@few(12)
@pytest.mark.parametrize("window", [1, 3, pytest.param("all", marks=pytest.mark.nightly)])
async def test_six_statements_of_three_states(
    memory: Memory, window: int | str, few: int | None
) -> None:
    chance = random.Random(29)
    cases = [
        [
            Statement(chance.choice(("Rome", "Porto", "Oslo")), time)
            for time in chance.sample(range(30), 6)
        ]
        for _ in range(few or 80)
    ]
    times = {
        "Rome": (27, 8),
        "Oslo": (21, 26),
    }  # the beginning of a stored fact moved before another
    told = [Statement(state, time) for state, both in times.items() for time in both]
    cases.append([*told, Statement("Rome", 23)])
    assert await held(memory, cases, window) == [timeline(told) for told in cases]


def shuffled(states: Sequence[str], chance: random.Random) -> Told:
    """A statement of each, from one day to the next, in any order of arrival."""
    told = [Statement(state, time) for time, state in enumerate(states, start=1)]
    return chance.sample(told, len(told))


@pytest.mark.parametrize(
    ("window", "reach", "each"),
    [
        (1, "shared_end", 1),
        ("all", "shared_end", 1),
        *(
            pytest.param(*one, 3, marks=pytest.mark.nightly)
            for one in (*((window, "shared_end") for window in WINDOWS), (1, "group"))
        ),
    ],
)
async def test_many_statements(memory: Memory, window: int | str, reach: str, each: int) -> None:
    """More than the `rivals` that words find: what is near in time is compared, whatever its rank in
    words.
    """
    chance = random.Random(37)
    homes = [chr(ord("A") + n) + "town" for n in range(17)]
    cases = [[Statement(home, time) for time, home in enumerate(homes)]]
    cases += [cases[0][::-1], *(shuffled(homes, chance) for _ in range(each))]
    cases += [shuffled(["Rome", "Porto"] * 12, chance) for _ in range(each)]
    cases += [shuffled([chance.choice(homes[:4]) for _ in range(20)], chance) for _ in range(each)]
    use = {"find": f"find_rivals(reach={reach})"}
    found = await held(memory, cases, window, use=use)
    assert found == [timeline(told) for told in cases]


@pytest.mark.parametrize("window", [pytest.param(1, marks=pytest.mark.nightly), 3])
async def test_two_relations_of_the_same_two_end_each_other_again_and_again(
    memory: Memory, window: int
) -> None:
    """More than the `rivals` in equal words have ended: what is near in time is compared."""
    said = {"WORKS_AT": "Ann works at Acme.", "LEFT": "Ann no longer works at Acme."}
    facts = [
        {"uuid": f"f{n}", "group_id": "g0", "arrival": n, "name": name, "source": "Ann", "target": "Acme",
         "fact": said[name], "said_at": day(n), "valid_at": day(n), "invalid_at": None}
        for n, name in enumerate([*said] * 8)
    ]  # fmt: skip
    await memory.run(memory.here("told.yaml"), facts=facts, params={"window": window})
    stored = (await memory.graph()).facts
    found = [(fact["name"], fact["valid_at"], fact["invalid_at"]) for fact in stored]
    last = len(facts) - 1
    assert sorted(found, key=lambda fact: fact[1]) == [
        (fact["name"], day(n), day(n + 1) if n < last else None) for n, fact in enumerate(facts)
    ]


async def test_states_of_two_relations_are_found_among_more_rivals(memory: Memory) -> None:
    """An exception: with the usual 10 rivals two homes may hold at once."""
    order = random.Random(3).sample(range(20), 20)
    facts = [
        {"uuid": f"f{n}", "group_id": "g0", "arrival": place, "name": ("LIVES_IN", "MOVED_TO")[n % 2],
         "source": "Ann", "target": f"{n}town", "fact": f"Ann {('lives in', 'has moved to')[n % 2]} {n}town.",
         "said_at": day(n), "valid_at": day(n), "invalid_at": None}
        for place, n in enumerate(order)
    ]  # fmt: skip
    use = {"find": "find_rivals(rivals=40)"}
    await memory.run(memory.here("told.yaml"), facts=facts, params={"window": 1}, use=use)
    found = [(fact["valid_at"], fact["invalid_at"]) for fact in (await memory.graph()).facts]
    assert sorted(found) == [(day(n), day(n + 1) if n < 19 else None) for n in range(20)]


@pytest.mark.parametrize(
    ("window", "end"), [(1, None), (2, None), (3, 2), ("all", 2), ("ready", 2)]
)
async def test_of_two_states_from_one_time_the_same_words_again_end_neither(
    memory: Memory, window: int | str, end: int | None
) -> None:
    """An exception: nobody is asked about a fact in the words of a known one that holds. In one window
    with the other two it is known that they contradict each other.
    """
    told = [Statement("Rome", 1), Statement("Porto", 1), Statement("Rome", 2)]
    assert await held(memory, [told], window) == [[Held("Porto", 1, end), Held("Rome", 1, None)]]
    assert timeline(told) == [Held("Porto", 1, 2), Held("Rome", 1, None)]


async def test_a_restatement_counts_from_when_it_was_said(memory: Memory) -> None:
    """An exception: of a statement that repeats a stored fact the graph keeps the episode, not the date."""
    told = [Statement("Rome", 1), Statement("Rome", 3), Statement("Porto", 2)]
    assert await held(memory, [told], 1, late=True) == [
        [Held("Porto", 2, None), Held("Rome", 1, 2)]
    ]
    assert timeline(told) == [Held("Porto", 2, 3), Held("Rome", 1, 2), Held("Rome", 3, None)]


def without(told: Told, places: Sequence[int]) -> Told:
    """The statements that remain."""
    return [one for n, one in enumerate(told) if n not in places]


@few(24)
@windows
async def test_one_of_three_statements_removed(
    memory: Memory, window: int | str, few: int | None
) -> None:
    each = drawn(((told, (n,)) for told in distinct(3, ("Rome", "Porto")) for n in range(3)), few)
    cases, places = [told for told, _ in each], [which for _, which in each]
    await held(memory, cases, window)
    assert await removed(memory, cases, places) == [
        timeline(without(told, which)) for told, which in each
    ]


@few(30)
@pytest.mark.parametrize("window", [1, "all"])
async def test_one_of_three_homes_some_of_which_say_when_they_end_removed(
    memory: Memory, window: int | str, few: int | None
) -> None:
    """What a removed statement ended ends with the next one, though nothing began when that one ended."""
    each = [
        (told, (n,))
        for told in distinct(3, ("Rome", "Porto", "Oslo"), (None, 1, 3))
        if len({one.state for one in told}) == 3
        for n in range(3)
        if not any(one.until and one.at < told[n].at < one.until for one in told)
    ]
    each = random.Random(41).sample(each, few or 200)
    cases, places = [told for told, _ in each], [which for _, which in each]
    await held(memory, cases, window)
    assert await removed(memory, cases, places) == [
        timeline(without(told, which)) for told, which in each
    ]


async def test_a_stated_end_is_lost_with_what_ended_the_fact_before(memory: Memory) -> None:
    """An exception: the graph keeps the end that holds, not another one that was stated."""
    told = [Statement("Oslo", 11, 16), Statement("Rome", 13)]
    assert await held(memory, [told], 1) == [[Held("Oslo", 11, 13), Held("Rome", 13, None)]]
    assert await removed(memory, [told], [(1,)]) == [[Held("Oslo", 11, None)]]
    assert timeline(told[:1]) == [Held("Oslo", 11, 16)]


@few(16)
async def test_one_after_the_other_removed(memory: Memory, few: int | None) -> None:
    cases = drawn(distinct(3, ("Rome", "Porto")), few)
    await held(memory, cases, 1)
    for n in range(3):
        found = await removed(memory, cases, [(n,)] * len(cases))
        assert found == [timeline(told[n + 1 :]) for told in cases]
    graph = await memory.graph()
    assert (graph.facts, graph.episodes) == ([], [])


@few(12)
@pytest.mark.parametrize("window", [1, "all"])
@pytest.mark.parametrize("count", [1, 3])
async def test_some_of_six_statements_of_two_states_removed(
    memory: Memory, window: int | str, count: int, few: int | None
) -> None:
    chance = random.Random(31)
    cases = [
        [Statement(chance.choice(("Rome", "Porto")), time) for time in chance.sample(range(30), 6)]
        for _ in range(few or 40)
    ]
    places = [chance.sample(range(6), count) for _ in cases]
    await held(memory, cases, window)
    assert await removed(memory, cases, places) == [
        timeline(without(told, which)) for told, which in zip(cases, places, strict=True)
    ]
