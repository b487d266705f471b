"""What a store says of rows that it cannot write: the same in every store."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TypeVar

from semgraph.errors import DataError, Problem, StoreUnavailable
from semgraph.stores.base import Write

T = TypeVar("T")
W = TypeVar("W", bound=Write)

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


@dataclass(frozen=True)
class RefusedRow:
    """A row of a batch that a store cannot write: the batch's write that it belongs to, its key, and why."""

    write: object
    key: str
    problem: Problem


class RowsRefused(DataError):
    """Rows of a batch that a store cannot write; nothing of the batch was written. `rows` names each of them once."""

    def __init__(self, rows: Iterable[RefusedRow]) -> None:
        self.rows = tuple(rows)
        first = self.rows[0]
        super().__init__(f"{first.problem.what}; nothing was written", hint=first.problem.hint)
        self.write = first.write


class Refusals:
    """The rows of a batch that a store refuses, each with the first reason that was found."""

    def __init__(self) -> None:
        self._rows: dict[tuple[int, str], RefusedRow] = {}

    def add(self, write: Write, key: str, error: DataError) -> None:
        """Note that a row of a write is refused."""
        self._rows.setdefault((id(write), key), RefusedRow(write, key, error.problem))

    def holds(self, write: Write, key: str) -> bool:
        """Whether a row of a write is refused."""
        return (id(write), key) in self._rows

    def check(self) -> None:
        """Raise RowsRefused if any row was refused."""
        if self._rows:
            raise RowsRefused(self._rows.values())

    def attempt(self, write: W, key: str, prepare: Callable[[W], T]) -> T | None:
        """Prepare a write. None if rows of it are refused; they are noted.

        Args:
            write: What to prepare.
            key: The key column of its rows.
            prepare: Raises DataError for a write with a row that cannot be stored.
        """
        with writing(write):
            try:
                return prepare(write)
            except DataError:
                found = dict(_faulty(write, prepare)) or dict(_conflicting(write, prepare))
        for place, error in found.items():
            self.add(write, write.rows.column(key)[place].as_py(), error)
        return None


def _faulty(write: W, prepare: Callable[[W], object], start: int = 0) -> Iterator[tuple[int, DataError]]:
    """The places of rows that are refused by themselves, found by halving."""
    try:
        prepare(write)
    except DataError as error:
        count = write.rows.num_rows
        if count == 1:
            yield start, error
        for first, last in ((0, count // 2), (count // 2, count)) if count > 1 else ():
            yield from _faulty(replace(write, rows=write.rows.slice(first, last - first)), prepare, start + first)


def _conflicting(write: W, prepare: Callable[[W], object]) -> Iterator[tuple[int, DataError]]:
    """The places of rows that are refused together with those before them, found by halving."""
    places = list(range(write.rows.num_rows))

    def error(count: int) -> DataError | None:
        try:
            prepare(replace(write, rows=write.rows.take(places[:count])))
        except DataError as refused:
            return refused
        return None

    while (refused := error(len(places))) is not None:
        good, bad = 0, len(places)
        while bad - good > 1:
            middle = (good + bad) // 2
            found = error(middle)
            good, bad, refused = (middle, bad, refused) if found is None else (good, middle, found)
        yield places.pop(bad - 1), refused


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
