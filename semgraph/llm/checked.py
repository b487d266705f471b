"""Answers of models and embedders, checked where they enter the stack: any object can be one."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from operator import is_
from typing import Any

import numpy as np

from semgraph.errors import EngineError, RowError
from semgraph.llm.base import Embeddings, Reply, Usage, Wrapper

_NUMBER = (int, float, np.integer, np.floating)


def _text(value: Any) -> str | None:
    if not isinstance(value, str):
        return None
    return value if value.isascii() else value.encode("utf-8", "replace").decode()


def _count(value: Any) -> int | None:
    return int(value) if isinstance(value, int | np.integer) and value >= 0 else None


def _amount(value: Any) -> float | None:
    return float(value) if isinstance(value, _NUMBER) and 0 <= value < math.inf else None


def _usage(value: Any) -> Usage | None:
    if not isinstance(value, Usage):
        return None
    given = [value.prompt, value.cached, value.completion]
    counts = [_count(each) for each in given]
    if None in counts:
        return None
    return value if all(map(is_, counts, given)) else Usage(*counts)  # type: ignore[arg-type]


def _logprobs(value: Any) -> tuple[float, ...] | None:
    numbers = isinstance(value, tuple | list) and all(
        isinstance(p, _NUMBER) and not math.isnan(p) for p in value
    )
    return tuple(map(float, value)) if numbers else None


_TYPES: dict[str, Callable[[Any], Any]] = {
    "text": lambda value: value if isinstance(value, str) else None, "usage": _usage, "seconds": _amount,
    "call_id": _text, "model": _text, "attempts": _count, "finish": _text, "logprobs": _logprobs,
}  # fmt: skip


def checked_reply(endpoint: Any, reply: Any) -> Reply:
    """A reply whose members have the types that `Reply` promises.

    Raises:
        RowError: A member has another type or an impossible value; the valid ones are counted.
        EngineError: It is no `Reply`.
    """
    if not isinstance(reply, Reply):
        raise EngineError(f"{_of(endpoint)}.complete returned {reply!r:.80}, not a Reply")
    members = {name: typed(getattr(reply, name)) for name, typed in _TYPES.items()}
    members["dollars"] = _amount(reply.dollars)
    wrong = [
        name
        for name, value in members.items()
        if value is None and getattr(reply, name) is not None
    ]
    wrong += [name for name in _TYPES if getattr(reply, name) is None]
    if not wrong:
        changed = {name: v for name, v in members.items() if v is not getattr(reply, name)}
        return replace(reply, **changed) if changed else reply
    found = ", ".join(f"{name} {getattr(reply, name)!r:.80}" for name in wrong)
    spent = replace(Reply(""), **{name: v for name, v in members.items() if v is not None})
    raise RowError("malformed", f"{_of(endpoint)}.complete returned a Reply with {found}",
                   attempts=spent.attempts, spent=spent)  # fmt: skip


def checked_embeddings(endpoint: Any, texts: int, done: Any) -> Embeddings:
    """Embeddings with one vector of finite numbers for each text.

    Raises:
        RowError: A number is not finite.
        EngineError: They are something else.
    """
    try:
        vectors = np.ascontiguousarray(done.vectors, np.float32)
    except (AttributeError, TypeError, ValueError):
        vectors = np.empty(0, np.float32)
    if not isinstance(done, Embeddings) or vectors.ndim != 2 or len(vectors) != texts:
        what = f"{type(done).__name__}, not Embeddings with one vector for each of {texts} texts"
        raise EngineError(f"{_of(endpoint)}.embed returned {what}")
    if not np.isfinite(vectors).all():
        what = f"{_of(endpoint)}.embed returned a vector that is not finite"
        raise RowError("malformed", what, attempts=1, spent=done)
    return replace(done, vectors=vectors)


def _of(endpoint: Any) -> str:
    """The name of an endpoint's class."""
    while isinstance(endpoint, Wrapper):
        endpoint = endpoint.inner
    return type(endpoint).__qualname__
