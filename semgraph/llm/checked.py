"""Answers of models and embedders, checked where they enter the stack: any object can be one."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from semgraph.errors import EngineError, RowError
from semgraph.llm.base import Embeddings, Reply, Usage, Wrapper

_NUMBER = (int, float, np.integer, np.floating)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_count(value: Any) -> bool:
    return isinstance(value, int | np.integer) and bool(value >= 0)


def _is_amount(value: Any) -> bool:
    return isinstance(value, _NUMBER) and math.isfinite(value) and bool(value >= 0)


def _is_usage(value: Any) -> bool:
    counts = (value.prompt, value.cached, value.completion) if isinstance(value, Usage) else (None,)
    return all(map(_is_count, counts))


def _is_logprobs(value: Any) -> bool:
    return isinstance(value, tuple | list) and all(
        isinstance(each, _NUMBER) and not math.isnan(each) for each in value
    )


_MEMBERS: dict[str, Callable[[Any], bool]] = {
    "text": _is_text, "call_id": _is_text, "model": _is_text, "finish": _is_text, "usage": _is_usage,
    "attempts": _is_count, "seconds": _is_amount, "logprobs": _is_logprobs,
    "dollars": lambda value: value is None or _is_amount(value),
}  # fmt: skip


def checked_reply(endpoint: Any, reply: Any) -> Reply:
    """A reply whose members have the types that `Reply` promises.

    Raises:
        RowError: One has another type or no possible value. The tokens are counted, if it says how many.
        EngineError: It is no `Reply`.
    """
    if not isinstance(reply, Reply):
        raise EngineError(f"{_of(endpoint)}.complete returned {reply!r:.80}, not a Reply")
    wrong = [name for name, is_valid in _MEMBERS.items() if not is_valid(getattr(reply, name))]
    valid = replace(reply, **{name: getattr(Reply(""), name) for name in wrong})
    usage, dollars = valid.usage, valid.dollars
    typed = replace(
        valid,
        usage=Usage(int(usage.prompt), int(usage.cached), int(usage.completion)),
        attempts=int(valid.attempts),
        seconds=float(valid.seconds),
        dollars=None if dollars is None else float(dollars),
        logprobs=tuple(map(float, valid.logprobs)),
        call_id=_encodable(valid.call_id),
        model=_encodable(valid.model),
        finish=_encodable(valid.finish),
    )
    if wrong:
        found = ", ".join(f"{name} {getattr(reply, name)!r:.80}" for name in wrong)
        what = f"{_of(endpoint)}.complete returned a Reply with {found}"
        raise RowError("malformed", what, attempts=typed.attempts, spent=typed)
    return typed


def checked_embeddings(endpoint: Any, texts: int, done: Any) -> Embeddings:
    """Embeddings with one vector for each text. Raises EngineError if they are something else."""
    try:
        vectors = np.ascontiguousarray(done.vectors, np.float32)
    except (AttributeError, TypeError, ValueError):
        vectors = np.empty(0, np.float32)
    if not isinstance(done, Embeddings) or vectors.ndim != 2 or len(vectors) != texts:
        raise EngineError(
            f"{_of(endpoint)}.embed returned {type(done).__name__}, not Embeddings with one vector for each of {texts} texts"
        )
    return replace(done, vectors=vectors)


def _of(endpoint: Any) -> str:
    """The name of an endpoint's class."""
    while isinstance(endpoint, Wrapper):
        endpoint = endpoint.inner
    return type(endpoint).__qualname__


def _encodable(text: str) -> str:
    return text.encode("utf-8", "replace").decode()
