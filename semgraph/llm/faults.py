"""Failures of OpenAI-compatible endpoints, as errors of a row, of an attempt, or of the run."""

from __future__ import annotations

import email.utils
import json
import math
import os
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, Literal, NamedTuple
from urllib.parse import urlsplit

from semgraph.errors import ModelUnavailable, RowError
from semgraph.formats import shortened
from semgraph.llm.replies import UnreadableReply, count, first_of, mapping, sequence, text_of
from semgraph.llm.services import OPENAI
from semgraph.privacy import redacted

_LONGEST_QUOTE = 300
_FEW = 3  # attempts, if more would not help
_ADDRESS = "Check the address: it usually ends in /v1"

Scope = Literal["row", "attempt", "endpoint", "run"]


class FaultKind(NamedTuple):
    """A kind of failure, and its consequences.

    Its scope is what fails. `row`: the row. `attempt`: the attempt is repeated, then the row fails.
    `endpoint`: the attempt is repeated, and the run ends if the endpoint answers no request meanwhile.
    `run`: like `endpoint`, but the run ends at once if the endpoint has answered nothing yet.
    """

    what: str  # the behaviour of the endpoint
    scope: Scope
    kind: str  # of the row's error
    statuses: tuple[int, ...] = ()  # HTTP statuses of this kind
    codes: tuple[str, ...] = ()  # error codes of this kind, for any status
    remedy: str = ""  # a suggestion for the user
    attempts: int | None = None  # the most; None: the setting `retries.attempts`
    said: str = ""  # a pattern of messages of this kind with status 400 or 403

    def covers(self, status: int, code: str, message: str) -> bool:
        """Whether a failure is of this kind."""
        said = self.said and status in (400, 403) and re.match(self.said, message, re.IGNORECASE)
        return code in self.codes or status in self.statuses or bool(said)


class Transient(ModelUnavailable):
    """A failed attempt that may succeed when repeated. Endpoints raise it; the stack catches it.

    `fault` is its kind, also that of the row's error if all attempts fail; `what` tells what
    happened, and where. `retry_after` are the seconds to wait before the next request of any
    caller, if the endpoint asks for it. `remedy` overrides the fault's.
    """

    attempts = 1  # HTTP requests
    proven = False  # whether the endpoint gave a valid reply before
    status: int | None = None  # HTTP status

    def __init__(
        self,
        fault: FaultKind,
        what: str,
        seconds: float = 0.0,
        retry_after: float | None = None,
        remedy: str = "",
    ) -> None:
        self.fault, self.kind, self.what = fault, fault.kind, what
        self.seconds, self.retry_after = seconds, retry_after
        self.remedy = remedy or fault.remedy
        super().__init__(f"{what}. {self.remedy}" if self.remedy else what)

    @property
    def certain(self) -> bool:
        """Whether the endpoint fails for all requests."""
        return self.fault.scope == "run"

    @property
    def endpoint(self) -> bool:
        """Whether the failure may affect all requests, not only this one."""
        return self.fault.scope in ("endpoint", "run")


_KEY = (  # the service's key takes the place of OpenAI's
    f"The key was not accepted: set {OPENAI.key}, or name the variable that holds the key with "
    "?key_env=NAME"
)
_NO_ACCESS = "The key has no access to this model, or not from here"
_NO_MODEL = "Check the model's name and the address, which usually ends in /v1"
_CREDIT = ("insufficient_quota", "billing_hard_limit_reached")
_FILTER = ("content_filter", "content_policy_violation")
_NO_JSON = ("json_validate_failed", "tool_use_failed")

UNREADABLE = FaultKind("an empty or cut reply, or one without an answer", "attempt", "server")
FOREIGN = FaultKind(
    "a reply of another protocol, such as a page (after a good reply: as an empty one)",
    "endpoint",
    "server",
    remedy=_ADDRESS,
    attempts=_FEW,
)
UNREACHABLE = FaultKind(
    "no connection: refused, an unknown host, no secure connection", "run", "connection"
)
NOT_CONNECTED = FaultKind("no connection in 10 seconds", "endpoint", "timeout")
BROKEN = FaultKind("a connection that breaks", "attempt", "connection")
NO_ANSWER = FaultKind("no answer within `timeout`", "attempt", "timeout")
LACKING = FaultKind("an answer that is all reasoning: asked once more", "row", "invalid")
CUT = FaultKind("an answer cut at its limit of tokens", "row", "truncated")
REFUSED = FaultKind("a refusal of the model", "row", "refused")

# All faults. The first entry with a matching status or code applies.
FAULTS = (
    FaultKind("the account has no credit, also where 400 or 403 says so", "run", "rejected",
          (402, 412), _CREDIT, "The account has no credit left", _FEW,
          "your (credit balance|.{0,40}team .{0,60}(credits|spending limit))"),
    FaultKind("the provider's content filter", "row", "refused", (), _FILTER),
    FaultKind("the model wrote no valid JSON: asked once more", "row", "invalid", (), _NO_JSON),
    FaultKind("the key is not accepted, also where 400 or 403 says so", "run", "rejected", (401,),
          (), _KEY, _FEW,
          "(incorrect|invalid) api.?key|api.?key.{0,4} (not valid|not found|invalid|expired)"),
    FaultKind("a prompt longer than the context, where 403 says so", "row", "rejected",
          said=".*(context (length|window)|max_tokens)"),
    FaultKind("no access", "endpoint", "rejected", (403,), (), _NO_ACCESS, _FEW),
    FaultKind("not found", "endpoint", "rejected", (404,), (), _NO_MODEL, _FEW),
    FaultKind("not a place for requests", "endpoint", "rejected", (405, *range(300, 400)), (),
          _ADDRESS, _FEW),
    FaultKind("a timeout of the endpoint", "attempt", "timeout", (408,)),
    FaultKind("a conflict", "attempt", "server", (409, 425)),
    FaultKind("too many requests", "endpoint", "throttled", (429,)),
    FaultKind("not implemented", "row", "rejected", (501,)),
    FaultKind("a gateway without a server", "endpoint", "server", (498, 502, 503, 504, 529)),
    FaultKind("an error of the server", "attempt", "server", tuple(range(500, 600))),
    FaultKind("any other status", "row", "rejected", tuple(range(400, 500))),
    UNREADABLE, FOREIGN, UNREACHABLE, NOT_CONNECTED, BROKEN, NO_ANSWER, CUT, REFUSED, LACKING,
)  # fmt: skip


def failure_of(
    name: str,
    body: Any,
    seconds: float = 0.0,
    key: str = OPENAI.key,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
) -> Exception:
    """The error to raise for a reply that reports an error, as text or JSON. Some gateways do so
    with status 200: then the code of the error is its status, else 500.

    `name` is the model's name, with the address unless it is OpenAI's; `key` the variable with the
    key.
    """
    text = str(body).strip()
    with suppress(ValueError, RecursionError):
        body = json.loads(text) if isinstance(body, str) else body
    body = first_of(body) if isinstance(body, list) else body  # Gemini's
    error = body.get("error", body) if isinstance(body, Mapping) else body
    codes = map(text_of, map(mapping(error).get, ("code", "type", "status")))
    code, reason = next(filter(None, codes), ""), _message(error or f"Error code: {status}")
    if status == 200:
        number = mapping(error).get("code")
        named = re.fullmatch(r"[45]\d\d", str(count(number) or text_of(number)))
        status = int(named[0]) if named else 500
    fault = next((f for f in FAULTS if f.covers(status, code, reason)), UNREADABLE)
    if fault.kind == "refused":
        message = f"refused by the provider's content filter: {reason}"
    elif fault.kind == "invalid":  # quoted when the model is asked again
        message = f"the answer is not one JSON document ({code})"
    elif fault.scope == "row":
        message = f"{name} rejected the request ({status}): {reason}"
    else:
        message = f"{name} ({status}): {reason.rstrip('.')}"
    wait, remedy = retry_after(headers or {}, text), fault.remedy.replace(OPENAI.key, key)
    return _raised(fault, message, seconds, wait, remedy)


def unreadable(
    error: UnreadableReply, name: str, url: str, text: str, *, proven: bool
) -> Exception:
    """The error to raise for a reply that cannot be read. `proven`: the endpoint gave a valid reply
    before.
    """
    if error.foreign and not proven:
        what = f"the answer of {url} is not that of an OpenAI-compatible endpoint"
        return _raised(FOREIGN, f"{name}: {what}: “{_short(text)}”")
    return _raised(UNREADABLE, f"{name}: {error}: “{_short(text)}”")


def _raised(
    fault: FaultKind,
    message: str,
    seconds: float = 0.0,
    wait: float | None = None,
    remedy: str = "",
) -> Exception:
    """The error to raise for a fault."""
    if fault.scope == "row":
        return RowError(fault.kind, message, attempts=1)
    return Transient(fault, message, seconds, wait, remedy)


_PROXY = (
    "HTTPS_PROXY, HTTP_PROXY or ALL_PROXY has its address, with user and password if it wants "
    "them; NO_PROXY lists hosts without it"
)


def unconnected(error: Exception, name: str, url: str, seconds: float) -> Exception:
    """The error to raise for a request without a reply: an error of aiohttp."""
    import aiohttp

    address = urlsplit(url)
    host = f"{address.hostname}:{address.port or {'https': 443}.get(address.scheme, 80)}"
    what, remedy = "", f"Check the address {url}"
    causes = list(_causes(error))
    for cause in causes:
        if isinstance(cause, aiohttp.InvalidURL | aiohttp.NonHttpUrlClientError):
            what = "it must begin with http:// or https://"
            return ModelUnavailable(f"{name}: invalid address {url}: {what}")
        if isinstance(cause, aiohttp.ClientConnectorDNSError):
            what = f"unknown host {address.hostname}"
        elif isinstance(cause, aiohttp.ClientHttpProxyError):
            what, remedy = f"the proxy answers {cause.status} {cause.message}", _PROXY
        elif isinstance(cause, aiohttp.ClientProxyConnectionError):
            what, remedy = f"no answer from the proxy {cause.host}:{cause.port}", _PROXY
        elif isinstance(cause, aiohttp.ClientSSLError):
            what = f"no secure connection to {host} ({cause})"
            remedy += "; SSL_CERT_FILE names a file with the certificates that you trust"
        elif isinstance(cause, aiohttp.ClientConnectorError):
            number = cause.os_error.errno
            reason = os.strerror(number).lower() if number else str(cause.os_error)
            what, remedy = f"no answer from {host} ({reason})", f"Is it running? Address: {url}"
        elif isinstance(cause, aiohttp.ConnectionTimeoutError):
            return _raised(NOT_CONNECTED, f"{name}: no connection to {host}", seconds)
        if what:
            return _raised(UNREACHABLE, f"{name}: {what}", seconds, remedy=remedy)
    broken = f"{name}: the connection to {host} broke: {_short(str(causes[-1]))}"
    return _raised(BROKEN, broken, seconds)


def _causes(error: BaseException) -> Iterator[BaseException]:
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__


_DELAY = re.compile(r"retryDelay\W+(\d+(?:\.\d+)?)s")


def retry_after(headers: Mapping[str, str], body: str = "") -> float | None:
    """Seconds that the endpoint asks to wait: `retry-after-ms`, or `retry-after` as seconds or
    date, or `retryDelay` in the body.

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
            seconds = _seconds_until(text)
        if math.isfinite(seconds):
            return max(0.0, seconds)
    asked = _DELAY.search(body)
    return float(asked[1]) if asked else None


def _seconds_until(text: str) -> float:
    """Seconds until an HTTP date; NaN if it is invalid."""
    try:
        return email.utils.parsedate_to_datetime(text).timestamp() - time.time()
    except (ValueError, OverflowError):
        return math.nan


def _message(body: Any) -> str:
    """The endpoint's message, as one short line; of a gateway, with that of the host behind it."""
    host = text_of(mapping(mapping(body).get("metadata")).get("raw"))
    while isinstance(body, Mapping):
        body = body.get("message") or body.get("detail") or body.get("error") or str(dict(body))
    if isinstance(body, list):
        body = "; ".join(map(_problem, body))
    return _short(f"{body}: {host}" if host else str(body))


def _problem(error: Any) -> str:
    """One problem of a body that a service validates: the member, and what is wrong with it."""
    place = ".".join(map(str, sequence(mapping(error).get("loc"))))
    return f"{place}: {error.get('msg')}" if place else str(error)


def _short(text: str) -> str:
    # Redact before shortening: a part of a key is secret, too.
    line = redacted(" ".join(text.split()))
    return shortened(line, _LONGEST_QUOTE)
