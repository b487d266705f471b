"""Where the shards of a store are: files in a folder, or servers. Each records which shard of how
many it is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol
from urllib.parse import parse_qsl, unquote, urlsplit, urlunsplit

from semgraph.errors import PlanError, Problem, StoreUnavailable
from semgraph.redaction import learn
from semgraph.stores.base import (
    Attachable,
    BeforeCommit,
    CommitMarker,
    Migratable,
    Observable,
    Shard,
    Store,
    WriteBatch,
    Written,
)

if TYPE_CHECKING:
    from semgraph.stores.neo4j.store import Neo4jStore

SCHEME = "shards:"
MOST = 256
"""Files of a folder: each that is open takes three of the 1,024 that a process may have open."""
FORMS = "shards:neo4j://HOST,neo4j://HOST or shards:sqlite:FOLDER?n=COUNT"
_SERVER = re.compile(r"(neo4j|bolt)(\+s|\+ssc)?://")
_FILE = re.compile(r"shard-(\d+)-of-(\d+)\.db\Z")


class ShardStore(Store, Attachable, Migratable, Observable, Protocol):
    """A store that can be a shard."""

    @property
    def lengths(self) -> Mapping[tuple[str, str], int]:
        """Lengths of vectors, by label and vector property, as far as they are known."""
        ...

    async def commit(
        self,
        batch: WriteBatch,
        marker: CommitMarker | None = None,
        before_commit: BeforeCommit | None = None,
    ) -> Written:
        """As `Store.commit`; `before_commit` is awaited before the transaction ends."""
        ...

    def share(self) -> ShardStore:
        """As `Shareable.share`."""
        ...


class Places(Protocol):
    """Where the shards of a store are."""

    @property
    def name(self) -> str:
        """The address, without passwords."""
        ...

    @property
    def count(self) -> int:
        """How many shards there are."""
        ...

    @property
    def lazy(self) -> bool:
        """Whether a shard is opened at its first use, and made with its first row."""
        ...

    def stores(self) -> list[ShardStore]:
        """The shards, not opened yet."""
        ...

    def exists(self, number: int) -> bool:
        """Whether a shard may hold rows."""
        ...

    async def join(self, stores: Sequence[ShardStore], *, writes: bool) -> None:
        """Check that the opened stores are the shards of one store, in their order; if `writes`,
        record it in new ones. Raises StoreUnavailable.
        """
        ...


def places_of(address: str, base: Path, environment: Mapping[str, str]) -> Places:
    """The places of an address. Raises PlanError or StoreUnavailable.

    Args:
        address: `shards:neo4j://a,neo4j://b` or `shards:sqlite:FOLDER?n=64`.
        base: Where relative folders start.
        environment: Has user, password and database of servers.
    """
    inner = address.removeprefix(SCHEME)
    if folder := folder_of(address):
        return FolderPlaces(base / folder, _count(address, inner.partition("?")[2]))
    if re.match(_SERVER, inner):
        return ServerPlaces([part.strip() for part in inner.split(",")], environment)
    raise PlanError(Problem(f'unknown store "{address}"', there=f"stores of shards: {FORMS}"))


def folder_of(address: str) -> str:
    """The folder of an address; "" if its shards are servers."""
    kind, _, rest = address.removeprefix(SCHEME).partition(":")
    return rest.partition("?")[0] if kind == "sqlite" else ""


def _count(address: str, query: str) -> int | None:
    """The count that a query names; None if there is no query. Raises PlanError."""
    if not query:
        return None
    settings = dict(parse_qsl(query, keep_blank_values=True))
    text = settings.pop("n", "")
    if settings or not text.isdecimal() or not 1 <= int(text) <= MOST:
        wanted = f"after ? is n=COUNT, a number from 1 to {MOST}"
        raise PlanError(Problem(f'store "{address}": {wanted}', hint=f"write it as {FORMS}"))
    return int(text)


class FolderPlaces:
    """SQLite files in a folder, each made with the first row of its partitions.

    Args:
        folder: The folder.
        count: How many shards there are; None: as the files in the folder say.
    """

    lazy = True

    def __init__(self, folder: Path, count: int | None) -> None:
        self.folder = folder
        self._open: set[int] = set()
        present = {int(match[2]) for match in self._files()}
        if count is None and len(present) != 1:
            hint = f"name how many there are: --store 'shards:sqlite:{folder}?n=COUNT'"
            raise PlanError(Problem(f"{folder} has no shards yet", hint=hint))
        self.count = min(present) if count is None else count
        self._check(present)

    @property
    def name(self) -> str:
        """`shards:sqlite:FOLDER?n=COUNT`."""
        return f"{SCHEME}sqlite:{self.folder}?n={self.count}"

    def _files(self) -> list[re.Match[str]]:
        try:
            paths = list(self.folder.iterdir()) if self.folder.exists() else []
        except OSError as error:
            msg = f"{SCHEME}sqlite:{self.folder}  cannot be read: {error.strerror}. Name a folder"
            raise StoreUnavailable(msg) from None
        return [match for path in paths if (match := _FILE.match(path.name))]

    def _check(self, present: set[int]) -> None:
        if others := present - {self.count}:
            known = " and ".join(str(count) for count in sorted(others))
            raise StoreUnavailable(
                f"{self.name}  the folder has files of a store of {known} shards: a group's rows are in the shard "
                "that the count gives. Nothing was written. Name that count, or leave it out: --store "
                f"'{SCHEME}sqlite:{self.folder}?n={min(others)}'; or name another folder and run again into it"
            )

    def path(self, number: int) -> Path:
        """The file of a shard."""
        digits = len(str(self.count))
        return self.folder / f"shard-{number + 1:0{digits}}-of-{self.count}.db"

    def files(self) -> list[Path]:
        """The files that exist."""
        return [path for number in range(self.count) if (path := self.path(number)).exists()]

    def stores(self) -> list[ShardStore]:
        """See `Places.stores`."""
        from semgraph.stores.sqlite.store import SqliteStore

        return [
            SqliteStore(self.path(number), Shard(number, self.count))
            for number in range(self.count)
        ]

    def exists(self, number: int) -> bool:
        """Whether the file of a shard exists."""
        return self.path(number).exists()

    async def join(self, stores: Sequence[ShardStore], *, writes: bool) -> None:
        """Check the names of the files again: another process may have made some. A file checks its
        own record.
        """
        del stores, writes
        self._check({int(match[2]) for match in self._files()})


class ServerPlaces:
    """Neo4j servers.

    Args:
        addresses: In the order of the shards; user and password may be in them.
        environment: Has user, password and database otherwise.
    """

    lazy = False

    def __init__(self, addresses: Sequence[str], environment: Mapping[str, str]) -> None:
        self._environment = environment
        for address in addresses:
            if not re.match(_SERVER, address):
                wanted = f'"{address}" is no address of a server'
                raise PlanError(Problem(wanted, hint=f"write the store as {FORMS}"))
        self._accesses = [_access(address) for address in addresses]
        self.uris = [uri for uri, _, _ in self._accesses]
        self.count = len(self.uris)
        twice = sorted({uri for uri in self.uris if self.uris.count(uri) > 1})
        if twice:
            raise PlanError(
                Problem(
                    f"{self.name} names {twice[0]} twice",
                    hint="name each server once: a shard each",
                )
            )

    @property
    def name(self) -> str:
        """`shards:neo4j://a,neo4j://b`."""
        return SCHEME + ",".join(self.uris)

    def stores(self) -> list[ShardStore]:
        """See `Places.stores`."""
        from semgraph.stores.neo4j.store import Neo4jStore

        env = self._environment
        named = env.get("NEO4J_USERNAME") or env.get("NEO4J_USER") or "neo4j"
        made: list[ShardStore] = []
        for number, (uri, user, password) in enumerate(self._accesses):
            secret = env.get("NEO4J_PASSWORD", "") if password is None else password
            database, shard = env.get("NEO4J_DATABASE"), Shard(number, self.count)
            made.append(Neo4jStore(uri, user or named, secret, database, shard))
        return made

    def exists(self, number: int) -> bool:
        """Always: servers are there, or an error."""
        return 0 <= number < self.count

    async def join(self, stores: Sequence[ShardStore], *, writes: bool) -> None:
        """See `Places.join`."""
        servers: list[Neo4jStore] = list(stores)  # type: ignore[arg-type]  # as `stores` made them
        self._check_records([server.recorded for server in servers])
        new = [server for server in servers if server.recorded is None]
        for server in new:
            if server.holds_rows:
                raise StoreUnavailable(
                    f"{self.name}  {server.name} holds a graph and is not {server.shard}. Nothing was written. "
                    f"Name it alone (--store {server.name}), or name servers without rows"
                )
            if filled := [other.name for other in servers if other.holds_rows]:
                raise StoreUnavailable(
                    f"{self.name}  {server.name} is new, and {', '.join(filled)} has rows already: the rows of "
                    f"{server.shard} are on another server. Nothing was written. Name that server in its place"
                )
        for server in new if writes else ():
            await server.record_shard()

    def _check_records(self, records: Sequence[Shard | None]) -> None:
        counts = {record.count for record in records if record is not None} - {self.count}
        if counts:
            raise StoreUnavailable(
                f"{self.name}  these are servers of a store of {min(counts)} shards, and {self.count} are named: a "
                "group's rows are in the shard that the count gives. Nothing was written. Name all of them, in "
                "their order"
            )
        if any(record is not None and record.number != n for n, record in enumerate(records)):
            order = {
                record.number: uri
                for uri, record in zip(self.uris, records, strict=True)
                if record is not None
            }
            right = ",".join(order.get(number, "neo4j://HOST") for number in range(self.count))
            raise StoreUnavailable(
                f"{self.name}  the servers are named in another order than before. Nothing was written. "
                f"Name them so: --store {SCHEME}{right}"
            )


def _access(address: str) -> tuple[str, str, str | None]:
    """An address without user and password, the user ("": none is named) and the password."""
    parts = urlsplit(address)
    if "@" not in parts.netloc:
        return address, "", None
    access, _, host = parts.netloc.rpartition("@")
    user, colon, password = access.partition(":")
    learn(password, unquote(password))
    return (
        urlunsplit(parts._replace(netloc=host)),
        unquote(user),
        unquote(password) if colon else None,
    )
