"""Endpoints made from settings: the models of all roles behind one `LLM`, and the embedder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from semgraph.errors import PlanError, Problem
from semgraph.llm.base import LLM, Borrowed, Embedder, Limits
from semgraph.llm.local.catalogue import DEFAULT_EMBEDDER, DEFAULT_MODEL
from semgraph.llm.prices import OPENAI_URL
from semgraph.llm.settings import Settings
from semgraph.llm.specs import EXTRAS, ModelSpec
from semgraph.llm.stack import Limiter, RetryPolicy, Roles, Stack
from semgraph.llm.trust import is_loopback, is_trusted, require_trusted

NO_KEY = "none"
"""What servers without keys are sent as one."""

if TYPE_CHECKING:
    from semgraph.llm.recording import Recording


def build_model(
    spec: ModelSpec, settings: Settings, recording: Path | Recording | None = None
) -> LLM:
    """The bare endpoint of a specification. Nothing is opened or loaded yet.

    Args:
        spec: The model.
        settings: Keys, addresses and limits.
        recording: The plan's own recording, for `recorded` without a path.

    Raises:
        PlanError: The local model or the recording does not exist.
    """
    if spec.provider == "recorded":
        from semgraph.llm.recording import Recorded

        return Recorded(_recording(spec, settings, recording))
    if spec.provider == "local":
        from semgraph.llm.local.model import Local

        name, threads, context = (
            spec.model or DEFAULT_MODEL,
            spec.option("threads"),
            spec.option("context"),
        )
        return Local(name, threads, context, env=settings.environment)
    from semgraph.llm.openai import OpenAI

    defaults, least = Limits(), spec.option("min_output") or 0
    limits = Limits(
        spec.option("context") or defaults.context_tokens,
        spec.option("max_output") or max(defaults.max_output_tokens, least),
        _in_flight(spec, settings),
        min_output_tokens=least,
        assumed=spec.option("max_output") is None,
    )
    return OpenAI(
        spec.model,
        spec.base_url or settings.environment.get("OPENAI_BASE_URL"),
        key_of(spec, settings),
        limits,
        spec.option("structured") or "json_schema",
        spec.option("timeout") or 120.0,
        extra={key: spec.option(key) for key in EXTRAS if spec.option(key)},
        batch=bool(spec.option("batch")),
        poll=spec.option("poll") or 60.0,
    )


def wrapped_model(model: LLM, limiter: Limiter, stack: Stack) -> LLM:
    """A model that its owner closes, wrapped; requests that run ahead go into batches, if it has them."""
    ahead = None
    if model.limits.batch:
        from semgraph.llm.batch import batched

        ahead = batched(model, stack)
    return stack.model(Borrowed(model), limiter, ahead)


def build_embedder(settings: Settings, recording: Path | Recording | None = None) -> Embedder:
    """The bare embedder of the settings. Nothing is opened or loaded yet.

    Args:
        settings: They name it.
        recording: The plan's own recording, for `recorded` without a path.

    Raises:
        PlanError: The local model or the recording does not exist.
    """
    spec = settings.embedder
    if spec.provider == "recorded":
        from semgraph.llm.recording import RecordedEmbedder

        return RecordedEmbedder(_recording(spec, settings, recording))
    if spec.provider == "local":
        from semgraph.llm.embed.local import LocalEmbedder

        return LocalEmbedder(
            spec.model or DEFAULT_EMBEDDER, spec.option("threads"), env=settings.environment
        )
    if spec.provider == "sentence-transformers":
        from semgraph.llm.embed.sentence_transformers import SentenceTransformersEmbedder

        return SentenceTransformersEmbedder(
            spec.model, spec.option("device"), env=settings.environment
        )
    from semgraph.llm.embed.openai import OpenAIEmbedder

    return OpenAIEmbedder(
        spec.model,
        spec.option("dimensions"),
        spec.base_url or settings.environment.get("OPENAI_BASE_URL"),
        key_of(spec, settings),
        timeout=spec.option("timeout") or 120.0,
    )


def retry_policy(settings: Settings) -> RetryPolicy:
    """The policy of `retries.attempts` and `retries.seconds`."""
    return RetryPolicy(
        attempts=settings["retries.attempts"].value, deadline=settings["retries.seconds"].value
    )


MakeLimiter = Callable[[str, int, float | None, float | None], Limiter]
"""Makes the limiter of an endpoint from its name and `in_flight`, `rpm`, `tpm`."""


def local_limiter(_name: str, in_flight: int, rpm: float | None, tpm: float | None) -> Limiter:
    """A limiter of this process alone."""
    return Limiter(in_flight, rpm, tpm)


def _in_flight(spec: ModelSpec, settings: Settings) -> int:
    return spec.option("in_flight") or settings.limits.in_flight or Limits().in_flight


@dataclass
class Endpoints:
    """Models and embedders, each made once, with the limiters of their endpoints.

    Models of one address and key share a limiter, except those with their own limits
    (`?rpm=`, `?tpm=`, `?in_flight=`); so do embedders.

    Args:
        make_limiter: Makes the limiter of an endpoint.
        limiters: By endpoint, for all event loops.
        local: Models that run in this process, by specification, for all event loops.
        remote: Connections, by specification, for one event loop.
    """

    make_limiter: MakeLimiter = local_limiter
    limiters: dict[tuple[Any, ...], Limiter] = field(default_factory=dict)
    local: dict[str, LLM | Embedder] = field(default_factory=dict)
    remote: dict[str, LLM | Embedder] = field(default_factory=dict)

    def for_other_loop(self) -> Endpoints:
        """The same endpoints with separate connections, for another event loop."""
        return Endpoints(self.make_limiter, self.limiters, self.local)

    def wrapped_models(
        self, settings: Settings, stack: Stack, recording: Path | Recording | None = None
    ) -> LLM:
        """The models of all roles behind one `LLM`, each wrapped. Closing it leaves them open.

        Replayed answers are not journalled: they would outlive their recording. Raises as
        `build_model`.
        """
        wrapped: dict[str, LLM] = {}
        for role in settings.roles:
            spec = settings.model(role)
            if str(spec) not in wrapped:
                model, limiter = self.model(spec, settings, recording)
                wrapped[str(spec)] = wrapped_model(model, limiter, _unrecorded(stack, spec))
        return Roles(**{role: wrapped[str(settings.model(role))] for role in settings.roles})

    def wrapped_embedder(
        self, settings: Settings, stack: Stack, recording: Path | Recording | None = None
    ) -> Embedder:
        """The embedder, wrapped. Closing it leaves it open. Raises as `build_embedder`."""
        embedder, limiter = self.embedder(settings, recording)
        return _unrecorded(stack, settings.embedder).embedder(Borrowed(embedder), limiter)

    def model(
        self, spec: ModelSpec, settings: Settings, recording: Path | Recording | None = None
    ) -> tuple[LLM, Limiter]:
        """The model of a specification, bare, and its limiter. Raises as `build_model`."""
        model: LLM = self._opened(spec, lambda: build_model(spec, settings, recording))
        return model, self._limiter(spec, settings, model.limits.in_flight)

    def embedder(
        self, settings: Settings, recording: Path | Recording | None = None
    ) -> tuple[Embedder, Limiter]:
        """The embedder, bare, and its limiter. Raises as `build_embedder`."""
        spec = settings.embedder
        embedder: Embedder = self._opened(spec, lambda: build_embedder(settings, recording))
        return embedder, self._limiter(spec, settings, _in_flight(spec, settings))

    def _limiter(self, spec: ModelSpec, settings: Settings, in_flight: int) -> Limiter:
        limits = settings.limits
        rates = (spec.option("rpm") or limits.rpm, spec.option("tpm") or limits.tpm)
        if spec.provider == "recorded":
            return local_limiter("", in_flight, *rates)
        own = spec.provider != "openai" or any(
            spec.option(name) for name in ("in_flight", "rpm", "tpm")
        )
        address = spec.base_url or settings.environment.get("OPENAI_BASE_URL")
        options = (spec.model, *spec.options) if own else ()
        key = (spec.kind, address, spec.option("key_env"), *options)
        if key not in self.limiters:
            name = " ".join(map(str, key))
            made = self.make_limiter(name, in_flight, *rates)
            self.limiters.setdefault(key, made)
        return self.limiters[key]

    def _opened(self, spec: ModelSpec, build: Callable[[], LLM | Embedder]) -> Any:
        if spec.provider == "recorded":  # one per plan, and its file may change between runs
            return build()
        opened = self.remote if spec.provider == "openai" else self.local
        name = f"{spec.kind} {spec}"
        return opened[name] if name in opened else opened.setdefault(name, build())

    async def aclose(self) -> None:
        """Close the connections."""
        while self.remote:
            await self.remote.popitem()[1].aclose()


def _unrecorded(stack: Stack, spec: ModelSpec) -> Stack:
    return replace(stack, journal=None) if spec.provider == "recorded" else stack


def _recording(
    spec: ModelSpec, settings: Settings, plan_recording: Path | Recording | None
) -> Path | Recording:
    if spec.model:
        return settings.cwd / spec.model
    if plan_recording is None:
        raise PlanError(
            Problem(f"{spec}: there is no plan with a recording here", hint="write recorded:FILE")
        )
    return plan_recording


def key_of(spec: ModelSpec, settings: Settings) -> str:
    """The key of an endpoint, only from the variable that the specification names; "" for none. Servers
    of this machine need none: where only the file of a folder names one, without a variable, none is sent.

    Raises:
        PlanError: There is no such variable, or the file of a folder names the address, and the user
            does not.
    """
    name = spec.option("key_env") or "OPENAI_API_KEY"
    key = settings.environment.get(name, "")
    if spec.option("key_env") and not key:
        raise PlanError(
            Problem(
                f"{spec}: the environment has no {name}",
                hint=f"set {name}, or name another variable",
            )
        )
    named = [each for each in settings.values.values() if each.value == spec]
    if key not in ("", NO_KEY) and named and not any(each.own for each in named):
        url = spec.base_url or settings.environment.get("OPENAI_BASE_URL") or OPENAI_URL
        if is_loopback(url) and not (
            spec.option("key_env") or is_trusted(name, url, named[0], settings)
        ):
            return ""
        require_trusted(name, url, named[0], settings)
    return key
