"""Notes about uniform answers: operators that got one answer for all rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from semgraph.expr.functions import canonical_json
from semgraph.logical.node import Node
from semgraph.logical.prompt import plain
from semgraph.logical.semantic import SemFilter, SemJoin, SemMap

LEAST = 10
"""Different rows, or pairs, from which on equal answers are worth a note."""


@dataclass
class _Answers:
    """What was answered to one operator: how many rows, and whether all answers are equal so
    far.
    """

    node: SemFilter | SemJoin | SemMap
    rows: int = 0
    answer: Any = None
    varied: bool = False
    different: set[tuple[str, str | None]] = field(default_factory=set)

    def add(self, answers: pa.Table) -> None:
        """Take in the answers to some rows; rows without one do not count."""
        names = {"sem_filter": ["keep"], "sem_join": ["match"]}.get(
            self.node.keyword, [f for f, _ in self._returned()]
        )
        for row in answers.select([*dict.fromkeys(["left", "right", "error", *names])]).to_pylist():
            if row["error"] is not None:
                continue
            answer = canonical_json(plain([row[name] for name in names]))
            self.varied = self.varied or (self.rows > 0 and answer != self.answer)
            if self.varied:
                self.different.clear()
                return
            self.rows, self.answer = self.rows + 1, answer
            if len(self.different) < LEAST:
                self.different.add((row["left"], row["right"]))

    def _returned(self) -> tuple[tuple[str, Any], ...]:
        return self.node.answers

    def note(self, run: str) -> str | None:
        """What to say of them; nothing where they vary, or are few."""
        if self.varied or len(self.different) < LEAST:
            return None
        node, count = self.node, f"{self.rows:,}"
        if isinstance(node, SemMap):
            text = f"sem_map gave the same answer for all {count} rows"
        else:
            verb, unit = ("kept", "rows") if isinstance(node, SemFilter) else ("matched", "pairs")
            text = f"{node.keyword} {verb} {count if self.answer == '[true]' else 'none'} of {count} {unit}"
        look = f"; look at one: semgraph why {run} TEXT, with the text of a row" if run else ""
        return f"step {node.step}: {text}{look}"


class Uniform:
    """Watches the answers of a run."""

    def __init__(self) -> None:
        self._operators: dict[Node, _Answers] = {}

    def add(self, node: Node, answers: pa.Table) -> None:
        """Take in what was asked and answered, as `semgraph.semantic.Answered.evidence` has it."""
        if isinstance(node, (SemFilter, SemJoin, SemMap)):
            own = self._operators.setdefault(node, _Answers(node))
            if not own.varied:
                own.add(answers)

    def notes(self, run: str = "") -> list[str]:
        """A note for each operator whose answers are all alike.

        Args:
            run: The id of the run, where it has a record.
        """
        return [note for own in self._operators.values() if (note := own.note(run)) is not None]
