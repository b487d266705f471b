"""Answers of a model.

This module holds

- the JSON Schema of answers, their description in a prompt, and a strict reader;
- tables of answers, made from outcomes;
- answer schemas in a column of the rows;
- answers that refer to the records of their row by number;
- the values that the classes of a prompt return, and what they say of an answer that they refuse.

An answer that does not match its schema is `Invalid`, with a reason for the repeated request. A
list element that does not match is dropped, with a note.

Some questions have one-word answers: yes or no, or a digit. Only the first token is read, with the
probability of each word. The user message holds the question, after examples of other questions:
small models are far more accurate after examples than with JSON (`benchmarks/results/real.md`). All
requests share the examples, so that the provider caches them.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import MAXYEAR, MINYEAR, UTC, date, datetime, timedelta
from functools import cached_property
from pathlib import Path
from traceback import extract_tb
from typing import Any, NoReturn

import pyarrow as pa

from semgraph.errors import DataError, Fault, RowError
from semgraph.expr.functions import canonical_json
from semgraph.expr.types import Type, object_schema, parse_type
from semgraph.frontend.classes import class_of
from semgraph.llm.base import Reply
from semgraph.logical import limits
from semgraph.logical.prompt import Prompt, PromptSet, plain
from semgraph.logical.schema import NAME
from semgraph.logical.semantic import Semantic, SemMap
from semgraph.semantic.contract import SCORE, Outcome, Words, answer_fields

SCHEMA_HINT = 'write types by name, such as {"title": {"type": "string", "describe": "a job"}}'
_QUOTED = 120


_ENDS = {"error": pa.string(), "calls": pa.list_(pa.string())}


def answer_table(node: Semantic, outcomes: Sequence[Outcome]) -> pa.Table:
    """Outcomes as a table of values, `error` and `calls`, and the `score` of verdicts if any has
    one.
    """
    rows = [{**(o.values or {}), "error": o.error, "calls": list(o.calls)} for o in outcomes]
    kinds = {field.name: field.type for field in answer_fields(node)} | _ENDS
    if any(SCORE in row for row in rows):
        kinds.setdefault(SCORE, pa.float64())
    columns = {name: [row.get(name) for row in rows] for name in kinds}
    return pa.table({name: pa.array(columns[name], kind) for name, kind in kinds.items()})


def with_row_schemas(
    node: SemMap, forms: Sequence[str | None], prompts: Sequence[int]
) -> tuple[SemMap, list[int]]:
    """The node with one prompt per answer schema of its rows (`forms`, as JSON), and the prompt
    number of each row. Raises DataError if a row has no valid schema.
    """
    numbers: dict[tuple[int, str], int] = {}
    prompts_by_schema: list[Prompt] = []
    rows = []
    for number, text in zip(prompts, forms, strict=True):
        key = (number, text or "")
        if key not in numbers:
            numbers[key] = len(prompts_by_schema)
            try:
                prompts_by_schema.append(_with_answer_schema(node.prompt.all[number], text or ""))
            except Fault as fault:
                quote = "" if text is None else f": {text[:_QUOTED]}"
                what = f"{node.answer_schema} is no schema: {fault.what}{quote}"
                raise DataError(what, hint=fault.hint or SCHEMA_HINT) from None
        rows.append(numbers[key])
    own = PromptSet(tuple(("", prompt) for prompt in prompts_by_schema), node.prompt.on)
    return replace(node, prompt=own), rows


def _with_answer_schema(prompt: Prompt, text: str) -> Prompt:
    schema = parse_answer_schema(text)
    name = next(name for name, kind in prompt.returns if kind.name == "json")
    returns = tuple(
        (n, replace(kind, fields=schema.fields) if n == name else kind)
        for n, kind in prompt.returns
    )
    described = tuple((f"{name}.{path}".rstrip("."), meaning) for path, meaning in schema.describe)
    validators = tuple((name, cls) for _, cls in schema.validators)
    described = (*prompt.describe, *described)
    return replace(prompt, returns=returns, describe=described, validators=validators)


def parse_answer_schema(text: str) -> limits.Answers:
    """The fields of an answer schema in JSON, with their meanings and the class that validates
    them. Raises Fault.
    """
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        raise Fault("invalid JSON") from None
    if not isinstance(data, dict) or not data:
        raise Fault("it names no fields")
    return limits.typed_answers({name: _keys_of_field(name, value) for name, value in data.items()})


def _keys_of_field(name: str, value: Any) -> Mapping[str, Any]:
    part = limits.is_part(name)
    if not part and not NAME.match(name):
        raise Fault(f'"{name}" is no name', hint="letters, digits and _, not starting with a digit")
    keys = value if isinstance(value, Mapping) else {"type": value}
    known = {"describe", "class", *limits.LIMITS, limits.DEFAULT, limits.OPTIONAL} | (
        set() if part else {"type"}
    )
    texts = (keys.get("type", "" if part else None), keys.get("describe", ""))
    if not all(isinstance(each, str) for each in texts) or not keys.keys() <= known:
        raise Fault(f'"{name}" has no type' if not part else f'"{name}" has other keys')
    kind = {} if part else {"type": parse_type(keys["type"])}
    own = {"class": class_of(str(keys["class"]))} if "class" in keys else {}
    return {**keys, **kind, **own}


_DROPPED = object()
# The numbers of a row's records, by the column that holds the records.
Numbers = Mapping[str, frozenset[int]]


class UnknownNumber(Exception):
    """An answer has the number of no record; a second request may correct it."""


def numbers_of_rows(node: Semantic, left: pa.Table) -> list[Numbers]:
    """The numbers of the records of each row; none for operators without refs."""
    columns = node.numbers_of if isinstance(node, SemMap) else ()
    if not columns:
        return []
    listed = {name: left.column(name).to_pylist() for name, _ in columns}
    return [
        {
            name: frozenset(record["number"] for record in rows[i] or ())
            for name, rows in listed.items()
        }
        for i in range(left.num_rows)
    ]


def checked_numbers(
    node: Semantic, values: Mapping[str, Any], known: Numbers, note: Note, *, again: bool
) -> dict[str, Any]:
    """The answers of a row with checked record numbers; answers without numbers are unchanged.

    List entries with an unknown number are dropped where the plan says so, and all of them if no
    second request can correct them (`again` is false). A list holds each number once.

    Raises:
        UnknownNumber: A number is unknown, and a second request may correct it or no entry is left.
        RowError: An unknown number is to be dropped, but it is in no list.
    """
    assert isinstance(node, SemMap)
    again = again or all(unknown == "drop" for _, unknown in node.numbers_of)
    dropping = {name for name, unknown in node.numbers_of if unknown == "drop" or not again}
    checked = dict(values)
    for name, kind in node.answers:
        checked[name] = _checked(kind, values[name], name, known, dropping, note)
    lists = [checked[name] for name, kind in node.answers if kind.item is not None]
    dropped = next((name for name in checked if checked[name] is _DROPPED), None)
    if not again and (dropped or not any(lists)):
        return checked_numbers(node, values, known, note, again=True)
    if dropped:
        raise RowError("unknown", f"{dropped} names a record that is not listed")
    return checked


def _checked(
    kind: Type, value: Any, path: str, known: Numbers, dropping: set[str], note: Note
) -> Any:
    if value is None or kind.name == "json":
        return value
    if kind.ref:
        if value in known[kind.ref]:
            return value
        if kind.ref in dropping:
            return _DROPPED
        raise UnknownNumber(f"{path} has {value}, which is the number of no record")
    if kind.item is not None:
        entries = [_checked(kind.item, entry, path, known, dropping, note) for entry in value]
        kept = [entry for entry in entries if entry is not _DROPPED]
        for _ in entries[len(kept) :]:
            note(LEFT_OUT, f"{path} has the number of no record")
        return list(dict.fromkeys(kept)) if kind.item.ref else kept
    if kind.name != "struct":
        return value
    fields = {
        name: _checked(part, value[name], f"{path}.{name}", known, dropping, note)
        for name, part in kind.fields
    }
    return _DROPPED if _DROPPED in fields.values() else fields


def checked_outcome(node: Semantic, outcome: Outcome, known: Numbers, note: Note) -> Outcome:
    """The outcome of a row without unknown numbers.

    It serves implementations that write their own requests: they send no second request.
    """
    if outcome.values is None or outcome.error:
        return outcome
    try:
        values = checked_numbers(node, outcome.values, known, note, again=False)
        return outcome._replace(values=values)
    except UnknownNumber as error:
        return Outcome(None, f"invalid: {error}", outcome.calls)
    except RowError as error:
        return Outcome(None, f"{error.kind}: {error}", outcome.calls)


def needed_records(node: Semantic) -> tuple[str, ...]:
    """The columns of records to which each answer must refer. A row without such records is not
    sent.
    """
    if not isinstance(node, SemMap):
        return ()
    return tuple(dict.fromkeys(name for _, kind in node.answers for name in _needed_in(kind)))


def _needed_in(kind: Type) -> list[str]:
    if kind.nullable or kind.item is not None or kind.name == "json":
        return []
    if kind.ref:
        return [kind.ref]
    return [name for _, part in kind.fields for name in _needed_in(part)]


_USUAL = re.compile(r"\d{4}-\d\d-\d\d(?:T\d\d:\d\d:\d\dZ)?", re.ASCII)
_YEAR_FIRST = re.compile(r"(\d{4})([/.])(\d\d?)\2(\d\d?)(?!\d)", re.ASCII)
_YEAR = r"(\d{4}|\d{5}(?=-)|[+-]\d{4,6})"
_CALENDAR = re.compile(_YEAR + r"(?:-(\d\d?)(?:-(\d\d?)(?:[T ] *(.+))?)?)?", re.ASCII)
_MIDNIGHT = re.compile(r"^24(:?00){0,2}([.,]0+)?(?![\d:.,])")
_FIRST, _LAST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)


def time_in(text: str, *, utc: bool) -> tuple[datetime, bool]:
    """The time in a text, and whether it was moved into the years 1 to 9999.

    A partial date means its first instant, 24:00 means midnight of the next day, and a time without
    a zone is UTC. The order of day and month is never guessed. `utc` converts to UTC. Raises
    ValueError or OverflowError.
    """
    if _USUAL.fullmatch(text):
        with suppress(ValueError):  # 24:00
            moment = datetime.fromisoformat(text)
            return moment if moment.tzinfo else moment.replace(tzinfo=UTC), False
    text = re.sub(r"\s*(UTC|GMT|Z)$", "Z", _YEAR_FIRST.sub(r"\1-\3-\4", text.strip().upper()))
    years = next_day = 0
    if match := _CALENDAR.fullmatch(text):  # otherwise a week, or a date without separators
        year, month, day, clock = match.groups()
        clock, next_day = _MIDNIGHT.subn("00:00", clock or "00:00")
        near = 2000 + int(year) % 400  # the same calendar, far enough from both limits for offsets
        text, years = f"{near}-{month or 1:0>2}-{day or 1:0>2}T{clock}", int(year) - near
    moment = datetime.fromisoformat(text) + timedelta(days=next_day)
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    moment = moment.astimezone(UTC) if utc else moment
    if MINYEAR <= moment.year + years <= MAXYEAR:
        return moment.replace(year=moment.year + years), False
    return (_FIRST if years < 0 else _LAST), True


_INT64 = 2**63
_ESCAPED_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")
_NOT_JSON = "the answer is not one JSON document"


class Invalid(Exception):
    """An invalid answer. `kind` is `invalid` or `truncated`; the message holds no data of rows."""

    def __init__(self, what: str, kind: str = "invalid") -> None:
        self.kind = kind
        super().__init__(what)


LEFT_OUT = "left out an element of an answer"
Note = Callable[[str, str], object]  # receives what happened, and where; see `Context.note`
_Notes = list[tuple[str, str]]
_SOUND = ("", "")  # a note that a list has a valid element

# A field of the operator itself, in addition to those of its prompt: name, type and meaning.
Own = tuple[str, Type, str]


@dataclass(frozen=True)
class AnswerSchema:
    """The schema of an answer: typed fields of one JSON object in order, and meanings by dotted
    path.
    """

    fields: tuple[tuple[str, Type], ...]
    meanings: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, prompt: Prompt, *before: Own, after: Sequence[Own] = ()) -> AnswerSchema:
        """The fields of a prompt between the operator's own fields."""
        first, last = ([(name, kind) for name, kind, _ in own] for own in (before, after))
        meanings = [(name, text) for name, _, text in (*before, *after) if text]
        return cls((*first, *prompt.returns, *last), (*meanings, *prompt.describe))

    @cached_property
    def schema(self) -> dict[str, Any]:
        """The JSON Schema, without additional properties, with descriptions."""
        meanings = dict(self.meanings)
        whole = " ".join(text for path, text in self.meanings if not path)
        parts = {name: _described(kind, name, meanings) for name, kind in self.fields}
        return object_schema(parts) | ({"description": whole} if whole else {})

    @cached_property
    def sketch(self) -> str:
        """The object in one line: `{"name": string, "at": time or null}`."""
        return "{" + ", ".join(f'"{name}": {_sketch(kind)}' for name, kind in self.fields) + "}"

    @cached_property
    def glossary(self) -> str:
        """The meanings of the fields, one per line."""
        return "\n".join(f"{path}: {text}" if path else text for path, text in self.meanings)

    @cached_property
    def tokens(self) -> int | None:
        """An upper bound of the tokens; None if an answer may have any length."""
        return _tokens(Type("struct", fields=self.fields))

    def read(self, value: Any, note: Note) -> dict[str, Any]:
        """The typed values of an answer. Raises Invalid, also if all its list elements are invalid."""
        notes: _Notes = []
        values = _read_fields(self.fields, value, "", notes)
        for what, where in filter(any, notes):
            if what == LEFT_OUT and _SOUND not in notes:
                raise Invalid(where)
            note(what, where)
        return values


def parse(text: str) -> Any:
    """Parse one JSON document. NaN and objects with duplicate keys match no type. Raises Invalid."""
    try:
        return _DECODER.decode(text)
    except (ValueError, RecursionError):
        raise Invalid(_NOT_JSON) from None


def list_of(text: str, key: str) -> list[Any]:
    """The list in an answer `{key: [...]}`. Raises Invalid."""
    document = parse(text)
    entries = document.get(key) if isinstance(document, dict) and len(document) == 1 else None
    if not isinstance(entries, list):
        raise Invalid(f'expected {{"{key}": [...]}}')
    return entries


def free_name(wanted: str, taken: Iterable[str]) -> str:
    """A key that no answer has: `wanted`, with underscores appended if necessary."""
    names = set(taken)
    while wanted in names:
        wanted += "_"
    return wanted


def number(value: Any) -> int | None:
    """The record number that a value holds, or None."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def read_value(kind: Type, value: Any, path: str, notes: _Notes) -> Any:
    """A JSON value as the Arrow value of a type. Raises Invalid, naming `path`."""
    if value is None:
        if (default := limits.keywords(kind.limits).get(limits.DEFAULT)) is not None:
            return read_value(replace(kind, limits=""), default, path, notes)
        if kind.nullable:
            return None
        raise Invalid(f"{path or 'the answer'} must not be null")
    fits = isinstance(value, _TYPES.get(kind.name, object))
    if (isinstance(value, bool) and kind.name in {"int64", "double"}) or (
        kind.values and value not in kind.values
    ):
        fits = False
    try:
        answer = (_READERS[kind.name] if fits else _unfit)(kind, value, path, notes)
    except (ValueError, OverflowError, TypeError, RecursionError):
        if kind.nullable and kind.name in {"timestamp", "date"}:
            where = f"{path}: {json.dumps(value, default=str)[:40]}"
            notes.append(("read a date of an answer as NULL", where))
            return None
        raise Invalid(f"{path or 'the answer'} must be {_wanted(kind)}") from None
    if not limits.meets(kind, answer):
        own = {**limits.keywords(kind.limits), limits.DEFAULT: None}
        raise Invalid(f"{path or 'the answer'} must be {limits.in_words(own)}")
    return answer


# A value of no type stands for an object with duplicate keys.
_DECODER = json.JSONDecoder(
    object_pairs_hook=lambda pairs: values if len(values := dict(pairs)) == len(pairs) else ...
)


def _read_fields(
    fields: tuple[tuple[str, Type], ...], value: Any, path: str, notes: _Notes
) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise Invalid(f"{path or 'the answer'} must be an object")
    if value.keys() != dict(fields).keys():
        names = ", ".join(name for name, _ in fields)
        raise Invalid(f"{path or 'the answer'} must have exactly the keys {names}")
    prefix = f"{path}." if path else ""
    return {name: read_value(kind, value[name], prefix + name, notes) for name, kind in fields}


def _unfit(*_: object) -> NoReturn:
    raise ValueError


def _string(_: Type, value: str, *__: object) -> str:
    value.replace("\0", "\ud800").encode()  # rejects NUL and lone surrogates
    return value


def _int64(_: Type, value: float, *__: object) -> int:
    if value != int(value) or not -_INT64 <= value < _INT64:
        raise ValueError
    return int(value)


def _double(_: Type, value: float, *__: object) -> float:
    if not math.isfinite(float(value)):
        raise ValueError
    return float(value)


def _time(kind: Type, value: str, path: str, notes: _Notes) -> date:
    moment, moved = time_in(value, utc=kind.name == "timestamp")
    what = "moved a date of an answer into the years 1 to 9999"
    notes += [(what, f"{path}: {value:.40}")] * moved
    return moment if kind.name == "timestamp" else moment.date()


def _json(kind: Type, value: Any, path: str, notes: _Notes) -> str:
    if kind.fields:  # the schema is in a column
        whole = Type("struct", fields=kind.fields)
        return canonical_json(as_json(whole, _read_fields(kind.fields, value, path, notes)))
    json.dumps(value, allow_nan=False)  # 1e999 is read as infinity
    text = canonical_json(value)
    return _string(kind, "\0" if _ESCAPED_NUL.search(text) else text)


def as_json(kind: Type, value: Any) -> Any:
    """A typed value for JSON."""
    if value is None:
        return None
    if kind.name == "json":
        return json.loads(value)
    if kind.item is not None:
        return [as_json(kind.item, entry) for entry in value]
    if kind.fields:
        return {name: as_json(part, value[name]) for name, part in kind.fields}
    return plain(value)


def _list(kind: Type, value: list[Any], path: str, notes: _Notes) -> list[Any]:
    item = kind.item
    assert item is not None
    elements = []
    for i, inner in enumerate(value):
        before = len(notes)
        try:
            elements.append(read_value(item, inner, f"{path}[{i}]", notes))
        except Invalid as error:
            notes[before:] = [(LEFT_OUT, str(error))]
    notes += [_SOUND] * bool(elements)
    return elements


_TYPES: dict[str, type | tuple[type, ...]] = {"boolean": bool, "list": list}
_TYPES |= dict.fromkeys(("int64", "double"), (int, float))
_TYPES |= dict.fromkeys(("string", "enum", "timestamp", "date"), str)
_READERS: dict[str, Callable[[Type, Any, str, _Notes], Any]] = {
    "string": _string, "int64": _int64, "double": _double, "boolean": lambda _, value, *__: value,
    "timestamp": _time, "date": _time, "json": _json, "enum": lambda _, value, *__: value,
    "list": _list, "struct": lambda kind, *given: _read_fields(kind.fields, *given),
}  # fmt: skip

_WORDS = {
    "string": "string", "int64": "integer", "double": "number", "boolean": "true or false",
    "timestamp": '"YYYY-MM-DDThh:mm:ssZ"', "date": '"YYYY-MM-DD"', "json": "any JSON",
}  # fmt: skip

_TOKENS = {"int64": 24, "double": 32, "boolean": 8, "timestamp": 40, "date": 24}


def _tokens(kind: Type) -> int | None:
    if kind.name == "enum":
        return 8 + max(len(value.encode()) for value in kind.values)
    if not kind.fields:
        return _TOKENS.get(kind.name)
    inner = [_tokens(field) for _, field in kind.fields]
    bounded = [tokens for tokens in inner if tokens is not None]
    names = sum(len(name.encode()) + 4 for name, _ in kind.fields)
    return 8 + names + sum(bounded) if len(bounded) == len(inner) else None


def _wanted(kind: Type) -> str:
    rest = " or null" if kind.nullable else ""
    if kind.name in {"list", "struct"}:
        return ("a list" if kind.name == "list" else "an object") + rest
    return {"timestamp": "a time in ISO 8601", "date": "a date in ISO 8601"}.get(
        kind.name, _plain_sketch(kind)
    ) + rest


def _sketch(kind: Type) -> str:
    return _plain_sketch(kind) + (" or null" if kind.nullable else "")


def _plain_sketch(kind: Type) -> str:
    if kind.item is not None:
        return f"[{_sketch(kind.item)}, ...]"
    if kind.fields:
        return "{" + ", ".join(f'"{name}": {_sketch(inner)}' for name, inner in kind.fields) + "}"
    if kind.name == "enum":
        return " or ".join(f'"{value}"' for value in kind.values)
    return _WORDS[kind.name]


def _described(kind: Type, path: str, meanings: Mapping[str, str]) -> dict[str, Any]:
    """The JSON Schema of a type, with the meanings of the type and its fields."""
    schema = (replace(kind, name="struct") if kind.fields else kind).json_schema()
    inner = schema["anyOf"][0] if kind.nullable else schema
    part, entry = kind, path
    while part.item is not None:
        part, inner, entry = part.item, inner["items"], f"{entry}[]"
        if entry in meanings:
            inner["description"] = meanings[entry]
        inner = inner["anyOf"][0] if part.nullable else inner
    for name, field in part.fields:
        inner["properties"][name] = _described(field, f"{path}.{name}", meanings)
    return schema | {"description": meanings[path]} if path in meanings else schema


YES_NO = Words(
    ("yes", "no"),
    "Answer with exactly one word: yes or no.",
    (
        ("Is this about cooking?\nThe train to Vienna was an hour late.", "No"),
        ("The text mentions an animal: Two dogs slept in front of the oven.", "Yes"),
        ("Keep notes written by a teacher.\n\nNote: I drive a taxi, mostly at night.", "No"),
        ("Text: She practises the violin every morning.\n\nDoes she play an instrument?", "Yes"),
    ),
)
DIGITS = Words(
    tuple("0123456789"),
    "Answer with exactly one digit, from 0 (it does not fit at all) to 9 (it fits perfectly).",
)


def words_of(node: Semantic) -> Words:
    """The possible one-word answers of an operator."""
    return DIGITS if node.keyword == "sem_topk" else YES_NO


def by_default(node: Semantic, yes_no: str) -> Words | None:
    """The one-word answers for single rows; None if the answer is JSON, as for a filter with
    answers.

    Answers about pairs are always JSON: the prompts of the shipped plans were written and recorded
    for JSON.
    """
    single = node.keyword == "sem_filter" and not node.answers
    return YES_NO if single and yes_no == "word" else None


# A word that is a complete answer: "No." and "**No**, because …" match, "No idea" does not.
_FIRST_WORD = re.compile(r"""[\s"'*_`(\[]*(\w+)(?!\w|['’/.-]\w|[ \t]+\w)""")


def read_word(node: Semantic, words: Words, reply: Reply, yes_from: float) -> dict[str, Any]:
    """The verdict of a one-word reply, which is yes from the log-odds `yes_from`, and, if
    available, the words' log-probabilities as `logprobs`. Raises Invalid if the reply is none of
    the words.
    """
    found = _FIRST_WORD.match(reply.text)
    matches = [word for word in words.words if found and found[1].lower() == word]
    if reply.logprobs and max(reply.logprobs) > -math.inf:
        matches = [words.words[reply.logprobs.index(max(reply.logprobs))]]
    if not matches:
        raise Invalid(f"the answer must be one of the words {', '.join(words.words)}")
    verdict: dict[str, Any]
    if node.keyword == "sem_topk":
        digit = expected(reply.logprobs) if reply.logprobs else float(matches[0])
        verdict = {"score": digit * 100 / 9}
    else:
        yes = matches[0] == words.words[0]
        if reply.logprobs:
            yes = reply.logprobs[0] - reply.logprobs[1] > yes_from
        verdict = {"keep" if node.keyword == "sem_filter" else "match": yes}
    return verdict | {"logprobs": reply.logprobs}


def expected(logprobs: tuple[float, ...]) -> float:
    """The expected digit, from the log-probabilities of the digits 0 to 9.

    >>> round(expected((-9.0, -0.7, -0.7)), 2)
    1.5
    """
    weights = [math.exp(logprob) for logprob in logprobs]
    return math.fsum(digit * weight for digit, weight in enumerate(weights)) / math.fsum(weights)


def validated(prompt: Prompt, values: Mapping[str, Any]) -> dict[str, Any]:
    """The answers as the classes of a prompt return them. Raises Invalid, with what it says, if a
    class refuses them; Fault if a validator raises another error, or returns what does not fit.
    """
    kinds = {**dict(prompt.returns), "": Type("struct", fields=prompt.returns)}
    for name, cls in prompt.validators:
        value = values[name] if name else {each: values[each] for each, _ in prompt.returns}
        if value is not None:
            answer = _validated(cls, kinds[name], value, name)
            values = {**values, **({name: answer} if name else answer)}
    return dict(values)


def _validated(cls: Any, kind: Type, value: Any, path: str) -> Any:
    from pydantic import ValidationError
    from pydantic_core import PydanticSerializationError

    notes = list[tuple[str, str]]()
    text = canonical_json(limits.without_optional(kind, as_json(kind, value)))
    try:
        made = cls.adapter.validate_json(text, by_alias=False, by_name=True)
    except ValidationError as error:
        faults = error.errors(include_url=False, include_input=False)
        raise Invalid("; ".join(map(_reason, faults))) from None
    except Exception as error:
        _, *frames = extract_tb(error.__traceback__)
        own = [frame for frame in frames if "pydantic" not in Path(frame.filename).parts]
        place = f"{own[0].name} in {own[0].filename}:{own[0].lineno}" if own else "a validator"
        what = f"{cls.name}: {place} raised {type(error).__name__}: {error}"
        raise Fault(what, hint="a validator refuses a value by a ValueError") from error
    try:
        answer = read_value(kind, _of_object(kind, made), path, notes)
    except (Invalid, AttributeError, LookupError, TypeError, PydanticSerializationError) as error:
        notes = [(LEFT_OUT, str(error))]
    if said := [where for what, where in notes if what == LEFT_OUT]:
        hint = "its validators must return values of the types of its fields"
        raise Fault(f"{cls.name} has other values than its types: {said[0]}", hint=hint)
    return answer


def _reason(fault: Mapping[str, Any]) -> str:
    """What a class says of an answer, as a reason for the model."""
    place = "".join(f"[{at}]" if isinstance(at, int) else f".{at}" for at in fault["loc"])
    raised = (fault.get("ctx") or {}).get("error")
    said = str(raised) if isinstance(raised, Exception) else fault["msg"]
    return f"{place.removeprefix('.')}: {said}" if place else said


def _of_object(kind: Type, value: Any) -> Any:
    """An object, or a part of one, as JSON with the fields of a type."""
    from pydantic_core import to_jsonable_python

    if kind.item is not None and isinstance(value, (list, tuple)):
        return [_of_object(kind.item, entry) for entry in value]
    if not kind.fields or value is None:
        return to_jsonable_python(value)
    read = value if isinstance(value, Mapping) else {n: getattr(value, n) for n, _ in kind.fields}
    return {name: _of_object(part, read.get(name)) for name, part in kind.fields}
