"""A simulated model that answers from the text of the request alone.

It reads the instructions and the question in the system message, and the rows in the user message.
It replaces `<field>` in the question by the record's value, so that a row gets the same answer alone
and in a block. A wrong request gets a wrong answer or none.
"""

from __future__ import annotations

import asyncio
import json
import math
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from semgraph.errors import RowError
from semgraph.expr.functions import canonical_json
from semgraph.llm.base import Embeddings, Limits, Reply, Request, Usage

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
    """A review without corrections: nothing is added to lists, and all other values are correct."""
    return {name: [] if isinstance(value, list) else value for name, value in answer.items()}


@dataclass
class Mind:
    """The answers of a simulated model. Each function takes text and returns an answer.

    Args:
        answer: The answer to a question about one row, without the number.
        match: The answers for a pair's two texts if they match (for questions about both: text and
            ""), else None.
        combine: The answer for the questions of a group's rows and the earlier answers among them.
        score: The score of the row of a question.
        review: The review of an answer, from the question, the correct answer, and the earlier one.
    """

    answer: Callable[[str], dict[str, Any]] = lambda text: {}  # noqa: ARG005
    match: Callable[[str, str], dict[str, Any] | None] = lambda left, right: None  # noqa: ARG005
    combine: Callable[[list[str], list[dict[str, Any]]], dict[str, Any]] = lambda texts, parts: {}  # noqa: ARG005
    score: Callable[[str], float] = lambda text: 0.0  # noqa: ARG005
    review: Callable[[str, dict[str, Any], dict[str, Any]], dict[str, Any]] = nothing_missed


@dataclass
class Oracle:
    """A simulated `LLM`. Records its requests, how many were too long, and how many ran at once."""

    mind: Mind
    limits: Limits = field(default_factory=Limits)
    name: str = "oracle"
    exact_tokens: bool = True
    requests: list[Request] = field(default_factory=list)
    rejected: int = 0
    running: int = 0
    most_running: int = 0

    def count_tokens(self, text: str) -> int:
        """Count one token for every four bytes."""
        return -(-len(text.encode()) // 4)

    def dollars(self, usage: Usage) -> float | None:  # noqa: ARG002
        """Zero: a simulated model costs nothing."""
        return 0.0

    async def complete(self, request: Request) -> Reply:
        """Answer a request; reject one that is too long, truncate an answer that is."""
        self.requests.append(request)
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        try:
            await asyncio.sleep(0)
            prompt = sum(self.count_tokens(message.content) for message in request.messages)
            if prompt + request.max_tokens > self.limits.context_tokens:
                self.rejected += 1
                raise RowError(
                    "rejected", f"{prompt} + {request.max_tokens} tokens are too many", attempts=1
                )
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

    async def aclose(self) -> None:
        """Nothing to release."""


def call_id(request: Request) -> str:
    """The id of the call that answers a request."""
    owner = zlib.crc32(request.partition.encode("utf-8", "surrogatepass"))
    return f"call-{request.fingerprint[:12]}" + (f"-{owner:x}" if request.partition else "")


def think(mind: Mind, request: Request) -> dict[str, Any]:
    """The answer to a request, by its schema."""
    system, user = parts(request)
    keys = list(json.loads(request.schema)["properties"])
    if keys == ["answers"]:
        template = question(system)
        return {
            "answers": [
                {"id": n, **one(mind, request, filled(template, r))} for n, r, *_ in lines(user)
            ]
        }
    if keys == ["ranking"]:
        template = question(system)
        scored = [(mind.score(filled(template, record)), -n) for n, record, *_ in lines(user)]
        return {"ranking": [-n for _, n in sorted(scored, reverse=True)]}
    if keys == ["matches"]:
        return {"matches": list(matching(mind, system, user))}
    if "match" in keys:
        left, right = sides(user)
        result = mind.match(left, right)
        return {"match": result is not None} | {key: (result or {}).get(key) for key in keys[1:]}
    if lines(user):
        template = question(system)
        every = lines(user)
        earlier = [record for _, record, part, _ in every if part]
        return mind.combine(
            [filled(template, record) for _, record, part, _ in every if not part], earlier
        )
    question_text, separator, answer = user.partition(_EARLIER)
    return (
        mind.review(question_text, mind.answer(question_text), json.loads(answer))
        if separator
        else one(mind, request, user)
    )


def word_chances(mind: Mind, request: Request) -> tuple[float, ...]:
    """The log-probabilities of the possible one-word answers.

    The confidence of yes and no depends on the question alone; the expected digit is the score.
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
    """The answer to the question about one row; a score if one is requested."""
    return {"score": mind.score(text)} if '"score"' in request.schema else mind.answer(text)


def parts(request: Request) -> tuple[str, str]:
    """System message, and user message without its context, which begins with "Context:"."""
    system, user = request.messages[0].content, request.messages[-1].content
    if user.startswith("Context:"):
        user = user.split("\n\n", 1)[1]
    return system, _REPEATED.split(user, maxsplit=1)[0]


def question(system: str, leads: tuple[str, ...] = _LEADS) -> str:
    """The question in the system message; "" if it has no words besides the record's values."""
    for paragraph in system.split("\n\n"):
        head, _, rest = paragraph.partition("\n")
        if head.startswith(leads):
            return rest
    return ""


def filled(template: str, record: dict[str, Any]) -> str:
    """A question with a record's values in place."""
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
    answer, and the right records to compare it with.
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
            texts = (
                (filled(both, left | rights[m]), "")
                if both
                else (filled(own, left), filled(other, rights[m]))
            )
            answers = mind.match(*texts)
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


class Grams:
    """An `Embedder` by common 3-grams: unit vectors of shape (texts, 256). It rejects POISON."""

    name = "grams"
    size = 256

    async def dimensions(self) -> int:
        """256."""
        return self.size

    def count_tokens(self, text: str) -> int:
        """Count one token for every four bytes."""
        return -(-len(text.encode()) // 4)

    def dollars(self, usage: Usage) -> float | None:  # noqa: ARG002
        """Zero: it costs nothing."""
        return 0.0

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

    async def aclose(self) -> None:
        """Nothing to release."""


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
        """Wait for ever."""
        self.running += 1
        try:
            if self.begun is not None:
                self.begun.set()
            await asyncio.Event().wait()
            raise AssertionError
        finally:
            self.running -= 1
