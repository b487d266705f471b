"""From settings to endpoints: the models of all roles behind one `LLM`, and the embedder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from semgraph.errors import PlanError, Problem
from semgraph.llm.base import LLM, Borrowed, Embedder, Limits
from semgraph.llm.journal import Journal
from semgraph.llm.local.catalogue import DEFAULT_EMBEDDER, DEFAULT_MODEL
from semgraph.llm.settings import Settings
from semgraph.llm.specs import EXTRAS, ModelSpec
from semgraph.llm.stack import Budget, Limiter, RetryPolicy, Roles, stack


def build_model(spec: ModelSpec, settings: Settings, recording: Path | None = None) -> LLM:
    """The endpoint of a specification, unwrapped. Nothing is opened or loaded yet.

    Args:
        spec: What to build.
        settings: Where keys, addresses and limits come from.
        recording: The plan's own recording, for `recorded` without a path.

    Raises:
        PlanError: There is no such local model, or no recording.
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

    defaults = Limits()
    limits = Limits(
        spec.option("context") or defaults.context_tokens,
        spec.option("max_output") or defaults.max_output_tokens,
        _in_flight(spec, settings),
    )
    return OpenAI(
        spec.model,
        spec.base_url or settings.environment.get("OPENAI_BASE_URL"),
        _key(spec, settings),
        limits,
        spec.option("structured") or "json_schema",
        spec.option("timeout") or 120.0,
        extra={key: spec.option(key) for key in EXTRAS if spec.option(key)},
    )


def build_models(
    settings: Settings,
    endpoints: Endpoints,
    *,
    budget: Budget | None,
    journal: Journal | None,
    fresh: bool = False,
    recording: Path | None = None,
    scope: str = "",
) -> LLM:
    """All roles, each through its own stack over the endpoints, which stay open when the result is
    closed.

    What is replayed from a recording does not go through the journal: it would outlive the
    recording there.
    """
    built: dict[str, LLM] = {}
    retry = retry_policy(settings)
    for role in settings.roles:
        spec = settings.model(role)
        if str(spec) not in built:
            endpoint, limiter = endpoints.model(spec, settings, recording)
            kept = None if spec.provider == "recorded" else journal
            built[str(spec)] = stack(
                Borrowed(endpoint),
                limiter,
                retry=retry,
                budget=budget,
                journal=kept,
                scope=scope,
                fresh=fresh,
            )
    models = {role: built[str(settings.model(role))] for role in settings.roles}
    return Roles(**models)


def build_embedder(
    settings: Settings, recording: Path | None = None, limiter: Limiter | None = None
) -> Embedder:
    """The embedder of the settings, unwrapped. Nothing is opened or loaded yet.

    Args:
        settings: They name it.
        recording: The plan's own recording, for `recorded` without a path.
        limiter: The endpoint's; None for one of its own.

    Raises:
        PlanError: There is no such local model, or no recording.
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
        _key(spec, settings),
        limiter or build_limiter(spec, settings, _in_flight(spec, settings)),
        retry_policy(settings),
        timeout=spec.option("timeout") or 120.0,
    )


def retry_policy(settings: Settings) -> RetryPolicy:
    """When a failed attempt is repeated, by `retries.attempts` and `retries.seconds`."""
    return RetryPolicy(
        attempts=settings["retries.attempts"].value, deadline=settings["retries.seconds"].value
    )


def build_limiter(spec: ModelSpec, settings: Settings, in_flight: int) -> Limiter:
    """The limiter of an endpoint: what its specification says goes before the settings."""
    limits = settings.limits
    return Limiter(in_flight, spec.option("rpm") or limits.rpm, spec.option("tpm") or limits.tpm)


def _in_flight(spec: ModelSpec, settings: Settings) -> int:
    return spec.option("in_flight") or settings.limits.in_flight or Limits().in_flight


@dataclass
class Endpoints:
    """Models and embedders, each made once, with the limiters of their endpoints.

    All models of one address and key share a limiter, as far as they have no limits of their own
    (`?rpm=`, `?tpm=`, `?in_flight=`); so do all embedders.

    Args:
        limiters: By endpoint. They serve all event loops.
        local: Models that run in this process, by specification. They serve all event loops.
        remote: Connections, by specification. They serve one event loop.
    """

    limiters: dict[tuple[Any, ...], Limiter] = field(default_factory=dict)
    local: dict[str, LLM | Embedder] = field(default_factory=dict)
    remote: dict[str, LLM | Embedder] = field(default_factory=dict)

    def beside(self) -> Endpoints:
        """The same endpoints with connections of their own, for another event loop."""
        return Endpoints(self.limiters, self.local)

    def model(
        self, spec: ModelSpec, settings: Settings, recording: Path | None = None
    ) -> tuple[LLM, Limiter]:
        """The model of a specification, and its limiter. Raises as `build_model`."""
        model = cast("LLM", self._known(spec, lambda: build_model(spec, settings, recording)))
        return model, self._limiter(spec, settings, model.limits.in_flight)

    def embedder(self, settings: Settings, recording: Path | None = None) -> Embedder:
        """The embedder of the settings. Raises as `build_embedder`."""
        spec = settings.embedder
        limiter = self._limiter(spec, settings, _in_flight(spec, settings))
        return cast(
            "Embedder", self._known(spec, lambda: build_embedder(settings, recording, limiter))
        )

    def _known(self, spec: ModelSpec, build: Callable[[], LLM | Embedder]) -> LLM | Embedder:
        if (
            spec.provider == "recorded"
        ):  # another one for each plan; its file may change from run to run
            return build()
        known = self.remote if spec.provider == "openai" else self.local
        name = f"{spec.kind} {spec}"
        return known[name] if name in known else known.setdefault(name, build())

    def _limiter(self, spec: ModelSpec, settings: Settings, in_flight: int) -> Limiter:
        if spec.provider == "recorded":
            return build_limiter(spec, settings, in_flight)
        own = spec.provider != "openai" or any(
            spec.option(name) for name in ("in_flight", "rpm", "tpm")
        )
        address = spec.base_url or settings.environment.get("OPENAI_BASE_URL")
        key = (
            spec.kind,
            address,
            spec.option("key_env"),
            *((spec.model, *spec.options) if own else ()),
        )
        return self.limiters.get(key) or self.limiters.setdefault(
            key, build_limiter(spec, settings, in_flight)
        )

    async def aclose(self) -> None:
        """Close the connections."""
        while self.remote:
            await self.remote.popitem()[1].aclose()


def _recording(spec: ModelSpec, settings: Settings, of_plan: Path | None) -> Path:
    if spec.model:
        return settings.cwd / spec.model
    if of_plan is None:
        raise PlanError(
            Problem(
                f"{spec}: there is no plan whose recording is meant", hint="Write recorded:FILE"
            )
        )
    return of_plan


def _key(spec: ModelSpec, settings: Settings) -> str | None:
    """The key from the variable that the specification names: never another one in its place."""
    name = spec.option("key_env")
    key = settings.environment.get(name or "OPENAI_API_KEY")
    if name and not key:
        raise PlanError(
            Problem(
                f"{spec}: the environment has no {name}",
                hint=f"Set {name}, or name another variable",
            )
        )
    return key
