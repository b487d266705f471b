"""Token counts: OpenAI's tokenizer for its models, else an estimate."""

from __future__ import annotations

import importlib.util
import re
import sys
from functools import lru_cache
from importlib.machinery import PathFinder
from typing import Any

from semgraph.llm.base import LLM, Embedder, Payload, Request, Usage

_NEWEST = "o200k_base"
_ENCODINGS = (
    (
        re.compile(r"(gpt-4o|gpt-4\.1|gpt-4\.5|gpt-5|chatgpt-4o|gpt-oss|o\d)(?![a-z0-9])"),
        _NEWEST,
    ),
    (re.compile(r"(gpt-4|gpt-3\.5|text-embedding-(3|ada))(?![a-z0-9])"), "cl100k_base"),
)
# Tokens of the chat format: three before the answer, and about four around each message.
_PER_CHAT, _PER_MESSAGE = 3, 4


def encoding_of(model: str) -> str | None:
    """The vocabulary of one of OpenAI's models (with or without date or vendor), or None.

    >>> encoding_of("gpt-4.1-mini"), encoding_of("openai/gpt-4-turbo"), encoding_of("Qwen3-32B")
    ('o200k_base', 'cl100k_base', None)
    """
    last = model.lower().rpartition("/")[2]
    return next((encoding for pattern, encoding in _ENCODINGS if pattern.match(last)), None)


class TokenCounter:
    """Counts the tokens of texts for one model.

    Without a vocabulary it estimates one token per four UTF-8 bytes, rounded up. For ASCII that is a
    quarter of the characters; scripts with more bytes per character also take more tokens.
    """

    def __init__(self, model: str) -> None:
        self._encoding = encoding_of(model)
        self.exact = self._encoding is not None
        # Static rules and schemas recur in every request.
        self.count = lru_cache(maxsize=512)(self._count if self.exact else _estimate)

    def _count(self, text: str) -> int:
        assert self._encoding is not None
        try:
            return int(_tokenizer(self._encoding).count(text))
        except UnicodeEncodeError:  # lone surrogates are no text in Rust
            return int(_tokenizer(self._encoding).count(text.encode("utf-8", "replace").decode()))


def token_spans(text: str) -> list[tuple[int, int]]:
    """Where each token of a text begins and ends, in OpenAI's newest vocabulary. Tokens that share
    a character are one.

    >>> token_spans("Hello world")
    [(0, 5), (5, 11)]
    """
    tokenizer = _tokenizer(_NEWEST)
    spans, start, parts = [], 0, list[int]()
    for token in tokenizer.encode(text.encode("utf-8", "replace").decode()):
        parts.append(token)
        try:
            decoded = tokenizer.decode(parts)
        except ValueError:  # it ends within a character
            continue
        spans.append((start, start + len(decoded)))
        start, parts = start + len(decoded), []
    return spans


def _estimate(text: str) -> int:
    return -(-len(text.encode("utf-8", "surrogatepass")) // 4)


@lru_cache
def _tokenizer(encoding: str) -> Any:
    return _rust_tokenizers().tokenizer_for_encoding(encoding)


@lru_cache
def _rust_tokenizers() -> Any:
    """The Rust part of bpe-openai. Its Python part reads five vocabularies when imported, which
    takes 0.5 s and 80 MB.
    """
    package = importlib.util.find_spec("bpe_openai")
    assert package is not None
    spec = PathFinder.find_spec("bpe_openai._bindings", package.submodule_search_locations)
    assert spec is not None
    assert spec.loader is not None
    if spec.name not in sys.modules:
        sys.modules[spec.name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[spec.name])
    return sys.modules[spec.name]


def prompt_tokens(llm: LLM | Embedder, request: Request) -> int:
    """The prompt tokens of a request: messages, the chat format, and the schema."""
    messages = sum(_PER_MESSAGE + llm.count_tokens(message.content) for message in request.messages)
    return _PER_CHAT + messages + llm.count_tokens(request.schema)


def most_usage(model: LLM | Embedder, payload: Payload) -> Usage:
    """The most tokens that a request, or embedding some texts, can take."""
    if isinstance(payload, Request):
        return Usage(prompt_tokens(model, payload), 0, payload.max_tokens)
    return Usage(sum(map(model.count_tokens, payload)))
