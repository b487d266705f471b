"""The difference between two states of a graph: rows that are new, gone or changed, each with its
cause.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Sign = Literal["+", "-", "~"]


@dataclass(frozen=True)
class Change:
    """A node or edge that is new, gone or changed.

    Args:
        sign: `+` new, `-` gone, `~` changed.
        label: Its label.
        key: Its key.
        partition: Its partition.
        row: Its declared properties that are not NULL, and `source` and `target` of an edge: as they
            will be, or as they were if it is gone.
        before: Of a changed row, the old values of the properties that differ (None: it had none).
        after: Likewise the new values.
        causes: Why: `row e1 edited`, `prompt facts changed`, `model of read/facts changed`.
        run: The run that wrote it before; "": none, or unknown.
    """

    sign: Sign
    label: str
    key: str
    partition: str
    row: Mapping[str, Any]
    before: Mapping[str, Any] = field(default_factory=dict)
    after: Mapping[str, Any] = field(default_factory=dict)
    causes: tuple[str, ...] = ()
    run: str = ""


@dataclass(frozen=True)
class Diff:
    """The difference between two states of a graph.

    Args:
        changes: The rows that differ.
        edited: The rows that the plan would make otherwise, and that stay as somebody edited them: `-`
            a row that stays deleted, `~` a row that keeps the values in `before`.
        reasons: What changed since the rows were written: `row e1 edited`, `prompt facts changed`.
        names: By key, the name of a node at an end of an edge in `changes`.
        text: By label, the property that names its rows for people.
    """

    changes: tuple[Change, ...] = ()
    edited: tuple[Change, ...] = ()
    reasons: tuple[str, ...] = ()
    names: Mapping[str, str] = field(default_factory=dict)
    text: Mapping[str, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.changes)
