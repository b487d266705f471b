"""What a store can be asked about its own schema."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, runtime_checkable

from semgraph.logical.schema import Derived, Graph, Label


@runtime_checkable
class Settles(Protocol):
    """A store that makes what a graph needs of it.

    `ensure` does so by itself in a new place, and leaves one that another program made as it is.
    """

    @property
    def notes(self) -> tuple[str, ...]:
        """What `ensure` left undone, and what is done in memory instead; for the user."""
        ...

    async def look(self, places: Iterable[tuple[str, str]]) -> None:
        """Find out which derived text properties, of these by label, rows lack: before a search that compares them, which
        otherwise finds out itself. `notes` tell.
        """
        ...

    async def settle(self, graph: Graph, dimensions: int | None, *, drop: bool) -> list[str]:
        """Make all that is missing, whoever made the place, and store derived text properties where rows lack them.

        Nothing that others made is dropped or changed; keys that are there several times are told and left.

        Args:
            graph: What is needed.
            dimensions: Length of its vectors; None: nobody knows it yet.
            drop: First drop the indexes that bear names of the graph, so that they are made anew.

        Returns:
            What was made, dropped and filled, what could not be made, and how many rows are without vectors; for the user.

        Raises:
            StoreUnavailable: It does not answer, or lets nobody write.
        """
        ...


def derived_told(label: Label, derived: Derived, number: int) -> list[str]:
    """What `settle` says of a derived property that so many rows lacked: a text is filled in, a vector is still lacking, as
    nobody is asked for vectors there.
    """
    if not number:
        return []
    if derived.by != "embed":
        return [f"filled: {derived.name} of {number:,} {label.name}"]
    lost = "nothing finds them by what is near in meaning"
    return [
        f"{number:,} {label.name} have no {derived.name}: {lost}. A plan that merges their {derived.of} again makes it"
    ]
