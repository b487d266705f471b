"""From settings to endpoints: the models of all roles behind one `LLM`, and the embedder."""

from __future__ import annotations

from pathlib import Path

from semgraph.errors import PlanError, Problem
from semgraph.llm.base import LLM, Embedder, Limits
from semgraph.llm.budget import Budget
from semgraph.llm.config import Settings
from semgraph.llm.journal import Journal
from semgraph.llm.limits import Limiter
from semgraph.llm.models import DEFAULT_EMBEDDER, DEFAULT_MODEL
from semgraph.llm.roles import Roles
from semgraph.llm.specs import EXTRAS, ModelSpec
from semgraph.llm.stack import stack


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
        from semgraph.llm.recorded import Recorded

        return Recorded(_recording(spec, settings, recording))
    if spec.provider == "local":
        from semgraph.llm.local import Local

        name, threads, context = spec.model or DEFAULT_MODEL, spec.option("threads"), spec.option("context")
        return Local(name, threads, context, env=settings.environment)
    from semgraph.llm.openai import OpenAI

    defaults = Limits()
    limits = Limits(
        spec.option("context") or defaults.context_tokens,
        spec.option("max_output") or defaults.max_output_tokens,
        spec.option("in_flight") or settings.limits.in_flight or defaults.in_flight,
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
    *,
    budget: Budget | None,
    journal: Journal | None,
    fresh: bool = False,
    recording: Path | None = None,
    scope: str = "",
    known: dict[str, tuple[LLM, Limiter]] | None = None,
) -> LLM:
    """All roles, each through its own stack; one endpoint and one limiter for each specification.

    What is replayed from a recording does not go through the journal: it would outlive the recording there. With `known`,
    endpoints and limiters are taken from there and put there, by specification, so that several scopes share them.
    """
    known = {} if known is None else known
    built: dict[str, LLM] = {}
    for role in settings.roles:
        spec = settings.model(role)
        if str(spec) not in built:
            if str(spec) not in known:
                endpoint = build_model(spec, settings, recording)
                limits = settings.limits
                rpm, tpm = spec.option("rpm") or limits.rpm, spec.option("tpm") or limits.tpm
                known[str(spec)] = endpoint, Limiter(endpoint.limits.in_flight, rpm, tpm)
            kept = None if spec.provider == "recorded" else journal
            built[str(spec)] = stack(*known[str(spec)], budget=budget, journal=kept, scope=scope, fresh=fresh)
    models = {role: built[str(settings.model(role))] for role in settings.roles}
    return Roles(**models)


def build_embedder(settings: Settings, recording: Path | None = None) -> Embedder:
    """The embedder of the settings, unwrapped. Nothing is opened or loaded yet.

    Args:
        settings: They name it.
        recording: The plan's own recording, for `recorded` without a path.

    Raises:
        PlanError: There is no such local model, or no recording.
    """
    spec = settings.embedder
    if spec.provider == "recorded":
        from semgraph.llm.recorded import RecordedEmbedder

        return RecordedEmbedder(_recording(spec, settings, recording))
    if spec.provider == "local":
        from semgraph.llm.embed.local import LocalEmbedder

        return LocalEmbedder(spec.model or DEFAULT_EMBEDDER, spec.option("threads"), env=settings.environment)
    if spec.provider == "sentence-transformers":
        from semgraph.llm.embed.sentence_transformers import SentenceTransformersEmbedder

        return SentenceTransformersEmbedder(spec.model, spec.option("device"), env=settings.environment)
    from semgraph.llm.embed.openai import OpenAIEmbedder

    limits = settings.limits
    in_flight = spec.option("in_flight") or limits.in_flight or Limits().in_flight
    return OpenAIEmbedder(
        spec.model,
        spec.option("dimensions"),
        spec.base_url or settings.environment.get("OPENAI_BASE_URL"),
        _key(spec, settings),
        Limiter(in_flight, spec.option("rpm") or limits.rpm, spec.option("tpm") or limits.tpm),
        timeout=spec.option("timeout") or 120.0,
    )


def _recording(spec: ModelSpec, settings: Settings, of_plan: Path | None) -> Path:
    if spec.model:
        return settings.cwd / spec.model
    if of_plan is None:
        raise PlanError(Problem(f"{spec}: there is no plan whose recording is meant", hint="Write recorded:FILE"))
    return of_plan


def _key(spec: ModelSpec, settings: Settings) -> str | None:
    """The key from the variable that the specification names: never another one in its place."""
    name = spec.option("key_env")
    key = settings.environment.get(name or "OPENAI_API_KEY")
    if name and not key:
        raise PlanError(Problem(f"{spec}: the environment has no {name}", hint=f"Set {name}, or name another variable"))
    return key
