"""Settings: models, embedder, store and limits, each with its origin.

Precedence: option > environment > `./semgraph.toml` > user config > default. No other source is
    read; in particular no `.env`.
"""

from __future__ import annotations

import math
import os
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from semgraph.errors import Fault, PlanError, Problem, among, did_you_mean, nearly
from semgraph.llm.base import ROLES, Kind, ModelSpec, falls_back
from semgraph.llm.providers import PRICES, PROVIDERS, names_model, parse_spec, plain_spec
from semgraph.llm.services import SERVICES
from semgraph.llm.tokens import FlatPrice
from semgraph.options import ARGUMENTS, SETTINGS, RunLimits, SettingSpec
from semgraph.privacy import (
    learn,
    learn_from_addresses,
    learn_from_environment,
    refusal,
    without_password,
)
from semgraph.stores.registry import STORES, store_spec

OPTION = "option"  # the origin of values from the command line or from `Session`
_PREFIX = "SEMGRAPH_"
_VARIABLES = {spec.variable: key for key, spec in SETTINGS.items() if spec.variable}
VARIABLES = (
    *_VARIABLES,
    "SEMGRAPH_HOME",
    "SEMGRAPH_CONFIG",
    "SEMGRAPH_OFFLINE",
    "SEMGRAPH_SEGMENTS",
    "SEMGRAPH_TOKEN",
)
TABLES = ("models", "limits", "retries", "journal", "prices")
KEYS = (*(key for key in SETTINGS if key not in ("llm", "models", "models.embed")), *TABLES)
TRUST = "trust.hosts"  # only in the user's own file
_ROLE = re.compile(r"[A-Za-z_]\w*(/\w+)*\Z")  # of a model: a role, or a step
_OF_KIND = re.compile(r"(?i)(embed|rerank)(d?er|ding)\Z")


@dataclass(frozen=True, repr=False)
class Setting:
    """A setting with its origin: `option`, `environment SEMGRAPH_LLM`, `./semgraph.toml`,
    `default`. `own`: the user set it, not a folder's file or a record.
    """

    value: Any
    origin: str
    own: bool = True

    def __repr__(self) -> str:
        return f"Setting({without_password(str(self.value))}, {self.origin})"


# The checked settings of one source, by dotted key. Models are text, paths are absolute.
Source = dict[str, Setting]


def user_config(env: Mapping[str, str]) -> Path:
    """The user's file: `config.toml` in `SEMGRAPH_HOME`, else in the system's configuration folder."""
    import platformdirs

    home = env.get("SEMGRAPH_HOME")
    folder = Path(home).expanduser() if home else platformdirs.user_config_path("semgraph")
    return folder / "config.toml"


def from_options(overrides: Mapping[str, Any], cwd: Path, problems: list[Problem]) -> Source:
    """Values from the command line or from `Session`, by argument or by key; None means unset."""
    values = {ARGUMENTS.get(name, name): v for name, v in overrides.items() if v is not None}
    models = {f"models.{name}": value for name, value in (values.pop("models", None) or {}).items()}
    if twice := sorted(models.keys() & values):
        what = f"{OPTION}: {twice[0]} is set twice"
        problems.append(Problem(what, hint="name the embedder once"))
    return _checked(OPTION, values | models, cwd, problems, also=("llm",))


def from_environment(env: Mapping[str, str], cwd: Path, problems: list[Problem]) -> Source:
    """The environment variables that set a key. A misspelt one is an error."""
    known = [name.removeprefix(_PREFIX) for name in VARIABLES]
    for name in env:
        own = name.removeprefix(_PREFIX) if name.startswith(_PREFIX) else ""
        if own and own not in known and (near := did_you_mean(own, known)):
            what = f"environment: unknown variable {name}"
            hint = near.replace('"', f'"{_PREFIX}', 1)
            problems.append(Problem(what, hint=hint))
    values = {key: env[name] for name, key in _VARIABLES.items() if name in env}
    source = _checked("environment", values, cwd, problems, also=("llm",))
    names = {key: name for name, key in _VARIABLES.items()}
    return {key: replace(each, origin=f"environment {names[key]}") for key, each in source.items()}


def from_file(
    path: Path,
    cwd: Path,
    problems: list[Problem],
    *,
    required: bool = False,
    named_by: str = "--config FILE, or SEMGRAPH_CONFIG",
    own: bool = False,
) -> Source:
    """A `semgraph.toml`; empty if it does not exist and is not required. Relative paths are
    resolved in its folder. `named_by` is the option that names another file. `own`: it is the
    user's own file.
    """
    origin = f"./{path.relative_to(cwd)}" if path.is_relative_to(cwd) else str(path)
    try:
        tree = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        wrong = Problem(f"{origin}: there is no such file", hint="name an existing file, or none")
        problems += [wrong] if required else []
    except tomllib.TOMLDecodeError as error:
        problems.append(Problem(f"{origin}: invalid TOML: {error}"))
    except UnicodeDecodeError as error:
        what, there = f"{origin}: cannot be read", f"byte {error.start} is not UTF-8"
        problems.append(Problem(what, there=there, hint="save it as UTF-8"))
    except OSError as error:
        what, there = f"{origin}: cannot be read", refusal(path.parent, error)
        problems.append(Problem(what, there=there, hint=f"name another: {named_by}"))
    else:
        also = (TRUST,) if own else ()
        return _checked(origin, dict(_flat(tree)), path.parent, problems, also, own=own)
    return {}


def _flat(tree: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, value in tree.items():
        if key in (*TABLES, "trust") and isinstance(value, dict):
            yield from ((f"{key}.{name}", inner) for name, inner in value.items())
        else:
            yield key, value


def _checked(
    origin: str,
    raw: Mapping[str, Any],
    base: Path,
    problems: list[Problem],
    also: tuple[str, ...] = (),
    *,
    own: bool = True,
) -> Source:
    source: Source = {}
    for key, value in raw.items():
        try:
            source[key] = Setting(_value(key, value, base, also), origin, own)
        except Fault as wrong:
            problems.append(Problem(f"{origin}: {wrong.what}", there=wrong.there, hint=wrong.hint))
        except PlanError as error:
            problems += [replace(each, what=f"{origin}: {each.what}") for each in error.problems]
    return source


def _value(key: str, value: Any, base: Path, also: tuple[str, ...]) -> Any:
    if key == TRUST:
        if key not in also:
            hint = "write it into your own file: docs/settings.md"
            raise Fault(f"{key} is not for the file of a folder", hint=hint)
        return _texts(key, value, "hosts")
    if key in TABLES:
        raise Fault(f"{key} is a table: write [{key}]", there=f"found {value!r}")
    if key.startswith("models.") and _ROLE.match(key.removeprefix("models.")):
        check_role(key.removeprefix("models."))
        return _text(key, value)
    if key.startswith("prices."):
        return _price(key.removeprefix("prices."), value)
    if key not in KEYS and key not in also:
        known = [each for each in KEYS if each not in TABLES]
        known += [*also, *(f"models.{role}" for role in ROLES)]
        raise Fault(f'unknown setting "{key}"', **among(key, known, "settings"))
    spec = SETTINGS[key]
    if spec.type is tuple:
        folders = [value] if isinstance(value, str | Path) else value
        return tuple(_path(folder, base) for folder in _texts(key, folders, "folders"))
    if spec.type in (int, float):
        return _number(key, value, spec)
    text = _text(key, value)
    if key == "store":
        text = store_spec(text).resolved(text, base)
    return _path(text, base) if spec.type is Path else text


def check_role(role: str) -> None:
    """Refuse a name of no role or step, and a misspelling of one of semgraph's roles: no prompt
    would use its model. Raises PlanError.
    """
    of_kind = _OF_KIND.match(role)
    near = [each for each in ROLES if nearly(role, each)] + ([of_kind[1]] if of_kind else [])
    if role not in ROLES and (near or not _ROLE.match(role)):
        there = f"semgraph's roles are {', '.join(ROLES)}; names of your own roles must not resemble them"
        hint = f'did you mean "models.{near[0]}"?' if near else "use letters, digits and _"
        raise PlanError(f'"models.{role}" is an unknown role', there=there, hint=hint)


def _price(model: str, value: Any) -> str:
    """The price of a model or an embedder, named without options, as text. Raises PlanError."""
    spec, text = parse_spec(model, "model"), str(value)
    if PROVIDERS[spec.provider].service is None:
        raise Fault(f'"{model}" costs nothing', hint="leave it out")
    if (named := str(replace(spec, options=()))) != model:
        raise Fault(f'"{model}" has options, or is written otherwise', hint=f'write "{named}"')
    try:
        FlatPrice.parse(text)
    except ValueError:
        raise Fault(f'"{model}" has the price {value!r}', hint=f"it must be {PRICES}") from None
    return text


def _text(key: str, value: Any) -> str:
    if isinstance(value, str | Path) and str(value).strip():
        return str(value).strip()
    raise Fault(f"{key} must be text", there=f"found {value!r}")


def _texts(key: str, value: Any, what: str) -> tuple[str | Path, ...]:
    if isinstance(value, list | tuple) and all(isinstance(each, str | Path) for each in value):
        return tuple(value)
    raise Fault(f"{key} must be a list of {what}", there=f"found {value!r}")


def _path(value: str | Path, base: Path) -> Path:
    return base / Path(value).expanduser()


def _number(key: str, value: Any, spec: SettingSpec) -> float | int:
    try:
        number = spec.type(value)
        exact = not isinstance(value, bool) and float(value) == number and math.isfinite(number)
    except (TypeError, ValueError, OverflowError):
        exact = False
    if not exact or (number <= 0 if spec.least is None else number < spec.least):
        what = "a whole number" if spec.type is int else "a number"
        least = "above 0" if spec.least is None else f"of at least {spec.least}"
        raise Fault(f"{key} must be {what} {least}", there=f"found {value!r}")
    return number  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Settings:
    """All settings of a run. Make one with `load`."""

    # by dotted key (`limits.rpm`, `models.small`); models are `ModelSpec`s, paths absolute
    values: Mapping[str, Setting]
    # the variables that endpoints may read (keys, addresses)
    environment: Mapping[str, str] = field(repr=False)
    cwd: Path  # in which relative paths are resolved

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
            overrides: Options by dotted key, None if not set. `llm` sets every role at once;
                `embedder` is `models.embed`.
            env: The environment; default: the process's.
            cwd: The folder of `semgraph.toml`; default: the process's.
            config: A file that replaces `./semgraph.toml` (also `SEMGRAPH_CONFIG`). It must exist.

        Raises:
            PlanError: The message lists all problems of all sources.
        """
        given = os.environ if env is None else env
        environment = {key: value for key, value in given.items() if value}
        learn_from_environment(environment)
        folder = Path.cwd() if cwd is None else cwd.absolute()
        problems: list[Problem] = []
        named = config or environment.get("SEMGRAPH_CONFIG")
        file, by = folder / (named or "semgraph.toml"), "its folder is SEMGRAPH_HOME"
        sources = [
            from_options(overrides or {}, folder, problems),
            from_environment(environment, folder, problems),
            from_file(file, folder, problems, required=named is not None),
            from_file(user_config(environment), folder, problems, named_by=by, own=True),
        ]
        learn_from_addresses(str(each.value) for source in sources for each in source.values())
        values = _plain(sources, folder) | _models(sources, environment, problems)
        specs = [value.value for value in values.values() if isinstance(value.value, ModelSpec)]
        learn(*(environment.get(str(spec.option("key_env") or "")) for spec in specs))
        if problems:
            raise PlanError(*problems)
        return cls(values, environment, folder)

    def __getitem__(self, key: str) -> Setting:
        """A setting with its origin."""
        return self.values[key]

    @property
    def store(self) -> str:
        """The store: `sqlite:PATH`, `memory`, `neo4j`, `neo4j://...`, `neo4j-local`."""
        return str(self["store"].value)

    @property
    def operators(self) -> tuple[Path, ...]:
        """Folders from which implementations may be loaded."""
        return tuple(self["operators"].value)

    @property
    def functions(self) -> tuple[Path, ...]:
        """Folders from which functions for expressions may be loaded."""
        return tuple(self["functions"].value)

    @property
    def roles(self) -> tuple[str, ...]:
        """The roles with a model, `default` first."""
        others = self._table("models.").keys() - {"default", "embed"}
        return ("default", *sorted(others))

    def role(self, name: str) -> str:
        """The role whose model answers for a role: itself, or `default` if it has no model. PROVIDER:NAME
        stays. Raises PlanError for a misspelt role.
        """
        return name if name in self.roles or names_model(name) else falls_back(name, self.roles)

    def bound(self, role: str) -> Setting:
        """The model of a role, or of PROVIDER:NAME in a choice. Raises PlanError for a misspelt role
        or an unknown provider.
        """
        bound = self.values.get(f"models.{self.role(role)}")
        return bound or Setting(plain_spec(role), "use")

    def model(self, role: str = "default") -> ModelSpec:
        """As `bound`, without the origin."""
        spec: ModelSpec = self.bound(role).value
        return spec

    @property
    def chosen_roles(self) -> tuple[str, ...]:
        """The roles and steps whose models are options."""
        return tuple(role for role in self.roles if self[f"models.{role}"].origin == OPTION)

    @property
    def embedder(self) -> ModelSpec:
        """The embedder."""
        value = self["models.embed"].value
        assert isinstance(value, ModelSpec)
        return value

    def choosing(self, models: Mapping[str, str | ModelSpec]) -> Settings:
        """These settings with other models, by role, step or `embed`; `llm` is that of all roles. Raises
        PlanError.
        """
        keys = {"llm" if n == "llm" else f"models.{n}": model for n, model in models.items()}
        problems, texts = list[Problem](), {k: m for k, m in keys.items() if isinstance(m, str)}
        source = from_options(texts, self.cwd, problems)
        specs = {k: Setting(m, OPTION) for k, m in keys.items() if isinstance(m, ModelSpec)}
        specs |= {k: found for k in source if (found := _spec(source, k, problems))}
        if problems:
            raise PlanError(*problems)
        values = dict(self.values)
        if every := specs.pop("llm", None):
            roles = {key for key in values if key.startswith("models.") and key != "models.embed"}
            values = {key: each for key, each in values.items() if key not in roles}
            values["models.default"] = every
        return replace(self, values=values | specs)

    @property
    def limits(self) -> RunLimits:
        """The limits."""
        return RunLimits(**self._table("limits."))

    @property
    def prices(self) -> Mapping[str, str]:
        """The prices of [prices] as text, by model without options."""
        return self._table("prices.")

    def _table(self, prefix: str) -> dict[str, Any]:
        """The values of a table, by key."""
        named = (each for each in self.values.items() if each[0].startswith(prefix))
        return {key.removeprefix(prefix): setting.value for key, setting in named}

    @property
    def keep_days(self) -> int | None:
        """Days before the journal deletes an answer; 0: no journal; None: never."""
        found = self.values.get("journal.keep_days")
        return None if found is None else int(found.value)

    @property
    def journal_path(self) -> Path | None:
        """The journal's file; None if `keep_days` is 0."""
        return Path(self["journal.path"].value) if self.keep_days != 0 else None

    def rows(self) -> Iterator[tuple[str, str, str]]:
        """(key, value, origin) of every setting, as text that is safe to print."""
        for key in sorted(self.values):
            value, origin = self.values[key].value, self.values[key].origin
            parts = value if isinstance(value, tuple) else (value,)
            yield key, ", ".join(_short(part, self.cwd) for part in parts) or "none", origin
        keys = {each.key for each in SERVICES}
        names = [name for each in SERVICES for name in (each.key, each.url_from)]
        names += [each.address_from for each in STORES]
        for name in (*names, "SEMGRAPH_HOME", "SEMGRAPH_OFFLINE"):
            if text := self.environment.get(name, ""):
                shown = masked(text) if name in keys else without_password(text)
                yield name, shown, "environment"

    @property
    def facts(self) -> dict[str, dict[str, str]]:
        """Every setting with its origin, for a record: no part of a key."""
        keys = {each.key for each in SERVICES}
        return {
            key: {"value": "set" if key in keys else value, "origin": origin}
            for key, value, origin in self.rows()
        }


def masked(key: str) -> str:
    """A key masked for printing: its last four letters, or `set` if it is short.

    >>> masked("sk-abcdefghijklmnop"), masked("secret")
    ('…mnop', 'set')
    """
    return f"…{key[-4:]}" if len(key) >= 16 else "set"


def _short(value: Any, cwd: Path) -> str:
    if isinstance(value, Path) and value.is_relative_to(cwd):
        return str(value.relative_to(cwd))
    return without_password(value) if isinstance(value, str) else str(value)


def _plain(sources: Sequence[Source], cwd: Path) -> dict[str, Setting]:
    """All settings except models, each from the first source that has it."""
    values: Source = {}
    for key, spec in SETTINGS.items():
        if (default := spec.default) is not None:
            default = cwd / default if isinstance(default, Path) else default
            values[key] = Setting(default, "default")
    for source in reversed(sources):
        values |= {key: each for key, each in source.items() if not _names_model(key)}
    return values


def _names_model(key: str) -> bool:
    return key == "llm" or key.startswith("models.")


def _models(
    sources: Sequence[Source], env: Mapping[str, str], problems: list[Problem]
) -> dict[str, Setting]:
    """The models of all roles, and the embedder. `llm` in a source overrides all roles of
    lower-ranking sources.
    """
    models: dict[str, Setting] = {}
    everything = False
    for source in sources:
        specs = {key: _spec(source, key, problems) for key in source if _names_model(key)}
        every = specs.pop("llm", None)
        default = specs.get("models.default") or every
        provider = PROVIDERS[default.value.provider] if default else None
        if default and provider and (provider.replays or provider.made_up) and not everything:
            embedder = ModelSpec("embedder", default.value.provider, default.value.model)
            specs.setdefault("models.embed", replace(default, value=embedder))
        for key, value in specs.items():
            if value and (key == "models.embed" or not everything):
                models.setdefault(key, value)
        if every and not everything:
            models.setdefault("models.default", every)
            everything = True
    models.setdefault("models.default", _implied(env))
    models.setdefault("models.embed", _embedder_beside(models["models.default"].value, env))
    return models


def _spec(source: Source, key: str, problems: list[Problem]) -> Setting | None:
    text = source[key]
    kind: Kind = "embedder" if key == "models.embed" else "model"
    try:
        spec = parse_spec(text.value, kind, text.origin)
        PROVIDERS[spec.provider].files(spec, text.origin)
    except PlanError as error:
        problems.extend(error.problems)
        return None
    return replace(text, value=spec)


def _implied(env: Mapping[str, str]) -> Setting:
    """The default model: of the first service with a key, else a local one."""
    services = [service for service in SERVICES if service.model]
    for service in services:
        if service.key in env:
            spec = parse_spec(f"{service.name}:{service.model}", "model")
            return Setting(spec, f"environment {service.key}")
    unset = ", ".join(["SEMGRAPH_LLM", *(service.key for service in services)])
    return Setting(parse_spec("local", "model"), f"default ({unset}: not set)")


def _embedder_beside(model: ModelSpec, env: Mapping[str, str]) -> Setting:
    """The default embedder: of the model's service, else a local one."""
    service = PROVIDERS[model.provider].service
    at_home = service is not None and service.address(model.base_url, env) == service.url
    if service and at_home and service.embedder and service.key in env:
        spec = parse_spec(f"{service.name}:{service.embedder}", "embedder")
        return Setting(spec, f"default beside a model of {service.title}")
    return Setting(parse_spec("local", "embedder"), "default (SEMGRAPH_EMBEDDER: not set)")
