"""The protocols of language models and embedders, and the base class of wrappers.

An `LLM` answers a `Request` with a `Reply`. Endpoints and the wrappers around them (coalescing,
journal, budget, retry, limiter) are all `LLM`s: one test suite covers them, and they can be stacked
in any order. `semgraph.llm.stack` has the order in use.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import takewhile
from typing import Any, Literal, Protocol, TypeVar, cast, runtime_checkable

import numpy as np
import numpy.typing as npt

from semgraph.errors import PlanError, RowError, nearly
from semgraph.privacy import without_password

T = TypeVar("T")
Origin = Literal["issued", "journal", "coalesced"]
YesNo = Literal["json", "word"]
Kind = Literal["model", "embedder"]
_SAMPLES = 1_000  # exceeds the samples of any question


@dataclass(frozen=True, repr=False)
class ModelSpec:
    """A parsed specification."""

    kind: Kind
    provider: str  # its name in `semgraph.llm.providers.PROVIDERS`
    model: str = ""  # the path for `recorded`; empty for the provider's default
    base_url: str | None = None
    options: tuple[tuple[str, Any], ...] = ()  # those after `?`, typed, sorted by name

    def option(self, key: str) -> Any:
        """The value of an option, or None."""
        return dict(self.options).get(key)

    def __str__(self) -> str:
        """The specification as text, without a user name or password in its URL."""
        text = f"{self.provider}:{self.model}" if self.model else self.provider
        if self.base_url:
            text += f"@{without_password(self.base_url)}"
        options = "&".join(f"{key}={_text(value)}" for key, value in self.options)
        return f"{text}?{options}" if options else text

    def __repr__(self) -> str:
        return f"ModelSpec({self})"


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


ROLES = ("default", "small", "rerank", "embed")  # the keys of [models] that semgraph itself reads


def falls_back(role: str, roles: Collection[str]) -> str:
    """`default`, whose model answers for a role without one. `roles` have a model. Raises PlanError
    if the role is a misspelling of one of them, or of one of semgraph's.
    """
    # judge is no misspelling of a step judged
    others = (name for name in roles if not (name.startswith(role) or role.startswith(name)))
    meant = [each for each in (*ROLES, *others) if nearly(role, each) and role not in ROLES]
    if role == "embed" or meant:
        there = f"roles with a model: {', '.join(roles)}"
        hint = f'did you mean "{meant[0]}"?' if meant else "it is the embedder's"
        what = f'no model is bound to the role "{role}"'
        raise PlanError(what, there=there, hint=hint)
    return "default"


@dataclass(frozen=True)
class Message:
    """One message of a chat."""

    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True)
class Request:
    """One question to a model.

    Args:
        role: The configured model: `default`, `small`, another role of `semgraph.toml`, or
            PROVIDER:NAME. Not part of the fingerprint.
        messages: The chat, static text first.
        schema: JSON Schema of the answer, as canonical JSON text: the answer must be one JSON
            document of this schema. Empty: any text is an answer.
        max_tokens: The maximum length of the answer.
        params: Further parameters of the endpoint (`temperature`, ...), sorted by name.
        trial: The number of an independent repetition. It is part of the fingerprint; otherwise
            equal trials would be merged.
        partition: The partition of the rows, which lets the journal delete it. Not part of the
            fingerprint.
        step: The step that sends it. Not part of the fingerprint.
        words: The answer is one of these words, in one token, and the reply has the probability of
            each. No word is a prefix of another. Empty: the answer has any form.
        sample: The number of a draw, from 1, of several answers to one question; part of the
            fingerprint, and of the seed. 0: the answer is not one of several.
        ahead: No write of the run waits for the answer, so it may come in a batch. Not part of the
            fingerprint.
    """

    role: str
    messages: tuple[Message, ...]
    schema: str
    max_tokens: int = 2048
    params: tuple[tuple[str, Any], ...] = (("temperature", 0),)
    trial: int = 0
    partition: str = field(default="", compare=False)
    step: str = field(default="", compare=False)
    words: tuple[str, ...] = ()
    sample: int = 0
    ahead: bool = field(default=False, compare=False)

    @property
    def static(self) -> int:
        """The number of system messages at its beginning."""
        return len(list(takewhile(lambda message: message.role == "system", self.messages)))

    @property
    def seed(self) -> int:
        """The seed of a draw, for endpoints that take one."""
        return self.trial * _SAMPLES + self.sample if self.sample else self.trial

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of everything that determines the answer, except the model, which the journal
        adds. A role only chooses the model.
        """
        messages = [(m.role, m.content) for m in self.messages]
        body = ["default", messages, self.schema, self.max_tokens, self.params, self.trial]
        body += [self.words] if self.words else []
        body += [{"sample": self.sample}] if self.sample else []
        text = json.dumps(body, ensure_ascii=False, separators=(",", ":"))
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True)
class Usage:
    """Tokens of one call. `prompt` includes `cached`."""

    prompt: int = 0
    cached: int = 0
    completion: int = 0


@dataclass(frozen=True)
class Reply:
    """A model's answer.

    Args:
        text: The answer, unparsed.
        usage: Tokens as the endpoint counted them.
        origin: `issued` by this call, read from the `journal`, or `coalesced` with an equal request
            in flight.
        seconds: The time that the endpoint took to issue the answer.
        call_id: The permanent id of the answer: the same for replays from the journal.
        model: The model as the endpoint names it.
        attempts: HTTP requests sent for it by this process; 0 for a replay.
        dollars: The cost of the call that issued it; None if no price is known.
        finish: `stop`, `length` (truncated at max_tokens), `refusal`, or another reason of the
            endpoint.
        logprobs: For each of the request's `words` the natural logarithm of its probability; -inf
            for all if the model answered something else. Empty: the request has no words, or the
            endpoint has no log-probabilities.
    """

    text: str
    usage: Usage = Usage()
    origin: Origin = "issued"
    seconds: float = 0.0
    call_id: str = ""
    model: str = ""
    attempts: int = 1
    dollars: float | None = None
    finish: str = "stop"
    logprobs: tuple[float, ...] = ()


def cut(request: Request, reply: Reply, why: str = "") -> RowError:
    """The error for a truncated answer."""
    what = f"answer cut at {request.max_tokens:,} tokens{why and ': ' + why}"
    return RowError("truncated", what, attempts=reply.attempts, spent=reply)


@dataclass(frozen=True)
class Limits:
    """The limits of a model, and the form of yes/no questions that suits it.

    Args:
        context_tokens: The limit of prompt and answer together.
        max_output_tokens: The limit of an answer.
        in_flight: Concurrent requests.
        logprobs: Whether replies have log-probabilities; None: unknown before the first reply.
        yes_no: The form of yes/no questions: the answer is a JSON object, or one `word` after
            examples.
        yes_from: For one word: the log-odds from which the answer counts as yes. Small models are
            biased towards yes.
        batch: Most requests of one batch, all of which run ahead. 0: no batches.
        min_output_tokens: The limit that every answer gets at least; more if its prompt allows
            more.
        assumed: Whether `max_output_tokens` is an assumption. If so, the token limit after a
            truncated answer grows at most fourfold.
        seconds: The seconds of a call, as measured. 0: unknown before the first run.
    """

    context_tokens: int = 128_000
    max_output_tokens: int = 16_384
    in_flight: int = 64
    logprobs: bool | None = None
    yes_no: YesNo = "json"
    yes_from: float = 0.0
    batch: int = 0
    min_output_tokens: int = 0
    assumed: bool = False
    seconds: float = 0.0


@runtime_checkable
class LLM(Protocol):
    """Anything that answers requests. Implementations are used from one event loop and may be
    awaited concurrently.
    """

    @property
    def name(self) -> str:
        """The name in tables and journal keys, such as `openai:gpt-4.1-mini`."""

    @property
    def limits(self) -> Limits:
        """The limits of the model."""

    @property
    def exact_tokens(self) -> bool:
        """Whether `count_tokens` uses the model's own tokenizer. If not, tables mark the counts
        with `~`.
        """

    def count_tokens(self, text: str) -> int:
        """Count the tokens of a text, with the model's tokenizer if there is one, else by estimate."""

    def dollars(self, usage: Usage) -> float | None:
        """The cost of these tokens; 0 for a local model, None if no price is known (printed as a
        dash).
        """

    async def complete(self, request: Request) -> Reply:
        """Answer one request.

        Raises:
            RowError: This request has no answer (refused, rejected by the endpoint, timed out
                repeatedly).
            ModelUnavailable: The model answers no request; the run must stop.
            BudgetReached: The next request could exceed a limit; it was not sent.
        """

    async def aclose(self) -> None:
        """Release connections and threads. Safe to call twice."""


Vectors = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Embeddings:
    """Vectors of some texts."""

    vectors: Vectors  # shape (texts, dimensions); normalised only if the model does so
    usage: Usage = Usage()
    calls: int = 0  # answered requests
    attempts: int = 0  # sent requests
    replayed: tuple[int, ...] = ()  # positions of the texts with vectors from the journal
    seconds: float = 0.0
    dollars: float | None = 0.0  # None: no price is known
    # by position; their vectors are NaN
    failed: Mapping[int, RowError] = field(default_factory=dict)

    @property
    def journal(self) -> int:
        """The number of vectors from the journal."""
        return len(self.replayed)


def comparable(
    found: Iterable[Vectors], lengths: Counter[int], failed: Mapping[int, RowError]
) -> tuple[Vectors, dict[int, RowError]]:
    """Vectors of equal length in one array, and `failed` with the errors of those with another
    length, by position. `lengths` counts the vectors of each length, also earlier ones; the most
    frequent length is the right one, so a single wrong vector does not decide it.
    """
    vectors = list(found)
    errors = dict(failed)
    for i, vector in enumerate(vectors):
        if i not in errors and not (len(vector) and np.isfinite(vector).all()):
            what = "NaN or infinity in it" if len(vector) else "no numbers in it"
            errors[i] = RowError("vector", f"its vector has {what}")
    lengths.update(sorted((len(v) for i, v in enumerate(vectors) if i not in errors), reverse=True))
    size = max(lengths or map(len, vectors), key=lambda length: lengths[length], default=0)
    array = np.full((len(vectors), size), np.nan, np.float32)
    for i, vector in enumerate(vectors):
        if i not in errors and len(vector) == size:
            array[i] = vector
        elif i not in errors:
            what = f"its vector has {len(vector):,} numbers, that of others {size:,}"
            errors[i] = RowError("vector", what)
    return array, errors


@runtime_checkable
class Embedder(Protocol):
    """Anything that embeds texts."""

    @property
    def name(self) -> str:
        """The name in tables and journal keys, such as `local:all-MiniLM-L6-v2`."""

    async def dimensions(self) -> int:
        """The length of the vectors. If the configuration has none, embeds one word to find it."""

    def count_tokens(self, text: str) -> int:
        """Count the tokens of a text, with the model's tokenizer if there is one, else by estimate."""

    def dollars(self, usage: Usage) -> float | None:
        """The cost of these tokens; 0 for a local model, None if no price is known."""

    async def embed(self, texts: Sequence[str], partition: str = "") -> Embeddings:
        """Embed distinct texts, in their order.

        Raises:
            RowError: The endpoint rejects one of these texts; the call returns no vector.
            ModelUnavailable: The embedder answers no request; the run must stop.
            BudgetReached: The next request could exceed a limit; it was not sent.
        """

    async def aclose(self) -> None:
        """Release connections and memory. Safe to call twice."""


class Free:
    """A model or an embedder without costs and connections: it runs locally, or replays."""

    def dollars(self, usage: Usage) -> float | None:  # noqa: ARG002
        """Zero."""
        return 0.0

    async def aclose(self) -> None:
        """Do nothing."""


class _Either(LLM, Embedder, Protocol):
    """A model or an embedder; a wrapper uses one of the two protocols."""


Payload = Request | Sequence[str]  # the input of a wrapper: a request, or texts to embed


class Wrapper:
    """A model or an embedder that delegates to an inner one. Wrappers that treat both alike
    override `_around`; others override `complete` or `embed`.
    """

    def __init__(self, inner: LLM | Embedder) -> None:
        self.inner = cast("_Either", inner)

    @property
    def name(self) -> str:
        """The inner one's name."""
        return self.inner.name

    @property
    def limits(self) -> Limits:
        """The limits of the inner model."""
        return self.inner.limits

    @property
    def exact_tokens(self) -> bool:
        """Whether the inner model counts tokens exactly."""
        return self.inner.exact_tokens

    def count_tokens(self, text: str) -> int:
        """Count the tokens of a text, as the inner one does."""
        return self.inner.count_tokens(text)

    def dollars(self, usage: Usage) -> float | None:
        """The cost of tokens of the inner one."""
        return self.inner.dollars(usage)

    async def complete(self, request: Request) -> Reply:
        """Answer one request."""
        return await self._around(request, lambda: self.inner.complete(request))

    async def embed(self, texts: Sequence[str], partition: str = "") -> Embeddings:
        """Embed distinct texts, in their order."""
        return await self._around(texts, lambda: self.inner.embed(texts, partition))

    async def dimensions(self) -> int:
        """Length of the vectors."""
        return await self._around((), self.inner.dimensions)

    async def aclose(self) -> None:
        """Close the inner one."""
        await self.inner.aclose()

    async def _around(self, payload: Payload, send: Callable[[], Awaitable[T]]) -> T:  # noqa: ARG002
        """Send a request, or texts. The payload is empty for a probe of the vectors' length."""
        return await send()


class Borrowed(Wrapper):
    """A model or an embedder that its owner closes."""

    async def aclose(self) -> None:
        """Do nothing."""
