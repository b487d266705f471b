"""What goes wrong on purpose: at a rate, or with the n-th request."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field
from typing import Any

from tests.llm.server import Answer, error
from tests.llm.server import Fault as HttpFault

KINDS = ("429", "500", "hang", "drop", "prose", "truncated", "wrong_ids", "refusal")
_SHIFT = 900


@dataclass(frozen=True)
class Fault:
    """One kind of fault.

    Args:
        kind: 429 (with Retry-After), 500, hang (no answer ever), drop (the connection), prose (no JSON), truncated (cut in the
            middle), wrong_ids (numbers of records that are not there), refusal.
        rate: Share of the requests, from 0 to 1.
        on: Numbers of requests, from 1.
        retry_after: Seconds that a 429 asks to wait.

    >>> Fault.parse("429=0.1"), Fault.parse("prose@3,5")
    (Fault(kind='429', rate=0.1, on=(), retry_after=0.05), Fault(kind='prose', rate=0.0, on=(3, 5), retry_after=0.05))
    """

    kind: str
    rate: float = 0.0
    on: tuple[int, ...] = ()
    retry_after: float = 0.05

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            msg = f'"{self.kind}" is no fault: {", ".join(KINDS)}'
            raise ValueError(msg)

    @property
    def http(self) -> HttpFault | None:
        """What is sent where nothing is answered at all."""
        match self.kind:
            case "429":
                return error(429, "Rate limit reached", "rate_limit_exceeded", retry_after=f"{self.retry_after:g}")
            case "500":
                return error(500, "The server had an error")
            case "hang":
                return HttpFault(hang=True)
            case "drop":
                return HttpFault(drop=True)
        return None

    @classmethod
    def parse(cls, text: str) -> Fault:
        """`kind=rate` or `kind@n,m`."""
        kind, _, rate = text.partition("=")
        if rate:
            return cls(kind, rate=float(rate))
        kind, _, numbers = text.partition("@")
        return cls(kind, on=tuple(int(n) for n in numbers.split(",") if n))


@dataclass
class Faults:
    """The faults of a server. Which requests of a rate are hit depends on `seed` and on the order of arrival alone."""

    faults: tuple[Fault, ...] = ()
    seed: int = 1
    hit: dict[str, int] = field(default_factory=dict)

    def of(self, number: int) -> Fault | None:
        """The fault of the request that arrived as the `number`-th (from 1), or None."""
        for i, fault in enumerate(self.faults):
            drawn = random.Random(f"{self.seed}/{i}/{number}").random()
            if number in fault.on or drawn < fault.rate:
                self.hit[fault.kind] = self.hit.get(fault.kind, 0) + 1
                return fault
        return None


def spoilt(fault: Fault, text: str) -> Answer:
    """What is said in place of the answer `text`."""
    match fault.kind:
        case "refusal":
            return Answer(None, refusal="I cannot help with that.")
        case "prose":
            return Answer("Of course! Here is what I found. " + text[:40])
        case "truncated":
            return Answer(text[: len(text) // 2], finish="length")
    return Answer(json.dumps(_shifted(json.loads(text))))


def _shifted(value: Any) -> Any:
    """The answer with numbers that no record has; an answer about one record gets another key."""
    lists = [v for v in value.values() if isinstance(v, list) and v and isinstance(v[0], dict)]
    keys = {"id", "left", "right"}
    if not any(keys & set(entry) for entries in lists for entry in entries):
        return {"wrong": value}
    return {
        name: [{k: v + _SHIFT if k in keys else v for k, v in entry.items()} for entry in entries]
        for name, entries in value.items()
    }
