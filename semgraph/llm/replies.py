"""Replies of OpenAI-compatible endpoints as typed values, and JSON inside other text.

Every member is typed here. A member with a type outside the protocol counts as absent. A reply
without an answer is an `UnreadableReply`.
"""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import inf
from typing import Any, NamedTuple

import numpy as np

from semgraph.errors import EngineError, RowError
from semgraph.llm.base import Embeddings, Reply, Request, Usage, Vectors, Wrapper, cut

_MOST_TOKENS = 10**9  # of one reply; a larger number is invalid
_LENGTHS = ("max_tokens", "model_length", "model_context_window_exceeded")
_ENDS = ("tool_calls", "tool_use", "end_turn", "stop_sequence", "eos")
_FINISHES = dict.fromkeys(_LENGTHS, "length") | dict.fromkeys(_ENDS, "stop")
_BROKEN = ("error", "aborted", "insufficient_system_resource")
_LEAST_LOGPROB = -9999.0


class UnreadableReply(Exception):
    """A reply without an answer. `foreign`: it belongs to another protocol, such as an HTML page."""

    def __init__(self, what: str, *, foreign: bool = False) -> None:
        self.foreign = foreign
        super().__init__(what)


class Counts(NamedTuple):
    """The tokens of a reply; None if the endpoint reports no number."""

    prompt: int | None
    cached: int
    completion: int | None


class Completion(NamedTuple):
    """A chat completion; missing texts are empty."""

    text: str
    reasoning: str
    finish: str
    refusal: str
    model: str
    counts: Counts
    tokens: list[tuple[str, float]]


def mapping(value: Any) -> Mapping[str, Any]:
    """A value, if it is an object, else an empty one."""
    return value if isinstance(value, Mapping) else {}


def sequence(value: Any) -> Sequence[Any]:
    """A value, if it is a list, else an empty one."""
    return value if isinstance(value, list) else []


def first_of(value: Any) -> Mapping[str, Any]:
    """The first item of a list, if it is an object, else an empty one."""
    return mapping(next(iter(sequence(value)), None))


def text_of(value: Any) -> str:
    """A value, if it is a text, with replacement characters for lone surrogates; else ""."""
    if not isinstance(value, str) or value.isascii():
        return value if isinstance(value, str) else ""
    return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def number(value: Any) -> float | None:
    """A value, if it is a finite number, else None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if abs(value) < 1e300 else None


def count(value: Any) -> int | None:
    """A value as a count of tokens, else None.

    >>> count(12), count(12.0), count(-1), count("12"), count(True), count(1.5)
    (12, 12, None, None, None, None)
    """
    found = number(value)
    whole = found is not None and 0 <= found <= _MOST_TOKENS and found == int(found)
    return int(found) if whole and found is not None else None


def document(content: bytes) -> dict[str, Any]:
    """The JSON object of a reply. Raises UnreadableReply."""
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        start = content.strip()[:1]
        what = "the reply is no JSON" if start else "the reply is empty"
        raise UnreadableReply(what, foreign=start not in (b"", b"{", b"[")) from None
    if not isinstance(value, dict):
        raise UnreadableReply("the reply is no JSON object", foreign=value is not None)
    return value


def error_in(reply: Mapping[str, Any]) -> Any:
    """The error that a reply with status 200 reports, as some gateways do."""
    return reply.get("error") or first_of(reply.get("choices")).get("error")


def finish_of(value: Any) -> str:
    """The end of an answer, as `Reply` has it. Raises UnreadableReply if the endpoint failed."""
    finish = text_of(value).lower() or "stop"
    if finish in _BROKEN:
        raise UnreadableReply(f"the endpoint did not end the answer ({finish})")
    return _FINISHES.get(finish, finish)


def completion(reply: Mapping[str, Any], *, called: bool = False) -> Completion:
    """A chat completion. With `called`, its text is the arguments of a function call. Raises
    UnreadableReply.
    """
    choice = first_of(reply.get("choices"))
    message = choice.get("message")
    if not isinstance(message, Mapping):
        known = "choices" in reply or reply.get("object") == "chat.completion"
        raise UnreadableReply("the reply has no choice with a message", foreign=not known)
    text, thoughts = content_of(message.get("content"))
    reasons = (message.get("reasoning_content"), message.get("reasoning"), thoughts)
    return Completion(
        text=(_arguments(message) if called else None) or text,
        reasoning=next(filter(None, map(text_of, reasons)), ""),
        finish=finish_of(choice.get("finish_reason")),
        refusal=text_of(message.get("refusal")),
        model=text_of(reply.get("model")),
        counts=counts(reply),
        tokens=first_tokens(choice.get("logprobs")),
    )


def counts(reply: Mapping[str, Any]) -> Counts:
    """The tokens that a reply reports. Of some services `total_tokens` alone has the reasoning."""
    usage = mapping(reply.get("usage"))
    prompt, answer = count(usage.get("prompt_tokens")), count(usage.get("completion_tokens"))
    total = count(usage.get("total_tokens"))
    if prompt is not None and answer is not None and total is not None:
        answer = max(answer, total - prompt)
    details = mapping(usage.get("prompt_tokens_details"))
    cached = count(details.get("cached_tokens")) or count(usage.get("prompt_cache_hit_tokens")) or 0
    return Counts(prompt, min(cached, prompt or 0), answer)


def content_of(value: Any) -> tuple[str, str]:
    """The text and the reasoning of a message's content: a text, or parts. Invalid parts are
    skipped. Raises UnreadableReply.
    """
    if value is None or isinstance(value, str):
        return text_of(value), ""
    texts, thoughts = "", ""
    for part in (parts := _parts(value)):
        text = text_of(part.get("text"))
        if part.get("type", "text") in ("text", "output_text"):
            texts += text
        else:
            inner = (text_of(thought.get("text")) for thought in _parts(part.get("thinking")))
            thoughts += text or "".join(inner)
    if parts and not any({"type", "text"} & part.keys() for part in parts):
        raise UnreadableReply("the content of the message is no text")
    return texts, thoughts


def _parts(value: Any) -> list[Mapping[str, Any]]:
    """The parts of a content, as a list."""
    parts = value if isinstance(value, list) else [value]
    return [{"text": part} if isinstance(part, str) else mapping(part) for part in parts]


def _arguments(message: Mapping[str, Any]) -> str:
    """The arguments of the first function call, as JSON; "" if there are none."""
    call = first_of(message.get("tool_calls"))
    arguments = mapping(call.get("function")).get("arguments")
    if isinstance(arguments, Mapping):
        return text_of(json.dumps(arguments, ensure_ascii=False))
    return text_of(arguments)


def first_tokens(logprobs: Any) -> list[tuple[str, float]]:
    """The first tokens in a choice's `logprobs`, as in OpenAI's protocol; empty without any."""
    first = first_of(mapping(logprobs).get("content"))
    tokens = []
    for entry in map(mapping, sequence(first.get("top_logprobs")) or [first]):
        token, logprob = entry.get("token"), number(entry.get("logprob"))
        if isinstance(token, str) and logprob is not None:
            tokens.append((token, float(min(max(logprob, _LEAST_LOGPROB), 0.0))))
    return tokens


def vectors(reply: Mapping[str, Any], texts: int) -> list[Vectors]:
    """The vectors of an embedding reply, in text order; a missing one is empty. Raises
    UnreadableReply.
    """
    if "data" not in reply:
        raise UnreadableReply("the reply has no embeddings", foreign=reply.get("object") != "list")
    data = [mapping(item) for item in sequence(reply["data"])]
    if len(data) != texts:
        raise UnreadableReply(f"requested {texts} vectors, got {len(data)}")
    places = [item.get("index") for item in data]
    if any(place is not None for place in places):
        if {place for place in places if type(place) is int} != set(range(texts)):
            raise UnreadableReply("the indexes of the vectors are not those of the texts")
        data.sort(key=lambda item: int(item["index"]))
    found = [_vector(item.get("embedding")) for item in data]
    if not any(map(len, found)):
        raise UnreadableReply("a vector is no list of numbers")
    return found


def _vector(embedding: Any) -> Vectors:
    """One vector: base64 of little-endian float32, or a list of numbers from endpoints without
    base64. NaN replaces an invalid number.
    """
    try:
        if isinstance(embedding, str):
            vector = np.frombuffer(base64.b64decode(embedding, validate=True), dtype="<f4")
        else:
            numbers = [number(value) for value in sequence(embedding)]
            vector = np.asarray([math.nan if value is None else value for value in numbers])
        with np.errstate(over="ignore"):
            return vector.astype(np.float32, copy=False)
    except ValueError:
        return np.empty(0, np.float32)


# Some chat templates write the opening tag into the prompt.
_THOUGHT = re.compile(r"(?:<think(?:ing)?>|(?![{\[`])).*?</think(?:ing)?>\s*", re.DOTALL)
_FENCE = re.compile(r"```[A-Za-z0-9]*\s*(.*)```", re.DOTALL)


def repaired(text: str) -> tuple[str, str]:
    r"""JSON without a surrounding byte order mark, thinking block or code fence, and a description
    of the wrapper; "" if nothing was changed. An ambiguous answer is left unchanged.

    >>> repaired('```json\n{"a": 1}\n```')
    ('{"a": 1}', 'JSON inside a code fence')
    >>> repaired('<think>Paris?</think>\n{"a": 1}')
    ('{"a": 1}', 'JSON after a think block')
    >>> repaired('Here it is: {"a": 1}')
    ('Here it is: {"a": 1}', '')
    """
    inner, what = text.strip(), []
    if inner.startswith("\ufeff"):
        inner, what = inner.lstrip("\ufeff").lstrip(), ["after a byte order mark"]
    if thought := _THOUGHT.match(inner):
        inner, what = inner[thought.end() :], [*what, "after a think block"]
    if fence := _FENCE.fullmatch(inner):
        inner, what = fence[1].strip(), [*what, "inside a code fence"]
    try:
        found = what and isinstance(json.loads(inner), dict | list)
    except (ValueError, RecursionError):
        found = False
    return (inner, f"JSON {' '.join(what)}") if found else (text, "")


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _text(value: Any) -> str | None:
    return text_of(value) if isinstance(value, str) else None


def _count(value: Any) -> int | None:
    return count(_plain(value))


def amount(value: Any) -> float | None:
    """A value as an amount, 0 or more, else None."""
    found = number(_plain(value))
    return float(found) if found is not None and found >= 0 else None


def _usage(value: Any) -> Usage | None:
    if not isinstance(value, Usage):
        return None
    counts = [_count(each) for each in (value.prompt, value.cached, value.completion)]
    return None if None in counts else Usage(*counts)  # type: ignore[arg-type]


def _tuple(value: Any, fits: Callable[[Any], bool]) -> tuple[Any, ...] | None:
    plain = list(map(_plain, value)) if isinstance(value, tuple | list) else [None]
    return tuple(plain) if all(map(fits, plain)) else None


_ANSWER: dict[str, Callable[[Any], Any]] = {"usage": _usage, "attempts": _count}
_ANSWER |= {"seconds": amount, "dollars": amount}
_REPLY = _ANSWER | {
    "text": lambda value: value if isinstance(value, str) else None,
    "call_id": _text, "model": _text, "finish": _text,
    "logprobs": lambda all_: _tuple(all_, lambda p: isinstance(p, int | float) and p <= inf),
}  # fmt: skip
_EMBEDDINGS = _ANSWER | {
    "calls": _count, "replayed": lambda places: _tuple(places, lambda i: isinstance(i, int)),
    "failed": lambda found: dict(found) if isinstance(found, Mapping) and all(
        isinstance(error, RowError) for error in found.values()) else None,
}  # fmt: skip


def _typed(value: Any, types: Mapping[str, Callable[[Any], Any]]) -> tuple[dict[str, Any], str]:
    """The members with the right type, and a description of the others."""
    members, wrong = dict[str, Any](), list[str]()
    for name, typed in types.items():
        own = getattr(value, name)
        if (member := typed(own)) is not None:
            members[name] = member
        elif (name, own) != ("dollars", None):
            wrong.append(f"{name} {own!r:.80}")
    return members, ", ".join(wrong)


def checked_reply(endpoint: Any, request: Request, reply: Any) -> Reply:
    """A reply with the types that `Reply` promises. Raises RowError for a truncated answer, and for
    a member of another type or with an impossible value: the valid ones are counted. Raises
    EngineError for a value that is no `Reply`.
    """
    if not isinstance(reply, Reply):
        raise EngineError(f"{_of(endpoint)}.complete returned {reply!r:.80}, not a Reply")
    members, wrong = _typed(reply, _REPLY)
    found = replace(Reply("") if wrong else reply, **members)
    if wrong:
        what = f"{_of(endpoint)}.complete returned a Reply with {wrong}"
        raise RowError("malformed", what, attempts=found.attempts, spent=found)
    if found.finish == "length" and not request.words:
        raise cut(request, found)
    return found


def checked_error(error: RowError) -> RowError:
    """The error with the member types that `RowError` promises."""
    error.kind, error.attempts = text_of(error.kind) or "malformed", _count(error.attempts) or 0
    spent = error.spent if isinstance(error.spent, Reply) else None
    error.spent = spent and replace(Reply(""), **_typed(spent, _REPLY)[0])
    return error


def checked_embeddings(endpoint: Any, texts: int, done: Any) -> Embeddings:
    """Embeddings with the member types that `Embeddings` promises. If one has another type, all
    texts fail. Raises EngineError if the number of vectors differs from that of the texts.
    """
    try:
        vectors = np.ascontiguousarray(done.vectors, np.float32)
    except (AttributeError, TypeError, ValueError):
        vectors = np.empty(0, np.float32)
    if not isinstance(done, Embeddings) or vectors.ndim != 2 or len(vectors) != texts:
        what = f"{type(done).__name__}, not Embeddings with one vector for each of {texts} texts"
        raise EngineError(f"{_of(endpoint)}.embed returned {what}")
    members, wrong = _typed(done, _EMBEDDINGS)
    if wrong:
        what = f"{_of(endpoint)}.embed returned Embeddings with {wrong}"
        members["failed"] = dict.fromkeys(range(texts), RowError("malformed", what))
    failed = members["failed"]
    members["failed"] = {i: failed[i] for i in range(texts) if i in failed}
    return replace(Embeddings(vectors, dollars=None), **members)


def _of(endpoint: Any) -> str:
    """The name of an endpoint's class."""
    while isinstance(endpoint, Wrapper):
        endpoint = endpoint.inner
    return type(endpoint).__qualname__
