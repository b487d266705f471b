"""The prompts of plans: files `prompts/NAME.md` with front matter and sections, inline questions,
and Python types as types of answers.
"""

from __future__ import annotations

import enum
import re
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from semgraph.errors import Fault, PlanError, Position, Problem, did_you_mean, each, faults_at
from semgraph.expr.types import PYTHON_TYPES, Type, parse_answer_type
from semgraph.frontend import document, kinds
from semgraph.frontend.classes import (
    Called,
    answers_of,
    is_root_model,
    is_typed_dict,
    needs_pydantic,
)
from semgraph.frontend.example_rows import SCHEMA, read_examples
from semgraph.frontend.kinds import Key, Keys
from semgraph.logical import limits
from semgraph.logical.prompt import Prompt, PromptSet, Template
from semgraph.logical.schema import NAME

SECTIONS = ("rules", "examples", "context", "item", "other", "reflexion")
_STATIC = ("rules", "examples", "reflexion")


def _class(value: Any) -> Called:
    if not isinstance(value, Called):
        hint = "give the class in Python: returns=Model"
        raise Fault("a file cannot name the class that validates answers", hint=hint)
    return value


# The keys of a part of an answer, by its path: address.city, or tags[] for the entries of a list.
ANSWER_PART: Keys = {
    "describe": Key(kinds.TEXT, "what it means, for the model"),
    **{
        key: Key(kinds.kept({"type": "string" if key == "pattern" else "number"}), words)
        for key, words in limits.LIMITS.items()
    },
    "default": Key(kinds.kept({}), "the value in place of null"),
}
# The keys of an answer that is a mapping.
ANSWER: Keys = {"type": Key(kinds.TEXT, "its type, such as string", required=True), **ANSWER_PART}
_OF_PYTHON: Keys = {"class": Key(kinds.plain(_class, {})), "optional": Key(kinds.kept({}))}
TYPES: kinds.Schema = {
    "type": "object",
    "patternProperties": {
        kinds.NAMED["pattern"]: kinds.either(kinds.TEXT.schema, kinds.keys_schema(ANSWER))
    },
    "additionalProperties": kinds.keys_schema(ANSWER_PART),
}
# The keys of the front matter.
FRONT: Keys = {
    "returns": Key(
        kinds.mapped("types by name", {**TYPES, "propertyNames": kinds.whole(limits.PART)}),
        "the answers by name, each with its type",
    ),
    "describe": Key(
        kinds.plain(kinds.read_texts, kinds.by_name(kinds.TEXT.schema, kinds.OF_PATH)),
        "what an answer, or a field of one (answer.field), means, for the model",
    ),
    "role": Key(kinds.NAME_OF, "the role of the model that answers: default"),
    "max_tokens": Key(
        kinds.plain(kinds.read_positive, {"type": "integer", "minimum": 1}),
        "the most tokens of an answer: 1024",
    ),
    "examples": Key(kinds.kept(SCHEMA), "rows with right answers, which requests show"),
}
_HEADING = re.compile(r"#[ \t]+(?P<name>\S.*?)[ \t]*\Z")
_NO_COLUMN = re.compile(r'prompt "([^"]+)": no column "([^"]+)"')
_LONE_BRACE = re.compile(r"\{\{|\}\}|\{[^{}]*\}|([{}])")
Answers = tuple[tuple[str, Type], ...]
Described = tuple[tuple[str, str], ...]


class Prompts:
    """The prompts of one plan: files in `prompts/` of its folder, with its parameters substituted.

    With `confined`, files outside the plan's folder are refused, also through symbolic links.
    `replaced` are the user's files in the place of prompts; the names of all that are read are added to
    `named`.
    """

    def __init__(
        self,
        folder: Path,
        params: Mapping[str, Any],
        confined: bool = True,
        replaced: Mapping[str, Path] = MappingProxyType({}),
        named: set[str] | None = None,
    ) -> None:
        self.folder, self.params, self.confined = folder / "prompts", params, confined
        self._replaced, self._named = replaced, set[str]() if named is None else named

    def _path(self, name: str) -> Path:
        return self._replaced.get(name.rpartition("/")[2]) or self.folder / f"{name}.md"

    def read(self, value: Any, answers: Any = None, examples: Any = None) -> PromptSet:
        """The prompts that a value of a plan names: a file's name, an inline question, whose answers
        have these types, or `{on: COLUMN, VALUE: prompt, otherwise: prompt}`. All show the `examples`.
        Raises Fault, or PlanError with positions in a prompt file.
        """
        prompts = self._read(value, answers)
        return prompts.each(lambda prompt: self._showing(prompt, examples, self.folder.parent))

    def _read(self, value: Any, answers: Any) -> PromptSet:
        if not isinstance(value, Mapping):
            return PromptSet((("", self._one(value, answers)),))
        rest = dict(value)
        on, otherwise = rest.pop("on", None), rest.pop("otherwise", None)
        if not isinstance(on, str) or not NAME.match(on):
            hint = "write {on: COLUMN, VALUE: name, ...}"
            raise Fault("several prompts need on, the column that picks", hint=hint)
        if not rest:
            hint = f"write {{on: {on}, VALUE: name, otherwise: name}}"
            raise Fault("several prompts need a prompt for a value", hint=hint)
        prompts = kinds.each_value(rest, lambda _, name: self._one(name, answers))
        other = None if otherwise is None else self._one(otherwise, answers)
        return PromptSet(tuple(prompts.items()), on, other)

    def _one(self, value: Any, answers: Any) -> Prompt:
        if not isinstance(value, str) or not value.strip():
            raise document.wrong("a prompt: the name of a file, or a question", value)
        if "{" in value or any(c.isspace() for c in value):
            return self._inline(value, answers)
        if answers is not None:
            what = "returns is for inline questions; a prompt file says what it returns"
            raise Fault(what, "returns", hint=f"write it in prompts/{value}.md")
        return self._file(value)

    def _inline(self, text: str, answers: Any) -> Prompt:
        item = Template.parse(text, self.params)
        name = " ".join(text.split()[:6])
        with faults_at("returns"):
            returns, describe, validators = _answers(
                document.mapping(answers, "the types of the answers")
            )
        return Prompt(name, returns, describe, item=item, validators=validators)

    def located(self, fault: Fault) -> Fault:
        """A fault about a placeholder of a prompt file, with its position; other faults unchanged."""
        match = _NO_COLUMN.match(fault.what)
        path = self._path(match[1]) if match else None
        if match is None or path is None or not path.is_file():
            return fault
        if not document.inside(path, (self.folder,)) and path not in self._replaced.values():
            return fault
        before, brace, _ = document.read_text(path, "prompt").partition(f"{{{match[2]}}}")
        if not brace:
            return fault
        column = len(before) - (before.rfind("\n") + 1) + 1
        place = Position(document.shown(path), before.count("\n") + 1, column)
        there = f"{{{match[2]}}} stands at {place}" + (f"; {fault.there}" if fault.there else "")
        return Fault(fault.what, *fault.path, there=there, hint=fault.hint)

    def _file(self, name: str) -> Prompt:
        path = self._path(name)
        self._named.add(name.rpartition("/")[2])
        if self.confined and path.parent == (self.folder / name).parent:
            document.require_inside(path, (self.folder.parent,), f'the prompt file "{name}.md"')
        if not NAME.match(name.replace("/", "_").replace("-", "_")) or not path.is_file():
            known = sorted(p.stem for p in self.folder.glob("*.md"))
            there = f"prompts in {document.shown(self.folder)}: " + (", ".join(known) or "none")
            question = "a question in place of a name has a blank or a { in it"
            hint = did_you_mean(name, known) or question
            raise Fault(f'no prompt file "{name}.md"', there=there, hint=hint)
        prompt, front = read_prompt(path, self.params), front_of(path)
        try:
            return self._showing(prompt, (front.data or {}).get("examples"), path.parent)
        except Fault as fault:
            raise PlanError(*map(front.problem, each(fault))) from None

    def _showing(self, prompt: Prompt, examples: Any, folder: Path) -> Prompt:
        if examples is None:
            return prompt
        if prompt.shown or prompt.examples.strip():
            what = f'examples: stands beside the prompt "{prompt.name}", which has examples'
            raise Fault(what, "examples", hint="keep one of the two")
        home = self.folder.parent if self.confined else None
        read = kinds.at_key("examples", read_examples, examples, folder, home)
        return replace(prompt, shown=read)


def front_of(path: Path) -> document.Document:
    """The front matter of a prompt file. Raises PlanError."""
    return _parts(document.read_text(path, "prompt"), document.shown(path)).front


_prompts: dict[tuple[str, ...], Prompt] = {}  # by text, file, name and values of parameters
_PARAMETER = re.compile(r"\{\$([^{}]*)\}")
_MOST_PROMPTS = 512


def read_prompt(path: Path, params: Mapping[str, Any] | None = None) -> Prompt:
    """A prompt file. Raises PlanError with all its problems."""
    text, file, values = document.read_text(path, "prompt"), document.shown(path), params or {}
    names = _PARAMETER.findall(text)
    key = (text, file, path.stem, *(repr(values[n]) if n in values else "" for n in names))
    prompt = _prompts.get(key)
    if prompt is None:
        prompt = _prompt_of(_parts(text, file), path.stem, values)
        prompt = replace(prompt, digest=sha256(text.encode()).hexdigest())
        if len(_prompts) >= _MOST_PROMPTS:
            _prompts.clear()
        _prompts[key] = prompt
    return prompt


def _prompt_of(parts: _Parts, name: str, params: Mapping[str, Any]) -> Prompt:
    problems = list(parts.problems)
    front = _front(parts.front, problems)
    sections: dict[str, Template] = {}
    for section, (text, line) in parts.sections.items():
        try:
            sections[section] = _template(section, text, params)
        except Fault as fault:
            before = text[: _offset(text, fault)]
            column = len(before) - before.rfind("\n")
            position = Position(parts.front.file, line + before.count("\n"), column)
            problems.append(Problem(fault.what, None, position, fault.there, fault.hint))
    if "item" not in parts.sections:
        where = Position(parts.front.file, 1, 1)
        hint = "write # item, and under it the text about a row"
        problems.append(Problem("a prompt needs a section # item", position=where, hint=hint))
    if problems:
        raise PlanError(*problems)
    return Prompt(
        name,
        *front,
        rules=sections.get("rules", Template()).render({}).strip(),
        examples=sections.get("examples", Template()).render({}),
        context=sections.get("context", Template()),
        item=sections["item"],
        other=sections.get("other", Template()),
        reflexion=sections.get("reflexion", Template()).render({}),
        file=parts.front.file,
    )


@dataclass(frozen=True)
class _Parts:
    """The parts of a prompt file: front matter, and each section's text with its first line number."""

    front: document.Document
    sections: dict[str, tuple[str, int]]
    problems: list[Problem]


@lru_cache(maxsize=256)
def _parts(text: str, file: str) -> _Parts:
    lines = text.split("\n")
    front, start = document.Document(file, {}), 0
    if lines[0].strip() == "---":
        end = next((i for i, line in enumerate(lines[1:], 1) if line.strip() == "---"), None)
        if end is None:
            hint = "front matter is between two lines of ---"
            raise PlanError("the front matter has no end", position=Position(file, 1, 1), hint=hint)
        matter = "\n".join(lines[1:end])
        front = document.parse(matter, file, "front matter", 2) if matter.strip() else front
        start = end + 1
    problems: list[Problem] = []
    found = _sections(lines, start, problems, file)
    return _Parts(front, {name: (body, line) for name, body, line in found}, problems)


def _sections(
    lines: list[str], start: int, problems: list[Problem], file: str
) -> Iterator[tuple[str, str, int]]:
    heads = [
        (i, match["name"]) for i in range(start, len(lines)) if (match := _HEADING.match(lines[i]))
    ]

    def refuse(line: int, what: str, there: str | None = None, hint: str | None = None) -> None:
        problems.append(Problem(what, None, Position(file, line, 1), there, hint))

    starts = [i for i, _ in heads]
    before = lines[start : starts[0] if starts else len(lines)]
    if any(line.strip() for line in before):
        refuse(start + 1, "text before the first section", hint="start with # rules or # item")
    seen: set[str] = set()
    for (i, name), end in zip(heads, [*starts[1:], len(lines)][: len(heads)], strict=True):
        if name not in SECTIONS:
            there = "sections: " + ", ".join(SECTIONS)
            hint = did_you_mean(name, SECTIONS) or "a heading inside a section has two #"
            refuse(i + 1, f'a prompt has no section "{name}"', there, hint)
        elif name in seen:
            refuse(i + 1, f'the section "{name}" is repeated')
        else:
            seen.add(name)
            first = next((n for n in range(i + 1, len(lines)) if lines[n]), len(lines))
            yield name, "\n".join(lines[i + 1 : end]).strip("\n"), first + 1


def _template(name: str, text: str, params: Mapping[str, Any]) -> Template:
    template = Template.parse(text, params)
    if name in _STATIC and template.fields:
        field = template.fields[0]
        hint = f"put {{{field}}} into context or item; {{{{ is a brace"
        raise Fault(f'"{name}" is the same for every row, and names {{{field}}}', hint=hint)
    return template


def _offset(text: str, fault: Fault) -> int:
    """Where a fault of a section is: the placeholder that it names, otherwise a single brace."""
    named = re.search(r"\{[^{}\"]+\}|\$[A-Za-z_]\w*", fault.what)
    at = text.find(named[0]) if named else -1
    lone = next((m.start() for m in _LONE_BRACE.finditer(text) if m[1]), 0)
    return lone if at < 0 else at


def _front(
    front: document.Document, problems: list[Problem]
) -> tuple[Answers, Described, str, int]:
    try:
        values, faults = kinds.read_keys(front.data, "the front matter", FRONT)
    except Fault as fault:
        problems.append(front.problem(fault))
        return (), (), "default", 1024
    answers: Answers = ()
    described: Described = ()
    types = values.get("returns", {})
    with faults.at("returns"):
        answers, described, _ = _answers(types, values.get("describe"))
    refused = types.keys() - dict(answers).keys()
    known = list(_paths(answers))
    texts = front.data.get("describe") if isinstance(front.data, Mapping) else None
    faults += [
        document.unknown(name, known, "no answer", "answers", "describe", name)
        for name in (texts if isinstance(texts, Mapping) else ())
        if name not in known and name.split(".", maxsplit=1)[0] not in refused
    ]
    problems += [front.problem(part) for fault in faults for part in each(fault)]
    return answers, described, values.get("role", "default"), values.get("max_tokens", 1024)


def _answers(types: Mapping[str, Any], describe: Mapping[str, str] | None = None) -> limits.Answers:
    return limits.typed_answers(kinds.each_value(types, _keys_of), describe)


def _keys_of(name: str, value: Any) -> Mapping[str, Any]:
    if limits.is_part(name):
        return kinds.all_keys(value, "a part of an answer", {**ANSWER_PART, **_OF_PYTHON})
    if not NAME.match(name):
        raise Fault(f'"{name}" is no name', hint=document.NAME_HINT)
    if not isinstance(value, Mapping):
        if not isinstance(value, str):
            words = isinstance(value, (list, tuple, set, frozenset))
            enum_hint = 'one of a few words is enum<a, b>, in Python Literal["a", "b"]'
            raise document.wrong("a type such as string", value, enum_hint if words else None)
        return {"type": parse_answer_type(value)}
    keys = kinds.all_keys(value, "an answer", {**ANSWER, **_OF_PYTHON})
    return {**keys, "type": parse_answer_type(keys["type"])}


def _paths(answers: Answers, prefix: str = "") -> Iterator[str]:
    for name, kind in answers:
        yield prefix + name
        inner = kind
        while inner.item is not None:
            inner = inner.item
        yield from _paths(inner.fields, f"{prefix}{name}.")


def answer_types(returns: Any) -> Any:
    """The types in `returns` of a plan, by name, and further keys of their parts by path. A class
    becomes its fields; a single type becomes the type of `answer`. Raises Fault.

    >>> answer_types({"topic": str, "tone": Literal["calm", "cross"], "at": "timestamp null"})
    {'topic': 'string', 'tone': 'enum<calm, cross>', 'at': 'timestamp null'}
    >>> answer_types(bool | None)
    {'answer': 'boolean null'}
    """
    if returns is None or isinstance(returns, str):
        return returns
    if isinstance(returns, type) and needs_pydantic(returns):
        return answers_of(returns, "answer" if is_root_model(returns) else "")
    fields = get_type_hints(returns) if is_typed_dict(returns) else {"answer": returns}
    entries: dict[str, Any] = {}
    for name, value in (returns if isinstance(returns, Mapping) else fields).items():
        entries |= _entries(name, value)
    return entries


def _entries(name: str, value: Any) -> dict[str, Any]:
    """An answer of a type; a type that is already in the notation of plans is unchanged."""
    if value is None or isinstance(value, (str, Mapping, int, float, list, tuple, set, frozenset)):
        return {name: value}
    with faults_at(name):
        return answers_of(value, name) if needs_pydantic(value) else {name: _text(value)}


def _text(kind: Any) -> str:
    origin, parts = get_origin(kind), get_args(kind)
    if origin is dict and parts not in ((), (str, Any)):
        hint = "dict[str, Any] for any JSON, or a list of a model with two fields"
        raise Fault(f"{kind} is no type of an answer: no type names its keys", hint=hint)
    if (kind.__hash__ is not None and kind in PYTHON_TYPES) or origin is dict:
        return PYTHON_TYPES[origin or kind]
    if origin in (Union, types.UnionType) and type(None) in parts and len(parts) == 2:
        return f"{_text(next(part for part in parts if part is not type(None)))} null"
    if origin is list:
        return f"list<{_text(parts[0])}>"
    if origin is Literal:
        return _enum(parts)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return _enum(tuple(member.value for member in kind))
    if is_typed_dict(kind):
        parts = tuple(f"{name}: {_text(part)}" for name, part in get_type_hints(kind).items())
        return f"struct<{', '.join(parts)}>"
    what = f"{getattr(kind, '__name__', kind)} is no type of an answer"
    known = "str, int, float, bool, datetime, date, list[T], Literal, T | None, a model"
    raise Fault(what, there=f"types: {known}")


def _enum(values: tuple[Any, ...]) -> str:
    if not all(isinstance(value, str) for value in values):
        raise Fault(f"{values} are no values of an enum", hint="give texts")
    return str(Type("enum", values=values))
