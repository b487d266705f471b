"""What a store says of rows that it cannot write: the same in every store."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from semgraph.errors import DataError, StoreUnavailable
from semgraph.stores.base import Write

KEEPS_ENDS = "make its key of its ends, id(source, target, ...), or delete it before"


@contextmanager
def writing(write: Write) -> Iterator[None]:
    """Rows that are refused are those of this write, and nothing of its batch is written."""
    try:
        yield
    except DataError as error:
        if error.write is not None:
            raise
        found = DataError(f"{error.problem.what}; nothing was written", hint=error.problem.hint)
        found.write = write
        raise found from error.__cause__


def taken(row: str) -> DataError:
    """The error for a write to a key (`Person p1`) that is stored in another partition, which is not named."""
    hint = "a key is one for all groups: make it of the group too, id(group_id, ...)"
    return DataError(f"the key of {row} is taken", hint=hint)


def no_end(edge: str, end: str, key: str | None, label: str) -> DataError:
    """The error for a new edge (`KNOWS e1`) without the node at one of its ends, in its own partition.

    The text is the same if another partition has the node: nobody learns what others store.
    """
    if key is None:
        return DataError(f"{edge} has no {end}: its key is NULL", hint="leave such rows out in a step before")
    hint = (
        f"merge the {label} in the same plan (nodes are written before edges), or leave such rows out in a step before"
    )
    return DataError(f'{edge} has the {end} "{key}", which is no {label} of its group', hint=hint)


def other_end(edge: str, end: str, stored: str, given: str) -> DataError:
    """The error for an edge that is stored between other ends."""
    return DataError(
        f'{edge} has the {end} "{stored}" and was to get "{given}": an edge keeps its ends', hint=KEEPS_ENDS
    )


def meant_otherwise(name: str, of: str) -> DataError:
    """The error for a further label that is a label of the graph, or one of semgraph's own."""
    return DataError(
        f'"{name}" cannot be a further label of {of}: it has a meaning of its own', hint="give it another name"
    )


def still_has_edges(node: str, edges: str) -> DataError:
    """The error for a node that cannot be deleted."""
    return DataError(f"{node} cannot be deleted: {edges}", hint="delete its edges before, or say detach: true")


# The embedders that are used where none is named, by the length of their vectors.
_EMBEDDERS = {384: "local", 1024: "'openai:text-embedding-3-small?dimensions=1024'"}


def other_length(store: str, label: str, index: str, stored: int, given: int) -> StoreUnavailable:
    """The error for vectors of another length than the stored ones."""
    likely = _EMBEDDERS.get(stored)
    made = f"--embedder {likely}, if that is the one" if likely else "--embedder MODEL"
    return StoreUnavailable(
        f"{store}  {label} here has {stored:,}-dimensional vectors (index {index}); your embedder gives {given:,}. "
        f"Nothing was written. Use the embedder that made them ({made}), or start another store (--store STORE)."
    )
