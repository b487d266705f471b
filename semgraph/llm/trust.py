"""Keys and passwords go to hosts that the user named: on the command line, in Python, in a variable or
in the user's own file. What any other file names gets none without the user's consent.
"""

from __future__ import annotations

import re
import sys
from urllib.parse import urlsplit

from semgraph.display import command, is_shell
from semgraph.errors import PlanError, Problem
from semgraph.llm.prices import OPENAI_URL
from semgraph.llm.settings import TRUST, Setting, Settings, user_config

_HOST = re.compile(r"([A-Za-z0-9._-]+|\[[0-9A-Fa-f:]+\])(:\d+)?\Z")
_PORT = re.compile(r":\d+\Z")
_LOOPBACK = re.compile(r"localhost|127(\.\d{1,3}){3}|\[::1\]")
_allowed: set[tuple[str, str]] = set()
"""Hosts and names of secrets that the user consented to, for this process."""


def require_trusted(secret: str, url: str, setting: Setting, settings: Settings) -> None:
    """Refuse to send a secret to an address that neither the user nor the user's own file names; on
    a terminal, ask once.

    Args:
        secret: The name of the variable with it.
        url: The address.
        setting: What names the address.
        settings: Where the user's own addresses and `[trust] hosts` are.

    Raises:
        PlanError: The user has not named that host.
    """
    if is_trusted(secret, url, setting, settings):
        return
    env, host = settings.environment, _place(url)[1] or url
    if (secret, host) not in _allowed and not _consents(secret, host, setting):
        what = (
            f"{setting.origin} names {host}, which would be sent {secret}: only you can allow that"
        )
        place = command("an option", "an argument of Session")
        hint = (
            f'to allow it, write hosts = ["{host}"] under [trust] in {user_config(env)}, '
            f"or name the address yourself, in {place} or a variable"
        )
        raise PlanError(Problem(what, there="Nothing was sent", hint=hint))
    _allowed.add((secret, host))


def is_trusted(secret: str, url: str, setting: Setting, settings: Settings) -> bool:
    """Whether the user, or the user's own file, names an address; arguments as `require_trusted`."""
    env, (scheme, host) = settings.environment, _place(url)
    own = {
        "OPENAI_API_KEY": (OPENAI_URL, env.get("OPENAI_BASE_URL", "")),
        "NEO4J_PASSWORD": (env.get("NEO4J_URI", ""),),
    }.get(secret, ())
    if setting.own or (host and (scheme, host) in map(_place, own)):
        return True
    hosts = settings.values[TRUST].value if TRUST in settings.values else ()
    return bool(host) and not {host, _PORT.sub("", host)}.isdisjoint(map(str.lower, hosts))


def is_loopback(url: str) -> bool:
    """Whether an address is of this machine."""
    return _LOOPBACK.fullmatch(_PORT.sub("", _place(url)[1])) is not None


def _place(url: str) -> tuple[str, str]:
    """Scheme and host with its port, in small letters; the host is "" if it is none that all programs
    read alike.
    """
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2].lower()
    ports = {"http": ":80", "https": ":443"}
    odd = "\\" in url or not _HOST.match(host)
    return parts.scheme, "" if odd else host.removesuffix(ports.get(parts.scheme, " "))


def _consents(secret: str, host: str, setting: Setting) -> bool:
    """Whether the user, asked on a terminal, lets a secret go to a host."""
    if not (is_shell() and sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    sys.stderr.write(f"{setting.origin} names {host}. Send it {secret}, for this run? [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in {"y", "yes"}
