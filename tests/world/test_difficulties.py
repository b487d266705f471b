"""What makes a world difficult: its levels, and how corrections, ends and denials are read."""

from __future__ import annotations

import pytest

from benchmarks.world import World
from benchmarks.world.answers.judging import verdict
from benchmarks.world.answers.reading import facts

SAID = "2025-01-15T09:00:00Z"


def said(text: str, *history: str) -> list[str]:
    """The facts that a message tells, as the server reads them."""
    return [
        f["fact"]
        for f in facts({"content": text, "history": list(history), "valid_at": SAID})["facts"]
    ]


def test_levels_are_called_by_number_or_name() -> None:
    assert World.make(1, 4, 1).rows == World.make(1, 4, "1").rows


def test_more_small_talk_leaves_the_truth_as_it_is() -> None:
    plain, harder = World.make(3, 8, 1), World.make(3, 8, "talkative")
    assert harder.truth == plain.truth
    assert harder.rows != plain.rows


@pytest.mark.parametrize(
    ("message", "facts"),
    [
        (
            "Ada Costa(user): No, I work at Kestrel Labs, not Luma.",
            ["Ada Costa works at Kestrel Labs, not Luma."],
        ),
        (
            "Bruno Weber(user): No, it was not Luma but Kestrel Labs that Ada Costa has joined on 2024-05-01.",
            ["Ada Costa has joined Kestrel Labs on 2024-05-01, not Luma."],
        ),
        (
            "Ada Costa(user): No, it was not Oslo but Riga that I live in.",
            ["Ada Costa lives in Riga, not Oslo."],
        ),
        (
            "Ada Costa(user): I do not work at Luma any more.",
            ["Ada Costa does not work at Luma any more."],
        ),
        ("Ada Costa(user): I have never worked at Luma.", ["Ada Costa has never worked at Luma."]),
        ("Ada Costa(user): Bruno does not work at Luma.", []),
    ],
)
def test_corrections_ends_and_denials_are_parsed(message: str, facts: list[str]) -> None:
    assert said(message) == facts


@pytest.mark.parametrize(
    ("new", "known", "expected"),
    [
        (
            "Ada Costa knows Clara Petrov, not Bruno Weber.",
            "Ada Costa knows Bruno Weber.",
            "contradicts",
        ),
        ("Ada Costa knows Clara Petrov, not Bruno Weber.", "Ada Costa knows Felix Rossi.", None),
        (
            "Ada Costa knows Clara Petrov.",
            "Ada Costa knows Clara Petrov, not Bruno Weber.",
            "duplicate",
        ),
        (
            "Ada Costa does not work at Luma any more.",
            "Ada Costa works at Luma since 2020-01-01.",
            "contradicts",
        ),
        ("Ada Costa does not work at Luma any more.", "Ada Costa has left Luma.", "duplicate"),
        ("Ada Costa has never worked at Luma.", "Ada Costa is employed by Luma.", "contradicts"),
        ("Ada Costa has never worked at Luma.", "Ada Costa works at Acme.", None),
        (
            "Ada Costa does not lead Project Kite any more.",
            "Ada Costa leads Project Kite.",
            "contradicts",
        ),
    ],
)
def test_corrections_ends_and_denials_are_compared(
    new: str, known: str, expected: str | None
) -> None:
    assert verdict(new, known) == expected
