"""Endpoints made from settings: models and the embedder. Also decides to which hosts keys and
passwords may be sent.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from semgraph.display import command, is_shell
from semgraph.errors import PlanError
from semgraph.llm.base import LLM, Borrowed, Embedder, Limits, ModelSpec
from semgraph.llm.providers import PROVIDERS, Means
from semgraph.llm.services import SERVICES
from semgraph.llm.settings import TRUST, Setting, Settings, user_config
from semgraph.llm.stack import Limiter, RetryPolicy, Stack
from semgraph.privacy import learn
from semgraph.stores.registry import STORES

if TYPE_CHECKING:
    from semgraph.llm.recording import Recording

NO_KEY = "none"  # the key for servers without keys
_HOST = re.compile(r"([A-Za-z0-9._-]+|\[[0-9A-Fa-f:]+\])(:\d+)?\Z")
_PORT = re.compile(r":\d+\Z")
_LOOPBACK = re.compile(r"localhost|127(\.\d{1,3}){3}|\[::1\]")
# (host, secret name) pairs that the user consented to, for this process.
_allowed: set[tuple[str, str]] = set()


def means(settings: Settings, recording: Path | Recording | None = None) -> Means:
    """The resources with which providers open models, from settings and the plan's recording."""
    key, in_flight = partial(key_of, settings=settings), settings.limits.in_flight
    return Means(settings.environment, settings.cwd, key, in_flight, recording, settings.prices)


def build(spec: ModelSpec, settings: Settings, recording: Path | Recording | None = None) -> Any:
    """The unwrapped model or embedder of a specification; `recording` is for `recorded` without a
    path. Opens and loads nothing yet. Raises PlanError if its file does not exist.
    """
    return PROVIDERS[spec.provider].open(spec, means(settings, recording))


def wrapped_model(model: LLM, limiter: Limiter, stack: Stack) -> LLM:
    """A wrapped model that its owner closes. Requests that run ahead go into batches, if it has
    them.
    """
    ahead = None
    if model.limits.batch:
        from semgraph.llm.batch import batched

        ahead = batched(model, stack)
    return stack.model(Borrowed(model), limiter, ahead)


def retry_policy(settings: Settings) -> RetryPolicy:
    """The policy of `retries.attempts` and `retries.seconds`."""
    attempts, seconds = (settings[f"retries.{name}"].value for name in ("attempts", "seconds"))
    return RetryPolicy(attempts=attempts, deadline=seconds)


# Makes the limiter of an endpoint from its name and `in_flight`, `rpm`, `tpm`.
MakeLimiter = Callable[[str, int, float | None, float | None], Limiter]


def local_limiter(_name: str, in_flight: int, rpm: float | None, tpm: float | None) -> Limiter:
    """A limiter for this process only."""
    return Limiter(in_flight, rpm, tpm)


@dataclass
class Endpoints:
    """Models and embedders, each made once, with the limiters of their endpoints.

    Models with the same address and key share a limiter, except those with limits of their own
    (`?rpm=`, `?tpm=`, `?in_flight=`). The same holds for embedders.
    """

    make_limiter: MakeLimiter = local_limiter
    # by endpoint, for all event loops
    limiters: dict[tuple[Any, ...], Limiter] = field(default_factory=dict)
    # in-process models by specification, for all event loops
    local: dict[str, LLM | Embedder] = field(default_factory=dict)
    # connections by specification, for one event loop
    remote: dict[str, LLM | Embedder] = field(default_factory=dict)

    def for_other_loop(self) -> Endpoints:
        """The same endpoints with separate connections, for another event loop."""
        return Endpoints(self.make_limiter, self.limiters, self.local)

    def wrapped(
        self,
        spec: ModelSpec,
        settings: Settings,
        stack: Stack,
        recording: Path | Recording | None = None,
    ) -> Any:
        """A wrapped model or embedder. Closing the wrapper does not close it.

        Replayed and made-up answers are not journalled. Raises as `build`.
        """
        endpoint, limiter = self.opened(spec, settings, recording)
        if PROVIDERS[spec.provider].replays or PROVIDERS[spec.provider].made_up:
            stack = replace(stack, journal=None)
        if spec.kind == "embedder":
            return stack.embedder(Borrowed(endpoint), limiter)
        return wrapped_model(endpoint, limiter, stack)

    def opened(
        self, spec: ModelSpec, settings: Settings, recording: Path | Recording | None = None
    ) -> tuple[Any, Limiter]:
        """The unwrapped model or embedder of a specification, and its limiter. Raises as `build`."""
        provider, limits = PROVIDERS[spec.provider], settings.limits
        made = self.local if provider.service is None else self.remote
        name = f"{spec.kind} {spec}"
        endpoint: Any = None if provider.replays else made.get(name)  # a replayed file may change
        endpoint = endpoint or build(spec, settings, recording)
        in_flight = spec.option("in_flight") or limits.in_flight or Limits().in_flight
        if spec.kind == "model":
            in_flight = endpoint.limits.in_flight
        rates = (spec.option("rpm") or limits.rpm, spec.option("tpm") or limits.tpm)
        if provider.replays:
            return endpoint, local_limiter("", in_flight, *rates)
        limited = any(spec.option(name) for name in ("in_flight", "rpm", "tpm"))
        separate = provider.service is None or limited
        address = provider.service and provider.service.address(spec.base_url, settings.environment)
        options = (spec.model, *spec.options) if separate else ()
        key = (spec.kind, address, spec.option("key_env"), *options)
        if key not in self.limiters:
            limiter = self.make_limiter(" ".join(map(str, key)), in_flight, *rates)
            self.limiters.setdefault(key, limiter)
        return made.setdefault(name, endpoint), self.limiters[key]

    async def aclose(self) -> None:
        """Close the connections."""
        while self.remote:
            await self.remote.popitem()[1].aclose()


def key_of(spec: ModelSpec, settings: Settings) -> str:
    """The key of an endpoint, read only from the variable that the specification names; "" for
    none. Servers on this machine need no key: no key is sent if only a folder's file names one,
    without a variable.

    Raises:
        PlanError: There is no such variable, or it holds no key; or a folder's file names the
            address, and the user has not named it.
    """
    service = PROVIDERS[spec.provider].service
    name = spec.option("key_env") or (service.key if service else "")
    key = settings.environment.get(name, "").strip()
    learn(key)
    if not (key.isascii() and key.isprintable()):
        what = f"{spec}: {name} has a character that no key has"
        raise PlanError(what, hint="copy the key once more, without quotes around it")
    if spec.option("key_env") and not key:
        what = f"{spec}: the environment has no {name}"
        raise PlanError(what, hint=f"set {name}, or name another variable")
    named = [each for each in settings.values.values() if each.value == spec]
    if service and key not in ("", NO_KEY) and named and not any(each.own for each in named):
        url = service.address(spec.base_url, settings.environment)
        asked = spec.option("key_env") or is_trusted(name, url, named[0], settings)
        if is_loopback(url) and not asked:
            return ""
        require_trusted(name, url, named[0], settings)
    return key


# Keys and passwords go only to hosts that the user named: on the command line, in Python, in a
# variable or in the user's own file. A host named by any other file needs the user's consent.


def require_trusted(secret: str, url: str, setting: Setting, settings: Settings) -> None:
    """Refuse to send a secret (a variable) to an address that neither the user nor the user's own
    file names; on a terminal, ask once. `setting` names the address. Raises PlanError.
    """
    if is_trusted(secret, url, setting, settings):
        return
    env, host = settings.environment, _place(url)[1] or url
    if (secret, host) not in _allowed and not _consents(secret, host, setting):
        what = f"{setting.origin} names {host}, which would be sent {secret}"
        place = command("an option", "an argument of Session")
        hint = f'to allow it, write hosts = ["{host}"] under [trust] in {user_config(env)}, '
        hint += f"or name the address yourself, in {place} or a variable"
        raise PlanError(f"{what}: only you can allow that", there="Nothing was sent", hint=hint)
    _allowed.add((secret, host))


def is_trusted(secret: str, url: str, setting: Setting, settings: Settings) -> bool:
    """Whether the user, or the user's own file, names an address."""
    env, (scheme, host) = settings.environment, _place(url)
    services = (each for each in SERVICES if each.key == secret)
    own = [url for each in services for url in (each.url, each.address("", env))]
    own += [env.get(each.address_from, "") for each in STORES if each.password == secret]
    if setting.own or (host and (scheme, host) in map(_place, own)):
        return True
    hosts = settings.values[TRUST].value if TRUST in settings.values else ()
    return bool(host) and not {host, _PORT.sub("", host)}.isdisjoint(map(str.lower, hosts))


def is_loopback(url: str) -> bool:
    """Whether an address belongs to this machine."""
    return _LOOPBACK.fullmatch(_PORT.sub("", _place(url)[1])) is not None


def _place(url: str) -> tuple[str, str]:
    """Scheme and host with port, in lower case; the host is "" if programs could parse it
    differently.
    """
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2].lower()
    ports = {"http": ":80", "https": ":443"}
    odd = "\\" in url or not _HOST.match(host)
    return parts.scheme, "" if odd else host.removesuffix(ports.get(parts.scheme, " "))


def _consents(secret: str, host: str, setting: Setting) -> bool:
    """Whether the user, asked on a terminal, lets a secret be sent to a host."""
    if not (is_shell() and sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    sys.stderr.write(f"{setting.origin} names {host}. Send it {secret}, for this run? [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in {"y", "yes"}
