"""Round trips of a store, counted for whoever waits for them, also where several wait at once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass
class Trips:
    """How many round trips were made."""

    number: int = 0


_COUNTED: ContextVar[Trips | None] = ContextVar("_COUNTED", default=None)


@contextmanager
def counting() -> Iterator[Trips]:
    """Count the round trips that are made within, by this task or those that it starts."""
    trips = Trips()
    token = _COUNTED.set(trips)
    try:
        yield trips
    finally:
        _COUNTED.reset(token)


def made() -> None:
    """A store made a round trip."""
    trips = _COUNTED.get()
    if trips is not None:
        trips.number += 1
