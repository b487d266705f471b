"""The parts of a request: its form, the prompt of the plans, and its records, parsed from its text."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from semgraph.frontend.prompt_files import read_prompt
from semgraph.logical.prompt import Prompt, Template, show

PLANS = Path(__file__).parents[2] / "plans"
_AGAIN = re.compile(r"(?:\n\n|\A)Your last answers? w(?:as|ere) not valid: .*\Z", re.DOTALL)
_LINE = re.compile(
    r"^(?P<number>\d+)\. (?P<part>part )?(?P<record>\{.*?\})(?: compare with: (?P<with>all|[\d, ]+))?$",
    re.MULTILINE,
)
_NUMBERED = "Numbered records follow, each a JSON object on a line of its own."
_ANSWER = "Answer with one JSON object and nothing else"
_STANDS = re.compile(r"^[^\n]*, where <field> stands for [^\n]*:\n", re.MULTILINE)
_GIVEN = re.compile(r"\n\nThe answer given:\n(?P<given>\{[^\n]*\})\Z")
_LEFT, _RIGHT = "Left record:\n", "\n\nRight record:\n"
Form = Literal["row", "records", "pair", "block", "group", "window"]
Record = Mapping[str, Any]


class NotUnderstood(Exception):
    """The request is none that the server knows."""


@dataclass(frozen=True)
class Question:
    """A parsed request.

    Args:
        skill: The names of the answers: `entities`, `since until`, `match`, `ranking`, ...
        form: The form of the request.
        shipped: Whether it is one of the plans' prompts; then `lefts` and `rights` have its fields.
        lefts: The records by number; of a row or pair: number 1.
        rights: The other side's records by number; of a pair: number 2.
        pairs: Numbers of the pairs to answer.
        parts: Of a group: numbers of the records that are earlier answers.
        schema: JSON Schemas of the answers to one item, by name.
        asked: The question in words, with `<field>` in place of values ("" if the words are in
            `said`).
        said: The text before the records, or, of a row or a pair, the whole question.
        rules: The rules for every row.
        given: The earlier answer, in a question about its gaps.
        prompt: Of a group: the name of the plans' prompt, and in `context` the values before its
            records.
    """

    skill: str
    form: Form
    shipped: bool
    lefts: Mapping[int, Record]
    rights: Mapping[int, Record] = field(default_factory=dict)
    pairs: tuple[tuple[int, int], ...] = ()
    parts: frozenset[int] = frozenset()
    schema: Mapping[str, Any] = field(default_factory=dict)
    asked: tuple[str, ...] = ()
    said: str = ""
    rules: str = ""
    given: Record | None = None
    prompt: str = ""
    context: Record = field(default_factory=dict)

    @property
    def size(self) -> int:
        """How many items share the request: rows or pairs."""
        return max(1, len(self.pairs) or len(self.lefts))

    def words(self, *records: Record) -> str:
        """The question about a record, or a pair of them, with the values in place."""
        values = {name: value for record in records for name, value in record.items()}
        if not any(self.asked):
            return "\n".join(map(show, values.values()))
        texts = [
            re.sub(r"<([\w.]+)>", lambda m: show(values.get(m[1], m[0])), text)
            for text in self.asked
        ]
        return "\n".join(texts)


class Reader:
    """A parser of requests. It knows the prompts of a folder of plans and of the folders in it, and
    takes all others as questions in words.
    """

    def __init__(self, folder: Path = PLANS) -> None:
        paths = sorted(folder.glob("**/prompts/*.md"))
        self._prompts = sorted(
            (_read(path, path.stat().st_mtime_ns) for path in paths), key=_fixed, reverse=True
        )  # a row of a few fixed words could be a row of any prompt

    def read(self, body: Mapping[str, Any]) -> Question:
        """The question of a chat request. Raises NotUnderstood."""
        try:
            schema = body["response_format"]["json_schema"]["schema"]["properties"]
            system, user = "", body["messages"][-1]["content"]
            if len(body["messages"]) > 1:
                system = body["messages"][0]["content"]
        except (KeyError, IndexError, TypeError):
            raise NotUnderstood(
                "a chat needs messages and a response_format with a JSON Schema of an object"
            ) from None
        user = _AGAIN.sub("", user)
        static, marked, _ = system.rpartition(_ANSWER)
        static = static if marked else system
        rules, *asked = _STANDS.split(static)
        asked = [text.strip() for text in asked]
        numbered = (
            _NUMBERED in static
        )  # the texts of rows are arbitrary, the rules are the plan's own
        if numbered and "matches" in schema:
            return self._block(schema["matches"]["items"]["properties"], user, tuple(asked), rules)
        if numbered and "answers" in schema:
            return self._records(
                schema["answers"]["items"]["properties"], user, tuple(asked), rules
            )
        if "match" in schema:
            return self._pair(schema, user, rules)
        if numbered:
            form: Form = "window" if list(schema) == ["ranking"] else "group"
            return self._group(form, schema, user, tuple(asked), rules)
        again = _GIVEN.search(user) if "the answer given" in system[len(static) :] else None
        found = self._row(schema, user[: again.start()] if again else user, rules)
        return replace(found, given=json.loads(again["given"])) if again else found

    def _row(self, schema: Mapping[str, Any], text: str, rules: str) -> Question:
        for prompt in self._prompts:
            if (
                _names(prompt) == list(schema)
                and (found := invert(_whole(prompt), text)) is not None
                and _told_apart(prompt, rules)
            ):
                return Question(
                    _skill(schema), "row", True, {1: found}, schema=schema, said=text, rules=rules
                )
        return Question(
            _skill(schema), "row", False, {1: {}}, schema=schema, said=text, rules=rules
        )

    def _records(
        self, entry: Mapping[str, Any], text: str, asked: tuple[str, ...], rules: str
    ) -> Question:
        own = {name: kind for name, kind in entry.items() if not _numbers(name, "id")}
        said, _, listed = text.rpartition("Records:\n")
        records = {int(m["number"]): json.loads(m["record"]) for m in _LINE.finditer(listed)}
        shipped = any(
            _names(p) == list(own) and _has(records, p.item.fields) for p in self._prompts
        )
        return Question(
            _skill(own),
            "records",
            shipped,
            records,
            schema=own,
            asked=asked,
            said=said,
            rules=rules,
        )

    def _pair(self, schema: Mapping[str, Any], text: str, rules: str) -> Question:
        own = {name: kind for name, kind in schema.items() if name != "match"}
        left, _, right = text.removeprefix(_LEFT).partition(_RIGHT)
        for prompt in self._prompts:
            mine, other = invert(prompt.item, left), invert(prompt.other, right)
            if (
                mine is not None
                and other is not None
                and prompt.other
                and _names(prompt) == list(own)
            ):
                return Question(
                    _skill(own), "pair", True, {1: mine}, {2: other}, ((1, 2),), schema=own
                )
        lefts = {1: {"left": left, "right": right} if right else {}}
        return Question(
            _skill(own),
            "pair",
            False,
            lefts,
            {2: {}},
            ((1, 2),),
            schema=own,
            said=text,
            rules=rules,
        )

    def _block(
        self, entry: Mapping[str, Any], text: str, asked: tuple[str, ...], rules: str
    ) -> Question:
        own = {name: kind for name, kind in entry.items() if not _numbers(name, "left", "right")}
        said, _, rest = text.partition("Left records:\n")
        mine, _, other = rest.partition("\n\nRight records:\n")
        lines = [m for m in _LINE.finditer(mine) if m["with"]]
        lefts = {int(m["number"]): json.loads(m["record"]) for m in lines}
        rights = {int(m["number"]): json.loads(m["record"]) for m in _LINE.finditer(other)}
        pairs = []
        for line in lines:
            near = (
                list(rights) if line["with"] == "all" else [int(n) for n in line["with"].split(",")]
            )
            pairs += [(int(line["number"]), n) for n in near if n in rights]
        if not pairs:
            raise NotUnderstood(f"no pairs in: {text[:200]}")
        shipped = any(
            _names(p) == list(own)
            and _has(lefts, p.item.fields)
            and _has(rights, p.other.fields)
            and bool(p.other)
            for p in self._prompts
        )
        return Question(
            _skill(own),
            "block",
            shipped,
            lefts,
            rights,
            tuple(pairs),
            frozenset(),
            own,
            asked,
            said,
            rules,
        )

    def _group(
        self, form: Form, schema: Mapping[str, Any], text: str, asked: tuple[str, ...], rules: str
    ) -> Question:
        said, _, listed = text.rpartition("Records:\n")
        lines = list(_LINE.finditer(listed))
        records = {int(m["number"]): json.loads(m["record"]) for m in lines}
        parts = frozenset(int(m["number"]) for m in lines if m["part"])
        found = Question(
            _skill(schema), form, False, records, {}, (), parts, schema, asked, said, rules
        )
        for prompt in self._prompts:
            if (
                _names(prompt) == list(schema)
                and prompt.rules.strip()
                and rules.startswith(prompt.rules.strip())
            ):
                context = invert(prompt.context, said.strip()) if prompt.context else {}
                return replace(found, shipped=True, prompt=prompt.name, context=context or {})
        return found


def invert(template: Template, text: str) -> Record | None:
    """The values of a template that render to a text; None if none do."""
    pattern = "".join(
        _loosely(literal) + (f"(?P<f{i}>.*?)" if name else "")
        for i, (literal, name) in enumerate(template.parts)
    )
    match = re.fullmatch(pattern, text, re.DOTALL)
    if match is None:
        return None
    return {name: match[f"f{i}"].strip() for i, (_, name) in enumerate(template.parts) if name}


def _loosely(literal: str) -> str:
    """A pattern of some text in which blanks may be missing: empty values and trimming take them
    away.
    """
    return r"\s*".join(re.escape(part) for part in re.split(r"\s+", literal))


def _skill(names: Mapping[str, Any]) -> str:
    return " ".join(names) or "match"


def _whole(prompt: Prompt) -> Template:
    """The whole question about a row: the text before it, and the row."""
    return (
        Template((*prompt.context.parts, ("\n\n", ""), *prompt.item.parts))
        if prompt.context
        else prompt.item
    )


@lru_cache(1000)
def _read(path: Path, changed: int) -> Prompt:
    """A prompt, read once for all simulated models of a process, as long as its file is the same."""
    del changed
    return read_prompt(path, {"instructions": ""})


def _told_apart(prompt: Prompt, rules: str) -> bool:
    """Whether a question that fits a prompt is that prompt's: its words say so or, where it has
    none (`{text}`), its rules.
    """
    words = any(re.search(r"\w", literal) for literal, _ in _whole(prompt).parts)
    return words or rules.startswith(prompt.rules.strip())


def _fixed(prompt: Prompt) -> int:
    return sum(len(literal) for literal, _ in prompt.item.parts)


def _names(prompt: Prompt) -> list[str]:
    return [name for name, _ in prompt.returns]


def _numbers(name: str, *keys: str) -> bool:
    """Whether an answer's key numbers records: `id`, or with underscores after it where that name
    is taken.
    """
    return name.rstrip("_") in keys


def _has(records: Mapping[int, Record], fields: Sequence[str]) -> bool:
    return all(set(record) == set(fields) for record in records.values())
