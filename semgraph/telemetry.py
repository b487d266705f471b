"""Spans of OpenTelemetry: a run, its windows, their steps, and the calls of models and embedders.

Spans are made only if this process has imported OpenTelemetry, as every program with an exporter
has. They hold names and counts: no value of a row, no prompt, no answer, no text of an error.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from semgraph.errors import RowError

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer

# Attributes of the semantic conventions (GenAI v0.1.0). All others are `semgraph.` and the name.
CONVENTIONS = {
    "operation": "gen_ai.operation.name",
    "provider": "gen_ai.provider.name",
    "model": "gen_ai.request.model",
    "max_tokens": "gen_ai.request.max_tokens",
    "output": "gen_ai.output.type",
    "answered_by": "gen_ai.response.model",
    "finish": "gen_ai.response.finish_reasons",
    "input_tokens": "gen_ai.usage.input_tokens",
    "cached_tokens": "gen_ai.usage.cache_read.input_tokens",
    "output_tokens": "gen_ai.usage.output_tokens",
    "dimensions": "gen_ai.embeddings.dimension.count",
    "address": "server.address",
    "port": "server.port",
    "error": "error.type",
}
# Providers with another name in the conventions.
PROVIDERS = {
    "azure": "azure.ai.openai",
    "gemini": "gcp.gemini",
    "mistral": "mistral_ai",
    "xai": "x_ai",
}


def is_on() -> bool:
    """Whether this process has imported OpenTelemetry."""
    return "opentelemetry.trace" in sys.modules


@contextmanager
def span(name: str, *, client: bool = False, **attributes: Any) -> Iterator[None]:
    """A span around a block; an error in the block is its `error.type`.

    Use it in coroutines and functions, not in generators: these leave a block in another context.

    Args:
        name: The name of the span.
        client: Whether it is a request to another process.
        attributes: Its attributes, by their names in `CONVENTIONS` or without `semgraph.`.
    """
    if not is_on():
        yield
        return
    from opentelemetry import trace

    kinds, named = trace.SpanKind, _named(attributes)
    with _tracer().start_as_current_span(
        name, None, kinds.CLIENT if client else kinds.INTERNAL, named,
        record_exception=False, set_status_on_exception=False,
    ) as current:  # fmt: skip
        try:
            yield
        except BaseException as error:
            kind = error.kind if isinstance(error, RowError) else type(error).__name__
            current.set_attribute(CONVENTIONS["error"], kind)
            current.set_status(trace.StatusCode.ERROR)
            raise


@cache
def _tracer() -> Tracer:
    from opentelemetry import trace

    return trace.get_tracer("semgraph", version("semgraph"))  # also of a provider that is set later


def describe(**attributes: Any) -> None:
    """Add attributes to the current span, as in `span`; None adds nothing."""
    if is_on():
        from opentelemetry import trace

        trace.get_current_span().set_attributes(_named(attributes))


def describe_counters(counters: Mapping[str, Any]) -> None:
    """Add the counters that are not zero to the current span."""
    describe(**{name: value for name, value in counters.items() if value})


def _named(attributes: Mapping[str, Any]) -> dict[str, Any]:
    named = ((CONVENTIONS.get(name, f"semgraph.{name}"), attributes[name]) for name in attributes)
    return {name: value for name, value in named if value is not None}


# `provider:model@address?options`; other names are those of models in Python.
_NAME = re.compile(r"([^:]*):([^@?]*)(?:@\w+://(?:[^/@]*@)?(\[[^]]*]|[^/:?]*)(?::(\d+))?)?")


def model_attributes(name: str) -> dict[str, Any]:
    """The attributes of a model, from its name.

    >>> model_attributes("vllm:Qwen/Qwen3-8B@http://gpu:8000/v1?structured=tool")
    {'provider': 'vllm', 'model': 'Qwen/Qwen3-8B', 'address': 'gpu', 'port': 8000}
    """
    match = _NAME.match(name)
    provider, model, address, port = match.groups() if match else (name, name, None, None)
    return {
        "provider": PROVIDERS.get(provider, provider),
        "model": model,
        "address": address and address.strip("[]"),
        "port": port and int(port),
    }
