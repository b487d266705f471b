"""`semgraph serve`: plans as tools for agents."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from semgraph.cli.options import (
    CommonOptions,
    argument,
    everywhere,
    message_of,
    option,
    run_until_signal,
)
from semgraph.formats import escaped, plural
from semgraph.privacy import redacted

if TYPE_CHECKING:
    from semgraph.errors import Problem
    from semgraph.llm.stack import Budget
    from semgraph.serve.server import ToolServer
    from semgraph.serve.transports import Address
    from semgraph.session import Session

_DEFAULT = "add_episode,search,retrieve_episodes"  # the memory tools of a conversation
_TOKEN = "SEMGRAPH_TOKEN"  # noqa: S105 - the name of a variable
_LEAST = 16  # minimum characters of a token
_JOINT = ("max_usd", "max_calls", "max_tokens")  # limits of all calls of the server together


@everywhere
def serve(
    options: CommonOptions,
    address: str | None = argument(
        "[HOST:PORT]", "With --http: where to listen.", None, show_default="127.0.0.1:8000"
    ),
    *,
    mcp: bool = option("--mcp", "By the Model Context Protocol (extra mcp).", False),
    http: bool = option("--http", "Streamable HTTP instead of stdin and stdout.", False),
    plans: str = option(
        "--plans PLAN,…", "Plans to serve: names, files; all: all but parts.", _DEFAULT
    ),
    group: str | None = option("--group NAME", "The only group that is read and written."),
    max_rows: int = option("--max-rows N", "Rows of each table that a call gives.", 100, min=1),
    keep: int = option("--keep N", "Records of calls that stay; older are deleted.", 500, min=1),
    token: str = option(
        "--token VARIABLE", "With --http: the environment variable with the token.", _TOKEN
    ),
    allow_host: list[str] | None = option(
        "--allow-host NAME", "With --http: another host by which clients reach it."
    ),
    folder: Path | None = option("--folder DIR", "The folder to serve from, instead of this one."),
) -> None:
    """Serve plans as tools for agents. --max-usd, --max-calls and --max-tokens hold for all calls of the
    server together, --max-seconds for each. Expressions of callers take 30 s at most, or --max-seconds.
    """
    from semgraph.errors import PlanError

    if not mcp:
        raise PlanError("name the protocol to serve", hint="semgraph serve --mcp")
    if not http and (address or allow_host):
        what = "without --http the server speaks on stdin and stdout, and listens nowhere"
        raise PlanError(what, hint=f"--http {address or '127.0.0.1:8000'}")
    if group is not None and not group.strip():
        raise PlanError("--group is empty", hint="name a group, or leave it out")
    _require_extra()
    if folder is not None:
        os.chdir(folder)
    log = logging.StreamHandler(sys.stderr)
    log.setFormatter(_Log(logging.BASIC_FORMAT))
    logging.basicConfig(handlers=[log], level=logging.INFO if options.verbose else logging.WARNING)
    joint = {name: options.chosen[name] for name in _JOINT if name in options.chosen}
    chosen = {name: value for name, value in options.chosen.items() if name not in joint}
    session = replace(options, chosen=chosen).session(group=group, within=_budget(joint))
    seconds = chosen.get("max_seconds")
    if http:
        where = _address(address, allow_host, _secret(token))
        server = _server(session, plans, group, max_rows, keep, seconds)
        _serve_http(options, server, session, where)
    else:
        from semgraph.serve.transports import standard_streams

        with standard_streams() as streams:  # before any user code runs
            server = _server(session, plans, group, max_rows, keep, seconds)
            _serve_stdio(server, session, *streams)


class _Log(logging.Formatter):
    """Lines without secrets and terminal escapes."""

    def format(self, record: logging.LogRecord) -> str:
        """Format a record and its traceback as text."""
        return escaped(redacted(super().format(record)))


def _budget(limits: Mapping[str, float]) -> Budget | None:
    """The joint budget of all calls of the server; None without a limit. Raises PlanError."""
    from semgraph.errors import PlanError
    from semgraph.llm.settings import from_options
    from semgraph.llm.stack import Budget

    problems: list[Problem] = []
    source = from_options(limits, Path.cwd(), problems)
    if problems:
        raise PlanError(*problems)
    checked = {key.removeprefix("limits."): each.value for key, each in source.items()}
    return Budget(**checked, owner=" of this server, for all its calls") if checked else None


def _require_extra() -> None:
    """Refuse to continue without the SDK. Raises PlanError."""
    from importlib.util import find_spec

    from semgraph.errors import PlanError
    from semgraph.extras import install

    if find_spec("mcp") is None:
        raise PlanError(f'semgraph serve --mcp needs the extra "mcp": {install("mcp")}')


def _server(
    session: Session, plans: str, group: str | None, max_rows: int, keep: int, seconds: float | None
) -> ToolServer:
    """The tools of the named plans. Raises PlanError."""
    from semgraph.expr.isolated import SECONDS
    from semgraph.serve.server import ToolServer
    from semgraph.serve.tools import tools_of

    names = [name.strip() for name in plans.split(",") if name.strip()]
    tools = tools_of(names, session.settings, group)
    return ToolServer(tools, session, max_rows, message_of, keep, seconds or SECONDS)


def _serve_stdio(server: ToolServer, session: Session, reading: int, writing: int) -> None:
    from semgraph.serve.transports import serve_stdio

    async def work() -> None:
        async with session:
            await session.arequire_prices(server.plans)
            await serve_stdio(server.protocol(), reading, writing)

    with suppress(KeyboardInterrupt):  # a signal is a normal end of a server
        run_until_signal(work(), lambda: None)


def _serve_http(
    options: CommonOptions, server: ToolServer, session: Session, address: Address
) -> None:
    from semgraph.serve.transports import serve_http

    def ready(url: str) -> None:
        tools = f"{plural(len(server.names), 'tool')} at {url}: {', '.join(server.names)}"
        options.talk(f"serving {tools}")

    async def work() -> None:
        async with session:
            await session.arequire_prices(server.plans)
            await serve_http(server.protocol(), address, ready, server.stop)

    with suppress(KeyboardInterrupt):
        run_until_signal(work(), lambda: options.talk("stopping …"))


def _address(text: str | None, names: list[str] | None, token: str) -> Address:
    """The address to listen on. Raises PlanError if it is not safe."""
    from semgraph.serve.transports import Address

    address = Address.parse(text, names or (), token)
    address.require_safe()
    return address


def _secret(variable: str) -> str:
    """The token in a variable; "" if it is unset. Raises PlanError."""
    from semgraph.errors import PlanError
    from semgraph.privacy import learn

    secret = os.environ.get(variable, "")
    learn(secret)
    if secret and (len(secret) < _LEAST or not secret.isascii() or not secret.isprintable()):
        what = f"the token in {variable} is not at least {_LEAST} printable ASCII characters"
        raise PlanError(what, hint="make one: openssl rand -hex 32")
    if not secret and variable != _TOKEN:
        raise PlanError(f"--token {variable}: this variable is not set")
    return secret
