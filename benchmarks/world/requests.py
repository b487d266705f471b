"""The parts of a request: its form, the prompt of the plans, and its records, parsed from its text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
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
        words = tuple(text.strip() for text in asked)
        chat = Question(
            "", "row", False, {1: {}}, schema=schema, asked=words, said=user, rules=rules
        )
        # the texts of rows are arbitrary, the rules are the plan's own
        numbered = _NUMBERED in static
        if numbered and "matches" in schema:
            return self._block(chat, schema["matches"]["items"]["properties"])
        if numbered and "answers" in schema:
            return self._records(chat, schema["answers"]["items"]["properties"])
        if "match" in schema:
            return self._pair(chat)
        if numbered:
            return self._group(chat)
        again = _GIVEN.search(user) if "the answer given" in system[len(static) :] else None
        if again is None:
            return self._row(chat)
        found = self._row(replace(chat, said=user[: again.start()]))
        return replace(found, given=json.loads(again["given"]))

    def _row(self, chat: Question) -> Question:
        row = replace(chat, skill=_skill(chat.schema))
        for prompt in self._of(chat.schema):
            found = invert(_whole(prompt), chat.said)
            if found is not None and _told_apart(prompt, chat.rules):
                return replace(row, shipped=True, lefts={1: found})
        return row

    def _of(self, schema: Mapping[str, Any]) -> Iterator[Prompt]:
        """The prompts whose answers have these names."""
        return (prompt for prompt in self._prompts if _names(prompt) == list(schema))

    def _records(self, chat: Question, entry: Mapping[str, Any]) -> Question:
        own = {name: kind for name, kind in entry.items() if not _numbers(name, "id")}
        said, _, listed = chat.said.rpartition("Records:\n")
        records = {int(m["number"]): json.loads(m["record"]) for m in _LINE.finditer(listed)}
        shipped = any(_has(records, p.item.fields) for p in self._of(own))
        found = replace(chat, skill=_skill(own), form="records", schema=own)
        return replace(found, shipped=shipped, lefts=records, said=said)

    def _pair(self, chat: Question) -> Question:
        own = {name: kind for name, kind in chat.schema.items() if name != "match"}
        pair = replace(chat, skill=_skill(own), form="pair", pairs=((1, 2),), schema=own)
        left, _, right = chat.said.removeprefix(_LEFT).partition(_RIGHT)
        for prompt in self._of(own):
            mine, other = invert(prompt.item, left), invert(prompt.other, right)
            if mine is not None and other is not None and prompt.other:
                return replace(pair, shipped=True, lefts={1: mine}, rights={2: other})
        sides = {"left": left, "right": right} if right else {}
        return replace(pair, lefts={1: sides}, rights={2: {}})

    def _block(self, chat: Question, entry: Mapping[str, Any]) -> Question:
        own = {name: kind for name, kind in entry.items() if not _numbers(name, "left", "right")}
        said, _, rest = chat.said.partition("Left records:\n")
        mine, _, other = rest.partition("\n\nRight records:\n")
        lines = [m for m in _LINE.finditer(mine) if m["with"]]
        lefts = {int(m["number"]): json.loads(m["record"]) for m in lines}
        rights = {int(m["number"]): json.loads(m["record"]) for m in _LINE.finditer(other)}
        pairs: list[tuple[int, int]] = []
        for line in lines:
            near = rights if line["with"] == "all" else map(int, line["with"].split(","))
            pairs += [(int(line["number"]), n) for n in near if n in rights]
        if not pairs:
            raise NotUnderstood(f"no pairs in: {chat.said[:200]}")
        shipped = any(
            _has(lefts, p.item.fields) and _has(rights, p.other.fields) and bool(p.other)
            for p in self._of(own)
        )
        found = replace(chat, skill=_skill(own), form="block", schema=own, said=said)
        return replace(found, shipped=shipped, lefts=lefts, rights=rights, pairs=tuple(pairs))

    def _group(self, chat: Question) -> Question:
        said, _, listed = chat.said.rpartition("Records:\n")
        lines = list(_LINE.finditer(listed))
        records = {int(m["number"]): json.loads(m["record"]) for m in lines}
        parts = frozenset(int(m["number"]) for m in lines if m["part"])
        form: Form = "window" if list(chat.schema) == ["ranking"] else "group"
        found = replace(
            chat, skill=_skill(chat.schema), form=form, lefts=records, parts=parts, said=said
        )
        for prompt in self._of(chat.schema):
            if prompt.rules.strip() and chat.rules.startswith(prompt.rules.strip()):
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
    said = "when the text was said" if path.stem == "read_episode" else "when it was said"
    language = "the language of the text"
    return read_prompt(path, {"instructions": "", "undated": said, "language": language})


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
