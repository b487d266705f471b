"""Difficulties of a world: single features, and levels that combine several."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Self


@dataclass(frozen=True)
class Difficulty:
    """Features of messages beyond plain statements of beginnings and their repetitions.

    With equal seeds, difficulties with the same `base` have the same truth and, apart from their
    features, the same messages.

    Args:
        name: The name in tables.
        base: The level below it: 0, 1 or 2.
        phrases: Several wordings of a relation.
        first_names: People appear by unique first names.
        shared: Several statements in a message, and "she".
        talk: Rate of messages of small talk between others; four times as often it is in a message
            with statements.
        gaps: "has left" some time before the successor.
        long_ago: "worked at ... from ... to ...", of jobs that ended before the first message.
        denials: "does not work at ..." of jobs that no message states.
        homonyms: Two people of one name, distinguished by "the pilot".
        initials: "ABB" for Amber Bridge Bank.
        slips: Rate of slips in people's names.
        many_names: Two names of one thing in a message.
        again: Jobs are resumed.
        told_later: Only a repetition of the statement names the day.
        yesterday: A change happened "yesterday".
        corrections: Rate of wrong first statements with a correction within a day: "No, it was not
            ... but ... that ...".
        retractions: Rate of people with a job that is stated and then retracted.
        negations: Rate of jobs with a separate statement of their end: "does not work at ... any
            more".
        backdated: Rate of homes and jobs that are stated only after they, and their successors,
            have ended.

    >>> Difficulty.parse("1,corrections=0.2").corrections
    0.2
    """

    name: str = ""
    base: int = 0
    phrases: bool = False
    first_names: bool = False
    shared: bool = False
    talk: float = 0.0
    gaps: bool = False
    long_ago: bool = False
    denials: bool = False
    homonyms: bool = False
    initials: bool = False
    slips: float = 0.0
    many_names: bool = False
    again: bool = False
    told_later: bool = False
    yesterday: bool = False
    corrections: float = 0.0
    retractions: float = 0.0
    negations: float = 0.0
    backdated: float = 0.0

    def __post_init__(self) -> None:
        for name in _RATES:
            most = _MOST.get(name, 1.0)
            if not 0 <= getattr(self, name) <= most:
                raise ValueError(f"{name} is a rate from 0 to {most:g}, not {getattr(self, name)}")

    def __str__(self) -> str:
        return self.name

    @classmethod
    def parse(cls, text: str) -> Self:
        """A level by name, with changed features: `1`, `corrected`, `1,slips=0.1,homonyms=1`.
        Raises ValueError.
        """
        first, *rest = text.split(",")
        if first not in LEVELS:
            raise ValueError(f'a world has no difficulty "{first}"; levels are {", ".join(LEVELS)}')
        given: dict[str, Any] = {}
        for part in rest:
            name, _, number = part.partition("=")
            if name not in _FEATURES:
                raise ValueError(
                    f'"{name}" is nothing that makes a world difficult: {", ".join(_FEATURES)}'
                )
            given[name] = (
                float(number) if name in _RATES else number.lower() in {"1", "true", "yes", ""}
            )
        level = LEVELS[first]
        return cls(
            **{f.name: getattr(level, f.name) for f in fields(cls)}
            | given
            | ({"name": text} if rest else {})
        )


def difficulty(given: int | str | Difficulty) -> Difficulty:
    """A difficulty, by level, by words, or itself. Raises ValueError."""
    return given if isinstance(given, Difficulty) else Difficulty.parse(str(given))


_FEATURES = tuple(f.name for f in fields(Difficulty) if f.name not in {"name", "base"})
_RATES = ("talk", "slips", "corrections", "retractions", "negations", "backdated")
_MOST = {
    "talk": 0.25,
    "slips": 0.8,
}  # four times as much talk, and first names in a fifth, are rates too
_PLAIN = Difficulty("0")
_CHAT = Difficulty(
    "1", 1, phrases=True, first_names=True, shared=True, talk=0.05, gaps=True, long_ago=True, denials=True
)  # fmt: skip
_HARD = replace(
    _CHAT, name="2", base=2, homonyms=True, initials=True, slips=0.05, many_names=True, again=True, told_later=True,
    yesterday=True,
)  # fmt: skip
LEVELS: Mapping[str, Difficulty] = {
    "0": _PLAIN,
    "1": _CHAT,
    "2": _HARD,
    "talkative": replace(_CHAT, name="talkative", talk=0.25),
    "misspelt": replace(_CHAT, name="misspelt", slips=0.15),
    "negated": replace(_CHAT, name="negated", negations=0.6),
    "backdated": replace(_CHAT, name="backdated", backdated=0.5),
    "corrected": replace(_CHAT, name="corrected", corrections=0.25),
    "retracted": replace(_CHAT, name="retracted", retractions=0.5),
    "everything": replace(
        _HARD,
        name="everything",
        talk=0.1,
        corrections=0.15,
        retractions=0.2,
        negations=0.4,
        backdated=0.2,
    ),
}
"""0 to 2, each harder than the one before; level 1 with one thing more; level 2 with all of
them.
"""
