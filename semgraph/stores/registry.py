"""The kinds of stores and their addresses. A new kind is a line in `STORES`, with the function that
opens it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from semgraph.errors import PlanError, Problem, did_you_mean
from semgraph.formats import size

if TYPE_CHECKING:
    from semgraph.stores.base import Store

# Creates the store at an address, from the base folder of paths and the environment; it connects
# later. Raises StoreUnavailable or PlanError.
Open = Callable[[str, Path, Mapping[str, str]], "Store"]


@dataclass(frozen=True)
class StoreSpec:
    """A kind of store. Its addresses are of one scheme; `forms` shows them to users. `lasts`: rows
    stay after the end of the session. `extra` is the extra with its package; `password` and
    `address_from` are the environment variables with its password and, if only the scheme is
    written, its address.
    """

    scheme: str
    forms: tuple[str, ...]
    open: Open
    is_file: bool = False
    lasts: bool = True
    on_one_machine: bool = False
    extra: str = ""
    password: str = ""
    address_from: str = ""

    def takes(self, address: str) -> bool:
        """Whether an address of this scheme is complete."""
        if self.forms == (self.scheme,):
            return address == self.scheme
        return not self.is_file or bool(address.partition(":")[2])

    def resolved(self, address: str, folder: Path) -> str:
        """The address with an absolute path, if it has one."""
        file = self.file(address, folder)
        return address if file is None else f"{self.scheme}:{file}"

    def file(self, address: str, folder: Path) -> Path | None:
        """The file of the store; None for a store without a file."""
        return folder / Path(address.partition(":")[2]).expanduser() if self.is_file else None

    def holds_rows(self, address: str, folder: Path) -> bool:
        """Whether it may hold rows: a file that does not exist holds none."""
        file = self.file(address, folder)
        return file is None or file.exists()

    def describe(self, address: str, folder: Path) -> str:
        """The store in words; for a file, its size or that it is new."""
        file = self.file(address, folder)
        if file is None:
            return address if self.lasts else f"{address}: gone when this ends"
        state = f"SQLite, {size(file.stat().st_size)}" if file.exists() else "new, SQLite"
        return f"{file.relative_to(folder) if file.is_relative_to(folder) else file} ({state})"


def _sqlite(address: str, folder: Path, _env: Mapping[str, str]) -> Store:
    from semgraph.stores.sqlite.store import SqliteStore

    return SqliteStore(folder / address.partition(":")[2] if ":" in address else ":memory:")


def _neo4j(address: str, _folder: Path, env: Mapping[str, str]) -> Store:
    from semgraph.stores.neo4j.store import Neo4jStore

    uri = address if ":" in address else env.get("NEO4J_URI", "")
    if not uri:
        hint = "set it, or name the store: --store neo4j://HOST:7687"
        raise PlanError("store neo4j: NEO4J_URI is not set", hint=hint)
    user = env.get("NEO4J_USERNAME") or env.get("NEO4J_USER") or "neo4j"
    return Neo4jStore(uri, user, env.get("NEO4J_PASSWORD", ""), env.get("NEO4J_DATABASE"))


def _neo4j_local(_address: str, folder: Path, _env: Mapping[str, str]) -> Store:
    from semgraph.stores.neo4j.store import local_store

    return local_store(folder / ".semgraph" / "neo4j")


_SQLITE = StoreSpec("sqlite", ("sqlite:PATH",), _sqlite, is_file=True, on_one_machine=True)
STORES = (
    _SQLITE,
    StoreSpec("memory", ("memory",), _sqlite, lasts=False, on_one_machine=True),
    StoreSpec(
        "neo4j",
        ("neo4j", "neo4j://HOST:PORT"),
        _neo4j,
        password="NEO4J_PASSWORD",  # noqa: S106 - the name of a variable
        address_from="NEO4J_URI",
    ),
    StoreSpec(
        "neo4j-local", ("neo4j-local",), _neo4j_local, on_one_machine=True, extra="neo4j-local"
    ),
)
# The forms of store addresses, for messages and help.
FORMS = tuple(form for store in STORES for form in store.forms)
_BY_SCHEME = {store.scheme: store for store in STORES}
_BY_SCHEME["bolt"] = _BY_SCHEME["neo4j"]
_REMOVED = {
    "shards": Problem(
        "a graph is in one store: stores divided into shards are no longer written",
        hint="name a server for several machines (--store neo4j://HOST) or a file, which several processes may write "
        "(--store sqlite:PATH), and run the plans again: the journal answers their requests",
    )
}


def store_spec(address: str) -> StoreSpec:
    """The kind of store of an address. Raises PlanError if there is none."""
    store = _BY_SCHEME.get(_scheme(address))
    if store is not None and store.takes(address):
        return store
    if removed := _REMOVED.get(_scheme(address)):
        raise PlanError(removed)
    hint = did_you_mean(address, [form for form in FORMS if ":" not in form])
    if address == _SQLITE.scheme or address.endswith((".db", ".sqlite", ".sqlite3")):
        hint = f"write sqlite:{'graph.db' if address == _SQLITE.scheme else address}"
    raise PlanError(f'unknown store "{address}"', there=f"stores: {', '.join(FORMS)}", hint=hint)


def lasts(address: str) -> bool:
    """Whether rows in a store stay after its session; true for a store known only from a record."""
    store = _BY_SCHEME.get(_scheme(address))
    return store is None or store.lasts


def _scheme(address: str) -> str:
    return address.partition(":")[0].partition("+")[0]
