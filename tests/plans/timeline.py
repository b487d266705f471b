"""When facts hold, computed from all statements at once: the rules that `settle_facts` follows as
statements arrive. It shares no code with the plan.

A state ("Ann lives in Rome") holds from the time of a statement of it. A statement of a state that
contradicts it, of a later time, ends it; so does an end that is stated. Statements of one state with
nothing in between are one fact, which holds from the first of them. Times alone decide, not the order
in which statements arrive.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

INFINITE = 1 << 60


class Statement(NamedTuple):
    """A state, from when it holds, and until when, if that is stated."""

    state: str
    at: int
    until: int | None = None


class Held(NamedTuple):
    """A state, and from when until when it holds."""

    state: str
    since: int
    until: int | None


def timeline(
    statements: Iterable[Statement], contradicts: Callable[[str, str], bool] = str.__ne__
) -> list[Held]:
    """What holds, by state and time.

    Args:
        statements: In any order.
        contradicts: Whether two states cannot hold at the same time.
    """
    told, held = list(statements), list[Held]()
    for state in sorted({one.state for one in told}):
        denied = {one.at for one in told if contradicts(state, one.state)}
        begun, ended = 0, -INFINITE
        for at, until in sorted(
            (one.at, one.until or INFINITE) for one in told if one.state == state
        ):
            if at >= ended:
                begun, ended = at, min((end for end in denied if end > at), default=INFINITE)
                held.append(Held(state, at, None))
            ended = min(ended, until)
            held[-1] = Held(state, begun, None if ended == INFINITE else ended)
    return held
