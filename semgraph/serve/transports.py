"""The transports to a client: the process's standard streams, and streamable HTTP."""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import os
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import anyio
import uvicorn
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.server.transport_security import TransportSecuritySettings
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from semgraph.errors import PlanError

PATH = "/mcp"
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_GRACE = 1  # seconds for open responses when the server stops


@contextmanager
def standard_streams() -> Iterator[tuple[int, int]]:
    """Descriptors of the process's stdin and stdout, only for the protocol. Meanwhile, the process
    and its children read empty input, and their output goes to stderr.
    """
    reading, writing = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    try:
        yield reading, writing
    finally:
        os.dup2(reading, 0)
        os.dup2(writing, 1)
        for descriptor in (nothing, reading, writing):
            os.close(descriptor)


async def serve_stdio(server: Server[Any], reading: int, writing: int) -> None:
    """Serve the client at two descriptors until it closes the first one."""
    lines: Any = _lines(os.dup(reading))
    with os.fdopen(writing, "w", encoding="utf-8", closefd=False) as stream:
        async with stdio_server(lines, anyio.wrap_file(stream)) as (messages, answers):
            await server.run(messages, answers, server.create_initialization_options())


async def _lines(descriptor: int) -> AsyncIterator[str]:
    """The lines of a descriptor, read by a thread that does not delay the end of the process.

    The SDK's reader cannot be cancelled while it waits for a line.
    """
    lines, loop = asyncio.Queue[str](), asyncio.get_running_loop()

    def read() -> None:
        with (
            os.fdopen(descriptor, encoding="utf-8", errors="replace") as stream,
            suppress(RuntimeError),  # the loop is closed
        ):
            for line in chain(stream, [""]):
                loop.call_soon_threadsafe(lines.put_nowait, line)

    threading.Thread(target=read, daemon=True).start()
    while line := await lines.get():
        yield line


@dataclass(frozen=True)
class Address:
    """The address of a server."""

    host: str = "127.0.0.1"  # a name or an IP address
    port: int = 8000  # 0: any free one
    names: tuple[str, ...] = ()  # further host names that clients use
    token: str = field(default="", repr=False)  # which requests need, if any

    @classmethod
    def parse(cls, text: str | None, names: Sequence[str] = (), token: str = "") -> Address:
        """Parse `HOST:PORT`, `HOST` or `:PORT`. Raises PlanError.

        >>> Address.parse("[::1]:9000")
        Address(host='::1', port=9000, names=())
        """
        host, colon, port = (text or "").rpartition(":")
        if not colon or (host.startswith("[") and not host.endswith("]")):
            host, port = text or "", ""
        host = host.removeprefix("[").removesuffix("]") or cls.host
        if port and (not port.isdecimal() or int(port) > 65535):
            hint = "write HOST:PORT, such as 127.0.0.1:8000"
            raise PlanError(f'"{text}" is no address', hint=hint)
        return cls(host, int(port) if port else cls.port, tuple(names), token)

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it."""
        return self.host in _LOOPBACK

    @property
    def security(self) -> TransportSecuritySettings:
        """The accepted Host and Origin headers: those of the hosts of this server."""
        hosts = {self._bracketed(name) for name in (*self.names, *self._own)}
        origins = [f"{scheme}://{host}" for host in sorted(hosts) for scheme in ("http", "https")]
        return TransportSecuritySettings(
            allowed_hosts=[form for host in sorted(hosts) for form in (host, f"{host}:*")],
            allowed_origins=[form for origin in origins for form in (origin, f"{origin}:*")],
        )

    @property
    def _own(self) -> tuple[str, ...]:
        return _LOOPBACK if self.is_loopback else () if _is_any(self.host) else (self.host,)

    def require_safe(self) -> None:
        """Refuse an address beyond this machine without token or names. Raises PlanError."""
        if self.is_loopback:
            return
        if not self.token:
            what = f"{self.host} can be reached from other machines, and there is no token"
            raise PlanError(what, hint="set SEMGRAPH_TOKEN, or listen at 127.0.0.1")
        if not self._own and not self.names:
            what = "stands for every address, so the names of this server are not known"
            hint = "name them: --allow-host memory.example.org"
            raise PlanError(f"{self.host} {what}", hint=hint)

    def url(self, port: int) -> str:
        """The address for clients."""
        return f"http://{self._bracketed(self.host)}:{port}{PATH}"

    @staticmethod
    def _bracketed(host: str) -> str:
        return f"[{host}]" if ":" in host else host


def _is_any(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:  # not an IP address but a name
        return False


class RequireToken:
    """An application that answers requests with the token and rejects all others."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app, self._expected = app, b"bearer " + token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http" or self._is_known(scope):
            await self._app(scope, receive, send)
            return
        refusal = Response(
            "this server needs a token: Authorization: Bearer TOKEN",
            status_code=401,
            headers={"WWW-Authenticate": "Bearer"},
        )
        await refusal(scope, receive, send)

    def _is_known(self, scope: Scope) -> bool:
        header = dict(scope["headers"]).get(b"authorization", b"")
        scheme, _, token = header.partition(b" ")
        return hmac.compare_digest(scheme.lower() + b" " + token, self._expected)


async def serve_http(
    server: Server[Any],
    address: Address,
    ready: Callable[[str], object],
    stop: Callable[[], object],
) -> None:
    """Serve clients over HTTP until the task is cancelled; `stop` then ends the running calls. `ready`
    is called with the URL as soon as the server listens. Raises OSError if the address is not
    available.
    """
    app: ASGIApp = server.streamable_http_app(
        streamable_http_path=PATH, transport_security=address.security, host=address.host
    )
    if address.token:
        app = RequireToken(app, address.token)
    quiet: dict[str, Any] = {"ws": "none", "log_config": None, "access_log": False}
    config = uvicorn.Config(app, timeout_graceful_shutdown=_GRACE, **quiet)
    with _listening(address) as listener:
        http = _Http(config)
        serving = asyncio.ensure_future(http.serve(sockets=[listener]))
        ready(address.url(listener.getsockname()[1]))
        try:
            await asyncio.shield(serving)
        except asyncio.CancelledError:
            stop()
            http.should_exit = True
            await serving
            raise


class _Http(uvicorn.Server):
    """A server that leaves signals to the program."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture no signal."""
        yield


@contextmanager
def _listening(address: Address) -> Iterator[socket.socket]:
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((address.host, address.port))
            listener.listen()  # clients may connect before the server has started
        except OSError as error:
            raise OSError(error.errno, error.strerror, f"{address.host}:{address.port}") from None
        yield listener
