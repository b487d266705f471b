"""Canaries: marks that tell the texts of partitions apart. A chat with two of them shows rows of
two partitions.

A canary is a token in a text, `Qz`, the partition, `zQ`, or a whole text that belongs to one
partition only. A server counts the chats with canaries of two partitions and fails at its end, so
that no test passes with one. Embeddings may have texts of several partitions, as separate items.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

_TOKEN = re.compile(r"Qz([a-z0-9]+)zQ")
_SHORTEST = 12  # shorter texts may be in the words of a prompt
_MOST = 200  # texts that are remembered of a partition


def canary(partition: str) -> str:
    """The token of a partition of small letters and digits.

    >>> canary("g1")
    'Qzg1zQ'
    """
    return f"Qz{partition}zQ"


@dataclass
class Canaries:
    """The texts of partitions, and the chats that showed those of two. One for all servers of a
    process.
    """

    texts: dict[str, set[str]] = field(default_factory=dict)
    exempt: int = 0

    def learn(self, rows: Iterable[Mapping[str, Any]], partition: str = "group_id") -> None:
        """Remember the texts of rows that name their partition."""
        for row in rows:
            if not isinstance(group := row.get(partition), str):
                continue
            own = self.texts.setdefault(group, set())
            for value in (v for v in row.values() if isinstance(v, str) and " " in v):
                if len(value) >= _SHORTEST and len(own) < _MOST:
                    own.add(value)

    def forget(self) -> None:
        """Forget all texts."""
        self.texts.clear()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Look at nothing: for plans that read several partitions on purpose."""
        self.exempt += 1
        try:
            yield
        finally:
            self.exempt -= 1

    def shown(self, body: Mapping[str, Any]) -> set[str]:
        """The partitions of which a chat shows texts."""
        if self.exempt:
            return set()
        text = "\n".join(str(message.get("content") or "") for message in body.get("messages", ()))
        found = set(_TOKEN.findall(text))
        for group, own in self.texts.items() if len(self.texts) > 1 else ():
            if any(each in text and self._is_of_one(each, group) for each in own):
                found.add(group)
        return found

    def _is_of_one(self, text: str, group: str) -> bool:
        others = (each for other, own in self.texts.items() if other != group for each in own)
        return not any(text in each for each in others)


CANARIES = Canaries()
"""Of this process."""


class MixedPartitions(AssertionError):
    """Chats showed rows of two partitions."""


@dataclass
class Watch:
    """The observations of one server."""

    mixed: list[str] = field(default_factory=list)

    def see(self, body: Mapping[str, Any]) -> None:
        """Look at a chat."""
        groups = CANARIES.shown(body)
        if len(groups) > 1:
            asked = str(body["messages"][-1].get("content"))
            self.mixed.append(f"rows of {', '.join(sorted(groups))} in one request: {asked[:2000]}")

    def end(self) -> None:
        """Raises MixedPartitions if a chat showed rows of two partitions."""
        if self.mixed:
            raise MixedPartitions("\n\n".join(self.mixed[:3]))
