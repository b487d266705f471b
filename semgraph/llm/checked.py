"""Answers of models and embedders, checked where they enter the stack: any object can be one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import inf
from typing import Any

import numpy as np

from semgraph.errors import EngineError, RowError
from semgraph.llm.base import Embeddings, Reply, Request, Usage, Wrapper, cut
from semgraph.llm.replies import count, number, text_of


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _text(value: Any) -> str | None:
    return text_of(value) if isinstance(value, str) else None


def _count(value: Any) -> int | None:
    return count(_plain(value))


def _amount(value: Any) -> float | None:
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


_ANSWER: dict[str, Callable[[Any], Any]] = {
    "usage": _usage,
    "attempts": _count,
    "seconds": _amount,
    "dollars": _amount,
}
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
    """The members that have their type, and the others in words."""
    given = {name: getattr(value, name) for name in types}
    typed = {name: types[name](member) for name, member in given.items()}
    members = {name: member for name, member in typed.items() if member is not None}
    wrong = [
        name for name in types if name not in members and (name, given[name]) != ("dollars", None)
    ]
    return members, ", ".join(f"{name} {given[name]!r:.80}" for name in wrong)


def checked_reply(endpoint: Any, request: Request, reply: Any) -> Reply:
    """A reply whose members have the types that `Reply` promises.

    Raises:
        RowError: The answer was cut; or a member has another type or an impossible value: the valid
            ones are counted.
        EngineError: It is no `Reply`.
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
    """The error, with members of the types that `RowError` promises."""
    error.kind, error.attempts = text_of(error.kind) or "malformed", _count(error.attempts) or 0
    spent = error.spent if isinstance(error.spent, Reply) else None
    error.spent = spent and replace(Reply(""), **_typed(spent, _REPLY)[0])
    return error


def checked_embeddings(endpoint: Any, texts: int, done: Any) -> Embeddings:
    """Embeddings whose members have the types that `Embeddings` promises; if one has another type,
    all texts fail. Raises EngineError if there is not one vector for each text.
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
