"""Tokens: their number, the log-probabilities of one-word answers, and prices. Nothing is downloaded."""

from __future__ import annotations

import importlib.util
import json
import math
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from importlib.machinery import PathFinder
from typing import Any, Protocol

from semgraph.llm.base import LLM, Embedder, Payload, Request, Usage
from semgraph.llm.replies import amount, number
from semgraph.llm.services import OPENAI, Service

_NEWEST = "o200k_base"
_ENCODINGS = (
    (re.compile(r"(gpt-4o|gpt-4\.1|gpt-4\.5|gpt-5|chatgpt-4o|gpt-oss|o\d)(?![a-z0-9])"), _NEWEST),
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

    Without a vocabulary it estimates one token per four UTF-8 bytes, rounded up. For ASCII that is
    a quarter of the characters; scripts with more bytes per character also take more tokens.
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
        except UnicodeEncodeError:  # lone surrogates are no valid text in Rust
            return int(_tokenizer(self._encoding).count(text.encode("utf-8", "replace").decode()))


class CountsTokens:
    """A model or an embedder that counts with a `TokenCounter`, without the files of a local model."""

    _counter: TokenCounter

    @property
    def exact_tokens(self) -> bool:
        """Whether the tokenizer is known."""
        return self._counter.exact

    def count_tokens(self, text: str) -> int:
        """The tokens of a text: by OpenAI's tokenizer for its models, else one per four bytes."""
        return self._counter.count(text)


def token_spans(text: str) -> list[tuple[int, int]]:
    """The start and end of each token of a text, in OpenAI's newest vocabulary. Tokens that share a
    character are merged.

    >>> token_spans("Hello world")
    [(0, 5), (5, 11)]
    """
    tokenizer = _tokenizer(_NEWEST)
    spans, start, parts = [], 0, list[int]()
    for token in tokenizer.encode(text.encode("utf-8", "replace").decode()):
        parts.append(token)
        try:
            decoded = tokenizer.decode(parts)
        except ValueError:  # the token ends within a character
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
    """The Rust part of bpe-openai. The import of its Python part reads five vocabularies, which
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
    """The maximum tokens that a request, or the embedding of texts, can take."""
    if isinstance(payload, Request):
        return Usage(prompt_tokens(model, payload), 0, payload.max_tokens)
    return Usage(sum(map(model.count_tokens, payload)))


# Likely tokens of a value in an answer, by its format or type in the JSON Schema, and elements of a
# list, as in the answers that were recorded with the shipped plans.
_LIKELY = {"date-time": 14, "date": 8, "string": 8, "integer": 2, "number": 3, "boolean": 1}
_ANY, _ELEMENTS, _NOT_NULL = 20, 1.5, 0.5


def likely_tokens(request: Request, answers: float = 1) -> float:
    """The likely tokens of an answer, by the types of its fields; `max_tokens` is the bound.

    Args:
        request: The request.
        answers: The number of answers in it: above 1, its outermost list has as many elements.
    """
    if not request.schema:
        return min(1 if request.words else _ANY, request.max_tokens)
    schema = json.loads(request.schema)
    listed = answers > 1 and len(schema.get("properties", {})) == 1
    return min(_likely(schema, answers if listed else _ELEMENTS), request.max_tokens)


def _likely(schema: Mapping[str, Any], elements: float = _ELEMENTS) -> float:
    if "anyOf" in schema:
        return _NOT_NULL * _likely(schema["anyOf"][0])
    if "properties" in schema:  # each name has about four characters a token, and quotes
        fields = schema["properties"].items()
        return 2 + sum(3 + len(name) / 8 + _likely(kind, elements) for name, kind in fields)
    if "items" in schema:
        return 1 + elements * _likely(schema["items"])
    return _LIKELY.get(schema.get("format", ""), _LIKELY.get(schema.get("type", ""), _ANY))


# The members of a request's body that request log-probabilities: 20 is the maximum of OpenAI and
# vLLM.
LOGPROBS = {"logprobs": True, "top_logprobs": 20}


def word_logprobs(words: Sequence[str], tokens: Iterable[tuple[str, float]]) -> tuple[float, ...]:
    """The logarithm of each word's probability: the sum over all tokens that begin the word,
    ignoring case.

    A word without a token gets the lowest probability of the list, which is an upper bound. If no
    token begins a word, the model answered something else: every word gets -inf. Without tokens the
    result is empty.

    >>> [
    ...     round(p, 2)
    ...     for p in word_logprobs(
    ...         ["yes", "no"], [("Yes", -0.1), (" yes", -3.0), ("No", -2.5), ("It", -6.0)]
    ...     )
    ... ]
    [-0.05, -2.5]
    >>> word_logprobs(["yes", "no"], [("Certainly", -0.1), ("It", -6.0)])
    (-inf, -inf)
    >>> word_logprobs(["yes", "no"], [])
    ()
    """
    listed = list(tokens)
    if not listed:
        return ()
    of_words: list[list[float]] = [[] for _ in words]
    for token, logprob in listed:
        text = token.strip().lower()
        for word, logprobs in zip(words, of_words, strict=True):
            if text and word.startswith(text):
                logprobs.append(logprob)
    least = min(logprob for _, logprob in listed) if any(of_words) else -math.inf
    return tuple(_log_of_sum(logprobs) if logprobs else least for logprobs in of_words)


def _log_of_sum(logprobs: Sequence[float]) -> float:
    total = math.fsum(map(math.exp, logprobs))
    return math.log(total) if total else max(logprobs)


PRICED = "?price=IN/OUT (of an embedder: ?price=IN) sets it, in dollars per million tokens"
OF_BATCH = 0.5  # price of a batched request, relative to a direct one


class Price(Protocol):
    """A price of tokens."""

    def dollars(self, usage: Usage) -> float:
        """The cost of these tokens, in US dollars."""


@dataclass(frozen=True)
class FlatPrice:
    """Fixed prices, in dollars per million tokens."""

    prompt: float  # of tokens that were not cached
    completion: float = 0.0
    cached: float | None = None  # None: as `prompt`

    @classmethod
    def parse(cls, text: str, least: int = 1) -> FlatPrice:
        """Read `IN`, `IN/OUT` or `IN/OUT/CACHED`, of at least some numbers. Raises ValueError.

        >>> FlatPrice.parse("0.4/1.6"), str(FlatPrice.parse("2/8/0.5"))
        (FlatPrice(prompt=0.4, completion=1.6, cached=None), '2/8/0.5')
        """
        parts = text.split("/")
        if not least <= len(parts) <= len(fields(cls)):
            raise ValueError(text)
        return cls(*map(float, parts))

    def __str__(self) -> str:
        """As `parse` reads it."""
        return "/".join(f"{price:.12g}" for price in vars(self).values() if price is not None)

    def __post_init__(self) -> None:
        """Refuse invalid prices."""
        for name, value in vars(self).items():
            price = number(value)
            if (price is None or price < 0) and not (name == "cached" and value is None):
                raise ValueError(f"{name} must be dollars per million tokens, not {value!r}")

    def dollars(self, usage: Usage) -> float:
        """The cost of these tokens, in US dollars."""
        cached = self.prompt if self.cached is None else self.cached
        prompt = (usage.prompt - usage.cached) * self.prompt + usage.cached * cached
        return (prompt + usage.completion * self.completion) / 1e6


def cost(
    usage: Usage, model: str, url: str, own: Price | None = None, service: Service = OPENAI
) -> float | None:
    """The cost of tokens of a model at an address, by its own price, else by the listed one; None
    if no price is known.
    """
    price = own or price_of(model, url, service)
    return amount(price.dollars(usage)) if price else None


@dataclass(frozen=True)
class _ListPrice:
    """A price that depends on the time of day or the length of the prompt, looked up each time."""

    model: str
    provider_id: str | None
    provider_url: str | None

    def dollars(self, usage: Usage) -> float:
        from genai_prices import Usage as ListedUsage
        from genai_prices.data_snapshot import get_snapshot

        tokens = ListedUsage(
            input_tokens=usage.prompt,
            cache_read_tokens=usage.cached,
            output_tokens=usage.completion,
        )
        found = get_snapshot().calc(tokens, self.model, self.provider_id, self.provider_url, None)
        return float(found.total_price)


@lru_cache(maxsize=64)
def price_of(model: str, base_url: str | None = None, service: Service = OPENAI) -> Price | None:
    """The price of a model at an address; at that of its service, by the service's name. None: the
    list lacks the model or the endpoint. An unknown price is never 0.
    """
    from genai_prices.data_snapshot import get_snapshot

    own = base_url is None or service.url in ("", base_url)
    provider_id = service.prices or None if own else None
    provider_url = None if provider_id else base_url or service.url
    try:
        _, info = get_snapshot().find_provider_model(model, None, provider_id, provider_url)
    except LookupError:
        return None
    return _flat(info.prices) or _ListPrice(model, provider_id, provider_url)


def _flat(prices: Any) -> FlatPrice | None:
    """The list's entry as fixed prices, if it is that simple: a look-up takes 0.1 ms."""
    kinds = ("input", "output", "cache_read")
    per_token = [getattr(prices, f"{kind}_mtok", None) for kind in kinds]
    if any(hasattr(price, "tiers") for price in per_token) or isinstance(prices, list):
        return None
    prompt, completion, cached = (None if price is None else float(price) for price in per_token)
    return None if prompt is None else FlatPrice(prompt, completion or 0.0, cached)
