"""What some stores can besides what all can."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, runtime_checkable

from semgraph.logical.schema import Graph
from semgraph.stores.base import Store


@runtime_checkable
class Listened(Protocol):
    """A store that tells which statements it runs."""

    def listen(self, heard: Callable[[str], None] | None) -> None:
        """Call `heard` with the text of each statement from now on; None: with none."""
        ...


@runtime_checkable
class Divides(Protocol):
    """A store that runs can share although each opens it for a graph of its own."""

    def beside(self) -> Store:
        """A store over the same connection that is not opened for a graph yet. Closing one closes the connection of all."""
        ...


@runtime_checkable
class Attaches(Protocol):
    """A store that can be opened without creating anything in it."""

    async def attach(self, graph: Graph, dimensions: int | None = None) -> object:
        """Open the store for a graph, to read only; `dimensions` is the length of the vectors that are looked for.

        Raises as `Store.ensure`.
        """
        ...


async def open_to_read(store: Store, graph: Graph, dimensions: int | None = None) -> None:
    """Open a store for a graph that is only read: nothing is created in it, unless it cannot be opened without.

    Raises as `Store.ensure`.
    """
    if isinstance(store, Attaches):
        await store.attach(graph, dimensions)
    else:
        await store.ensure(graph, dimensions)
