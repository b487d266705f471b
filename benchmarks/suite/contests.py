"""The figures on which semgraph loses, computed from all lines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.suite.documents import table_rows
from benchmarks.suite.lines import Line
from benchmarks.suite.statistics import Multiple, multiple
from benchmarks.suite.tables import Key, paired

Loss = tuple[str, str, str, str, str]
"""Variant, opponent, figure, multiple, and the worst case with its settings."""


@dataclass(frozen=True)
class Contest:
    """A comparison of cases that differ in one name of their key.

    Args:
        name: The name of the key that identifies the variant: "way".
        others: The opponents: other engines, or a variant of semgraph.
        costs: Figures where less is better, with their titles.
        quality: Figures where more is better.
        where: The lines to compare.
        instead: Further names of the key to replace for the opponent: {"store": "Neo4j"}.
        ours: The variants compared with them; none: all that are not opponents.
    """

    name: str
    others: tuple[Any, ...]
    costs: Mapping[str, str] = field(default_factory=dict)
    quality: Mapping[str, str] = field(default_factory=dict)
    where: Key = field(default_factory=dict)
    instead: Key = field(default_factory=dict)
    ours: tuple[Any, ...] = ()

    def losses(self, lines: Sequence[Line]) -> list[Loss]:
        """The figures that are worse beyond the 95 % interval of their multiple: a row for each
        figure and pair.
        """
        worse: dict[tuple[str, str, str], list[tuple[Multiple, str]]] = {}
        for key, who, other in self._pairs(lines):
            place = ", ".join(str(value) for name, value in key.items() if name != self.name)
            for figure, title in {**self.costs, **self.quality}.items():
                times = multiple(
                    paired(
                        _of(lines, key),
                        _of(lines, {**key, **self.instead, self.name: other}),
                        figure,
                    )
                )
                if times is not None and (times.below if figure in self.quality else times.above):
                    worse.setdefault((self._named(who), self._named(other), title), []).append(
                        (times, f"{place}{_settings(lines, key)}")
                    )
        return [_loss(names, places) for names, places in worse.items()]

    def _named(self, who: Any) -> str:
        return who if isinstance(who, str) else f"{self.name} {who}"

    def _pairs(self, lines: Sequence[Line]) -> Iterator[tuple[Key, Any, Any]]:
        keys = {
            str(line.key): line.key
            for line in lines
            if line.is_of(self.where) and self.name in line.key
        }
        for key in keys.values():
            who = key[self.name]
            if who not in self.others and (not self.ours or who in self.ours):
                yield from ((key, who, other) for other in self.others)


def _of(lines: Sequence[Line], key: Key) -> list[Line]:
    return [line for line in lines if line.key == key]


def _settings(lines: Sequence[Line], key: Key) -> str:
    """The settings of a case beyond its key."""
    settings: dict[str, Any] = dict(_of(lines, key)[0].settings)
    text = ", ".join(f"{name} {value}" for name, value in settings.items())
    return f" ({text})" if text else ""


def _loss(names: tuple[str, str, str], places: Sequence[tuple[Multiple, str]]) -> Loss:
    who, other, title = names
    worst = max(
        places,
        key=lambda one: max(one[0].value, 1 / one[0].value if one[0].value else float("inf")),
    )
    more = f"; and in {len(places) - 1} more" if len(places) > 1 else ""
    return who, other, title, str(worst[0]), f"{worst[1]}{more}"


def markdown(losses: Sequence[Loss]) -> str:
    """The table of losses."""
    head = [
        ("variant", "compared with", "figure", "multiple", "worst case"),
        ("---", "---", "---", "--:", "---"),
    ]
    return table_rows([*head, *losses])
