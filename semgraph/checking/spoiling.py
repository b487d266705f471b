"""Models that do wrong: they give answers with wrong numbers, refuse a row, remember, or never answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from semgraph.checking.oracle import Oracle, edited, is_packed
from semgraph.errors import RowError
from semgraph.llm.base import Reply, Request

POISON = "poison"
Entries = list[Any]


def packed(change: Callable[[Entries], None]) -> Callable[[Request, Reply], Reply]:
    """What changes the list of each answer about several records."""

    def spoil(request: Request, reply: Reply) -> Reply:
        def edit(document: dict[str, Any]) -> dict[str, Any]:
            inner = next(iter(document.values()))
            if inner:
                change(inner)
            return document

        return edited(reply, edit) if is_packed(request) else reply

    return spoil


def _number(entry: dict[str, Any]) -> str:
    return "id" if "id" in entry else "left"


def drop(entries: Entries) -> None:
    """An answer is missing."""
    if (
        isinstance(entries[0], int) or "id" in entries[0]
    ):  # a pair that a block does not list is no match: that is no fault
        del entries[:1]


def add_unknown(entries: Entries) -> None:
    """A number that was not asked about."""
    entries.append(99 if isinstance(entries[0], int) else {**entries[0], _number(entries[0]): 99})


def repeat(entries: Entries) -> None:
    """A number twice."""
    entries.append(entries[0])


def shift(entries: Entries) -> None:
    """Numbers that were counted otherwise: from 0, or for the right side of pairs from 1."""
    for i, entry in enumerate(entries):
        if isinstance(entry, int):
            entries[i] = entry - 1
        elif "id" in entry:
            entry["id"] -= 1
        else:
            entry["right"] -= 100


WRONG_NUMBERS = (drop, add_unknown, repeat, shift)


@dataclass
class Remembering(Oracle):
    """An oracle with a journal: what was answered once is not paid for again. While poisoned it refuses poison."""

    poisoned: bool = False
    paid: int = 0
    refused: int = 0

    def __post_init__(self) -> None:
        self._journal: dict[str, Reply] = {}

    async def complete(self, request: Request) -> Reply:
        """From the journal, or a refusal, or an answer that is paid for."""
        known = self._journal.get(request.fingerprint)
        if known is not None:
            return known
        if self.poisoned and any(POISON in message.content for message in request.messages):
            self.refused += 1
            raise RowError("rejected", "no poison", attempts=1)
        self.paid += 1
        found = self._journal[request.fingerprint] = await super().complete(request)
        return found


@dataclass
class Hanging(Oracle):
    """An oracle that never answers; `begun` is set when it is asked."""

    begun: asyncio.Event | None = None

    async def complete(self, request: Request) -> Reply:  # noqa: ARG002
        """Wait for ever."""
        self.running += 1
        try:
            if self.begun is not None:
                self.begun.set()
            await asyncio.Event().wait()
            raise AssertionError
        finally:
            self.running -= 1
