"""Messages for the stand-in model."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

NAMES = [
    "Ada",
    "Bora",
    "Cleo",
    "Dina",
    "Eris",
    "Faye",
    "Gwen",
    "Hugo",
    "Iris",
    "Jade",
    "Kira",
    "Lara",
    "Mona",
    "Nora",
]
START = datetime(2025, 1, 1, tzinfo=UTC)


def stream(count: int, group: str, seed: int = 7) -> Iterator[dict[str, Any]]:
    """`user(user): A, B, C, D met.`, a minute apart, four names drawn from fourteen."""
    draw = random.Random(seed)
    for k in range(count):
        names = ", ".join(draw.sample(NAMES, 4))
        yield {
            "group_id": group,
            "valid_at": START + timedelta(minutes=k),
            "content": f"user(user): {names} met.",
        }


def groups(episodes: int, count: int) -> list[dict[str, Any]]:
    """Streams of `count` groups, interleaved."""
    each = [list(stream(episodes // count, f"g{g}", seed=g)) for g in range(count)]
    return [row for rows in zip(*each, strict=True) for row in rows]
