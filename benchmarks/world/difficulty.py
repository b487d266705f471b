"""Difficulties of a world: how its messages state facts."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Difficulty:
    """How messages state facts; benchmarks/world/README.md lists the features of each level.

    With equal seeds, difficulties of one level have the same truth, but for those who go back.

    Args:
        name: The name in tables.
        level: 0: plain statements of beginnings and their repetitions. 1: also several wordings,
            first names, "she", several statements in a message, gaps, past jobs, denials. 2: also
            two people of one name, initials, two names of one thing in a message, resumed jobs,
            days that are named later, "yesterday".
        talk: Rate of messages of small talk between others; four times as often it is in a message
            with statements.
        slips: Rate of slips in people's names.
        returns: Rate of homes, jobs and leads that change several times and return to an earlier
            one.
    """

    name: str
    level: int
    talk: float = 0.0
    slips: float = 0.0
    returns: float = 0.0


LEVELS = {
    one.name: one
    for one in (
        Difficulty("0", 0),
        Difficulty("1", 1, talk=0.05),
        Difficulty("2", 2, talk=0.05, slips=0.05),
        Difficulty("talkative", 1, talk=0.25),
        Difficulty("returns", 1, returns=0.7),
    )
}
"""0 to 2, each harder than the one before; level 1 with more small talk, and with people who go
back.
"""
