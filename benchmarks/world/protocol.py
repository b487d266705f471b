"""The documents of the OpenAI protocol: completions, vectors, errors."""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from aiohttp import web


@dataclass(frozen=True)
class Said:
    """A reply of the model: a text and its finish reason, or a refusal; `chances` are the
    probabilities of its first token.
    """

    text: str | None
    finish: str = "stop"
    refusal: str | None = None
    chances: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True)
class Tokens:
    """Tokens of one call; `prompt` includes `cached`."""

    prompt: int
    cached: int
    completion: int


def completion(model: str, said: Said, tokens: Tokens) -> dict[str, Any]:
    """The document of a chat completion."""
    message = {"role": "assistant", "content": said.text, "refusal": said.refusal}
    choice = {"index": 0, "message": message, "logprobs": _logprobs(said)}
    usage = _usage(tokens.prompt, tokens.completion)
    return {
        "id": "chatcmpl-world",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": model,
        "choices": [{**choice, "finish_reason": said.finish}],
        "usage": {**usage, "prompt_tokens_details": {"cached_tokens": tokens.cached}},
    }


def _usage(prompt: int, completion: int) -> dict[str, Any]:
    total = prompt + completion
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": total}


def _logprobs(said: Said) -> dict[str, Any] | None:
    told = [
        {"token": token, "logprob": math.log(max(chance, 1e-9)), "bytes": list(token.encode())}
        for token, chance in said.chances
    ]
    return {"content": [{**told[0], "top_logprobs": told}], "refusal": None} if told else None


def embeddings(
    body: Mapping[str, Any], vectors: Sequence[npt.NDArray[np.float32]], tokens: int
) -> dict[str, Any]:
    """The document of vectors, as base64 if requested."""
    packed = body.get("encoding_format") == "base64"
    given = (base64.b64encode(v.tobytes()).decode() if packed else v.tolist() for v in vectors)
    data = [
        {"object": "embedding", "index": i, "embedding": vector} for i, vector in enumerate(given)
    ]
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return {"object": "list", "model": body["model"], "data": data, "usage": usage}


def error(
    status: int, message: str, code: str | None = None, retry_after: float | None = None
) -> web.Response:
    """An error worded as OpenAI words them."""
    document = {"error": {"message": message, "type": "world", "param": None, "code": code}}
    headers = {} if retry_after is None else {"Retry-After": f"{retry_after:g}"}
    return web.json_response(document, status=status, headers=headers)
