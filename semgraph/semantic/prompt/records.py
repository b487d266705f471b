"""Rows in prompts: in the prompt's words, or as numbered records.

A record is JSON on one line, so that no text of a row can imitate a record, or an instruction
between records.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from semgraph.expr.functions import canonical_json
from semgraph.expr.types import python_values
from semgraph.logical.prompt import Prompt, Template, plain
from semgraph.semantic.prompt.answers import AnswerSchema

_NUMBERED = "Numbered records follow, each a JSON object on a line of its own."
# Line separators that JSON does not escape.
_LINE_ENDS = {0x85: "\\u0085", 0x2028: "\\u2028", 0x2029: "\\u2029"}


Placeholders = Sequence[tuple[str, str]]
"""The placeholders of a prompt for one side: pairs (placeholder, column)."""


class Records:
    """The rows of a table as records of their prompts; each record is made once.

    Args:
        table: The rows.
        placeholders: Those of each prompt.
    """

    def __init__(self, table: pa.Table, placeholders: Sequence[Placeholders]) -> None:
        paths = dict.fromkeys(path for pairs in placeholders for _, path in pairs)
        self._columns = {path: python_values(table.column(path)) for path in paths}
        self._placeholders = placeholders
        self._records: dict[tuple[int, int], str] = {}

    def values(self, row: int, prompt: int) -> dict[str, Any]:
        """The values of a row by placeholder."""
        return {name: self._columns[path][row] for name, path in self._placeholders[prompt]}

    def record(self, row: int, prompt: int) -> str:
        """The row as JSON on one line."""
        line = self._records.get((row, prompt))
        if line is None:
            line = self._records[row, prompt] = json_line(self.values(row, prompt))
        return line


def json_line(values: Mapping[str, Any]) -> str:
    """Values as one line of JSON, in their order."""
    inner = ",".join(
        f"{canonical_json(name)}:{canonical_json(plain(value))}" for name, value in values.items()
    )
    return "{" + inner.translate(_LINE_ENDS) + "}"


def numbered(records: Iterable[str], first: int = 1) -> list[str]:
    """Lines `1. {...}`."""
    return [f"{number}. {record}" for number, record in enumerate(records, first)]


def paragraphs(*parts: str) -> str:
    """Join the parts that are not empty with blank lines."""
    return "\n\n".join(part.strip() for part in parts if part.strip())


def instructions(prompt: Prompt, task: str, *questions: str, answer: str, singly: str = "") -> str:
    """A system message for numbered records: the prompt's static part, the task, the question, the
    answer schema.

    `singly` names the subject of one example (record, pair), if the request has several of them.
    """
    scope = f"The examples above are of one {singly} each; the form of the answer is given below."
    task = f"{_NUMBERED} {task} {scope if singly and prompt.examples.strip() else ''}"
    return paragraphs(prompt.rules, prompt.examples, task, *questions, answer)


def question(template: Template, lead: str) -> str:
    """A question with field names instead of values, after `lead`; empty if the template has no
    words.
    """
    words = "".join(text for text, _ in template.parts)
    return f"{lead}\n{template.question().strip()}" if any(c.isalnum() for c in words) else ""


def answer_instructions(schema: AnswerSchema, note: str = "", sketch: str = "") -> str:
    """The last part of a system message: the form of the answer."""
    return f"Answer with one JSON object and nothing else{note}:\n{sketch or schema.sketch}\n{schema.glossary}"
