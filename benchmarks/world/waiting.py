"""Limits of the rate of requests."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass
class Rates:
    """Requests and prompt tokens a minute, each a bucket that fills steadily and begins full. None:
    no limit.

    Args:
        rpm: Requests a minute.
        tpm: Tokens of prompts a minute.
        burst: The size of a bucket in seconds.
        clock: The current time in seconds.
    """

    rpm: float | None = None
    tpm: float | None = None
    burst: float = 60.0
    clock: Callable[[], float] = time.monotonic
    refused: int = 0
    _levels: dict[str, tuple[float, float]] = field(default_factory=dict)

    def forget(self) -> None:
        """Fill the buckets."""
        self._levels.clear()
        self.refused = 0

    def wait(self, tokens: int) -> float:
        """Take a request with this many tokens: 0, or, if it is refused, the seconds until it fits."""
        now = self.clock()
        asked = {"rpm": (self.rpm, 1.0), "tpm": (self.tpm, float(tokens))}
        levels, longest = {}, 0.0
        for name, (rate, amount) in asked.items():
            if rate is None:
                continue
            full = rate * self.burst / 60
            level, since = self._levels.get(name, (full, now))
            level = min(full, level + (now - since) * rate / 60)
            self._levels[name] = (level, now)
            need = min(amount, full)  # a larger request passes when the bucket is full
            longest = max(longest, (need - level) * 60 / rate)
            levels[name] = (level - need, now)
        if longest > 1e-9:
            self.refused += 1
            return longest
        self._levels.update(levels)
        return 0.0
