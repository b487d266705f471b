"""Spans of OpenTelemetry: a run, its windows, their steps, and the calls of models and embedders.

Spans are made only if this process has imported OpenTelemetry, as every program with an exporter
has. They hold names and counts: no value of a row, no prompt, no answer, no text of an error.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from semgraph.errors import RowError

# Attributes of the semantic conventions (GenAI v0.1.0). All others are `semgraph.` and the name.
CONVENTIONS = {
    "operation": "gen_ai.operation.name",
    "provider": "gen_ai.provider.name",
    "model": "gen_ai.request.model",
    "max_tokens": "gen_ai.request.max_tokens",
    "output": "gen_ai.output.type",
    "answered_by": "gen_ai.response.model",
    "finish": "gen_ai.response.finish_reasons",
    "prompt": "gen_ai.usage.input_tokens",
    "cached": "gen_ai.usage.cache_read.input_tokens",
    "completion": "gen_ai.usage.output_tokens",
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


@contextmanager
def span(name: str, **attributes: Any) -> Iterator[Callable[..., None]]:
    """A span around a block, with attributes by their names in `CONVENTIONS` or without `semgraph.`.
    The yielded function adds attributes. An error in the block is its `error.type`.

    Use it in coroutines and functions, not in generators: these leave a block in another context.
    """
    if "opentelemetry.trace" not in sys.modules:
        yield lambda **_: None
        return
    from opentelemetry import trace

    kind = trace.SpanKind.CLIENT if "operation" in attributes else trace.SpanKind.INTERNAL
    with trace.get_tracer("semgraph").start_as_current_span(
        name, None, kind, _named(attributes), record_exception=False, set_status_on_exception=False
    ) as current:
        try:
            yield lambda **more: current.set_attributes(_named(more))
        except BaseException as error:
            what = error.kind if isinstance(error, RowError) else type(error).__name__
            current.set_attribute(CONVENTIONS["error"], what)
            current.set_status(trace.StatusCode.ERROR)
            raise


def _named(attributes: Mapping[str, Any]) -> dict[str, Any]:
    return {
        CONVENTIONS.get(name, f"semgraph.{name}"): value
        for name, value in attributes.items()
        if value not in (None, "")
    }


# `provider:model@address?options`; other names are those of models in Python.
_NAME = re.compile(r"([^:]*):(.*?)(?:@\w+://(?:[^/?]*@)?(\[[^]]*]|[^/:?]*)(?::(\d+))?|\?|$)")


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
