"""Which model, embedder, store and limits are used, and where each choice came from.

Order: option > environment > `./semgraph.toml` > user config > default. Nothing else is read; in particular no `.env`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from semgraph.errors import PlanError, Problem, did_you_mean
from semgraph.llm.models import find
from semgraph.llm.sources import Source, from_environment, from_file, from_options, user_config
from semgraph.llm.specs import ModelSpec, parse_spec, without_password
from semgraph.redaction import learn, learn_from_addresses, learn_from_environment

OPENAI_MODEL = "openai:gpt-4.1-mini"
OPENAI_EMBEDDER = "openai:text-embedding-3-small?dimensions=1024"
# As `semgraph.llm.wire` has it; importing that loads much that settings do not need.
OPENAI_URL = "https://api.openai.com/v1"

_DEFAULTS: dict[str, Any] = {
    "store": "sqlite:.semgraph/graph.db",
    "operators": (),
    "journal.path": Path(".semgraph/journal.db"),
    "journal.keep_days": 30,
}
_FALSE = ("", "0", "false", "no", "off")


@dataclass(frozen=True, repr=False)
class Value:
    """A setting and where it came from: `option`, `environment SEMGRAPH_LLM`, `./semgraph.toml`, `default`."""

    value: Any
    origin: str

    def __repr__(self) -> str:
        return f"Value({without_password(str(self.value))}, {self.origin})"


@dataclass(frozen=True)
class RunLimits:
    """Limits as configured; None means none. `rpm`, `tpm` and `in_flight` hold per endpoint, the others per run."""

    rpm: int | None = None
    tpm: int | None = None
    in_flight: int | None = None
    max_usd: float | None = None
    max_calls: int | None = None
    max_tokens: int | None = None
    max_seconds: float | None = None


@dataclass(frozen=True)
class Settings:
    """All settings of a run. Make one with `load`.

    Args:
        values: Every key of `semgraph.toml` that has a value, dotted (`limits.rpm`, `models.small`), with its origin.
            Models are `ModelSpec`s, paths are absolute.
        environment: The variables that endpoints may read (keys, addresses).
        cwd: The directory that relative paths start from.
    """

    values: Mapping[str, Value]
    environment: Mapping[str, str] = field(repr=False)
    cwd: Path

    @classmethod
    def load(
        cls,
        overrides: Mapping[str, Any] | None = None,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        *,
        config: Path | None = None,
    ) -> Settings:
        """Read all sources.

        Args:
            overrides: Options by dotted key, None where not given. `llm` sets every role at once; `embedder` is
                `models.embed`.
            env: The environment; default: the process's.
            cwd: Where `semgraph.toml` is looked for; default: the process's.
            config: A file instead of `./semgraph.toml` (also `SEMGRAPH_CONFIG`). It must exist.

        Raises:
            PlanError: All problems found in all sources.
        """
        environment = {key: value for key, value in (os.environ if env is None else env).items() if value}
        learn_from_environment(environment)
        folder = Path.cwd() if cwd is None else cwd.absolute()
        problems: list[Problem] = []
        named = config or (Path(environment["SEMGRAPH_CONFIG"]) if "SEMGRAPH_CONFIG" in environment else None)
        sources = [
            from_options(overrides or {}, folder, problems),
            from_environment(environment, folder, problems),
            from_file(folder / (named or "semgraph.toml"), folder, problems, required=named is not None),
            from_file(user_config(environment), folder, problems),
        ]
        learn_from_addresses(str(value) for source in sources for value in source.values.values())
        values = _plain(sources, folder) | _models(sources, environment, problems)
        specs = [value.value for value in values.values() if isinstance(value.value, ModelSpec)]
        learn(*(environment.get(str(spec.option("key_env") or "")) for spec in specs))
        if problems:
            raise PlanError(*problems)
        return cls(values, environment, folder)

    def __getitem__(self, key: str) -> Value:
        """A setting with its origin."""
        return self.values[key]

    @property
    def store(self) -> str:
        """The store as named: `sqlite:PATH`, `memory`, `neo4j`, `neo4j://...`, `neo4j-local`."""
        return str(self["store"].value)

    @property
    def operators(self) -> tuple[Path, ...]:
        """Folders from which implementations may be loaded."""
        return tuple(self["operators"].value)

    @property
    def roles(self) -> tuple[str, ...]:
        """The roles that are bound to a model, `default` first."""
        bound = sorted(key.removeprefix("models.") for key in self.values if key.startswith("models."))
        return ("default", *(role for role in bound if role not in ("default", "embed")))

    def model(self, role: str = "default") -> ModelSpec:
        """The model of a role. Where nobody bound `small`, it is `default`.

        Raises:
            PlanError: Nobody bound the role.
        """
        bound = self.values.get(f"models.{role}") or (self["models.default"] if role == "small" else None)
        if bound is None or role == "embed":
            hint = did_you_mean(role, self.roles) or f"Bind it: {role} = ... under [models] in semgraph.toml"
            there = f"Bound are {', '.join(self.roles)}"
            raise PlanError(Problem(f'no model is bound to the role "{role}"', there=there, hint=hint))
        assert isinstance(bound.value, ModelSpec)
        return bound.value

    @property
    def embedder(self) -> ModelSpec:
        """The embedder."""
        value = self["models.embed"].value
        assert isinstance(value, ModelSpec)
        return value

    @property
    def limits(self) -> RunLimits:
        """The limits."""
        prefix = "limits."
        return RunLimits(**{k.removeprefix(prefix): v.value for k, v in self.values.items() if k.startswith(prefix)})

    @property
    def keep_days(self) -> int:
        """How many days the journal keeps an answer; 0 means that there is no journal."""
        return int(self["journal.keep_days"].value)

    @property
    def journal_path(self) -> Path | None:
        """Where answers are kept; None when `keep_days` is 0."""
        return Path(self["journal.path"].value) if self.keep_days else None

    @property
    def offline(self) -> bool:
        """Whether `SEMGRAPH_OFFLINE` forbids downloads."""
        return self.environment.get("SEMGRAPH_OFFLINE", "").lower() not in _FALSE

    def rows(self) -> Iterator[tuple[str, str, str]]:
        """(key, value, origin) of every setting as text that is safe to print, for `doctor`."""
        for key in sorted(self.values):
            value, origin = self.values[key].value, self.values[key].origin
            parts = value if isinstance(value, tuple) else (value,)
            yield key, ", ".join(_short(part, self.cwd) for part in parts) or "none", origin
        for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "NEO4J_URI", "SEMGRAPH_HOME", "SEMGRAPH_OFFLINE"):
            text = self.environment.get(name, "")
            if text:
                yield name, masked(text) if name.endswith("KEY") else without_password(text), "environment"


def masked(key: str) -> str:
    """A key as it may be shown: its last four letters, and not even these of a short one.

    >>> masked("sk-abcdefghijklmnop"), masked("secret")
    ('…mnop', 'set')
    """
    return f"…{key[-4:]}" if len(key) >= 16 else "set"


def _short(value: Any, cwd: Path) -> str:
    if isinstance(value, Path) and value.is_relative_to(cwd):
        return str(value.relative_to(cwd))
    return without_password(value) if isinstance(value, str) else str(value)


def _plain(sources: Sequence[Source], cwd: Path) -> dict[str, Value]:
    """Everything but models: the first source that has a key gives its value."""
    values = {key: Value(cwd / v if isinstance(v, Path) else v, "default") for key, v in _DEFAULTS.items()}
    for source in reversed(sources):
        for key, value in source.values.items():
            if key != "llm" and not key.startswith("models."):
                values[key] = Value(value, source.origin_of(key))
    return values


def _models(sources: Sequence[Source], env: Mapping[str, str], problems: list[Problem]) -> dict[str, Value]:
    """The models of all roles, and the embedder. `llm` in a source outranks every role of the sources below it."""
    found: dict[str, Value] = {}
    everything = False
    for source in sources:
        specs = {
            key: _spec(source, key, problems) for key in source.values if key == "llm" or key.startswith("models.")
        }
        every = specs.pop("llm", None)
        default = specs.get("models.default") or every
        if default and default.value.provider == "recorded" and not everything:
            recorded = ModelSpec("embedder", "recorded", default.value.model)
            specs.setdefault("models.embed", Value(recorded, default.origin))
        for key, value in specs.items():
            if value and (key == "models.embed" or not everything):
                found.setdefault(key, value)
        if every and not everything:
            found.setdefault("models.default", every)
            everything = True
    found.setdefault("models.default", _implied(env))
    found.setdefault("models.embed", _embedder_beside(found["models.default"].value, env))
    return found


def _spec(source: Source, key: str, problems: list[Problem]) -> Value | None:
    origin = source.origin_of(key)
    try:
        spec = parse_spec(source.values[key], "embedder" if key == "models.embed" else "model", origin)
        if spec.provider == "local" and spec.model:
            find(spec.model, spec.kind, origin)
    except PlanError as error:
        problems.extend(error.problems)
        return None
    return Value(spec, origin)


def _implied(env: Mapping[str, str]) -> Value:
    """The model when nobody named one: a key chooses OpenAI's, else it is local."""
    if "OPENAI_API_KEY" in env:
        return Value(parse_spec(OPENAI_MODEL, "model"), "environment OPENAI_API_KEY")
    return Value(parse_spec("local", "model"), "default (SEMGRAPH_LLM, OPENAI_API_KEY: not set)")


def _embedder_beside(model: ModelSpec, env: Mapping[str, str]) -> Value:
    """The embedder when nobody named one: OpenAI's beside a model of OpenAI itself, else local."""
    url = model.base_url or env.get("OPENAI_BASE_URL", OPENAI_URL)
    if model.provider == "openai" and url.rstrip("/") == OPENAI_URL and "OPENAI_API_KEY" in env:
        return Value(parse_spec(OPENAI_EMBEDDER, "embedder"), "default beside a model of OpenAI")
    return Value(parse_spec("local", "embedder"), "default (SEMGRAPH_EMBEDDER: not set)")
