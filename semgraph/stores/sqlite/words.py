"""The words of a partition's rows, in memory."""

from __future__ import annotations

from collections.abc import Sequence
from sys import intern
from typing import NamedTuple

from semgraph.stores.sqlite.values import word_counts

_ROW_BYTES, _WORD_BYTES = 500, 150
"""What a row takes in memory, and each of its words: about."""


class IndexedRow(NamedTuple):
    """A row of a full-text index.

    Args:
        key: Its key.
        length: How many words its texts have.
        words: These words, each once.
    """

    key: str
    length: int
    words: frozenset[str]


class WordBlock:
    """The rows of a partition, and for each word the rows that hold it, with how often."""

    def __init__(self) -> None:
        self.rows: dict[int, IndexedRow] = {}
        self.postings: dict[str, dict[int, int]] = {}
        self._words = 0

    @property
    def count(self) -> int:
        """How many rows it has."""
        return len(self.rows)

    @property
    def bytes(self) -> int:
        """What it takes in memory, about."""
        return _ROW_BYTES * len(self.rows) + _WORD_BYTES * self._words

    def put(self, row: int, key: str, texts: Sequence[str]) -> None:
        """Add or replace a row."""
        if row in self.rows:
            self._remove(row)
        texts = [text for text in texts if isinstance(text, str)]  # no bytes of another program
        counts, length = word_counts(tuple(texts))
        words = frozenset(map(intern, counts))
        for word in words:
            self.postings.setdefault(word, {})[row] = counts[word]
        self.rows[row] = IndexedRow(key, length, words)
        self._words += len(words)

    def _remove(self, row: int) -> None:
        words = self.rows.pop(row).words
        for word in words:
            rows = self.postings[word]
            del rows[row]
            if not rows:
                del self.postings[word]
        self._words -= len(words)
