"""Specifications of models and embedders: `openai:MODEL@URL?key=value`, `local:NAME`,
`recorded:PATH`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import parse_qsl

from semgraph.errors import PlanError, Problem, did_you_mean

Kind = Literal["model", "embedder"]

_URL = re.compile(r"@(https?://[^?]*)")
_NAME_AND_PASSWORD = re.compile(r"//[^/?]*@")
_HOST = re.compile(r"@(?:localhost|[\w.-]+:\d+|[\w-]+(?:\.[\w-]+)+/)")
EXTRAS = ("reasoning_effort", "verbosity", "service_tier")
"""Options that are passed to an OpenAI-compatible endpoint as they are."""

OPTIONS: dict[Kind, dict[str, dict[str, type]]] = {
    "model": {
        "openai": {
            "structured": str,
            "in_flight": int,
            "rpm": int,
            "tpm": int,
            "context": int,
            "max_output": int,
            "min_output": int,
            "timeout": float,
            "key_env": str,
            "batch": bool,
            "poll": float,
            **dict.fromkeys(EXTRAS, str),
        },
        "local": {"threads": int, "context": int},
        "recorded": {},
    },
    "embedder": {
        "openai": {
            "dimensions": int,
            "in_flight": int,
            "rpm": int,
            "tpm": int,
            "timeout": float,
            "key_env": str,
        },
        "local": {"threads": int},
        "recorded": {},
        "sentence-transformers": {"device": str},
    },
}
"""The options of each provider, with their types."""
_CHOICES = {"structured": ("json_schema", "json_object", "tool"), "batch": ("true", "false")}
_OF_BATCHES = ("batch", "poll")
_MODEL_REQUIRED = ("openai", "sentence-transformers")


@dataclass(frozen=True, repr=False)
class ModelSpec:
    """A parsed specification.

    Args:
        kind: Model or embedder.
        provider: `openai` (any endpoint of that protocol), `local`, `recorded`, or
            `sentence-transformers`.
        model: The model's name, the path for `recorded`; empty for the provider's default.
        base_url: The endpoint, if the specification names one.
        options: The options after `?`, typed, sorted by name.
    """

    kind: Kind
    provider: str
    model: str = ""
    base_url: str | None = None
    options: tuple[tuple[str, Any], ...] = ()

    def option(self, key: str) -> Any:
        """The value of an option, or None."""
        return dict(self.options).get(key)

    def __str__(self) -> str:
        """The specification as text, without a user name or password in its URL."""
        text = f"{self.provider}:{self.model}" if self.model else self.provider
        if self.base_url:
            text += f"@{without_password(self.base_url)}"
        return (
            text
            + "?" * bool(self.options)
            + "&".join(f"{key}={_text(value)}" for key, value in self.options)
        )

    def __repr__(self) -> str:
        return f"ModelSpec({self})"


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def without_password(url: str) -> str:
    """A URL without user name and password: `http://name:secret@host/v1` becomes `http://host/v1`."""
    return _NAME_AND_PASSWORD.sub("//", url)


def unbound_role(role: str, roles: Collection[str]) -> PlanError:
    """The error to raise for a role without a model; `roles` have one."""
    hint = did_you_mean(role, roles) or f"set it: {role} = ... under [models] in semgraph.toml"
    return PlanError(
        Problem(
            f'no model is bound to the role "{role}"',
            there=f"roles with a model: {', '.join(roles)}",
            hint=hint,
        )
    )


def parse_spec(text: str, kind: Kind, where: str = "") -> ModelSpec:
    """Read a specification.

    Args:
        text: Such as `openai:gpt-4.1-mini`, `openai:Qwen3-32B@http://gpu:8000/v1?structured=tool`,
            `local`.
        kind: Which of the two is expected.
        where: Its origin, for messages.

    Raises:
        PlanError: It is invalid; with a suggestion.
    """
    what = (f"{where}: " if where else "") + f'"{without_password(text)}"'
    providers = OPTIONS[kind]
    provider, _, rest = text.strip().partition(":")
    provider, mark, tail = provider.partition("?")
    rest = f"?{tail}" if mark and not rest else rest
    if provider not in providers:
        hint = did_you_mean(provider, providers) or (
            f"a server that speaks OpenAI's protocol: openai:{rest}@http://HOST:PORT/v1"
            if rest
            else f"write openai:{text} for that model"
        )
        raise PlanError(
            Problem(
                f"{what} is not a valid {kind}",
                there=f"it must begin with {', '.join(providers)}",
                hint=hint,
            )
        )
    url = _URL.search(rest)
    if not url and _HOST.search(rest.partition("?")[0]):
        raise PlanError(Problem(f"{what}: the address after @ must begin with http:// or https://"))
    model, _, query = (_URL.sub("", rest, count=1) if url else rest).partition("?")
    if provider in _MODEL_REQUIRED and not model:
        raise PlanError(Problem(f"{what} has no name of the {kind}", hint=f"write {provider}:NAME"))
    if url and provider != "openai":
        raise PlanError(Problem(f"{what}: only openai has an address after @"))
    base_url = url.group(1).rstrip("/") if url else None
    options = typed_options(query, providers[provider], what)
    if "poll" in dict(options) and not dict(options).get("batch"):
        raise PlanError(Problem(f"{what}: poll needs batch=true"))
    least, most = (dict(options).get(f"{end}_output") for end in ("min", "max"))
    if least and most and least > most:
        raise PlanError(Problem(f"{what}: min_output is above max_output"))
    return ModelSpec(kind, provider, model, base_url, options)


def typed_options(query: str, known: Mapping[str, type], what: str) -> tuple[tuple[str, Any], ...]:
    """The options after `?`, sorted by name. Raises PlanError, which begins with `what`."""
    options: dict[str, Any] = {}
    for key, value in parse_qsl(query, keep_blank_values=True):
        if key not in known:
            there = f"options: {', '.join(known)}" if known else "it has no options"
            hint = did_you_mean(key, known)
            if key in _OF_BATCHES:
                hint = (
                    "only language models of openai have a batch endpoint: openai:NAME?batch=true"
                )
            raise PlanError(Problem(f'{what}: unknown option "{key}"', there=there, hint=hint))
        if key in options:
            raise PlanError(Problem(f'{what}: duplicate "{key}"'))
        options[key] = _typed(key, value, known[key], what)
    return tuple(sorted(options.items()))


def _typed(key: str, value: str, type_: type, what: str) -> Any:
    if key in _CHOICES and value not in _CHOICES[key]:
        there = f"it must be one of {', '.join(_CHOICES[key])}"
        raise PlanError(
            Problem(
                f'{what}: {key} is "{value}"', there=there, hint=did_you_mean(value, _CHOICES[key])
            )
        )
    if type_ is bool:
        return value == "true"
    try:
        typed = type_(value)
    except ValueError:
        typed = None
    if typed is None or typed == "" or (type_ is not str and typed <= 0):
        wanted = "a word" if type_ is str else "a number above 0"
        raise PlanError(Problem(f'{what}: {key} is "{value}"', hint=f"it must be {wanted}"))
    return typed
