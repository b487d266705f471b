"""Streams of messages of fixed content, those of other engines' published measurements among them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from benchmarks.ingest.messages import groups, stream
from benchmarks.world import World

Row = dict[str, Any]
START = datetime(2025, 1, 15, 9, tzinfo=UTC)
_TURNS = (
    "Alice Chen(user): Hi, I'm Alice Chen. I work at TechCorp as a senior software engineer.",
    "Alice Chen(user): I'm currently leading Project Phoenix, a major cloud migration initiative.",
    "Alice Chen(user): The project deadline is February 15th, and we have 3 team members.",
)
_FIRST = "Ada, Bora, Cleo, Dina, Eris, Faye, Gwen, Hugo, Iris, Jade, Kira"
_SECOND = "Ada, Lara, Mona, Nora, Olga, Pola, Quin, Rhea, Sara, Tess, Uma"


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


def _said(texts: Sequence[str], first: int = 0) -> list[Row]:
    return [
        {"group_id": "g", "valid_at": START + timedelta(minutes=first + i), "content": text}
        for i, text in enumerate(texts)
    ]


def turns(*, undated: bool) -> Stream:
    """The three turns of the shipped example."""
    return Stream(f"three turns, {_dates(undated)}", _said(_TURNS), undated=undated)


def dense(*, undated: bool) -> Stream:
    """One message of eleven names and ten facts, each with candidates, after a first one of as
    many.
    """
    before = _said([f"user(user): {_FIRST} met."])
    return Stream(
        f"dense, {_dates(undated)}", _said([f"user(user): {_SECOND} met."], 1), before, undated
    )


def meetings(count: int) -> Stream:
    """Messages of four names of fourteen, a minute apart, all of one group; two of another group
    come first.
    """
    return Stream(
        f"{count:,} meetings, one group", list(stream(count, "g")), list(stream(2, "before"))
    )


def crowd(episodes: int, count: int) -> Stream:
    """The same, of many groups."""
    return Stream(f"{episodes:,} meetings, {count} groups", groups(episodes, count))


def grown(count: int, seed: int = 1) -> Stream:
    """The first messages of a plain world that is large enough for them, so that the graph grows as
    long as they come.
    """
    world = World.make(seed, max(6, count // 8 + 2), 0)
    if len(world.rows) < count:
        msg = f"a world of {len(world.truth.of('person'))} people tells {len(world.rows)} messages, not {count}"
        raise ValueError(msg)
    return Stream(f"{count:,} messages of a world", world.rows[:count], world=world)


def told(seed: int, people: int, difficulty: int) -> Stream:
    """A synthetic world in messages; its true graph is known."""
    world = World.make(seed, people, difficulty)
    return Stream(f"world of {people} people, difficulty {difficulty}", world.rows, world=world)


def _dates(undated: bool) -> str:
    return "undated" if undated else "dated"


MADE: dict[str, Callable[[int], Stream]] = {
    "turns dated": lambda _: turns(undated=False),
    "turns undated": lambda _: turns(undated=True),
    "dense dated": lambda _: dense(undated=False),
    "dense undated": lambda _: dense(undated=True),
    "meetings 20": lambda _: meetings(20),
    "meetings 1000": lambda _: meetings(1000),
    "small world": lambda trial: told(trial + 1, 3, 1),
    "world 0": lambda trial: told(trial + 1, 6, 0),
    "world 1": lambda trial: told(trial + 1, 6, 1),
    "world 2": lambda trial: told(trial + 1, 6, 2),
}
"""Streams by a short name; a world differs from trial to trial."""


def made(name: str, trial: int) -> Stream:
    """A stream by its short name; `grown 100` are 100 messages of a world."""
    first, _, count = name.partition(" ")
    return grown(int(count), trial + 1) if first == "grown" else MADE[name](trial)


def content_hash(stream: Stream) -> str:
    """A hash of all messages, in order."""
    text = json.dumps([*stream.before, *stream.rows], default=str, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
