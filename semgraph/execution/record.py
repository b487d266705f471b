"""The run record: a folder that says what a run did, row by row (`docs/run-record.md`)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

from semgraph.errors import SemgraphError
from semgraph.logical.prompt import plain
from semgraph.private import open_private, private_folder, write_private
from semgraph.redaction import redacted_values

_ROWS, _PARTS = 20_000, 256  # buffered rows and tables of a step before they are written


class RunRecord:
    """Writes one run's folder. Tables are buffered and written in parts, so memory stays flat and windows stay fast."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._buffers: dict[Path, list[pa.Table]] = {}
        self._parts: dict[Path, int] = {}
        self._facts: dict[str, Any] = {}
        try:
            private_folder(folder)
        except OSError as error:
            raise SemgraphError(f"cannot write the run record {folder}: {error.strerror}") from error

    def describe(self, **facts: Any) -> None:
        """Add to `run.json` and write it."""
        self._facts |= facts
        self._write("run.json", json.dumps(self._facts, indent=1, default=str, ensure_ascii=False))

    def text(self, name: str, text: str) -> None:
        """Write a file of the record."""
        self._write(name, text)

    def _write(self, name: str, text: str) -> None:
        path = self.folder / name
        draft = path.with_name(path.name + ".part")
        write_private(draft, text)
        draft.replace(path)

    def rows(self, kind: str, step: str, table: pa.Table) -> None:
        """Append rows of a step: `kind` is `steps` or `answers`."""
        if not table.num_rows or not step:
            return
        path = self.folder / kind / step
        buffer = self._buffers.setdefault(path, [])
        buffer.append(table)
        if len(buffer) >= _PARTS or sum(t.num_rows for t in buffer) >= _ROWS:
            self._flush(path)

    def failed(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Append to `failed.jsonl`."""
        self.lines("failed.jsonl", rows)

    def lines(self, name: str, rows: Iterable[Mapping[str, Any]]) -> None:
        """Append a line of JSON for each row to a file of the record."""
        lines = [json.dumps(redacted_values(plain(dict(row))), ensure_ascii=False, default=str) for row in rows]
        if lines:
            with open_private(self.folder / name, "a", encoding="utf-8", errors="surrogatepass") as file:
                file.write("\n".join(lines) + "\n")

    def flush(self) -> None:
        """Write what is buffered."""
        for path in list(self._buffers):
            self._flush(path)

    def _flush(self, path: Path) -> None:
        alike: dict[str, list[pa.Table]] = {}  # a step may ask several questions, each with answers of its own
        for table in self._buffers.pop(path, []):
            alike.setdefault(str(table.schema), []).append(table)
        for tables in alike.values():
            private_folder(path)
            number = self._parts[path] = self._parts.get(path, 0) + 1
            file = path / f"{number:05}.parquet"
            write_table(file, pa.concat_tables(tables))


def write_table(path: Path, table: pa.Table) -> None:
    """Write a table as a private Parquet file. Raises OSError."""
    import pyarrow.parquet as pq

    with open_private(path, "wb") as file:
        pq.write_table(table, file)


def read_rows(folder: Path, kind: str, step: str) -> list[dict[str, Any]]:
    """The recorded rows of a step; none if none were recorded."""
    import pyarrow.parquet as pq

    return [row for part in sorted((folder / kind / step).glob("*.parquet")) for row in pq.read_table(part).to_pylist()]


def read_lines(folder: Path, name: str) -> list[dict[str, Any]]:
    """The lines of a file of the record; none if there is no such file. A line that was cut off as it was written is left."""
    path = folder / name
    if not path.exists():
        return []
    found = []
    for line in path.read_text(encoding="utf-8", errors="surrogatepass").split("\n"):
        try:
            found.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return found


def new_run(runs: Path) -> str:
    """An id that no run in the folder has: at least four hexadecimal digits."""
    import secrets

    digits = 4
    while True:
        name = secrets.token_hex(8)[:digits]
        if not (runs / name).exists():
            return name
        digits = min(digits + 1, 16)


def timestamp() -> datetime:
    """The time, to the microsecond, UTC."""
    return datetime.now(UTC)
