"""Results: a JSON line for each trial, with everything needed to reproduce it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parents[1] / "results"


@dataclass(frozen=True)
class Line:
    """One trial of one case.

    Args:
        benchmark: Its name.
        key: The case.
        trial: From 0; also the random seed.
        figures: The measured figures; empty if it failed.
        settings: The settings of the case.
        made: Start time, commit, hash of its sources, versions, machine and its load, command.
        failed: The reason why there are no figures; the tables show it.
        kind: A `simulated` model, a `real` one, or an `estimate`.
    """

    benchmark: str
    key: Mapping[str, Any]
    trial: int
    figures: Mapping[str, Any]
    settings: Mapping[str, Any] = field(default_factory=dict)
    made: Mapping[str, Any] = field(default_factory=dict)
    failed: str = ""
    kind: str = "simulated"

    def is_of(self, where: Mapping[str, Any]) -> bool:
        """Whether its case has these values; a tuple of values means any of them."""
        return all(
            self.key.get(name) in (value if isinstance(value, tuple) else (value,))
            for name, value in where.items()
        )

    @property
    def identity(self) -> str:
        """The identity of a trial by the same code with the same settings."""
        return json.dumps(
            [self.key, self.trial, self.settings, self.made.get("hash")], sort_keys=True
        )


class Lines:
    """The lines of one benchmark, in its file."""

    def __init__(self, benchmark: str, folder: Path = RESULTS) -> None:
        self.path = folder / f"{benchmark}.jsonl"
        self.benchmark = benchmark

    def __iter__(self) -> Iterator[Line]:
        if self.path.exists():
            for number, text in enumerate(self.path.read_text(encoding="utf-8").splitlines(), 1):
                try:
                    yield Line(**json.loads(text))
                except (ValueError, TypeError) as error:
                    msg = f"{self.path}:{number}  invalid line of results: {error}. Remove it and run the benchmark again."
                    raise ValueError(msg) from None

    def append(self, line: Line) -> None:
        """Write a line immediately, in place of an older one of the same trial."""
        older = [old for old in self if (old.key, old.trial) != (line.key, line.trial)]
        self.path.parent.mkdir(parents=True, exist_ok=True)
        draft = self.path.with_suffix(".tmp")
        draft.write_text("".join(map(_text, [*older, line])), encoding="utf-8")
        draft.replace(self.path)


def _text(line: Line) -> str:
    return json.dumps(asdict(line), ensure_ascii=False) + "\n"
