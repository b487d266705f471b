"""From settings to endpoints: the models of all roles behind one `LLM`, and the embedder."""

from __future__ import annotations

from semgraph.llm.base import LLM, Embedder, Limits
from semgraph.llm.budget import Budget
from semgraph.llm.config import Settings
from semgraph.llm.journal import Journal
from semgraph.llm.limits import Limiter
from semgraph.llm.roles import Roles
from semgraph.llm.specs import ModelSpec
from semgraph.llm.stack import stack


def build_model(spec: ModelSpec, settings: Settings) -> LLM:
    """The endpoint of a specification, unwrapped. Nothing is opened or loaded yet."""
    if spec.provider == "local":
        from semgraph.llm.local import Local

        model = {"model": spec.model} if spec.model else {}
        return Local(**model, threads=spec.option("threads"), context=spec.option("context"), env=settings.environment)
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
        settings.environment.get(spec.option("key_env") or "OPENAI_API_KEY"),
        limits,
        spec.option("structured") or "json_schema",
        spec.option("timeout") or 120.0,
    )


def build_models(
    settings: Settings, *, budget: Budget | None, journal: Journal | None, fresh: bool = False
) -> LLM:
    """All roles, each through its own stack; one endpoint and one limiter for each specification."""
    built: dict[str, LLM] = {}
    for role in settings.roles:
        spec = settings.model(role)
        if str(spec) not in built:
            endpoint = build_model(spec, settings)
            limits = settings.limits
            limiter = Limiter(
                endpoint.limits.in_flight, spec.option("rpm") or limits.rpm, spec.option("tpm") or limits.tpm
            )
            built[str(spec)] = stack(endpoint, limiter, budget=budget, journal=journal, fresh=fresh)
    models = {role: built[str(settings.model(role))] for role in settings.roles}
    return Roles(**models)


def build_embedder(settings: Settings) -> Embedder:
    """The embedder of the settings, unwrapped. Nothing is opened or loaded yet."""
    spec = settings.embedder
    if spec.provider == "local":
        from semgraph.llm.embed.local import LocalEmbedder

        return LocalEmbedder(threads=spec.option("threads"), env=settings.environment)
    if spec.provider == "sentence-transformers":
        from semgraph.llm.embed.sentence_transformers import SentenceTransformersEmbedder

        return SentenceTransformersEmbedder(spec.model, device=spec.option("device"))
    from semgraph.llm.embed.openai import OpenAIEmbedder

    limits = settings.limits
    in_flight = spec.option("in_flight") or limits.in_flight or Limits().in_flight
    return OpenAIEmbedder(
        spec.model,
        spec.option("dimensions"),
        spec.base_url or settings.environment.get("OPENAI_BASE_URL"),
        settings.environment.get(spec.option("key_env") or "OPENAI_API_KEY"),
        Limiter(in_flight, spec.option("rpm") or limits.rpm, spec.option("tpm") or limits.tpm),
        timeout=spec.option("timeout") or 120.0,
    )
