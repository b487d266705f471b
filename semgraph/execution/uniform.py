"""Notes on operators that got one answer for all rows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from semgraph.display import command
from semgraph.expr.functions import canonical_json
from semgraph.logical.node import Node
from semgraph.logical.prompt import plain
from semgraph.logical.semantic import SemFilter, SemJoin, SemMap

LEAST = 10  # the minimum number of distinct rows or pairs for a note
# Operators that answer yes or no: the column of the answer, and the words of the note.
_YES_OR_NO = {"sem_filter": ("keep", "kept", "rows"), "sem_join": ("match", "matched", "pairs")}


@dataclass
class _Answers:
    """The answers to one operator: the number of rows, and whether all answers so far are equal."""

    keyword: str
    step: str
    names: tuple[str, ...]  # the columns of an answer
    rows: int = 0
    answer: Any = None
    varied: bool = False
    different: set[tuple[str, str | None]] = field(default_factory=set)

    def add(self, answers: pa.Table) -> None:
        """Add the answers to some rows; rows without an answer do not count."""
        columns = dict.fromkeys(["left", "right", "error", *self.names])
        for row in answers.select([*columns]).to_pylist():
            if row["error"] is not None:
                continue
            answer = canonical_json(plain([row[name] for name in self.names]))
            self._count(1, answer, {(row["left"], row["right"])})
            if self.varied:
                return

    def take(self, other: _Answers) -> None:
        """Add the answers to other rows."""
        self.varied = self.varied or other.varied
        if other.rows:
            self._count(other.rows, other.answer, other.different)

    def _count(self, rows: int, answer: Any, different: set[tuple[str, str | None]]) -> None:
        self.varied = self.varied or (self.rows > 0 and answer != self.answer)
        self.rows, self.answer = self.rows + rows, answer
        if self.varied:
            self.different.clear()
        elif len(self.different) < LEAST:
            self.different |= different

    def note(self, run: str) -> str | None:
        """The note about the answers; None if they vary or are few."""
        if self.varied or len(self.different) < LEAST:
            return None
        count = f"{self.rows:,}"
        if self.keyword not in _YES_OR_NO:
            text = f"{self.keyword} gave the same answer for all {count} rows"
        else:
            _, verb, unit = _YES_OR_NO[self.keyword]
            text = f"{self.keyword} {verb} {count if self.answer == '[true]' else 'none'} of {count} {unit}"
        why = command(f"semgraph why {run} TEXT", f'session.why("TEXT", "{run}")')
        look = f"; look at one: {why}, with the text of a row" if run else ""
        return f"step {self.step}: {text}{look}"


class Uniform:
    """Watches the answers of a run."""

    def __init__(self) -> None:
        self.operators: dict[tuple[str, ...], _Answers] = {}

    @classmethod
    def merge(cls, parts: Iterable[Uniform]) -> Uniform:
        """The answers of a run that consisted of several runs of one plan."""
        whole = cls()
        for part in parts:
            for key, answers in part.operators.items():
                own = _Answers(answers.keyword, answers.step, answers.names)
                whole.operators.setdefault(key, own).take(answers)
        return whole

    def add(self, node: Node, answers: pa.Table) -> None:
        """Add questions and answers, in the format of `semgraph.semantic.Answered.evidence`."""
        if isinstance(node, (SemFilter, SemJoin, SemMap)):
            column = _YES_OR_NO.get(node.keyword, ("",))[0]
            names = (column,) if column else tuple(name for name, _ in node.answers)
            key = (node.step, node.keyword, *(prompt.name for prompt in node.prompt.all))
            own = self.operators.setdefault(key, _Answers(node.keyword, node.step, names))
            if not own.varied:
                own.add(answers)

    def notes(self, run: str = "") -> list[str]:
        """A note for each operator whose answers are all equal; `run` is "" without a record."""
        return [note for own in self.operators.values() if (note := own.note(run)) is not None]
