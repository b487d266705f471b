"""Streams of messages of fixed content, those of other engines' published measurements among them."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from benchmarks.world import World

Row = dict[str, Any]
NAMES = [
    "Ada", "Bora", "Cleo", "Dina", "Eris", "Faye", "Gwen", "Hugo", "Iris", "Jade", "Kira", "Lara", "Mona", "Nora"
]  # fmt: skip
START = datetime(2025, 1, 1, tzinfo=UTC)
_TURNS = (
    "Alice Chen(user): Hi, I'm Alice Chen. I work at TechCorp as a senior software engineer.",
    "Alice Chen(user): I'm currently leading Project Phoenix, a major cloud migration initiative.",
    "Alice Chen(user): The project deadline is February 15th, and we have 3 team members.",
)
_FIRST = "Ada, Bora, Cleo, Dina, Eris, Faye, Gwen, Hugo, Iris, Jade, Kira"
_SECOND = "Ada, Lara, Mona, Nora, Olga, Pola, Quin, Rhea, Sara, Tess, Uma"


def stream(count: int, group: str, seed: int = 7) -> Iterator[Row]:
    """`user(user): A, B, C, D met.`, a minute apart, four names drawn from fourteen."""
    draw = random.Random(seed)
    for k in range(count):
        content = f"user(user): {', '.join(draw.sample(NAMES, 4))} met."
        yield {"group_id": group, "valid_at": START + timedelta(minutes=k), "content": content}


def groups(episodes: int, count: int) -> list[Row]:
    """Streams of `count` groups, interleaved."""
    each = [list(stream(episodes // count, f"g{g}", seed=g)) for g in range(count)]
    return [row for rows in zip(*each, strict=True) for row in rows]


@dataclass(frozen=True)
class Stream:
    """Messages of one or several groups.

    Args:
        name: The name in tables.
        rows: The messages.
        before: Messages that are added before the measurement.
        undated: Whether the model returns facts without dates.
        world: The world behind the messages, if the truth is known.
    """

    name: str
    rows: Sequence[Row]
    before: Sequence[Row] = ()
    undated: bool = False
    world: World | None = None

    @property
    def groups(self) -> list[str]:
        """The groups of its messages."""
        return list(dict.fromkeys(row["group_id"] for row in (*self.before, *self.rows)))

    @property
    def hash(self) -> str:
        """A hash of all messages, in order."""
        text = json.dumps([*self.before, *self.rows], default=str, ensure_ascii=False)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def _said(texts: Sequence[str], first: int = 0) -> list[Row]:
    start = datetime(2025, 1, 15, 9, tzinfo=UTC)
    return [
        {"group_id": "g", "valid_at": start + timedelta(minutes=first + i), "content": text}
        for i, text in enumerate(texts)
    ]


def _turns(dates: str, _: int) -> Stream:
    """The three turns of the shipped example."""
    return Stream(f"three turns, {dates}", _said(_TURNS), undated=dates == "undated")


def _dense(dates: str, _: int) -> Stream:
    """A message of eleven names and ten facts, each with candidates, after a first one of as many."""
    before = _said([f"user(user): {_FIRST} met."])
    rows = _said([f"user(user): {_SECOND} met."], 1)
    return Stream(f"dense, {dates}", rows, before, dates == "undated")


def _meetings(count: int, _: int) -> Stream:
    """Messages of one group; two of another group come first."""
    rows, before = list(stream(count, "g")), list(stream(2, "before"))
    return Stream(f"{count:,} meetings, one group", rows, before)


def _grown(count: int, trial: int) -> Stream:
    """The first messages of a plain world that is large enough for them, so that the graph grows as
    long as they come.
    """
    world = World.make(trial + 1, max(6, count // 8 + 2), 0)
    if len(world.rows) < count:
        raise ValueError(f"the world tells {len(world.rows)} messages, not {count}")
    return Stream(f"{count:,} messages of a world", world.rows[:count], world=world)


def _world(people: int, difficulty: int, trial: int) -> Stream:
    """A synthetic world in messages; its true graph is known."""
    world = World.make(trial + 1, people, difficulty)
    name = f"world of {people} people, difficulty {difficulty}"
    return Stream(name, world.rows, world=world)


MADE: dict[str, Callable[[int], Stream]] = {
    **{f"turns {dates}": partial(_turns, dates) for dates in ("dated", "undated")},
    **{f"dense {dates}": partial(_dense, dates) for dates in ("dated", "undated")},
    **{f"meetings {count}": partial(_meetings, count) for count in (20, 1000)},
    "small world": partial(_world, 3, 1),
    **{f"world {difficulty}": partial(_world, 6, difficulty) for difficulty in range(3)},
}
"""Streams by a short name; a world differs from trial to trial."""


def made(name: str, trial: int) -> Stream:
    """A stream by its short name; `grown 100` are 100 messages of a world."""
    first, _, count = name.partition(" ")
    return _grown(int(count), trial) if first == "grown" else MADE[name](trial)
