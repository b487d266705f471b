"""Rows and questions as plain text, for embeddings, cross-encoders and keys."""

from __future__ import annotations

import pyarrow as pa

from semgraph.expr.types import python_values
from semgraph.llm.base import Vectors
from semgraph.logical.prompt import Prompt, show
from semgraph.logical.semantic import Semantic
from semgraph.semantic.contract import Keys, Rows


def row_texts(node: Semantic, rows: Rows) -> list[str]:
    """For each left row the values that its prompt's item names, one per line; "" if all are NULL."""
    names = [prompt.item_fields for prompt in node.prompt.all]
    columns = {name: python_values(rows.left.column(name)) for fields in names for name in fields}
    return [
        "\n".join(filter(None, (show(columns[f][i]) for f in names[p])))
        for i, p in enumerate(rows.prompt)
    ]


def column_texts(table: pa.Table, column: str) -> list[str]:
    """The values of a column as text; "" for NULL."""
    return [show(value) for value in python_values(table.column(column))]


def question_text(prompt: Prompt) -> str:
    """The question of a prompt without the rows: the words of its item, else its rules."""
    words = " ".join(" ".join(text for text, _ in prompt.item.parts).split())
    return words if any(c.isalnum() for c in words) else prompt.rules.strip() or prompt.name


def queries(node: Semantic, rows: Rows) -> list[str]:
    """The query of each left row: its context if the prompt has one, else the question."""
    keys = Keys(node, rows)
    own = [question_text(prompt) for prompt in node.prompt.all]
    return [keys.context(i) or own[p] for i, p in enumerate(rows.prompt)]


def cosines(vectors: Vectors, other: Vectors) -> list[float]:
    """The cosine of each vector, shape (n, dimensions), with another one; 0 for zero vectors,
    NaN for those of texts without a vector.
    """
    import numpy as np

    lengths = np.linalg.norm(vectors, axis=1) * np.linalg.norm(other)
    result: list[float] = np.divide(
        vectors @ other, lengths, out=np.zeros(len(vectors)), where=lengths != 0
    ).tolist()
    return result
