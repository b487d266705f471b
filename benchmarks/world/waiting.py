"""Latency of answers, and limits of their rate."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field, fields

from benchmarks.world.protocol import Tokens


@dataclass(frozen=True)
class Latency:
    """Seconds before an answer; the first token takes fixed + first * lognormal(0, spread) * (the
    uncached share).

    In all (fixed + first * ... + prompt * uncached tokens + each * tokens of the answer) * (1 + load
    * concurrent chats).

    Args:
        fixed: Constant seconds.
        first: Median of the seconds to the first token.
        spread: Sigma of the lognormal factor on `first`: 0.35 has its 95th percentile at 1.8 times
            the median.
        cached: The factor on `first` if the whole prompt is cached.
        prompt: Seconds for each uncached token of the prompt.
        each: Seconds for each token of the answer.
        load: The increase for each chat in progress at its arrival.
        seed: Of the random draws, with the prompt's text: apart from `load`, equal questions take
            equal time.

    >>> Latency.parse("0.2"), Latency.parse("first=0.85,spread=0.35,each=0.0133")
    (Latency(fixed=0.2, first=0.0, spread=0.0, cached=0.5, prompt=0.0, each=0.0, load=0.0, seed=1), \
Latency(fixed=0.0, first=0.85, spread=0.35, cached=0.5, prompt=0.0, each=0.0133, load=0.0, seed=1))
    """

    fixed: float = 0.0
    first: float = 0.0
    spread: float = 0.0
    cached: float = 0.5
    prompt: float = 0.0
    each: float = 0.0
    load: float = 0.0
    seed: int = 1

    @classmethod
    def parse(cls, text: str) -> Latency:
        """Seconds, `name=value,...`, or the name of one of `PROFILES`. Raises ValueError."""
        if text in PROFILES:
            return PROFILES[text]
        if "=" not in text:
            return cls(fixed=float(text))
        given = dict(part.split("=", 1) for part in text.split(","))
        known = {f.name for f in fields(cls)}
        if wrong := set(given) - known:
            raise ValueError(
                f"{', '.join(sorted(wrong))}: a latency has {', '.join(sorted(known))}"
            )
        return cls(**{name: int(v) if name == "seed" else float(v) for name, v in given.items()})  # type: ignore[arg-type]

    def seconds(self, prompt: str, tokens: Tokens, others: int = 0) -> float:
        """The latency of a prompt, with this many other chats in progress."""
        factor = (
            random.Random(f"{self.seed}/{prompt}").lognormvariate(0, self.spread)
            if self.spread
            else 1.0
        )
        share = tokens.cached / tokens.prompt if tokens.prompt else 0.0
        first = self.first * factor * (1 - share * (1 - self.cached))
        reading = self.prompt * (tokens.prompt - tokens.cached)
        return (self.fixed + first + reading + self.each * tokens.completion) * (
            1 + self.load * others
        )


PROFILES = {
    "gpt-4.1-mini": Latency(first=0.85, spread=0.35, each=1 / 75),
    "gpt-5-mini": Latency(first=0.78, spread=0.5, each=1 / 71),
    "vllm-32b": Latency(fixed=0.065, prompt=0.0004, each=0.025, load=0.02),
}
"""Approximately the published figures of 2025: hosted models by median and 95th percentile of the
time to the first token, and a model of 32 billion parameters on two H100, alone and with many chats
at once. Not measured here.
"""


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
            need = min(
                amount, full
            )  # a request larger than a bucket passes when the bucket is full
            longest = max(longest, (need - level) * 60 / rate)
            levels[name] = (level - need, now)
        if longest > 1e-9:
            self.refused += 1
            return longest
        self._levels.update(levels)
        return 0.0
