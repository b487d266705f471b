"""The ways that the contract suites run over; their cases are those of
`semgraph.conformance.cases`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from semgraph.conformance import cases
from semgraph.conformance.cases import LIBRARY, Case, usable
from semgraph.llm.base import Embeddings
from semgraph.logical.plan import Choice
from semgraph.meter import StepMetrics
from semgraph.semantic.answers import answer_table
from semgraph.semantic.contract import OPERATORS, Outcome
from semgraph.semantic.library import Library

VARIANTS = {
    "sem_map": ["packed(rows=3)", "packed(rows=1)", "reflexion(rounds=3)", "vote(samples=2)"],
    "sem_filter": ["packed(rows=3)", "cascade(rows=1)", "vote(samples=3, temperature=1)"],
    "sem_join": [
        "block(left=1)", "block(left=2, right=2)", "block(right=1)", "block(pairs=3)", "cascade(jaccard=null)",
        "cascade(pairs=1, accept=0.95)",
    ],
    "sem_agg": ["tree(fan_in=2)", "tree(fan_in=3)", "fold(rows=1)", "fold(rows=3)"],
    "sem_topk": [
        "packed(rows=3)", "listwise(window=4)", "listwise(window=5)", "quickselect(batch=1)",
        "quickselect(batch=3, pivot=random)",
    ],
}  # fmt: skip


def ways(*operators: str, same: bool | None = None, packs: bool = False) -> list[tuple[str, str]]:
    """Pairs (operator, way): every implementation that the library finds, and some with other
    parameters.

    Those that refuse every case here, for want of a package, are tested in `tests/extras`.
    """
    found = []
    for operator in operators or OPERATORS:
        listed = {one.name: one for one in LIBRARY.list(operator)}
        for text in [*listed, *VARIANTS[operator]]:
            choice = Choice.parse(text)
            one = listed[choice.name]
            here = usable(operator, LIBRARY.get(operator, choice)) is None
            if here and same in (None, one.same) and not (packs and one.reference):
                found.append((operator, text))
    return found


async def ask(
    case: Case,
    name: str,
    llm: Any = None,
    metrics: StepMetrics | None = None,
    library: Library = LIBRARY,
) -> pa.Table:
    """The answers of an implementation, selected by its name."""
    return await run(case, library.get(case.operator, Choice.parse(name)), llm, metrics)


async def run(case: Case, way: Any, *models: Any, instead: Any = None) -> pa.Table:
    """The answers of an implementation as a table."""
    found = await cases.run(case, way, *models, instead=instead)
    return tabled(instead or case.node(), found)


def tabled(node: Any, found: Sequence[Outcome]) -> pa.Table:
    """Outcomes as a table, with the number of each item."""
    numbers = pa.array(range(len(found)), pa.int64())
    return answer_table(node, found).add_column(0, "item", numbers)


def answers(table: pa.Table) -> list[dict[str, Any]]:
    """A table of answers without the calls."""
    return table.drop_columns("calls").to_pylist()


def reference(operator: str) -> str:
    """The name of the reference implementation of an operator."""
    return LIBRARY.reference(operator).name


class NoEmbedder:
    """Vectors of two numbers, the first of them the length of the text."""

    name = "none"

    async def dimensions(self) -> int:
        return 2

    async def embed(self, texts: Sequence[str], partition: str = "") -> Embeddings:
        return Embeddings(np.array([[len(t), 1] for t in texts], np.float32), calls=1, attempts=1)
