"""A connection to a Neo4j server. Errors name the remedy."""

from __future__ import annotations

import asyncio
import logging
import re
import socket
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar

from semgraph.errors import EngineError, SemgraphError, StoreUnavailable
from semgraph.privacy import learn, learn_from_addresses
from semgraph.stores.base import record_round_trip

if TYPE_CHECKING:
    from neo4j import AsyncDriver, AsyncManagedTransaction


T = TypeVar("T")
Records = list[list[Any]]
SECONDS = 5.0
OLDEST = (5, 26)
# Seconds for which a failed connection is retried: a server may restart, or be busy for a while.
PATIENCE = 20.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 2.0
# Routing settings (`?policy=eu`) may follow the address of a cluster.
_ADDRESS = re.compile(
    r"(neo4j(\+s|\+ssc)?://[^/?#\s]+/?(\?[^#\s]*)?|bolt(\+s|\+ssc)?://[^/?#\s]+/?)\Z"
)
_READ_ONLY = (
    "ForbiddenOnReadOnlyDatabase",
    "WriteOnReadOnlyAccessDatabase",
    "Security.Forbidden",
    "NotALeader",
    "ReadOnly",
)


class ConstraintViolated(EngineError):
    """A write that violates a constraint of the database; it was rolled back."""


class Bolt:
    """The connection, opened on first use."""

    def __init__(self, uri: str, user: str, password: str, database: str | None) -> None:
        self.uri, self.user, self.database = uri, user, database
        learn(password)
        learn_from_addresses([uri])
        self._password = password
        self._driver: AsyncDriver | None = None
        self.observer: Callable[[str], None] | None = None
        self._answered = False

    async def open(self) -> None:
        """Connect and check the version of the server. Raises StoreUnavailable."""
        info = await self._patiently(lambda: self._connected().get_server_info())
        version = re.search(r"(\d+)\.(\d+)", info.agent)
        if version is None or tuple(map(int, version.groups())) < OLDEST:
            raise StoreUnavailable(
                f"{self.uri}  is {info.agent}; semgraph needs Neo4j {'.'.join(map(str, OLDEST))} or later. "
                "A local one: semgraph neo4j start"
            )

    async def read(self, text: str, parameters: Mapping[str, Any] | None = None) -> Records:
        """Run a read statement and return its records. Raises StoreUnavailable."""
        return await self._session("execute_read", lambda tx: self.run(tx, text, parameters))

    async def table(
        self, text: str, parameters: Mapping[str, Any], *, write: bool
    ) -> list[dict[str, Any]]:
        """The rows of a user's statement by column, as JSON. Raises StoreUnavailable or EngineError."""

        async def work(tx: AsyncManagedTransaction) -> list[dict[str, Any]]:
            result = await tx.run(text, parameters)  # type: ignore[arg-type]  # the user's
            return [_as_json(dict(r.items())) async for r in result]  # type: ignore[no-untyped-call]

        return await self._session("execute_write" if write else "execute_read", work)

    async def write(self, work: Callable[[AsyncManagedTransaction], Awaitable[T]]) -> T:
        """Do work in one transaction; a deadlock restarts it. Raises StoreUnavailable."""
        return await self._session("execute_write", work)

    async def run(
        self, tx: AsyncManagedTransaction, text: str, parameters: Mapping[str, Any] | None = None
    ) -> Records:
        """Run one statement within a transaction."""
        record_round_trip()
        if self.observer is not None:
            self.observer(text)
        result = await tx.run(text, parameters)  # type: ignore[arg-type]  # not a literal: made from the graph
        return [record.values() async for record in result]

    async def in_batches(self, text: str, parameters: Mapping[str, Any]) -> None:
        """Run a statement that commits in batches. Raises StoreUnavailable."""

        async def work() -> None:
            record_round_trip()
            async with self._connected().session(database=self.database) as session:
                await (await session.run(text, parameters)).consume()  # type: ignore[arg-type]

        await self._translated(work())

    async def aclose(self) -> None:
        """Close the connection."""
        if self._driver is not None:
            driver, self._driver = self._driver, None
            await driver.close()

    async def _session(
        self, how: str, work: Callable[[AsyncManagedTransaction], Awaitable[T]]
    ) -> T:
        async def within() -> T:
            async with self._connected().session(database=self.database) as session:
                result: T = await getattr(session, how)(work)
                return result

        return await self._patiently(within)

    async def _patiently(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Retry a lost connection for `PATIENCE` seconds, if it may pass."""
        until, pause = time.monotonic() + PATIENCE, _FIRST_PAUSE
        while True:
            try:
                result = await self._translated(attempt())
            except StoreUnavailable as error:
                if not self._may_pass(error.__cause__) or time.monotonic() + pause > until:
                    raise
            else:
                self._answered = True
                return result
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _may_pass(self, error: BaseException | None) -> bool:
        from neo4j import exceptions as e

        unreachable = e.ServiceUnavailable | e.SessionExpired | OSError
        lost = e.ConnectionAcquisitionTimeoutError | unreachable
        if not isinstance(error, lost) or isinstance(error, e.IncompleteCommit):
            return False
        nobody = ConnectionRefusedError | socket.gaierror
        return self._answered or not any(isinstance(cause, nobody) for cause in _causes(error))

    def _connected(self) -> AsyncDriver:
        if self._driver is None:
            import neo4j

            _leave_its_log_to_the_program()
            if "@" in self.uri:
                raise StoreUnavailable(
                    f"{self.uri}  the address of a Neo4j server holds no user and no password: "
                    "set NEO4J_USERNAME and NEO4J_PASSWORD"
                )
            if not _ADDRESS.match(self.uri):
                raise StoreUnavailable(
                    f"{self.uri}  is no address of a Neo4j server: use neo4j://host:7687, or bolt://host:7687"
                )
            self._driver = neo4j.AsyncGraphDatabase.driver(
                self.uri,
                auth=(self.user, self._password) if self.user else None,
                connection_timeout=SECONDS,
                connection_acquisition_timeout=2 * SECONDS,
                max_transaction_retry_time=SECONDS,
                notifications_min_severity="OFF",
            )
        return self._driver

    async def _translated(self, work: Awaitable[T]) -> T:
        from neo4j.exceptions import DriverError, Neo4jError

        try:
            return await work
        except (DriverError, Neo4jError, OSError) as error:
            raise self._error_for(error) from error

    def _error_for(self, error: Exception) -> SemgraphError:
        from neo4j.exceptions import AuthError, Neo4jError, TransientError

        code = getattr(error, "code", None) or ""
        message = str(getattr(error, "message", None) or error).splitlines()[0]
        if "ConstraintValidationFailed" in code:
            return ConstraintViolated(message)
        if isinstance(error, AuthError) or "Security.Auth" in code:
            wait = ". Too many wrong ones: wait a few seconds" if "RateLimit" in code else ""
            reason = f'rejects user "{self.user}" and its password: see NEO4J_USERNAME, NEO4J_PASSWORD{wait}'
        elif "DatabaseNotFound" in code:
            reason = f'has no database "{self.database}". Name one that it has: NEO4J_DATABASE'
        elif any(part in code for part in _READ_ONLY):
            reason = (
                f'lets user "{self.user}" only read ({message}). Nothing was written. '
                "Use a user and a database that can be written, or --no-write"
            )
        elif isinstance(error, TransientError) or "DatabaseError" in code:
            reason = f"could not finish: {message}. Nothing was written; run again to continue"
        elif "Statement.AccessMode" in code:
            return EngineError("this statement writes: add --write. Nothing was written")
        elif isinstance(error, Neo4jError):
            return EngineError(f"{self.uri}  {message} [{code}]")
        else:
            reason = (
                f"no answer in {SECONDS:.0f} s ({_reason(error)}). Is it running? "
                "A local one: semgraph neo4j start. Or --store sqlite:graph.db"
            )
        return StoreUnavailable(f"{self.uri}  {reason}")


def _as_json(value: Any) -> Any:
    """A value in JSON: a node with its `labels`, an edge with its `type`, a path as a list."""
    from neo4j.graph import Node, Path, Relationship

    if isinstance(value, Path):
        hops = zip(value.relationships, value.nodes[1:], strict=True)
        value = [value.nodes[0], *chain.from_iterable(hops)]
    elif isinstance(value, Node | Relationship):
        kind = {"labels": sorted(value.labels)} if isinstance(value, Node) else {"type": value.type}
        value = {**kind, **value}
    if isinstance(value, dict):
        return {name: _as_json(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_as_json(each) for each in value]
    return value if value is None or isinstance(value, str | int | float) else str(value)


def _leave_its_log_to_the_program() -> None:
    """Keep the driver's log off stderr unless a program configures logging: without a handler,
    Python prints its errors, and they are raised here anyway.
    """
    log = logging.getLogger("neo4j")
    if not any(isinstance(handler, logging.NullHandler) for handler in log.handlers):
        log.addHandler(logging.NullHandler())


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        for part in error.exceptions if isinstance(error, BaseExceptionGroup) else ():
            yield from _causes(part)
        error = error.__cause__ or error.__context__


_REASONS = {
    "Errno 111": "connection refused",
    "Errno 61": "connection refused",
    "refused": "connection refused",
    "timed out": "timed out",
    "reset": "connection reset",
    "DNS": "unknown host",
}


def _reason(error: Exception) -> str:
    """The reason why no server answered, from the errors of all addresses that the driver tried."""
    causes = "\n".join(map(str, _causes(error)))
    known = (reason for word, reason in _REASONS.items() if word in causes)
    return next(known, str(error).splitlines()[0])
