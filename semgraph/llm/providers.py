"""The providers of models and embedders, by the first word of a specification:
`openai:MODEL@URL?key=value`, `local:NAME`, `recorded:PATH`.

A service at an address is a row of `llm/services.py`. Any other provider is a class here and an
entry in `PROVIDERS`.
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from semgraph.errors import PlanError, did_you_mean
from semgraph.formats import BAD, GOOD, NOTE, plural, size
from semgraph.llm import catalogue
from semgraph.llm.base import Kind, Limits, ModelSpec
from semgraph.llm.faults import Transient, failure_of
from semgraph.llm.services import SERVICES, Service
from semgraph.llm.tokens import PRICED, FlatPrice, Price, price_of
from semgraph.privacy import without_password

if TYPE_CHECKING:
    from semgraph.llm.recording import Recording

Options = Mapping[str, Callable[[str], Any]]  # the reader of each option
_URL = re.compile(r"@(https?://[^?]*)")
_HOST = re.compile(r"@(?:localhost|[\w.-]+:\d+|[\w-]+(?:\.[\w-]+)+/)")
_TIMEOUT, _POLL = 120.0, 60.0
_REACH_SECONDS = 5.0
# Options that are passed unchanged to an OpenAI-compatible endpoint.
EXTRAS = ("reasoning_effort", "verbosity", "service_tier")
_CHOICES = {"structured": ("json_schema", "json_object", "tool"), "batch": ("true", "false")}
_OF_BATCHES = ("batch", "poll")
_NO_BATCHES = "only language models of openai have a batch endpoint: openai:NAME?batch=true"


@dataclass(frozen=True)
class Means:
    """The resources with which a provider opens a model."""

    environment: Mapping[str, str]  # keys, addresses, folders
    folder: Path  # the base of relative paths
    # the key that may be sent to the address of a specification; raises PlanError
    key: Callable[[ModelSpec], str]
    in_flight: int | None = None  # None: the model's default
    recording: Path | Recording | None = None  # the plan's
    # of the settings as text, by specification without options
    prices: Mapping[str, str] = field(default_factory=dict)


class Provider(ABC):
    """A provider of models or embedders."""

    name: str  # the prefix of specifications
    options: Mapping[Kind, Options]  # with their types; a kind that the provider lacks has no entry
    service: Service | None = None  # at an address; None: models run in this process
    names_required = False  # whether a specification must name a model
    extra = ""  # the extra of semgraph with its package; "": none
    free = ""  # why its tokens cost nothing; "": they may cost something
    replays = False  # whether it replays a recording, which belongs to a plan
    made_up = False  # whether its answers mean nothing

    @abstractmethod
    def open(self, spec: ModelSpec, means: Means) -> Any:
        """The unwrapped model or embedder of a specification. Loads and sends nothing yet. Raises
        PlanError.
        """

    def describe(self, spec: ModelSpec, recording: Path) -> str:  # noqa: ARG002
        """A description of a model; `recording` is the file that it would replay."""
        return str(spec)

    def files(self, spec: ModelSpec, where: str = "") -> catalogue.CatalogueModel | None:  # noqa: ARG002
        """The files that must be on disk before it answers; None: semgraph fetches nothing. Raises
        PlanError with the prefix `where` if there is no such model.
        """
        return None

    def dimensions(self, spec: ModelSpec) -> int | None:
        """The length of an embedder's vectors, if known without a request."""
        dimensions = spec.option("dimensions")
        return None if dimensions is None else int(dimensions)

    def price(self, spec: ModelSpec, means: Means) -> Price | None:  # noqa: ARG002
        """The price of its tokens; None: unknown."""
        return None

    def doctor(self, spec: ModelSpec, means: Means, untried: str) -> tuple[str, str, str]:  # noqa: ARG002
        """A check whether the model can answer: a sign, the fact, and its remedy. `untried` is the
        text for a reachable endpoint that was sent no request. Raises SemgraphError.
        """
        return GOOD, str(spec), ""


class Hosted(Provider):
    """Models at an address: a row of the table of services."""

    names_required = True
    service: Service

    def __init__(self, service: Service) -> None:
        self.name, self.service = service.name, service
        rates: Options = {"in_flight": int, "rpm": int, "tpm": int}
        more: Options = {"timeout": float, "key_env": str}
        lengths = dict.fromkeys(("context", "max_output", "min_output"), int)
        batches: Options = {"batch": bool, "poll": float} if service.batches else {}
        length: Options = {} if "dimensions" in service.refuses else {"dimensions": int}
        model: Options = {"structured": str, **rates, **lengths, **more, **batches}
        price = partial(FlatPrice.parse, least=2)
        self.options = {"model": {**model, "price": price, **dict.fromkeys(EXTRAS, str)}}
        if "embeddings" not in service.refuses:
            self.options["embedder"] = {**length, **rates, **more, "price": FlatPrice.parse}

    def _address(self, spec: ModelSpec, means: Means) -> str:
        """The address of a model. Raises PlanError if nothing names it."""
        url = self.service.address(spec.base_url, means.environment)
        if not url:
            what = f"{spec}: nothing names the address of {self.service.title}"
            raise PlanError(what, hint=f"set {self.service.url_from}")
        return url

    def open(self, spec: ModelSpec, means: Means) -> Any:
        """The endpoint, with a key that may be sent to it."""
        url = self._address(spec, means)
        key, timeout = means.key(spec), spec.option("timeout") or _TIMEOUT
        price = self._set_price(spec, means)
        if spec.kind == "embedder":
            from semgraph.llm.embed import OpenAIEmbedder

            dimensions = spec.option("dimensions")
            return OpenAIEmbedder(spec.model, dimensions, url, key, timeout, price, self.service)
        from semgraph.llm.anthropic import Anthropic
        from semgraph.llm.openai import OpenAI

        defaults, least = Limits(), spec.option("min_output") or 0
        limits = Limits(
            spec.option("context") or defaults.context_tokens,
            spec.option("max_output") or max(defaults.max_output_tokens, least),
            spec.option("in_flight") or means.in_flight or defaults.in_flight,
            min_output_tokens=least,
            assumed=spec.option("max_output") is None,
        )
        structured = spec.option("structured") or self.service.structured
        extra = {name: spec.option(name) for name in EXTRAS if spec.option(name)}
        more: dict[str, Any] = {"batch": bool(spec.option("batch")), "service": self.service}
        more["poll"] = spec.option("poll") or _POLL
        endpoint = Anthropic if self.service.protocol == "messages" else OpenAI
        return endpoint(spec.model, url, key, limits, structured, timeout, price, extra, **more)

    def price(self, spec: ModelSpec, means: Means) -> Price | None:
        """The price that the user set, else the listed one, by its address."""
        url = self.service.address(spec.base_url, means.environment)
        return self._set_price(spec, means) or price_of(spec.model, url, self.service)

    def _set_price(self, spec: ModelSpec, means: Means) -> FlatPrice | None:
        """The price in the specification, else in the settings. Raises PlanError."""
        name = str(replace(spec, options=()))
        price: FlatPrice | None = spec.option("price")
        if price is None and name in means.prices:
            read, what = self.options[spec.kind]["price"], f'[prices] "{name}" is a {spec.kind}'
            price = _typed("price", means.prices[name], read, what)
        return price

    def doctor(self, spec: ModelSpec, means: Means, untried: str) -> tuple[str, str, str]:
        """Whether the endpoint is reachable, accepts the key and has a known price."""
        url, key = self._address(spec, means), means.key(spec)
        if not key and self.service.needs_key(url):
            remedy = f"export {self.service.key}=…, or use another model: --llm local"
            return BAD, f"{spec}: no key", remedy
        sign, answer, remedy = self._reached(url, key)
        answer += untried if sign == GOOD else ""
        known = "price known"
        if self.price(spec, means) is None:
            known = f"price unknown: tokens are counted, dollars are not; {PRICED}"
        return sign, f"{spec}: {answer}; {known}", remedy

    def _reached(self, url: str, key: str) -> tuple[str, str, str]:
        """Read what tests a key: a sign, the answer, and the remedy."""
        import httpx2

        headers = self.service.authorization(key)
        try:
            reply = httpx2.get(url + self.service.key_path, headers=headers, timeout=_REACH_SECONDS)
        except httpx2.HTTPError as error:
            remedy = "Check the address and whether the server runs"
            return BAD, f"does not answer ({str(error) or type(error).__name__})", remedy
        if reply.is_success:
            return GOOD, "reachable", ""
        key, code = self.service.key, reply.status_code
        failure = failure_of("answers HTTP", reply.text, 0.0, key, code)
        bad = code == httpx2.codes.FORBIDDEN or reply.is_server_error
        if isinstance(failure, Transient) and (bad or failure.certain):
            return BAD, failure.what, failure.remedy or "Check the server"
        return GOOD, "reachable", ""


class _OnThisMachine(Provider):
    """Models of the catalogue, in this process."""

    name = extra = "local"
    options: Mapping[Kind, Options] = {
        "model": {"threads": int, "context": int},
        "embedder": {"threads": int},
    }
    free = "runs here"

    def open(self, spec: ModelSpec, means: Means) -> Any:
        name, threads = self.files(spec).name, spec.option("threads")
        if spec.kind == "embedder":
            from semgraph.llm.embed import LocalEmbedder

            return LocalEmbedder(name, threads, env=means.environment)
        from semgraph.llm.local import Local

        return Local(name, threads, spec.option("context"), env=means.environment)

    def describe(self, spec: ModelSpec, recording: Path) -> str:  # noqa: ARG002
        from semgraph.llm.local import default_threads

        model = self.files(spec)
        threads = spec.option("threads") or default_threads()
        busy = not spec.option("threads") and threads < default_threads(0.0)
        note = " (all cores are busy; ?threads=N overrides this)" if busy else ""
        return f"local {model.name}, {model.parameters}, {plural(threads, 'CPU thread')}{note}"

    def files(self, spec: ModelSpec, where: str = "") -> catalogue.CatalogueModel:
        default = catalogue.DEFAULT_MODEL if spec.kind == "model" else catalogue.DEFAULT_EMBEDDER
        return catalogue.find(spec.model or default, spec.kind, where)

    def dimensions(self, spec: ModelSpec) -> int:
        from semgraph.llm.embed import DIMENSIONS

        return DIMENSIONS[self.files(spec).name]

    def doctor(self, spec: ModelSpec, means: Means, untried: str) -> tuple[str, str, str]:  # noqa: ARG002
        model = self.files(spec)
        what = self.describe(spec, means.folder)
        if catalogue.on_disk(model, means.environment):
            return GOOD, f"{what}: on disk, {size(model.size)}", ""
        fetched = f"{what}: not on disk yet, {size(model.size)}"
        pull = f"semgraph model pull {model.name}"
        if catalogue.offline(means.environment):
            remedy = f"SEMGRAPH_OFFLINE forbids to fetch it: {pull} --from PATH"
            return BAD, fetched, remedy
        return NOTE, fetched, f"The first run fetches it; now: {pull}"


class _Replayed(Provider):
    """Recorded answers and vectors: of the plan, or of a file."""

    name = "recorded"
    options: Mapping[Kind, Options] = {"model": {}, "embedder": {}}
    free = "replayed"
    replays = True

    def open(self, spec: ModelSpec, means: Means) -> Any:
        from semgraph.llm.recording import Recorded, RecordedEmbedder, recording_file

        recording = recording_file(spec.model, means.folder) if spec.model else means.recording
        if recording is None:
            what = f"{spec}: there is no plan with a recording here"
            raise PlanError(what, hint="write recorded:FILE")
        return (Recorded if spec.kind == "model" else RecordedEmbedder)(recording)

    def describe(self, spec: ModelSpec, recording: Path) -> str:
        from semgraph.llm.recording import Recording

        result = Recording.read(recording)
        return f"{spec}: {result.embedder if spec.kind == 'embedder' else result.model} on {result.date}"


class _MadeUp(Provider):
    """Answers that fit the schema and mean nothing."""

    name = "dummy"
    options: Mapping[Kind, Options] = {"model": {}, "embedder": {}}
    free, made_up = "made up", True

    def open(self, spec: ModelSpec, means: Means) -> Any:  # noqa: ARG002
        from semgraph.llm.dummy import Dummy

        if spec.model:
            raise PlanError(f"{spec}: dummy has no models", hint="write dummy")
        return Dummy()

    def describe(self, spec: ModelSpec, recording: Path) -> str:  # noqa: ARG002
        return f"dummy: made-up {'answers' if spec.kind == 'model' else 'vectors'}"


class _SentenceTransformers(Provider):
    """Embedders of the package sentence-transformers, in this process."""

    name = extra = "sentence-transformers"
    options: Mapping[Kind, Options] = {"embedder": {"device": str}}
    names_required = True

    def open(self, spec: ModelSpec, means: Means) -> Any:
        from semgraph.llm.embed import SentenceTransformersEmbedder

        device = spec.option("device")
        return SentenceTransformersEmbedder(spec.model, device, env=means.environment)


_IN_PROCESS = (_OnThisMachine(), _Replayed(), _MadeUp(), _SentenceTransformers())
_EVERY: tuple[Provider, ...] = (*map(Hosted, SERVICES), *_IN_PROCESS)
PROVIDERS = {each.name: each for each in _EVERY}


def options_of(kind: Kind) -> dict[str, Options]:
    """The options of the providers of this kind, by provider name."""
    return {name: each.options[kind] for name, each in PROVIDERS.items() if kind in each.options}


def parse_spec(text: str, kind: Kind, where: str = "") -> ModelSpec:
    """Parse a specification of a kind, such as `openai:gpt-4.1-mini`, `local` or
    `openai:Qwen3-32B@http://gpu:8000/v1?structured=tool`. `where` is its origin, for messages.
    Raises PlanError with a suggestion.
    """
    what = (f"{where}: " if where else "") + f'"{without_password(text)}"'
    providers = options_of(kind)
    provider, _, rest = text.strip().partition(":")
    provider, mark, tail = provider.partition("?")
    rest = f"?{tail}" if mark and not rest else rest
    if provider not in providers:
        hint = f"write openai:{text} for that model"
        if rest:
            hint = f"a server that speaks OpenAI's protocol: openai:{rest}@http://HOST:PORT/v1"
        near = did_you_mean(provider, providers)
        there = f"it must begin with {', '.join(providers)}"
        raise PlanError(f"{what} is not a valid {kind}", there=there, hint=near or hint)
    url = _URL.search(rest)
    if not url and _HOST.search(rest.partition("?")[0]):
        raise PlanError(f"{what}: the address after @ must begin with http:// or https://")
    model, _, query = (_URL.sub("", rest, count=1) if url else rest).partition("?")
    if PROVIDERS[provider].names_required and not model:
        raise PlanError(f"{what} has no name of the {kind}", hint=f"write {provider}:NAME")
    if url and PROVIDERS[provider].service is None:
        hint = "a server that speaks OpenAI's protocol: openai:NAME@URL"
        raise PlanError(f"{what}: {provider} has no address", hint=hint)
    base_url = url.group(1).rstrip("/") if url else None
    options = typed_options(query, providers[provider], what)
    service, form = PROVIDERS[provider].service, options.get("structured")
    if service and form in service.refuses:
        hint = f"leave structured out: {service.structured} is sent"
        raise PlanError(f"{what}: {service.title} has no {form}", hint=hint)
    if "poll" in options and not options.get("batch"):
        raise PlanError(f"{what}: poll needs batch=true")
    if options.get("min_output", 0) > options.get("max_output", math.inf):
        raise PlanError(f"{what}: min_output is above max_output")
    return ModelSpec(kind, provider, model, base_url, tuple(options.items()))


def names_model(text: str) -> bool:
    """Whether a text in a choice is PROVIDER:NAME, or a provider that needs no name, not a role."""
    return ":" in text or (text in PROVIDERS and not PROVIDERS[text].names_required)


def plain_spec(text: str) -> ModelSpec:
    """Parse PROVIDER:NAME, as files that are passed on may name a model. Raises PlanError, also for
    an address and for options: they say where requests and keys go.
    """
    spec = parse_spec(text, "model")
    if spec.base_url or spec.options:
        what = f'"{without_password(text)}" has an address or options'
        hint = "bind a role to it, under [models] in semgraph.toml, and write the role"
        raise PlanError(what, there="here a model is a role, or PROVIDER:NAME", hint=hint)
    return spec


def typed_options(query: str, known: Options, what: str) -> dict[str, Any]:
    """Parse the options after `?`, sorted by name. Raises PlanError with the prefix `what`."""
    options: dict[str, Any] = {}
    for key, value in parse_qsl(query, keep_blank_values=True):
        if key not in known:
            there = f"options: {', '.join(known)}" if known else "it has no options"
            hint = _NO_BATCHES if key in _OF_BATCHES else did_you_mean(key, known)
            raise PlanError(f'{what}: unknown option "{key}"', there=there, hint=hint)
        if key in options:
            raise PlanError(f'{what}: duplicate "{key}"')
        options[key] = _typed(key, value, known[key], what)
    return dict(sorted(options.items()))


PRICES = "IN/OUT or IN/OUT/CACHED, in dollars per million tokens: 0.4/1.6 (an embedder: IN)"


def _typed(key: str, value: str, read: Callable[[str], Any], what: str) -> Any:
    if key in _CHOICES and value not in _CHOICES[key]:
        choices = _CHOICES[key]
        near, there = did_you_mean(value, choices), f"it must be one of {', '.join(choices)}"
        raise PlanError(f'{what}: {key} is "{value}"', there=there, hint=near)
    if read is bool:
        return value == "true"
    try:
        typed = read(value)
    except ValueError:
        typed = None
    if typed in (None, "") or (isinstance(typed, int | float) and typed <= 0):
        wanted = "a word" if read is str else "a number above 0"
        wanted = PRICES if key == "price" else wanted
        raise PlanError(f'{what}: {key} is "{value}"', hint=f"it must be {wanted}")
    return typed
