"""Failures of OpenAI-compatible endpoints, as errors of a row, of an attempt, or of the run."""

from __future__ import annotations

import email.utils
import math
import os
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from semgraph.errors import ModelUnavailable, RowError
from semgraph.llm.stack import Transient
from semgraph.redaction import redacted

if TYPE_CHECKING:
    import openai

_LONGEST_QUOTE = 300
_OUT_OF_CREDIT = ("insufficient_quota", "billing_hard_limit_reached")
_FILTERED = ("content_filter", "content_policy_violation")
_TRANSIENT = {408: "timeout", 409: "server", 429: "throttled"}
# These affect every request; gateways send them, too.
_WHOLE_ENDPOINT = (429, 502, 503, 504, 529)
_REMEDY = {
    401: "The key was not accepted: set OPENAI_API_KEY, or name the variable that holds the key with ?key_env=NAME",
    402: "The account has no credit left",
    403: "The key has no access to this model, or not from here",
    404: "Check the model's name and the address, which usually ends in /v1",
    405: "Check the address: it usually ends in /v1",
}


def failure(error: openai.OpenAIError, name: str, url: str, seconds: float) -> Exception:
    """The error to raise for an error of the openai package.

    Args:
        error: Of the package.
        name: The model's name, with the address unless it is OpenAI's.
        url: The base URL.
        seconds: How long the attempt took.
    """
    import openai

    if isinstance(error, openai.APIStatusError):
        code = error.code or error.type or ""
        message = _message(error.body or error.message)
        return _status(name, error.status_code, code, message, seconds, error.response.headers)
    if isinstance(error, openai.APIConnectionError):
        return _connection(error, name, url, seconds)
    return ModelUnavailable(f"{name}: {error}")


def failure_in_body(error: Any, name: str, seconds: float) -> Exception:
    """The error to raise for an error in a reply with status 200: some gateways report the
    provider's errors so.
    """
    code = error.get("code") if isinstance(error, Mapping) else None
    status = code if isinstance(code, int) else 500
    return _status(name, status, str(code or ""), _message(error), seconds, {})


def failure_of_line(status: int, body: Any, name: str) -> Exception:
    """The error to raise for the line of a batch that has another status than 200."""
    error = body.get("error", body) if isinstance(body, Mapping) else body
    code = (error.get("code") or error.get("type")) if isinstance(error, Mapping) else None
    return _status(name, status, str(code or ""), _message(error), 0.0, {})


def not_openai(name: str, url: str, text: str) -> ModelUnavailable:
    """The error to raise for a reply of another protocol."""
    return ModelUnavailable(
        f"{name}: the answer of {url} is not that of an OpenAI-compatible endpoint: “{_short(text)}”. "
        "Check the address: it usually ends in /v1"
    )


def _status(
    name: str, status: int, code: str, reason: str, seconds: float, headers: Mapping[str, str]
) -> Exception:
    message = f"{name} ({status}): {reason.rstrip('.')}"
    if code in _OUT_OF_CREDIT:
        return ModelUnavailable(f"{message}. {_REMEDY[402]}")
    if status in _REMEDY:
        return ModelUnavailable(f"{message}. {_REMEDY[status]}")
    if code in _FILTERED:
        return RowError(
            "refused", f"refused by the provider's content filter: {reason}", attempts=1
        )
    if status in _TRANSIENT or status >= 500:
        return Transient(
            _TRANSIENT.get(status, "server"),
            message,
            seconds=seconds,
            retry_after=retry_after(headers),
            endpoint=status in _WHOLE_ENDPOINT,
        )
    return RowError("rejected", f"{name} rejected the request ({status}): {reason}", attempts=1)


def _connection(error: openai.APIConnectionError, name: str, url: str, seconds: float) -> Exception:
    import aiohttp
    import httpx2

    # The aiohttp transport calls nearly all of these a timeout; the cause is at the end of the
    # chain.
    address = urlsplit(url)
    causes = list(_causes(error))
    for cause in causes:
        if isinstance(
            cause,
            httpx2.UnsupportedProtocol | aiohttp.InvalidURL | aiohttp.NonHttpUrlClientError,
        ):
            return ModelUnavailable(
                f"{name}: invalid address {url}: it must begin with http:// or https://"
            )
        host = f"{address.hostname}:{address.port or {'https': 443}.get(address.scheme, 80)}"
        if isinstance(cause, aiohttp.ClientConnectorDNSError):
            return ModelUnavailable(
                f"{name}: unknown host {address.hostname}. Check the address {url}"
            )
        if isinstance(cause, aiohttp.ClientSSLError):
            return ModelUnavailable(
                f"{name}: no secure connection to {host} ({cause}). Check the address {url}"
            )
        if isinstance(cause, aiohttp.ClientConnectorError):
            number = cause.os_error.errno
            reason = os.strerror(number).lower() if number else str(cause.os_error)
            return ModelUnavailable(
                f"{name}: no answer from {host} ({reason}). Is it running? Address: {url}"
            )
        if isinstance(cause, aiohttp.ConnectionTimeoutError):
            return Transient(
                "timeout", f"{name}: no connection to {host}", seconds=seconds, endpoint=True
            )
    return Transient(
        "connection",
        f"{name}: the connection to {host} broke: {_short(str(causes[-1]))}",
        seconds=seconds,
    )


def _causes(error: BaseException) -> Iterator[BaseException]:
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that the endpoint asks to wait: `retry-after-ms`, or `retry-after` in seconds or as a
    date.

    >>> retry_after({"retry-after": "2"}), retry_after({"retry-after-ms": "250"}), retry_after({})
    (2.0, 0.25, None)
    """
    for name, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        text = headers.get(name)
        if text is None:
            continue
        try:
            seconds = float(text) / unit
        except ValueError:
            date = email.utils.parsedate_tz(text)
            seconds = email.utils.mktime_tz(date) - time.time() if date else math.nan
        if math.isfinite(seconds):
            return max(0.0, seconds)
    return None


def _message(body: Any) -> str:
    """The endpoint's message, as one short line."""
    if isinstance(body, Mapping):
        body = body.get("message") or body.get("detail") or body.get("error") or dict(body)
    return _short(str(body))


def _short(text: str) -> str:
    line = redacted(
        " ".join(text.split())
    )  # before it is shortened: a part of a key is a secret, too
    return line if len(line) <= _LONGEST_QUOTE else line[: _LONGEST_QUOTE - 1] + "…"
