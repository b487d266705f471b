"""`--llm dummy`: answers that fit their JSON Schema and mean nothing, to try a plan for nothing."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from semgraph.llm.base import Embeddings, Free, Limits, Reply, Request, Usage
from semgraph.llm.tokens import CountsTokens, TokenCounter

_DIMENSIONS = 16
_FIXED = {"date-time": "2025-01-01T00:00:00Z", "date": "2025-01-01"}  # by the format of a text
# The limits of an answer's parts by path, as `logical/limits.py` words them.
_PART = re.compile(r"^([\w.\[\]]+): (.*)$", re.MULTILINE)
_LIMIT = re.compile(r"(from|to|at least|at most|more than|less than|a multiple of) (-?\d[-+.e\d]*)")
_NAMES = {"from": "at least", "to": "at most"}
_RECORD = re.compile(r"^(\d+)\. (.*?)(?: compare with: ([\d, ]+|all))?$", re.MULTILINE)


class Dummy(CountsTokens, Free):
    """Answers by the schema of a request: texts are "dummy", other values and vectors depend on the
    question alone. Each of several numbered records (`prompt/items.py`) has an answer.
    """

    name = "dummy"
    limits = Limits(logprobs=True)
    _counter = TokenCounter("dummy")

    async def complete(self, request: Request) -> Reply:
        """An answer; never an error."""
        text, logprobs = "dummy", tuple[float, ...]()
        *rules, last = (message.content for message in request.messages)
        before = "\n".join((str(request.seed), *rules))
        if request.words:
            sizes = [1 + _hash(word + before + last) % 99 for word in request.words]
            text = request.words[sizes.index(max(sizes))]
            logprobs = tuple(math.log(each / sum(sizes)) for each in sizes)
        elif request.schema:
            schema = json.loads(request.schema)
            tells = dict(_PART.findall(before))
            answer = _packed(schema, before, last, tells) or _value(schema, before + last, tells)
            text = json.dumps(answer, ensure_ascii=False)
        usage = Usage(self.count_tokens(before + last), completion=self.count_tokens(text))
        call, model = request.fingerprint[:32], "dummy: made-up answers"
        return Reply(text, usage, call_id=call, model=model, dollars=0.0, logprobs=logprobs)

    async def dimensions(self) -> int:
        """Length of the vectors."""
        return _DIMENSIONS

    async def embed(self, texts: Sequence[str], partition: str = "") -> Embeddings:  # noqa: ARG002
        """A vector for each text; never an error."""
        made = [np.random.default_rng(_hash(text)).standard_normal(_DIMENSIONS) for text in texts]
        usage = Usage(prompt=sum(map(self.count_tokens, texts)))
        return Embeddings(np.array(made, np.float32), usage, calls=1, attempts=1)


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:6])


def _value(schema: dict[str, Any], asked: str, tells: Mapping[str, str], path: str = "") -> Any:
    """A value of a schema, within the limits that the request `tells` by path. `asked` is the
    question, with the path of the value.
    """
    kind, found = schema.get("type"), _LIMIT.findall(tells.get(path, ""))
    limits = {_NAMES.get(word, word): float(number) for word, number in found}
    if "anyOf" in schema:
        return _value(schema["anyOf"][0], asked, tells, path)
    if "enum" in schema:
        return schema["enum"][_hash(asked) % len(schema["enum"])]
    if kind == "object":
        at, parts = path.rstrip("[]") + "." * bool(path), schema["properties"].items()
        return {n: _value(part, f"{asked}/{n}", tells, at + n) for n, part in parts}
    if kind in ("integer", "number", "boolean"):
        number = _number(limits, _hash(asked), whole=kind == "integer")
        return number if kind != "boolean" else _hash(asked) % 2 == 1
    least, most = limits.get("at least", 0), limits.get("at most", math.inf)
    size = int(min(max(1 if kind == "array" else len("dummy"), least), most))
    if kind == "array":
        each = (f"{asked}/{i}" if i else asked for i in range(size))
        return [_value(schema["items"], question, tells, f"{path}[]") for question in each]
    return _FIXED.get(schema.get("format", ""), ("dummy" * (1 + size // 5))[:size])


def _number(limits: Mapping[str, float], chosen: int, *, whole: bool) -> float:
    """A number from 0 to 10, or one of the first eleven within the limits."""
    most = limits.get("at most", limits.get("less than", math.inf))
    low = limits.get("at least", limits.get("more than", 0.0 if most > 0 else most - 12))
    step = limits.get("a multiple of", 1 if whole else min(1.0, (most - low) / 12 or 1))
    first = math.ceil(low / step) + ("more than" in limits and low % step == 0)
    last = math.floor(min(most / step, first + 10))
    last -= "less than" in limits and last * step == most
    found = (first + chosen % (1 + max(0, last - first))) * step
    return int(found) if whole else round(found, 9)


def _packed(
    schema: dict[str, Any], rules: str, text: str, tells: Mapping[str, str]
) -> dict[str, Any] | None:
    """The answers about numbered records; None if the schema has another form."""
    name, *others = schema["properties"]
    entry = {} if others else schema["properties"][name].get("items", {})
    numbers = [n for n, p in entry.get("properties", {}).items() if p.get("type") == "integer"]
    records = {int(n): (rules + record, pairs) for n, record, pairs in _RECORD.findall(text)}
    if name == "ranking" and not others:
        return {name: sorted(records, key=lambda n: _hash(records[n][0]))}
    if name == "answers" and numbers:
        found = (({numbers[0]: n}, asked) for n, (asked, _) in records.items())
        return {name: [_value(entry, asked, tells) | own for own, asked in found]}
    if name == "matches" and numbers[1:]:
        pairs = (pair for pair in _pairs(records) if _hash(pair[2]) % 2)
        made = ((_value(entry, p[2], tells), zip(numbers, p, strict=False)) for p in pairs)
        return {name: [value | dict(own) for value, own in made]}
    return None


def _pairs(records: dict[int, tuple[str, str]]) -> Iterator[tuple[int, int, str]]:
    """The numbers and the text of the pairs of a block."""
    every = [n for n, (_, compared) in records.items() if not compared]
    for left, (asked, compared) in records.items():
        named = map(int, compared.split(", ")) if compared not in ("", "all") else every
        yield from ((left, n, asked + records[n][0]) for n in (named if compared else ()))
