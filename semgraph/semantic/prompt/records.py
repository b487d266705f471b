"""Rows as models read them: in the words of the prompt, or as numbered records.

In a record values are JSON on one line, so that no text in a row can pass for another record, or
for an instruction between records.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from semgraph.expr.functions import canonical_json
from semgraph.logical.prompt import Prompt, Template, plain
from semgraph.semantic.prompt.answers import AnswerSchema

_NUMBERED = "Numbered records follow, each a JSON object on a line of its own."
# JSON leaves these as they are, but a reader takes them for the end of a line.
_LINE_ENDS = {0x85: "\\u0085", 0x2028: "\\u2028", 0x2029: "\\u2029"}


Shown = Sequence[tuple[str, str]]
"""Placeholders of a prompt that are of one side: pairs (placeholder, column)."""


class Records:
    """The rows of a table as the prompts show them, of which each row has one; every record is made
    once.
    """

    def __init__(self, table: pa.Table, shown: Sequence[Shown]) -> None:
        paths = dict.fromkeys(path for one in shown for _, path in one)
        self._columns = {path: table.column(path).to_pylist() for path in paths}
        self._shown = shown
        self._records: dict[tuple[int, int], str] = {}

    def values(self, row: int, prompt: int) -> dict[str, Any]:
        """What of the row takes the places of the placeholders."""
        return {name: self._columns[path][row] for name, path in self._shown[prompt]}

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
    """What is not empty, a blank line between."""
    return "\n\n".join(part.strip() for part in parts if part.strip())


def instructions(prompt: Prompt, task: str, *questions: str, answer: str, singly: str = "") -> str:
    """A system message for numbered records: what is static in the prompt, the task, the question,
    the answer's form.

    `singly` says what one example is about, where examples are about less than what is asked here:
    a record, a pair.
    """
    shown = f"The examples above are of one {singly} each; the form of the answer is given below."
    task = f"{_NUMBERED} {task} {shown if singly and prompt.examples.strip() else ''}"
    return paragraphs(prompt.rules, prompt.examples, task, *questions, answer)


def question(template: Template, lead: str) -> str:
    """A question with field names in place of values, after what is said of it; nothing if it has
    no words of its own.
    """
    words = "".join(text for text, _ in template.parts)
    return f"{lead}\n{template.question().strip()}" if any(c.isalnum() for c in words) else ""


def answer_instructions(schema: AnswerSchema, note: str = "", sketch: str = "") -> str:
    """The last part of a system message: how to answer."""
    return f"Answer with one JSON object and nothing else{note}:\n{sketch or schema.sketch}\n{schema.glossary}"
