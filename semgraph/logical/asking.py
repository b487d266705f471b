"""What the operators that a language model answers have in common: a prompt, typed answers, what becomes of errors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import pyarrow as pa

from semgraph.errors import Fault
from semgraph.expr.binder import check_columns
from semgraph.expr.types import Type
from semgraph.logical.checks import column_scalar
from semgraph.logical.node import Node, argument, owner_column
from semgraph.logical.prompt import PromptSet, check_sections, without_forms

OnError = Literal["raise", "null"]
Answers = tuple[tuple[str, Type], ...]


@dataclass(frozen=True, eq=False, kw_only=True)
class Semantic(Node):
    """What the five have in common. `on_error: null` keeps a row whose answer failed, with NULL answers.

    `returns_types` is a trait: whether a prompt returns typed answers, which plans say in `add` beside an inline question.
    """

    calls_llm: ClassVar[bool] = True
    returns_types: ClassVar[bool] = True
    input: Node = argument("input")
    prompt: PromptSet = argument("prompt")
    on_error: OnError = argument("choice", choices=("raise", "null"), default="raise")
    owner: str = ""  # the column that names the partition of a row, where it is not that of a window

    @property
    def gated(self) -> bool:
        """Whether there may be rows, or pairs, that it is not asked about."""
        return False

    @property
    def answers(self) -> Answers:
        """What the model returns for an item, typed."""
        return self.prompt.first.returns

    def answer_fields(self) -> list[pa.Field]:  # type: ignore[type-arg]
        """The answers as Arrow fields."""
        return [pa.field(name, kind.arrow) for name, kind in self.answers]

    def check_prompt(self, left: pa.Schema, right: pa.Schema | None = None) -> None:
        """Every placeholder must be a column; all prompts of a set must return the same."""
        for prompt in self.prompt.all:
            check_sections(prompt, pairs=right is not None)
            if without_forms(prompt.returns) != without_forms(self.answers):
                msg = f'prompts "{self.prompt.first.name}" and "{prompt.name}" return different things'
                raise Fault(msg, "prompt")
        for fields, schema in ((self.prompt.fields, left), (self.prompt.other_fields, right or left)):
            for path in fields:
                try:
                    check_columns(column_scalar(path), schema)
                except Fault as fault:
                    msg = f'prompt "{self.prompt.first.name}": {fault.what}'
                    raise Fault(msg, "prompt", there=fault.there, hint=fault.hint) from None

    @property
    def reads(self) -> frozenset[str]:
        return frozenset(path.split(".")[0] for path in self.prompt.fields) | owner_column(self.input, self.owner)


def needs_answers(node: Semantic) -> None:
    """Refuse a prompt that returns nothing."""
    if not node.answers:
        msg = f'prompt "{node.prompt.first.name}" returns nothing'
        raise Fault(msg, "prompt", hint='say what: add: {answer: string}, or "returns" in the prompt file')
