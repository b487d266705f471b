"""Tables that arrive in batches: small ones are in memory, large ones in a file that is mapped."""

from __future__ import annotations

import mmap
import tempfile
from collections.abc import Iterable
from typing import IO, Any

import pyarrow as pa

from semgraph.errors import InputError, Problem

IN_MEMORY = 64 * 2**20
"""Bytes of a table that are in memory; a larger one is in a file."""


def joined(schema: pa.Schema, batches: Iterable[pa.Table], most: int = IN_MEMORY) -> pa.Table:
    """Batches of rows as one table.

    Above `most` bytes they are written to a temporary file, and the table reads from it: the
    system keeps in memory what is read, as long as there is room. The file has no name, so that
    it is gone with the table, and with the process, however that ends.

    Args:
        schema: The columns of each batch.
        batches: The rows, in their order.
        most: Bytes that are kept in memory.

    Raises:
        InputError: The file cannot be written.
    """
    kept, size = list[pa.Table](), 0
    remaining = iter(batches)
    for batch in remaining:
        kept.append(batch)
        size += batch.nbytes
        if size > most:
            return _mapped(schema, kept, remaining)
    return pa.concat_tables(kept) if kept else schema.empty_table()


def _mapped(schema: pa.Schema, first: list[pa.Table], others: Iterable[pa.Table]) -> pa.Table:
    try:
        with tempfile.TemporaryFile(prefix="semgraph-") as file:
            _write(file, schema, first, others)
            read = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except OSError as error:
        folder = tempfile.gettempdir()
        what = f"{folder}: rows that memory should not hold cannot be written there: {error.strerror or error}"
        raise InputError(Problem(what, hint="name another folder in TMPDIR")) from None
    return pa.ipc.open_file(pa.py_buffer(read)).read_all()


def _write(
    file: IO[Any], schema: pa.Schema, first: list[pa.Table], others: Iterable[pa.Table]
) -> None:
    sink = pa.PythonFile(file, mode="w")  # type: ignore[arg-type]  # its stubs know no IO
    with pa.ipc.new_file(sink, schema) as writer:
        while first:
            writer.write_table(first.pop(0))
        for batch in others:
            writer.write_table(batch)
    file.flush()
