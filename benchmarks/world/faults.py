"""Injected faults: at a rate, or at the n-th request."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from benchmarks.world.protocol import Said

KINDS = (
    "429", "500", "hang", "stall", "drop", "prose", "truncated", "refusal", "wrong_ids", "missing_ids", "double_ids",
)  # fmt: skip
_SHIFT = 900
_NUMBERS = frozenset({"id", "left", "right"})


@dataclass(frozen=True)
class Fault:
    """One kind of fault.

    Args:
        kind: 429 (with Retry-After), 500, hang (no answer), stall (a late answer), drop (the
            connection), prose (no JSON), truncated (cut in the middle), refusal, wrong_ids (numbers
            of missing records), missing_ids (a record is omitted), double_ids (a record twice).
        rate: Share of the requests, from 0 to 1.
        on: Numbers of requests, from 1.
        retry_after: Seconds in the header of a 429.
        late: Additional seconds of a stalled answer.

    >>> Fault.parse("429=0.1:2"), Fault.parse("prose@3,5")
    (Fault(kind='429', rate=0.1, on=(), retry_after=2.0, late=30.0), \
Fault(kind='prose', rate=0.0, on=(3, 5), retry_after=0.05, late=30.0))
    """

    kind: str
    rate: float = 0.0
    on: tuple[int, ...] = ()
    retry_after: float = 0.05
    late: float = 30.0

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            msg = f'"{self.kind}" is no fault: {", ".join(KINDS)}'
            raise ValueError(msg)
        if not 0 <= self.rate <= 1:
            raise ValueError(f"{self.kind} has a rate from 0 to 1, not {self.rate}")

    @property
    def unanswered(self) -> bool:
        """Whether nothing is answered at all."""
        return self.kind in {"429", "500", "hang", "drop"}

    @classmethod
    def parse(cls, text: str) -> Fault:
        """`kind=rate` or `kind@n,m`; behind a colon the seconds of a 429's Retry-After or of a
        stall. Raises ValueError.
        """
        said, _, seconds = text.partition(":")
        times = {"429": "retry_after", "stall": "late"}
        kind, sign, given = said.partition("=") if "=" in said else said.partition("@")
        if seconds and kind not in times:
            raise ValueError(f"{kind} takes no seconds: only {', '.join(times)} do")
        more: dict[str, Any] = {times[kind]: float(seconds)} if seconds else {}
        if sign == "=":
            return cls(kind, rate=float(given), **more)
        return cls(kind, on=tuple(int(n) for n in given.split(",") if n), **more)


@dataclass
class Faults:
    """The faults of a server. Which requests of a rate are hit depends on `seed` and on the order
    of arrival alone.
    """

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


def spoilt(fault: Fault, text: str) -> Said:
    """The faulty reply in place of the answer `text`."""
    match fault.kind:
        case "refusal":
            return Said(None, refusal="I cannot help with that.")
        case "prose":
            return Said("Of course! Here is what I found. " + text[:40])
        case "truncated":
            return Said(text[: len(text) // 2], finish="length")
    return Said(_miscounted(fault.kind, json.loads(text)) if text.startswith("{") else "?")


def _miscounted(kind: str, value: dict[str, Any]) -> str:
    """The answer with records missing, twice or foreign; an answer about one record gets such
    keys.
    """
    change = _CHANGES[kind]
    lists = {name: v for name, v in value.items() if isinstance(v, list) and _is_numbered(v)}
    if lists:
        return json.dumps(
            value | {name: change(v) for name, v in lists.items()}, ensure_ascii=False
        )
    if kind == "wrong_ids":
        return json.dumps({"wrong": value}, ensure_ascii=False)
    if kind == "missing_ids":
        return json.dumps(dict(list(value.items())[1:]), ensure_ascii=False)
    inner = json.dumps(value, ensure_ascii=False)[1:-1]
    return f"{{{inner}, {inner}}}" if inner else '{"wrong": 1, "wrong": 1}'


def _is_numbered(entries: list[Any]) -> bool:
    first = entries[0] if entries else None
    return isinstance(first, int) or (isinstance(first, dict) and bool(_NUMBERS & set(first)))


def _shifted(entries: list[Any]) -> list[Any]:
    def shifted(entry: Any) -> Any:
        if isinstance(entry, int):
            return entry + _SHIFT
        return {k: v + _SHIFT if k in _NUMBERS else v for k, v in entry.items()}

    return list(map(shifted, entries))


_CHANGES: dict[str, Callable[[list[Any]], list[Any]]] = {
    "wrong_ids": _shifted,
    "missing_ids": lambda entries: entries[1:],
    "double_ids": lambda entries: [entries[0], *entries],
}
