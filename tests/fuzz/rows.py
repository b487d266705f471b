"""Random input rows: NULL, NaN, duplicates, lists, structs, times and Unicode, with few distinct
values so that there are ties.
"""

from __future__ import annotations

import random
from datetime import UTC, datetime
from typing import Any

from tests.fuzz.expressions import NUMBERS, STRINGS, TEXTS, TIMES, Kind

COLUMNS: dict[str, Kind] = {
    "id": "int64",
    "k": "int64",
    "n": "int64",
    "x": "double",
    "s": "string",
    "t": "string",
    "b": "boolean",
    "moment": "timestamp",
    "tags": STRINGS,
    "nums": NUMBERS,
    "who": ("struct", (("name", "string"), ("age", "int64"))),
    "group_id": "string",
    "canary": "string",
}
INPUT = {"x_text" if name == "x" else name: kind for name, kind in COLUMNS.items()} | {
    "x_text": "string"
}
"""The columns of an input: no input holds NaN, so that a plan makes it of a text."""
REQUIRED = ("id", "group_id", "canary")
FAILING = "✗"  # the model has no answer to a question with this mark
GROUPS = ("g", "h", "i")


def canary(group: str) -> str:
    """The mark of a partition's rows."""
    return f"canary-{group}"


def rows(rng: random.Random, *, many: bool, failing: bool) -> list[dict[str, Any]]:
    """Rows of an input."""
    count = rng.randint(26, 45) if many else rng.choice((0, 1, 2, 3, 4, 5, 6, 8))
    made = [_row(rng, i, failing) for i in range(count)]
    if made and rng.random() < 0.3:  # an equal row
        twice = rng.choice(made)
        made.append({**twice, "who": dict(twice["who"]) if twice["who"] else None})
    return made


def _row(rng: random.Random, place: int, failing: bool) -> dict[str, Any]:
    def some(share: float, value: Any) -> Any:
        return None if rng.random() < share else value

    group = rng.choice(GROUPS)
    text = some(0.15, rng.choice(TEXTS))
    if failing and rng.random() < 0.25:
        text = f"{rng.choice(TEXTS)}{FAILING}"
    return {
        "id": place if rng.random() < 0.8 else rng.randint(0, 5),
        "k": some(0.1, rng.randint(0, 2)),
        "n": some(0.15, rng.choice((*range(-3, 12), 10**6))),
        "x_text": some(
            0.15, rng.choice(("0.5", "1.5", "-2", "0", "-0.0", "3.25", "nan", "nan", "nan", "inf"))
        ),
        "s": text,
        "t": some(0.1, rng.choice(TEXTS[:6])),
        "b": some(0.2, rng.random() < 0.5),
        "moment": some(0.2, _time(rng.choice(TIMES))),
        "tags": some(0.15, [some(0.2, rng.choice(TEXTS)) for _ in range(rng.randint(0, 3))]),
        "nums": some(0.15, [some(0.2, rng.randint(-2, 4)) for _ in range(rng.randint(0, 3))]),
        "who": some(
            0.15, {"name": some(0.2, rng.choice(TEXTS)), "age": some(0.2, rng.randint(0, 90))}
        ),
        "group_id": group,
        "canary": canary(group),
    }


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("+00", "+00:00")).astimezone(UTC)
