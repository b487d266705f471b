"""Which part of a prompt a provider has seen before: whole blocks of tokens from its beginning."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

_STEP = 256  # characters between two places at which prefixes are compared


@dataclass
class PrefixCache:
    """The prefixes of all earlier prompts, without eviction. A prompt is cached once its answer was
    sent.

    Args:
        block: Cached tokens are a multiple of it.
        least: Shorter prefixes are not cached; 0 and block 1: all are.
    """

    block: int = 128
    least: int = 1024
    _seen: set[bytes] = field(default_factory=set)

    def cached(self, messages: Sequence[str], count: Callable[[str], int]) -> int:
        """How many of a prompt's tokens are cached; `count` counts those of a text."""
        longest, text = 0, "\0".join(messages)
        for end, key in _prefixes(text):
            if key not in self._seen:
                break
            longest = end
        if not longest:
            return 0
        tokens = count(text[:longest].replace("\0", ""))
        return tokens // self.block * self.block if tokens >= self.least else 0

    def remember(self, messages: Sequence[str]) -> None:
        """Take a prompt into the cache."""
        self._seen.update(key for _, key in _prefixes("\0".join(messages)))

    def forget(self) -> None:
        """Empty it."""
        self._seen.clear()


def _prefixes(text: str) -> Iterator[tuple[int, bytes]]:
    """Ends of prefixes with their hashes: at multiples of the step, and at the end."""
    digest = hashlib.blake2b(digest_size=12)
    for start in range(0, len(text), _STEP):
        piece = text[start : start + _STEP]
        digest.update(piece.encode("utf-8", "surrogatepass"))
        yield start + len(piece), digest.digest()
