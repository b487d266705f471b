"""Conversion of semgraph's prompts and rows into LOTUS's instructions and documents."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from semgraph.logical.prompt import Prompt
from semgraph.logical.semantic import Semantic
from semgraph.lotus.bridge import Parts
from semgraph.semantic.contract import Keys, Rows, column_texts
from semgraph.semantic.prompt.builder import paragraphs

LEFT, RIGHT = "left", "right"


class Question(NamedTuple):
    """A question for LOTUS: an instruction, and a document for each row."""

    instruction: str
    documents: list[dict[str, Any]]


class Texts:
    """The texts of a relation for LOTUS; used from several threads.

    Args:
        parts: LOTUS.
        node: The operator.
        rows: The rows.
    """

    def __init__(self, parts: Parts, node: Semantic, rows: Rows) -> None:
        self.keys = Keys(node, rows)
        self._parts, self._node, self._rows = parts, node, rows
        own = {path for prompt in node.prompt.all for path in prompt.item_fields}
        self._left = {path: column_texts(rows.left, path) for path in own}
        other = {path for prompt in node.prompt.all for path in prompt.other_fields}
        self._right = (
            {} if rows.right is None else {path: column_texts(rows.right, path) for path in other}
        )

    def documents(
        self, items: Sequence[int], *, one_context: bool = False, more: str = ""
    ) -> Question:
        """The question about items of one prompt.

        The instruction has placeholders as LOTUS writes columns (`{name}` is Name), the documents
        have their values. The context is a column of each document.

        Args:
            items: The items, of one prompt.
            one_context: All items have the same context: put it into the instruction.
            more: Further words of the instruction.
        """
        import pandas as pd

        lefts = [self.keys.left[item] for item in items]
        prompt = self._node.prompt.all[self._rows.prompt[lefts[0]]]
        names = _columns(prompt.item_fields)
        frame = {names[path]: [self._left[path][i] for i in lefts] for path in prompt.item_fields}
        contexts = [self.keys.context(left) for left in lefts]
        head = contexts[0] if one_context else ""
        if not one_context and any(contexts):
            frame = {_free("context", frame): contexts} | frame
        question_text = "".join(
            text + (names[path].capitalize() if path else "") for text, path in prompt.item.parts
        )
        instruction = paragraphs(prompt.rules, prompt.examples, head, question_text, more)
        documents = self._parts.documents(pd.DataFrame(frame, index=range(len(lefts))), list(frame))
        return Question(instruction, documents)

    def sides(self, prompt: Prompt, lefts: Sequence[int], rights: Sequence[int]) -> list[list[str]]:
        """The texts of some left and some right rows of a join.

        If LOTUS's instruction asks about both rows, a side's text is its values; else it is its
        section of the prompt.
        """
        left = [{path: self._left[path][i] for path in prompt.item_fields} for i in lefts]
        right = [{path: self._right[path][i] for path in prompt.other_fields} for i in rights]
        both = bool(prompt.shared_fields)
        own = [_values(values) if both else prompt.item.render(values) for values in left]
        own = [paragraphs(self.keys.context(i), text) for i, text in zip(lefts, own, strict=True)]
        return [own, [_values(v) if both else prompt.other.render(v) for v in right]]

    def mixed(self, items: Sequence[int]) -> str | None:
        """The error if the rows of a group may not share a request, or None."""
        keys = [self.keys.of(item) for item in items]
        for position, what in enumerate(("partitions", "prompts", "contexts")):
            if len({key[position] for key in keys}) > 1:
                return (
                    f"mixed: rows of one request have several {what}: group by what they differ in"
                )
        return None


def by_prompt(rows: Rows) -> list[list[int]]:
    """The items by prompt: a run of LOTUS has one instruction."""
    lefts: list[int] = rows.items.column("left").to_pylist()  # type: ignore[assignment]
    items: dict[int, list[int]] = {}
    for item, left in enumerate(lefts):
        items.setdefault(rows.prompt[left], []).append(item)
    return list(items.values())


def claim(prompt: Prompt) -> str:
    """The claim about a pair that LOTUS judges: the question about both, or that they match."""
    if not prompt.shared_fields:
        return paragraphs(
            prompt.rules,
            prompt.examples,
            f"The record {{{LEFT}}} and the record {{{RIGHT}}} match.",
        )
    shared = dict(prompt.shared_fields)
    words = [
        text + _placed(path, shared.get(path), prompt) if path else text
        for text, path in prompt.item.parts
    ]
    return paragraphs(prompt.rules, prompt.examples, "".join(words))


def _placed(path: str, other: str | None, prompt: Prompt) -> str:
    side, fields = (LEFT, prompt.item_fields) if other is None else (RIGHT, prompt.other_fields)
    return f"{{{side}}}" if len(fields) == 1 else f"{other or path} of {{{side}}}"


def _values(values: dict[str, str]) -> str:
    return (
        next(iter(values.values()))
        if len(values) == 1
        else "\n".join(f"{k}: {v}" for k, v in values.items())
    )


def _columns(paths: Sequence[str]) -> dict[str, str]:
    """A name for each column; LOTUS ignores case, so `userName` and `username` get different names."""
    names: dict[str, str] = {}
    for path in paths:
        names[path] = _free(path, names.values())
    return names


def _free(name: str, taken: Any) -> str:
    capitalized = {other.capitalize() for other in taken}
    while name.capitalize() in capitalized:
        name += "_"
    return name


def invalid_verdict(text: str) -> str | None:
    """The fault of an answer that should be True or False: LOTUS reads anything else as True."""
    verdicts = {word for word in ("true", "false") if word in text.rpartition("Answer:")[2].lower()}
    return None if len(verdicts) == 1 else 'expected "Answer: True" or "Answer: False"'


def invalid_number(text: str) -> str | None:
    """The fault of an answer that should be a document's number: LOTUS reads anything else as the
    first.
    """
    after = text.lower().rpartition("answer:")[2]
    numbers = re.findall(r"document[\s*](\d+)", after) or re.findall(r"(\d+)", after)
    return (
        None if numbers and numbers[-1] in {"1", "2"} else 'expected "Document 1" or "Document 2"'
    )
