"""Prompts of semantic operators, the same for all implementations.

A prompt has sections: `rules` (static, sent first), `examples` (static), `context` (equal for all
rows of a call), `item` (the row), `other` (the other row of a pair) and `reflexion` (static: the
question about an answer). Placeholders name only columns. The node reads exactly these columns, and
no other column leaves the machine.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from functools import cached_property
from typing import Any, ClassVar

from semgraph.errors import Fault
from semgraph.expr.canonical import text_of_fields
from semgraph.expr.functions import canonical_json
from semgraph.expr.types import Type
from semgraph.logical.schema import PATH

_PLACEHOLDER = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")


@dataclass(frozen=True)
class Template:
    """Text with placeholders `{column}` or `{struct.field}`; `{{` and `}}` are braces.

    >>> Template.parse("Is {name} in {{x}}?").render({"name": "Ada"})
    'Is Ada in {x}?'
    """

    tag: ClassVar[str] = "Template"
    parts: tuple[tuple[str, str], ...] = ()  # (literal text, placeholder or "")

    @classmethod
    def parse(cls, text: str, params: Mapping[str, Any] | None = None) -> Template:
        """Read a template; `{$name}` is replaced by a parameter of the plan. Raises Fault."""
        parts: list[tuple[str, str]] = []
        literal, position = "", 0
        for match in _PLACEHOLDER.finditer(text):
            literal += text[position : match.start()]
            position = match.end()
            token, name = match.group(0), match.group(1)
            if token in {"{{", "}}"}:
                literal += token[0]
            elif name is None:
                raise Fault(f'a single "{token}" in a prompt', hint="write {{ or }} for a brace")
            elif name.startswith("$"):
                literal += _parameter(name[1:], params or {})
            elif not PATH.match(name):
                raise Fault(f'"{{{name}}}" names no column', hint=_no_placeholder(name))
            else:
                parts.append((literal, name))
                literal = ""
        parts.append((literal + text[position:], ""))
        return cls(tuple(parts))

    @property
    def fields(self) -> tuple[str, ...]:
        """The placeholders, each once, in order."""
        return tuple(dict.fromkeys(name for _, name in self.parts if name))

    def render(self, values: Mapping[str, Any]) -> str:
        """The text with the values inserted, in the notation of `show`."""
        return "".join(text + (show(values[name]) if name else "") for text, name in self.parts)

    def question(self) -> str:
        """The text with field names instead of values: the question of a packed call."""
        return "".join(text + (f"<{name}>" if name else "") for text, name in self.parts)

    def __bool__(self) -> bool:
        return any(text.strip() or name for text, name in self.parts)


def _no_placeholder(text: str) -> str:
    """A hint for a placeholder that is not a name."""
    column, _, side = text.partition(":")
    if side in {"left", "right"} and PATH.match(column):  # LOTUS's names for the rows of a pair
        if side == "left":
            return f"write {{{column}}}"
        return f"in a join, name the other row by its alias: {{other.{column}}}"
    return "placeholders name columns only; {{ is a brace"


def _parameter(name: str, params: Mapping[str, Any]) -> str:
    if name not in params:
        known = ", ".join(f"${p}" for p in params) or "none"
        raise Fault(
            f'the prompt names "${name}", which is not a parameter', there=f"parameters: {known}"
        )
    return show(params[name])


def show(value: Any) -> str:
    """A value in a prompt: text unchanged, NULL as "", times in ISO 8601, others as JSON."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    if isinstance(value, date):
        return value.isoformat()
    return canonical_json(plain(value))


def plain(value: Any) -> Any:
    """A value for JSON: times in ISO 8601, also inside lists and structs."""
    if value is None or isinstance(value, (str, int, float)):
        return value
    if isinstance(value, date):
        return show(value)
    if isinstance(value, Mapping):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return value


@dataclass(frozen=True)
class Examples:
    """Rows with right answers, each as JSON, by placeholder and answer; a request shows all, or of
    each of its rows those with the `nearest` texts in the column `by`. `file` is "" for a plan's own.
    """

    tag: ClassVar[str] = "Examples"
    rows: tuple[str, ...]
    nearest: int = 0
    by: str = ""
    file: str = field(default="", compare=False)


@dataclass(frozen=True)
class Prompt:
    """One question, for every implementation of its operator.

    Args:
        name: File name without extension, or the first words of an inline prompt.
        returns: Typed answers, in order.
        describe: The meaning of each answer, for the JSON Schema, by name (dotted inside lists and
            structs; `NAME[]` for the entries of a list, "" for the whole answer).
        role: The role of the configured model.
        max_tokens: The token limit of an answer to one item; packed calls allow more.
        reflexion: The question about an answer, for implementations that review answers;
            empty: a general question.
        alias: In a sem_join, the name of the other row: `{alias.column}` in `item` is a column of
            the other row.
        validators: The types of Pydantic that are called with answers, by name; "": with all.
        shown: The rows with right answers that requests show, in place of the text `examples`.
        digest: The hash of the file's text, before values of parameters are put into it; "": it is no
            file.
    """

    tag: ClassVar[str] = "Prompt"
    name: str
    returns: tuple[tuple[str, Type], ...] = ()
    describe: tuple[tuple[str, str], ...] = ()
    role: str = "default"
    max_tokens: int = 1024
    rules: str = ""
    examples: str = ""
    context: Template = Template()
    item: Template = Template()
    other: Template = Template()
    reflexion: str = ""
    alias: str = ""
    file: str = field(default="", compare=False)
    digest: str = field(default="", compare=False)
    validators: tuple[tuple[str, Any], ...] = field(default=(), metadata={"added": True})
    shown: Examples | None = field(default=None, metadata={"added": True})

    @cached_property
    def canonical_text(self) -> str:
        """The canonical text, equal for equal prompts."""
        return text_of_fields(self)

    def _of_other(self, path: str) -> bool:
        return bool(self.alias) and path.startswith(f"{self.alias}.")

    @cached_property
    def item_fields(self) -> tuple[str, ...]:
        """The columns of the row that its item names."""
        return tuple(path for path in self.item.fields if not self._of_other(path))

    @cached_property
    def fields(self) -> tuple[str, ...]:
        """The columns of the row that it reads."""
        return tuple(dict.fromkeys((*self.context.fields, *self.item_fields)))

    @cached_property
    def shared_fields(self) -> tuple[tuple[str, str], ...]:
        """The placeholders of `item` for the other row: pairs (placeholder, column of that row)."""
        return tuple(
            (path, path[len(self.alias) + 1 :]) for path in self.item.fields if self._of_other(path)
        )

    @cached_property
    def other_fields(self) -> tuple[str, ...]:
        """The columns of the other row that it reads."""
        return tuple(dict.fromkeys((*self.other.fields, *(path for _, path in self.shared_fields))))


@dataclass(frozen=True)
class PromptSet:
    """The prompts of an operator: one, or one by the value of a column, all with the same answers."""

    tag: ClassVar[str] = "PromptSet"
    prompts: tuple[tuple[str, Prompt], ...]  # with their values; without `on`: one, with ""
    on: str = field(default="", metadata={"tag": "by"})  # the column whose value selects the prompt
    otherwise: Prompt | None = None  # of all other values; without it such rows fail

    @property
    def all(self) -> tuple[Prompt, ...]:
        """Every prompt."""
        rest = (self.otherwise,) if self.otherwise else ()
        return (*(p for _, p in self.prompts), *rest)

    def of_role(self, role: str) -> PromptSet:
        """The same prompts for the model of a role."""
        return self.each(lambda prompt: replace(prompt, role=role))

    def each(self, change: Callable[[Prompt], Prompt]) -> PromptSet:
        """The same prompts after a change of each."""
        prompts = tuple((value, change(prompt)) for value, prompt in self.prompts)
        return PromptSet(prompts, self.on, self.otherwise and change(self.otherwise))

    @property
    def first(self) -> Prompt:
        """The prompt that represents all prompts in names and answers."""
        return self.all[0]

    @property
    def fields(self) -> tuple[str, ...]:
        """The columns of the row that any prompt reads, and the column that selects the prompt."""
        own = (self.on,) if self.on else ()
        return tuple(dict.fromkeys((*own, *(f for p in self.all for f in p.fields))))

    @property
    def other_fields(self) -> tuple[str, ...]:
        """The columns of the other row that any prompt reads."""
        return tuple(dict.fromkeys(f for p in self.all for f in p.other_fields))

    def pick(self, value: str | None) -> Prompt | None:
        """The prompt for a value of `on`; an exact match precedes a match without case."""
        if not self.on:
            return self.prompts[0][1]
        named, word = dict(self.prompts), (value or "").strip()
        near = (prompt for name, prompt in self.prompts if name.lower() == word.lower())
        return named.get(word) or next(near, self.otherwise)


def without_forms(answers: tuple[tuple[str, Type], ...]) -> tuple[tuple[str, Type], ...]:
    """The answers, with JSON answers of any structure."""
    return tuple(
        (name, replace(kind, fields=()) if kind.name == "json" else kind) for name, kind in answers
    )


# Columns of the tables that implementations return; no answer may have such a name.
RESERVED = ("item", "error", "calls")


def check_sections(prompt: Prompt, *, pairs: bool) -> None:
    """Refuse a prompt that lacks a section its operator needs, or repeats one. Raises Fault."""
    name = f'prompt "{prompt.name}"'
    if not prompt.item:
        raise Fault(f"{name} has no item: nothing of the row would be sent", "prompt")
    if pairs and not prompt.other_fields:
        hint = "name them by its alias, {other.name} if that is other, or in a section # other"
        raise Fault(f"{name} names no column of the other row", "prompt", hint=hint)
    twice = [path for path, _ in prompt.shared_fields if path in prompt.other.fields]
    if twice:
        hint = "# other names columns of the other relation, without the alias; name it in one of the two sections"
        raise Fault(f'{name}: "{twice[0]}" means two things', "prompt", hint=hint)
    if prompt.other and not pairs:
        raise Fault(f'{name} has a section "other", which only sem_join has', "prompt")
    taken = [
        answer
        for answer, _ in prompt.returns
        if answer in RESERVED or (pairs and answer == "match")
    ]
    if taken:
        raise Fault(
            f'{name} returns "{taken[0]}", a name that the engine uses itself',
            "prompt",
            hint="call it otherwise",
        )
