"""Secrets that this process knows, and text without them.

Keys and passwords are learned where settings, endpoints and stores take them, and replaced where
text leaves: in every error of semgraph, on the terminal, in records and reports.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import quote, quote_plus, unquote

HIDDEN = "[secret]"
_LEAST = 6  # shorter values are words like any other, and no protection
_NAMES = ("_KEY", "_PASSWORD", "_PASSWD", "_TOKEN", "_SECRET", "_AUTH")
_USERINFO = re.compile(
    r"\b[a-z][a-z0-9+.-]*://(?P<user>[^/:@\s]*):(?P<password>[^@\s]*[^/@\s])@", re.IGNORECASE
)
_PARAMETER = re.compile(
    r"[?&][\w-]*(?:key|token|secret|password)=(?P<value>[^&#\s\"']+)", re.IGNORECASE
)
_known: set[str] = set()


def learn(*values: str | None) -> None:
    """Remember secrets. Values that are too short to be any are ignored."""
    for value in values:
        stripped = (value or "").strip()
        if len(stripped) >= _LEAST and stripped not in _known:
            _known.add(stripped)


def learn_from_environment(environment: Mapping[str, str]) -> None:
    """Remember the secrets among environment variables: by their names, and passwords in
    addresses.
    """
    learn(*(value for name, value in environment.items() if name.upper().endswith(_NAMES)))
    learn_from_addresses(environment.values())


def learn_from_addresses(texts: Iterable[str]) -> None:
    """Remember what is secret in addresses, `neo4j://user:PASSWORD@host` and `?api_key=KEY`, as
    written and as meant.
    """
    for text in texts:
        for found in _USERINFO.finditer(text) if "://" in text else ():
            learn(found["password"], unquote(found["password"]))
        for found in _PARAMETER.finditer(text):
            learn(found["value"], unquote(found["value"]))


def redacted(text: str) -> str:
    """The text with `[secret]` in place of every secret, also where it is escaped for a URL, JSON
    or HTML.

    >>> learn("correct horse")
    >>> redacted("GET /?key=correct%20horse: 'correct horse' is wrong")
    "GET /?key=[secret]: '[secret]' is wrong"
    """
    return _pattern(frozenset(_known)).sub(HIDDEN, text) if _known else text


def redacted_values(value: Any) -> Any:
    """The same for every text in lists and mappings; keys stay."""
    if not _known:
        return value
    if isinstance(value, str):
        return redacted(value)
    if isinstance(value, Mapping):
        return {key: redacted_values(each) for key, each in value.items()}
    return [redacted_values(each) for each in value] if isinstance(value, list | tuple) else value


@lru_cache(maxsize=4)
def _pattern(secrets: frozenset[str]) -> re.Pattern[str]:
    forms = {form for secret in secrets for form in _forms(secret)}
    return re.compile("|".join(map(re.escape, sorted(forms, key=len, reverse=True))))


def _forms(secret: str) -> set[str]:
    from markupsafe import escape

    raw = secret.encode("utf-8", "surrogatepass")
    in_json = (json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1])
    in_html = (html.escape(secret), str(escape(secret)))  # quotes differ
    return {secret, quote(raw, safe=""), quote(raw), quote_plus(raw), *in_json, *in_html}
