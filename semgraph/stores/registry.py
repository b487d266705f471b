"""The kinds of stores, as addresses name them. A new kind is a class here, and its place in `STORES`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from semgraph.errors import PlanError, Problem, did_you_mean
from semgraph.formats import size

if TYPE_CHECKING:
    from semgraph.stores.base import Store

_FILES = (".db", ".sqlite", ".sqlite3")


class StoreSpec(ABC):
    """A kind of stores.

    Attributes:
        scheme: What its addresses are, or begin with before ":".
        forms: How people write them.
        lasts: Whether rows stay when the session ends.
        on_one_machine: Whether other machines cannot open it.
        extra: The extra of the package that it needs; "": none.
        password: The variable with its password; "": it has none.
        address_from: The variable with its address, where only the scheme is written.
    """

    scheme: str
    forms: tuple[str, ...]
    lasts = True
    on_one_machine = False
    extra = ""
    password = ""
    address_from = ""

    def takes(self, address: str) -> bool:
        """Whether an address of this scheme is complete."""
        return address == self.scheme

    def resolved(self, address: str, folder: Path) -> str:  # noqa: ARG002
        """The address, with a relative path made absolute from a folder. Raises PlanError for a kind
        that was removed.
        """
        return address

    @abstractmethod
    def open(self, address: str, folder: Path, env: Mapping[str, str]) -> Store:
        """The store at an address; it connects later. Raises StoreUnavailable or PlanError.

        Args:
            address: The address.
            folder: Where relative paths start.
            env: The environment, for its address and password.
        """

    def describe(self, address: str, folder: Path) -> str:  # noqa: ARG002
        """The store in words."""
        return address

    def file(self, address: str, folder: Path) -> Path | None:  # noqa: ARG002
        """The file of the store; None: it has none."""
        return None

    def holds_rows(self, address: str, folder: Path) -> bool:
        """Whether it may hold rows: a file that does not exist holds none."""
        file = self.file(address, folder)
        return file is None or file.exists()

    def empty(self, address: str, folder: Path) -> str:
        """Why it has no rows to look at, in words; "" if it may have some."""
        if self.holds_rows(address, folder):
            return ""
        return f"{address}: not there yet; the first run that writes makes it"


class SqliteFile(StoreSpec):
    """An SQLite file."""

    scheme = "sqlite"
    forms = ("sqlite:PATH",)
    on_one_machine = True

    def takes(self, address: str) -> bool:
        """An address has a path."""
        return bool(address.partition(":")[2])

    def resolved(self, address: str, folder: Path) -> str:
        """The address with an absolute path."""
        return f"{self.scheme}:{self.file(address, folder)}"

    def file(self, address: str, folder: Path) -> Path:
        """The path of the address."""
        return folder / Path(address.partition(":")[2]).expanduser()

    def open(self, address: str, folder: Path, env: Mapping[str, str]) -> Store:  # noqa: ARG002
        """The store in the file."""
        from semgraph.stores.sqlite.store import SqliteStore

        return SqliteStore(self.file(address, folder))

    def describe(self, address: str, folder: Path) -> str:
        """Its path from the folder, its size, and whether it is new."""
        file = self.file(address, folder)
        state = f"SQLite, {size(file.stat().st_size)}" if file.exists() else "new, SQLite"
        return f"{file.relative_to(folder) if file.is_relative_to(folder) else file} ({state})"


class InMemory(StoreSpec):
    """A store in memory, which lives as long as its session."""

    scheme = "memory"
    forms = ("memory",)
    lasts = False
    on_one_machine = True

    def open(self, address: str, folder: Path, env: Mapping[str, str]) -> Store:  # noqa: ARG002
        """An empty store."""
        from semgraph.stores.sqlite.store import SqliteStore

        return SqliteStore(":memory:")

    def describe(self, address: str, folder: Path) -> str:  # noqa: ARG002
        """How long it lives."""
        return f"{address}: gone when this ends"

    def empty(self, address: str, folder: Path) -> str:  # noqa: ARG002
        """Each run begins with an empty one."""
        return f"{address}: empty in each run"


class Neo4jServer(StoreSpec):
    """A Neo4j server: `neo4j` for that of the environment, or its address."""

    scheme = "neo4j"
    forms = ("neo4j", "neo4j://HOST:PORT")
    password = "NEO4J_PASSWORD"  # noqa: S105 - the name of a variable
    address_from = "NEO4J_URI"

    def takes(self, address: str) -> bool:  # noqa: ARG002
        """The driver says what is wrong with an address."""
        return True

    def open(self, address: str, folder: Path, env: Mapping[str, str]) -> Store:  # noqa: ARG002
        """The store at the address, or at that of the environment, with its user and password."""
        from semgraph.stores.neo4j.store import Neo4jStore

        uri = env.get(self.address_from, "") if address == self.scheme else address
        if not uri:
            what = f"store {self.scheme}: {self.address_from} is not set"
            hint = "set it, or name the store: --store neo4j://HOST:7687"
            raise PlanError(Problem(what, hint=hint))
        user = env.get("NEO4J_USERNAME") or env.get("NEO4J_USER") or "neo4j"
        return Neo4jStore(uri, user, env.get(self.password, ""), env.get("NEO4J_DATABASE"))


class Neo4jHere(StoreSpec):
    """The Neo4j server that `semgraph neo4j start` runs for a folder."""

    scheme = "neo4j-local"
    forms = ("neo4j-local",)
    on_one_machine = True
    extra = "neo4j-local"

    def open(self, address: str, folder: Path, env: Mapping[str, str]) -> Store:  # noqa: ARG002
        """The store in the server, which must be running."""
        from semgraph.stores.neo4j.store import local_store

        return local_store(folder / ".semgraph" / "neo4j")


class Divided(StoreSpec):
    """What earlier versions divided into shards; records of runs may name it."""

    scheme = "shards"
    forms = ()

    def takes(self, address: str) -> bool:  # noqa: ARG002
        """Whatever it was divided into."""
        return True

    def resolved(self, address: str, folder: Path) -> str:
        """Refuse it."""
        self.open(address, folder, {})
        return address

    def open(self, address: str, folder: Path, env: Mapping[str, str]) -> Store:  # noqa: ARG002
        """Refuse it. Raises PlanError."""
        what = "a graph is in one store: stores divided into shards are no longer written"
        hint = (
            "name a server for several machines (--store neo4j://HOST) or a file, which several processes may write "
            "(--store sqlite:PATH), and run the plans again: the journal answers their requests"
        )
        raise PlanError(Problem(what, hint=hint))


STORES: tuple[StoreSpec, ...] = (SqliteFile(), InMemory(), Neo4jServer(), Neo4jHere(), Divided())
_BY_SCHEME = {store.scheme: store for store in STORES} | {"bolt": Neo4jServer()}
FORMS = tuple(form for store in STORES for form in store.forms)
"""How stores are written, in messages and help."""


def store_spec(address: str) -> StoreSpec:
    """The kind of store of an address. Raises PlanError if there is none."""
    store = _named(address)
    if store is not None and store.takes(address):
        return store
    scheme, names = SqliteFile.scheme, [form for form in FORMS if ":" not in form]
    hint = did_you_mean(address, names)
    if address == scheme or address.endswith(_FILES):
        hint = f"write {scheme}:{'graph.db' if address == scheme else address}"
    there = f"stores: {', '.join(FORMS)}"
    raise PlanError(Problem(f'unknown store "{address}"', there=there, hint=hint))


def lasts(address: str) -> bool:
    """Whether rows in a store stay when its session ends; of an unknown one, as a record may name it,
    yes.
    """
    store = _named(address)
    return store is None or store.lasts


def _named(address: str) -> StoreSpec | None:
    return _BY_SCHEME.get(address.partition(":")[0].partition("+")[0])
