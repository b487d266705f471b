"""The tasks: generated rows with their truth, and the question about them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pyarrow as pa

from benchmarks.world.names import misspelt, organisations, people, places
from semgraph.expr.types import parse_type
from semgraph.logical.prompt import Prompt, PromptSet, Template
from semgraph.logical.relational import Input
from semgraph.logical.semantic import SemAgg, SemFilter, SemJoin, SemMap, SemTopk
from semgraph.semantic.contract import Item, Outcome, Rows

MARK = "(unreadable)"
"""The mark of a row that the server refuses at first."""
ASKED = {
    "sem_filter": "Does “{text}” say that somebody moved?",
    "sem_map": "{text}",
    "sem_join": "Are “{name}” and “{c.name}” the same person?",
    "sem_agg": "{text}",
    "sem_topk": "How strongly does “{text}” say that Ada Costa moved?",
}
RULES = {
    "sem_map": "Say who moved, and to which place.",
    "sem_agg": "List all people who are named.",
}
RETURNS = {
    "sem_map": [("person", "string"), ("place", "string")],
    "sem_agg": [("people", "list<string>")],
}
Truth = set[Any]


@dataclass
class Task:
    """Rows and their truth.

    Args:
        name: The name in tables.
        operator: The semantic operator.
        left: A text for each left row.
        truth: The right answers, in the form of `found`.
        right: A text for each right row of a join.
        group: The group of each row (sem_agg, sem_topk).
        k: The number of rows to select (sem_topk).
        again: Run twice, the second time with refused rows forgiven; the calls that are paid again
            are counted.
    """

    name: str
    operator: str
    left: list[str]
    truth: Truth
    right: list[str] = field(default_factory=list)
    group: list[int] = field(default_factory=list)
    k: int = 5
    again: bool = False

    @property
    def _column(self) -> str:
        return "name" if self.operator == "sem_join" else "text"

    @cached_property
    def node(self) -> Any:
        """The node of the operator."""
        columns = pa.schema({self._column: pa.string(), "group": pa.int64()})
        source = Input(name="rows", columns=columns, step="rows")
        returns = tuple((name, parse_type(kind)) for name, kind in RETURNS.get(self.operator, ()))
        item, rules = Template.parse(ASKED[self.operator]), RULES.get(self.operator, "")
        prompt = Prompt(self.operator, returns, rules=rules, item=item, max_tokens=512)
        given: dict[str, Any] = {"prompt": PromptSet((("", prompt),)), "input": source}
        given["step"] = self.operator
        if self.operator == "sem_join":
            other = Input(name="others", columns=pa.schema({"name": pa.string()}), step="others")
            return SemJoin(other=other, alias="c", **given)
        if self.operator == "sem_topk":
            return SemTopk(k=self.k, **given)
        if self.operator == "sem_agg":
            return SemAgg(by=("group",), **given)
        return {"sem_map": SemMap, "sem_filter": SemFilter}[self.operator](**given)

    @cached_property
    def rows(self) -> Rows:
        """The rows as an implementation gets them."""
        n, m = len(self.left), len(self.right)
        groups = self.group or [0] * n
        items = [Item(i, group=groups[i]) for i in range(n)]
        if self.operator == "sem_join":
            items = [Item(i, j) for i in range(n) for j in range(m)]
        right = pa.table({"name": self.right}) if self.operator == "sem_join" else None
        return Rows(pa.table({self._column: self.left}), right, items, ["bench"] * n, [0] * n)

    def found(self, answers: Sequence[Outcome]) -> Truth:
        """The answers in the form of the truth."""
        rows = [{"item": i, **(a.values or {})} for i, a in enumerate(answers) if a.error is None]
        if self.operator == "sem_filter":
            return {row["item"] for row in rows if row["keep"]}
        if self.operator == "sem_join":
            return {divmod(row["item"], len(self.right)) for row in rows if row["match"]}
        if self.operator == "sem_topk":
            best = sorted(rows, key=lambda row: (-row["score"], row["item"]))
            return {row["item"] for row in best[: self.k]}
        if self.operator == "sem_agg":
            return {(row["item"], name) for row in rows for name in row["people"] or []}
        return {(row["item"], row["person"], row["place"]) for row in rows}


def tasks() -> dict[str, Task]:
    """All tasks, by name; the same ones each time."""
    draw = random.Random(11)
    folk = [name for name in people(draw, 400) if name != "Ada Costa"]
    towns, firms = places(draw, 60), organisations(draw, 60)
    moves = [f"{folk[i]} moved to {towns[i % 60]}." for i in range(100)]
    mixed = [moves[i] if i % 3 == 0 else f"{folk[i]} works at {firms[i % 60]}." for i in range(100)]
    kept = {i for i in range(100) if i % 3 == 0}
    ranked = [f"Ada Costa moved to {towns[i]}." if i % 10 == 4 else moves[i] for i in range(50)]
    refused = [f"{text[:-1]} {MARK}." if i == 42 else text for i, text in enumerate(mixed)]
    ten, alike = [mixed[i % 10] for i in range(100)], {i for i in range(100) if i % 10 in kept}
    who = {(i, folk[i], towns[i % 60]) for i in range(100)}
    tenths = [i // 10 for i in range(100)]
    named, best = {(i // 10, folk[i]) for i in range(100)}, {i for i in range(50) if i % 10 == 4}
    made = [
        Task("sem_filter 100 rows", "sem_filter", mixed, kept),
        Task("sem_filter 100 rows, 10 distinct", "sem_filter", ten, alike),
        Task("sem_filter 100 rows, one refused", "sem_filter", refused, kept - {42}, again=True),
        Task("sem_map 100 rows", "sem_map", moves, who),
        *(_join(draw, folk, n) for n in (20, 256)),
        Task("sem_agg 10 groups of 10", "sem_agg", moves, named, group=tenths),
        Task("sem_topk 5 of 50", "sem_topk", ranked, best),
    ]
    return {task.name: task for task in made}


def _join(draw: random.Random, folk: list[str], n: int) -> Task:
    order = draw.sample(range(n), n)
    right = [misspelt(draw, folk[i]) for i in order]
    truth = {(i, j) for j, i in enumerate(order)}
    return Task(f"sem_join {n} x {n}", "sem_join", folk[:n], truth, right)


WAYS: dict[str, list[str]] = {
    "sem_filter 100 rows": [
        "per_row", "packed(rows=10)", "packed", "cascade(sample=60, recall=0.9, precision=0.9)", "vote"
    ],
    "sem_filter 100 rows, 10 distinct": ["per_row", "packed(rows=10)"],
    "sem_filter 100 rows, one refused": ["per_row", "packed(rows=10)"],
    "sem_map 100 rows": ["per_row", "packed(rows=10)", "reflexion", "vote"],
    "sem_join 20 x 20": ["nested_loop", "block(left=10, right=10)", "cascade"],
    "sem_join 256 x 256": ["block(left=32, right=16)"],
    "sem_agg 10 groups of 10": ["single", "tree(fan_in=2)", "fold"],
    "sem_topk 5 of 50": ["pointwise", "packed(rows=10)", "listwise", "quickselect", "tournament"],
}  # fmt: skip
LOTUS: dict[str, list[str]] = {
    name: ["lotus", "LOTUS"] for name in WAYS if name != "sem_join 256 x 256"
}
LOTUS["sem_topk 5 of 50"] = [
    "lotus",
    *(f'lotus(method="{method}")' for method in ("heap", "naive", "quick-sem")),
    *(f"LOTUS ({method})" for method in ("quick", "heap", "naive")),
]
"""Implementations that need LOTUS: its code over semgraph's models (`lotus`), and the package as
its users call it (`LOTUS`).
"""
