"""Nodes, rows and simulated answers for the checks of implementations, and functions that run an
implementation over them.

Left rows have the columns `name`, `at`, `kind` and `reference`, right rows of a join `name` and
`weight`.

The simulated model, `Oracle`, answers from the text of the request alone: it reads the instructions
and the question in the system message, and the rows in the user message. It replaces `<field>` in
the question by the record's value, so a row gets the same answer alone and in a block. An invalid
request gets a wrong answer or none.
"""

from __future__ import annotations

import asyncio
import json
import math
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa

from semgraph.errors import RowError
from semgraph.expr.functions import canonical_json
from semgraph.expr.types import TIMESTAMP, Type, parse_type
from semgraph.llm.base import LLM, Embeddings, Free, Limits, Reply, Request, Usage
from semgraph.logical.prompt import Prompt, PromptSet, Template
from semgraph.logical.relational import Input
from semgraph.logical.semantic import SemAgg, SemFilter, SemJoin, SemMap, SemTopk
from semgraph.meter import StepMetrics
from semgraph.relational.batch import dense
from semgraph.semantic.context import Context
from semgraph.semantic.contract import Item, Outcome, Rows, answer_fields
from semgraph.semantic.implementation import Implementation, Watched, check_answer
from semgraph.semantic.library import Library

_TEXT: Any = pa.string()
LEFT: Any = pa.schema({"name": _TEXT, "at": TIMESTAMP, "kind": _TEXT, "reference": _TEXT})
RIGHT: Any = pa.schema({"name": _TEXT, "weight": pa.float64()})
K = 2
LIBRARY = Library()
MAP_RETURNS = [
    ("code", "string"),
    ("size", "int64"),
    ("weight", "double null"),
    ("seen", "timestamp null"),
    ("length", "enum<short, long>"),
    ("parts", "list<struct<word: string, on: date null, good: boolean>>"),
]
CONTEXT = "Context: {reference}"


def prompt(name: str, item: str, returns: Sequence[tuple[str, str]] = (), **more: Any) -> Prompt:
    """A prompt from its sections."""
    sections: dict[str, Any] = {
        key: Template.parse(more.pop(key)) for key in ("context", "other") if key in more
    }
    kinds = tuple((answer, parse_type(kind)) for answer, kind in returns)
    more = {"rules": "Be exact.", **sections, **more}
    return Prompt(name, kinds, item=Template.parse(item), **more)


def prompts(*args: Any, by: bool = False, **more: Any) -> PromptSet:
    """One prompt; or two different ones, selected by the column `kind`."""
    one = prompt("one", *args, **more)
    if not by:
        return PromptSet((("", one),))
    return PromptSet((("a", one),), "kind", prompt("two", *args, rules="Be kind.", **more))


def formed_prompts() -> PromptSet:
    """Two prompts with different answer schemas, selected by the column `kind`."""
    held = ({"size": "int64", "at": "timestamp null"}, {"words": "list<string>"})
    forms = [
        Type("json", fields=tuple((name, parse_type(kind)) for name, kind in fields.items()))
        for fields in held
    ]
    item = Template.parse("Form “{name}” as {kind}.")
    one, two = (
        Prompt(f"form{i}", (("held", form),), rules="Be exact.", item=item)
        for i, form in enumerate(forms)
    )
    return PromptSet((("a", one),), "kind", two)


def node(operator: str, **flags: Any) -> Any:
    """A node of an operator, with the flags of `Case`."""
    return Case(operator, [], **flags).node()


def hashed(text: str) -> int:
    """A number that depends only on the text."""
    return zlib.crc32(text.encode())


def _describe(text: str) -> dict[str, Any]:
    name, _, at = text.removeprefix("Describe “").removesuffix(".").rpartition("” of ")
    number = hashed(name)
    return {
        "code": f"{number:x}",
        "size": len(name),
        "weight": None if number % 3 == 0 else number / 7,
        "seen": at or None,
        "length": "short" if len(name) < 5 else "long",
        "parts": [
            {"word": w, "on": "2024-02-29" if hashed(w) % 2 else None, "good": True}
            for w in name.split()
        ],
    }


def _form(text: str) -> dict[str, Any]:
    name, _, kind = text.removeprefix("Form “").removesuffix(".").rpartition("” as ")
    held = {"size": len(name), "at": "2024-05-01"} if kind == "a" else {"words": name.split()}
    return {"held": held}


def names(left: str, right: str) -> tuple[str, str]:
    """The names of both rows in the question of a join."""
    if not right:
        left, right = left.removeprefix("Are “").removesuffix("” alike?").split("” and “", 1)
    else:
        left, right = left.removeprefix("Left:"), right.removeprefix("Right:").rpartition(" ")[0]
    return left.strip(), right.strip()


def _pair(left: str, right: str) -> dict[str, Any] | None:
    a, b = names(left, right)
    if a[:1].casefold() != b[:1].casefold():
        return None
    note = None if hashed(a) % 2 else a + "|" + b
    return {"verdict": "same" if a == b else "alike", "note": note}


def _combine(texts: list[str], earlier: list[dict[str, Any]]) -> dict[str, Any]:
    words = {word for text in texts for word in text.split()}
    words.update(word for part in earlier for word in part["words"])
    return {"words": sorted(words), "rows": len(texts) + sum(part["rows"] for part in earlier)}


def mind(operator: str) -> Mind:
    """The answers of the model to the rows of these cases: pseudo-random, seeded by the text."""
    answers: dict[str, Callable[[str], dict[str, Any]]] = {
        "sem_map": lambda text: (_form if text.startswith("Form “") else _describe)(text),
        "sem_filter": lambda text: {"answer": "no" if hashed(text) % 2 else "yes"},
    }
    return Mind(
        answer=answers.get(operator, lambda text: {}),  # noqa: ARG005
        match=_pair,
        combine=_combine,
        score=lambda text: hashed(text) % 10001 / 100,
    )


@dataclass
class Case:
    """Rows of a check: for each left row its name, partition, prompt, reference (the context) and
    group. `again`: the answers were refused; that of item (or group) 3 because of `wrong-3-`.
    """

    operator: str
    texts: list[str | None]
    partition: list[str] = field(default_factory=list)
    kind: list[str] = field(default_factory=list)
    reference: list[str] = field(default_factory=list)
    group: list[int] = field(default_factory=list)
    others: list[str | None] = field(default_factory=list)
    pairs: list[tuple[int, int]] | None = None
    by: bool = False  # two prompts, selected by the column `kind`
    context: bool = False  # the prompt has a context, the column `reference`
    both: bool = False  # the join's question names both rows; otherwise it has two sections
    answers: bool = True  # the join returns answers in addition to the match
    forms: bool = False  # the map's json answer has a schema, selected by the column `kind`
    again: bool = False

    def node(self) -> Any:
        """The node."""
        source = Input(name="rows", columns=LEFT, step="rows")
        more: dict[str, Any] = {"context": CONTEXT} if self.context else {}
        shared: dict[str, Any] = {"input": source, "step": "asked"}
        if self.operator == "sem_map" and self.forms:
            return SemMap(prompt=formed_prompts(), **shared)
        if self.operator == "sem_map":
            asked = prompts("Describe “{name}” of {at}.", MAP_RETURNS, by=self.by, **more)
            return SemMap(prompt=asked, **shared)
        if self.operator == "sem_filter":
            return SemFilter(prompt=prompts("Is “{name}” good?", by=self.by, **more), **shared)
        if self.operator == "sem_agg":
            returns = [("words", "list<string>"), ("rows", "int64")]
            asked = prompts("{name}", returns, by=self.by, **more)
            return SemAgg(prompt=asked, by=("kind",), **shared)
        if self.operator == "sem_topk":
            asked = prompts("How loud is “{name}”?", by=self.by, **more)
            return SemTopk(prompt=asked, k=K, by=("kind",), **shared)
        question = "Are “{name}” and “{c.name}” alike?" if self.both else "Left: {name}"
        more |= {} if self.both else {"other": "Right: {name} {weight}"}
        returns = [("verdict", "enum<same, alike>"), ("note", "string null")] * self.answers
        other = Input(name="others", columns=RIGHT, step="others")
        asked = prompts(question, returns, by=self.by, **more)
        return SemJoin(prompt=asked, other=other, alias="c", **shared)

    def rows(self) -> Rows:
        """The rows passed to an implementation."""
        n = len(self.texts)
        kinds = self.kind or ["a"] * n
        start = datetime(2024, 5, 1, tzinfo=UTC)
        at = [
            None if t is None or len(t) % 4 == 0 else start + timedelta(days=len(t), microseconds=5)
            for t in self.texts
        ]
        own = self.reference or ["r"] * n
        columns = {"name": self.texts, "at": at, "kind": kinds, "reference": own}
        left, right = pa.table(columns, schema=LEFT), None
        if self.operator == "sem_join":
            weights = [None if t is None else len(t) / 2 for t in self.others]
            right = pa.table({"name": self.others, "weight": weights}, schema=RIGHT)
        partitions = self.partition or ["p"] * n
        prompts = [int((self.by or self.forms) and kind != "a") for kind in kinds]
        rows, node = Rows(left, right, self._items(n), partitions, prompts), self.node()
        wrong = {i: f"wrong-{i}-" for i in range(len(rows.units(node)))}
        return rows.again(node, wrong) if self.again else rows

    def _items(self, n: int) -> list[Item]:
        if self.operator == "sem_join":
            every = product(range(n), range(len(self.others)))
            return [Item(*pair) for pair in (every if self.pairs is None else self.pairs)]
        if self.operator in {"sem_agg", "sem_topk"}:
            groups, _ = dense(self.group or [0] * n)
            order = sorted(range(n), key=groups.__getitem__)
            return [Item(i, group=groups[i]) for i in order]
        return [Item(i) for i in range(n)]


def some(operator: str, n: int = 9, **more: Any) -> Case:
    """Some simple rows, in groups of up to six."""
    texts: list[str | None] = [f"{'abc'[i % 3]}{i} word{i % 4}" for i in range(n)]
    more.setdefault("group", [i // 6 for i in range(n)])
    return Case(operator, texts, others=[f"{c}9" for c in "abcd"], **more)


async def run(
    case: Case,
    implementation: Implementation[Any],
    llm: LLM | None = None,
    metrics: StepMetrics | None = None,
    instead: Any = None,
) -> list[Outcome]:
    """The checked answers of an implementation; `instead` replaces the case's node."""
    llm = llm if llm is not None else Oracle(mind(case.operator))
    instead, rows = instead or case.node(), case.rows()
    async with Context(llm, Grams(), instead, metrics or StepMetrics()) as ctx:
        call = implementation.answer(instead, rows, ctx)
        found = await Watched(call, implementation, instead.step).ended()
    return check_answer(instead, rows, found, implementation)


def usable(operator: str, implementation: Implementation[Any]) -> str | None:
    """The reason why an implementation cannot run these cases (such as a missing package), or None."""
    return implementation.refusal(node(operator), Limits())


def answers(case: Case, outcomes: Sequence[Outcome]) -> list[dict[str, Any]]:
    """Answers without the calls and scores of verdicts."""
    names = [field.name for field in answer_fields(case.node())]
    return [
        {"item": item, "error": outcome.error}
        | {name: (outcome.values or {}).get(name) for name in names}
        for item, outcome in enumerate(outcomes)
    ]


_LINE = re.compile(r"(\d+)\. (part )?(\{.*\})(?: compare with: (.*))?\Z")
_FIELD = re.compile(r"<([A-Za-z_][A-Za-z0-9_.]*)>")
_LEADS = (
    "The question for each record",
    "The question for each pair",
    "The question,",
    "What they are to fit,",
)
_SIDES = ("About a left record", "About a right record")
_EARLIER = "\n\nThe answer given:\n"
_PACKED = frozenset({"answers", "matches", "ranking"})


_REPEATED = re.compile(r"\n\nYour last answers? w(?:as|ere) not valid: ")


def nothing_missed(text: str, answer: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:  # noqa: ARG001
    """A review without corrections: no item is added to lists, and all other values are correct."""
    return {name: [] if isinstance(value, list) else value for name, value in answer.items()}


@dataclass
class Mind:
    """The answers of a simulated model. Each function takes text and returns an answer."""

    # to a question about one row, without the number
    answer: Callable[[str], dict[str, Any]] = lambda _: {}
    # the answers if a pair's two texts match (for questions about both: text and "")
    match: Callable[[str, str], dict[str, Any] | None] = lambda *_: None
    # for the questions of a group's rows and the earlier answers among them
    combine: Callable[[list[str], list[dict[str, Any]]], dict[str, Any]] = lambda *_: {}
    score: Callable[[str], float] = lambda _: 0.0
    # from the question, the correct answer and the earlier one
    review: Callable[[str, dict[str, Any], dict[str, Any]], dict[str, Any]] = nothing_missed


class _Simulated(Free):
    """A simulated model or embedder, which costs nothing."""

    def count_tokens(self, text: str) -> int:
        """Count one token per four bytes."""
        return -(-len(text.encode()) // 4)


@dataclass
class Oracle(_Simulated):
    """A simulated `LLM`. Records its requests, the number of too long ones, and the concurrency."""

    mind: Mind
    limits: Limits = field(default_factory=Limits)
    name: str = "oracle"
    exact_tokens: bool = True
    requests: list[Request] = field(default_factory=list)
    rejected: int = 0
    running: int = 0
    most_running: int = 0

    async def complete(self, request: Request) -> Reply:
        """Answer a request; reject a too long request, truncate a too long answer."""
        self.requests.append(request)
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        try:
            await asyncio.sleep(0)
            prompt = sum(self.count_tokens(message.content) for message in request.messages)
            if prompt + request.max_tokens > self.limits.context_tokens:
                self.rejected += 1
                what = f"{prompt} + {request.max_tokens} tokens are too many"
                raise RowError("rejected", what, attempts=1)
            if request.words:
                return self._worded(request, prompt)
            text = json.dumps(think(self.mind, request))
            usage = Usage(prompt, 0, self.count_tokens(text))
            if usage.completion > request.max_tokens:
                cut = text[: request.max_tokens * 4]
                return Reply(cut, usage, call_id=call_id(request), dollars=0.001, finish="length")
            return Reply(text, usage, call_id=call_id(request), dollars=0.001)
        finally:
            self.running -= 1

    def _worded(self, request: Request, prompt: int) -> Reply:
        """One word, and the log-probability of each."""
        logprobs = word_chances(self.mind, request)
        word = request.words[logprobs.index(max(logprobs))]
        usage, finish = Usage(prompt, 0, 1), "length"
        return Reply(
            word, usage, call_id=call_id(request), dollars=0.001, finish=finish, logprobs=logprobs
        )


def call_id(request: Request) -> str:
    """The id of the call that answers a request."""
    owner = zlib.crc32(request.partition.encode("utf-8", "surrogatepass"))
    return f"call-{request.fingerprint[:12]}" + (f"-{owner:x}" if request.partition else "")


def think(mind: Mind, request: Request) -> dict[str, Any]:
    """The answer to a request, by its schema."""
    system, user = parts(request)
    keys = list(json.loads(request.schema)["properties"])
    template, listed = question(system), lines(user)
    asked = [(n, filled(template, record)) for n, record, part, _ in listed if not part]
    if keys == ["answers"]:
        return {"answers": [{"id": n, **one(mind, request, text)} for n, text in asked]}
    if keys == ["ranking"]:
        scored = sorted(((mind.score(text), -n) for n, text in asked), reverse=True)
        return {"ranking": [-n for _, n in scored]}
    if keys == ["matches"]:
        return {"matches": list(matching(mind, system, user))}
    if "match" in keys:
        found = mind.match(*sides(user))
        return {"match": found is not None} | {key: (found or {}).get(key) for key in keys[1:]}
    if listed:
        earlier = [record for _, record, part, _ in listed if part]
        return mind.combine([text for _, text in asked], earlier)
    text, separator, answer = user.partition(_EARLIER)
    given = json.loads(answer) if separator else None
    own = one(mind, request, user) if given is None else mind.answer(text)
    return own if given is None else mind.review(text, own, given)


def word_chances(mind: Mind, request: Request) -> tuple[float, ...]:
    """The log-probabilities of the possible one-word answers.

    The confidence of yes and no depends only on the question; the expected digit is the score.
    """
    _, user = parts(request)
    text = user.removeprefix("Be exact.\n\n").removeprefix("Be kind.\n\n")
    if text.startswith("Context:"):
        text = text.split("\n\n", 1)[1]
    if request.words[0] == "0":
        digit = mind.score(text) / 100 * 9
        share = {math.floor(digit): 1 - digit % 1, math.floor(digit) + 1: digit % 1}
        return tuple(math.log(max(share.get(n, 0.0), 1e-9)) for n in range(10))
    if text.startswith(("Left record:", "Are “")):
        yes = mind.match(*sides(text)) is not None
    else:
        yes = mind.answer(text)["answer"] == "yes"
    sure = 0.6 + zlib.crc32(text.encode("utf-8", "surrogatepass")) % 1000 / 2600
    chances = math.log(sure), math.log(1 - sure)
    return chances if yes else chances[::-1]


def one(mind: Mind, request: Request, text: str) -> dict[str, Any]:
    """The answer to the question about one row; a score if requested."""
    return {"score": mind.score(text)} if '"score"' in request.schema else mind.answer(text)


def parts(request: Request) -> tuple[str, str]:
    """The system message, and the user message without its context, which begins with "Context:"."""
    system, user = request.messages[0].content, request.messages[-1].content
    if user.startswith("Context:"):
        user = user.split("\n\n", 1)[1]
    return system, _REPEATED.split(user, maxsplit=1)[0]


def question(system: str, leads: tuple[str, ...] = _LEADS) -> str:
    """The question in the system message; "" if it has only the record's values."""
    for paragraph in system.split("\n\n"):
        head, _, rest = paragraph.partition("\n")
        if head.startswith(leads):
            return rest
    return ""


def filled(template: str, record: dict[str, Any]) -> str:
    """A question with a record's values filled in."""
    if not template:
        return " ".join(map(as_text, record.values())).strip()
    return _FIELD.sub(lambda m: as_text(record[m[1]]) if m[1] in record else m[0], template).strip()


def as_text(value: Any) -> str:
    """A value of a record as text."""
    if value is None:
        return ""
    return value if isinstance(value, str) else canonical_json(value)


def lines(user: str) -> list[tuple[int, dict[str, Any], bool, str]]:
    """The numbered records of a user message, if any: number, record, whether it is an earlier
    answer, and the right records to compare with.
    """
    head, _, rest = user.partition("\n")
    if head not in {"Records:", "Left records:", "Right records:"}:
        return []
    matches = [_LINE.match(line) for line in rest.split("\n")]
    return [(int(m[1]), json.loads(m[3]), bool(m[2]), m[4] or "") for m in matches if m is not None]


def sides(user: str) -> tuple[str, str]:
    """The two texts of a pair; for a question about both, its text and ""."""
    if not user.startswith("Left record:\n"):
        return user, ""
    left, right = user.removeprefix("Left record:\n").split("\n\nRight record:\n")
    return left, right


def matching(mind: Mind, system: str, user: str) -> Iterator[dict[str, Any]]:
    """The matching candidate pairs of a block."""
    left_text, _, right_text = user.partition("\n\nRight records:\n")
    rights = {n: record for n, record, *_ in lines("Right records:\n" + right_text)}
    both, own, other = question(system), question(system, _SIDES[:1]), question(system, _SIDES[1:])
    for n, left, _, candidates in lines(left_text):
        for m in rights if candidates == "all" else map(int, candidates.split(", ")):
            texts = filled(own, left), filled(other, rights[m])
            answers = mind.match(*((filled(both, left | rights[m]), "") if both else texts))
            if answers is not None:
                yield {"left": n, "right": m, **answers}


@dataclass
class Faulty:
    """A model that corrupts the replies of an inner one: `spoil` gets request and reply, and may
    raise.
    """

    inner: Oracle
    spoil: Callable[[Request, Reply], Reply]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    async def complete(self, request: Request) -> Reply:
        """The spoiled reply."""
        return self.spoil(request, await self.inner.complete(request))


def edited(reply: Reply, change: Callable[[Any], Any]) -> Reply:
    """A reply with changed JSON."""
    return replace(reply, text=json.dumps(change(json.loads(reply.text))))


def is_packed(request: Request) -> bool:
    """Whether a request has several records with separate answers."""
    return bool(request.schema) and next(iter(json.loads(request.schema)["properties"])) in _PACKED


class Grams(_Simulated):
    """An `Embedder` by common 3-grams: unit vectors of shape (texts, 256). It rejects POISON."""

    name = "grams"
    size = 256

    async def dimensions(self) -> int:
        """256."""
        return self.size

    async def embed(self, texts: Sequence[str], partition: str = "") -> Embeddings:  # noqa: ARG002
        """Count the 3-grams of each text, by their hashes."""
        counts = np.zeros((len(texts), self.size), np.float32)
        for row, text in enumerate(texts):
            padded = f"  {text.lower()}  ".encode("utf-8", "surrogatepass")
            for i in range(len(padded) - 2):
                counts[row, zlib.crc32(padded[i : i + 3]) % self.size] += 1
        failed = {i: RowError("rejected", "no poison") for i, t in enumerate(texts) if POISON in t}
        counts[list(failed)] = np.nan
        vectors = counts / np.linalg.norm(counts, axis=1, keepdims=True)
        return Embeddings(vectors, calls=1, attempts=1, failed=failed)


POISON = "poison"
Entries = list[Any]


def packed(change: Callable[[Entries], None]) -> Callable[[Request, Reply], Reply]:
    """A fault that changes the list of each answer about several records."""

    def spoil(request: Request, reply: Reply) -> Reply:
        def edit(document: dict[str, Any]) -> dict[str, Any]:
            inner = next(iter(document.values()))
            if inner:
                change(inner)
            return document

        return edited(reply, edit) if is_packed(request) else reply

    return spoil


def _number(entry: dict[str, Any]) -> str:
    return "id" if "id" in entry else "left"


def drop(entries: Entries) -> None:
    """An answer is missing."""
    if isinstance(entries[0], int) or "id" in entries[0]:  # a missing pair is a valid answer
        del entries[:1]


def add_unknown(entries: Entries) -> None:
    """A number that is not in the request."""
    entries.append(99 if isinstance(entries[0], int) else {**entries[0], _number(entries[0]): 99})


def repeat(entries: Entries) -> None:
    """A number twice."""
    entries.append(entries[0])


def shift(entries: Entries) -> None:
    """Numbers from a wrong origin: from 0, or for the right side of pairs from 1."""
    for i, entry in enumerate(entries):
        if isinstance(entry, int):
            entries[i] = entry - 1
        elif "id" in entry:
            entry["id"] -= 1
        else:
            entry["right"] -= 100


WRONG_NUMBERS = (drop, add_unknown, repeat, shift)


@dataclass
class Remembering(Oracle):
    """An oracle with a journal: a repeated request is free. While `poisoned` it rejects POISON."""

    poisoned: bool = False
    paid: int = 0
    refused: int = 0

    def __post_init__(self) -> None:
        self._journal: dict[str, Reply] = {}

    async def complete(self, request: Request) -> Reply:
        """Answer from the journal, reject the request, or answer and count it as paid."""
        recorded = self._journal.get(request.fingerprint)
        if recorded is not None:
            return recorded
        if self.poisoned and any(POISON in message.content for message in request.messages):
            self.refused += 1
            raise RowError("rejected", "no poison", attempts=1)
        self.paid += 1
        result = self._journal[request.fingerprint] = await super().complete(request)
        return result


@dataclass
class Hanging(Oracle):
    """An oracle that never answers; `begun` is set by the first request."""

    begun: asyncio.Event | None = None

    async def complete(self, request: Request) -> Reply:  # noqa: ARG002
        """Wait forever."""
        self.running += 1
        try:
            if self.begun is not None:
                self.begun.set()
            await asyncio.Event().wait()
            raise AssertionError
        finally:
            self.running -= 1
