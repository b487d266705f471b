"""Errors of the answers: drawn from (seed, text of the prompt), so that equal questions get equal
answers.

More items in a call, and longer prompts, make errors more frequent: with b items in a call, in a
prompt of t tokens, every rate p becomes p (1 + growth (b - 1)) (1 + length t / 1,000).
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from typing import Any

from benchmarks.world.dates import iso

Answer = dict[str, Any]
_DATES = frozenset({"since", "until", "valid_at", "invalid_at"})
_MOST_DAYS = 60


@dataclass(frozen=True)
class Noise:
    """Rates from 0 to 1, with default 0.

    Args:
        drop: An entry of a list in an answer (a name, a fact) is missing.
        spurious: An entry is added to a list in an answer.
        verdict: A yes, a choice, a match or a score is wrong; a record of a ranking is misplaced.
        slip: A date is up to 60 days off.
        growth: The increase of the rates with each further item in a call: p (1 + growth (b - 1)).
        length: Their increase with a thousand tokens of the prompt: p (1 + length t / 1,000).
        seed: Of all random draws.

    >>> Noise.parse("drop=0.1,growth=0.05")
    Noise(drop=0.1, spurious=0.0, verdict=0.0, slip=0.0, growth=0.05, length=0.0, seed=1)
    """

    drop: float = 0.0
    spurious: float = 0.0
    verdict: float = 0.0
    slip: float = 0.0
    growth: float = 0.0
    length: float = 0.0
    seed: int = 1

    def __post_init__(self) -> None:
        for name in ("drop", "spurious", "verdict", "slip"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} is a rate from 0 to 1, not {getattr(self, name)}")
        if min(self.growth, self.length) < 0:
            raise ValueError(
                f"growth and length are 0 or more, not {self.growth} and {self.length}"
            )

    @classmethod
    def parse(cls, text: str) -> Noise:
        """`name=value,...`. Raises ValueError."""
        kinds = {f.name: int if f.name == "seed" else float for f in fields(cls)}
        given: dict[str, Any] = {}
        for part in filter(None, text.split(",")):
            name, _, number = part.partition("=")
            if name not in kinds:
                raise ValueError(f'"{name}" is no noise: {", ".join(kinds)}')
            given[name] = kinds[name](number)
        return cls(**given)

    @classmethod
    def of_models(cls, text: str) -> dict[str, Noise]:
        """Noises with semicolons between them: of all models (""), and of single ones by name.
        Raises ValueError.

        >>> Noise.of_models("drop=0.1;gpt-4.1-nano:drop=0.2")["gpt-4.1-nano"].drop
        0.2
        """
        parts = (part.rpartition(":") for part in text.split(";"))
        return {"": cls()} | {name.strip(): cls.parse(noise) for name, _, noise in parts}

    def draw(self, prompt: str, size: int, tokens: int = 0) -> Draw:
        """The draws for one prompt of so many tokens about `size` items."""
        text = prompt.encode("utf-8", "surrogatepass")
        digest = hashlib.blake2b(text, digest_size=16).hexdigest()
        factor = (1 + self.growth * (size - 1)) * (1 + self.length * tokens / 1000)
        return Draw(self, f"{self.seed}/{digest}", factor)


@dataclass(frozen=True)
class Draw:
    """The noise of one prompt. `factor` multiplies every rate."""

    noise: Noise
    seed: str
    factor: float = 1.0

    def _hit(self, what: str, *key: object) -> random.Random | None:
        rate = getattr(self.noise, what) * self.factor
        if not rate:
            return None
        draw = random.Random("/".join(map(str, (self.seed, what, *key))))
        return draw if draw.random() < rate else None

    def answer(self, answer: Answer, schema: Mapping[str, Any], item: int) -> Answer:
        """The answer to one item, with its errors."""
        return {
            name: self._value(value, schema.get(name, {}), name, item)
            for name, value in answer.items()
        }

    def _value(self, value: Any, schema: Mapping[str, Any], name: str, *key: object) -> Any:
        inner = _plain(schema)
        if isinstance(value, list):
            return self._list(value, inner.get("items", {}), name, *key)
        if isinstance(value, dict):
            kinds = inner.get("properties", {})
            return {n: self._value(v, kinds.get(n, {}), n, *key, name) for n, v in value.items()}
        if isinstance(value, str) and name in _DATES and (draw := self._hit("slip", *key, name)):
            days = draw.choice([d for d in range(-_MOST_DAYS, _MOST_DAYS + 1) if d])
            return iso(datetime.fromisoformat(value) + timedelta(days=days))
        return self._choice(value, inner, name, *key)

    def _choice(self, value: Any, schema: Mapping[str, Any], name: str, *key: object) -> Any:
        """A yes or no, a value of an enumeration, a score."""
        chosen = isinstance(value, bool) or name == "score" or len(schema.get("enum", ())) > 1
        draw = self._hit("verdict", *key, name) if chosen and name not in {"kind", "type"} else None
        if draw is None:
            return value
        if isinstance(value, bool):
            return not value
        if "enum" in schema:
            return draw.choice([one for one in schema["enum"] if one != value])
        score = draw.uniform(0, 100)
        return round(score) if schema.get("type") == "integer" else round(score, 3)

    def _list(
        self, entries: Sequence[Any], schema: Mapping[str, Any], name: str, *key: object
    ) -> list[Any]:
        kept = [
            self._value(entry, schema, name, *key, i)
            for i, entry in enumerate(entries)
            if not self._hit("drop", *key, name, i)
        ]
        draw = self._hit("spurious", *key, name)
        return [*kept, _made_up(entries, draw)] if draw and entries else kept

    def verdict(
        self, values: Answer | None, schema: Mapping[str, Any], left: int, right: int
    ) -> Answer | None:
        """The answer about a pair; None: no match."""
        draw = self._hit("verdict", left, right)
        choices = {name: _plain(kind).get("enum") for name, kind in schema.items()}
        if draw is None or (values is None and not all(choices.values())):
            return values
        made_up = {name: draw.choice(some or [None]) for name, some in choices.items()}
        return made_up if values is None else None

    def overlooks(self, *key: object) -> bool:
        """Whether a part of the prompt is not seen: it counts as a missing entry."""
        return self._hit("drop", *key) is not None

    def yes(self, said: bool, *key: object) -> bool:
        """A yes or no."""
        return said != bool(self._hit("verdict", *key))

    def ranking(self, numbers: list[int]) -> list[int]:
        """A ranking, with some records elsewhere."""
        for number in sorted(numbers):
            if draw := self._hit("verdict", number):
                numbers.remove(number)
                numbers.insert(draw.randrange(len(numbers) + 1), number)
        return numbers


def _plain(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema of a value that is not null."""
    found: Mapping[str, Any] = next(
        (one for one in schema.get("anyOf", ()) if one.get("type") != "null"), schema
    )
    return found


def _made_up(entries: Sequence[Any], draw: random.Random) -> Any:
    """A spurious entry: its names are those in the answer, and one invented name."""
    like = draw.choice(list(entries))
    if isinstance(like, str):
        return f"{like} Nemo"
    if not isinstance(like, dict):
        return like
    if {"source", "target", "fact"} <= set(like):
        source = like["target"]
        others = [e["source"] for e in entries if e["source"] != source]
        target = draw.choice(others or ["Nemo"])
        ends = {"source": source, "target": target}
        return like | {"fact": f"{source} knows {target}.", "relation": "KNOWS", **ends}
    return {name: f"{v} Nemo" if name == "name" else v for name, v in like.items()}
