"""Tables that are joined from batches, in memory or in a mapped file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from semgraph.errors import InputError
from semgraph.frontend.row_files import joined

SCHEMA = pa.schema(
    [("name", pa.string()), ("tags", pa.list_(pa.string())), ("at", pa.timestamp("us", "UTC"))]
)


def batches(count: int) -> Iterator[pa.Table]:
    for n in range(count):
        rows = [{"name": f"n{n}", "tags": ["a", None], "at": n}, {"name": None, "tags": None}]
        yield pa.Table.from_pylist(rows, SCHEMA)


@pytest.mark.parametrize("count", [0, 1, 2, 50])
@pytest.mark.parametrize("most", [0, 1000, 10**9])
def test_a_table_is_its_batches(count: int, most: int) -> None:
    table = joined(SCHEMA, batches(count), most)
    expected = pa.concat_tables([SCHEMA.empty_table(), *batches(count)])
    assert table.schema == SCHEMA
    assert table.equals(expected)
    assert table.slice(1, 3).to_pylist() == expected.slice(1, 3).to_pylist()


def test_a_large_table_takes_no_memory_of_arrow_and_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    before = pa.total_allocated_bytes()
    table = joined(SCHEMA, batches(3000), 0)
    assert table.nbytes > 100_000
    assert pa.total_allocated_bytes() - before < table.nbytes / 2
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = tmp_path / "missing"
    monkeypatch.setattr("tempfile.tempdir", str(missing))
    with pytest.raises(InputError, match="TMPDIR") as caught:
        joined(SCHEMA, batches(2), 0)
    assert f"{missing}: rows" in str(caught.value)
    assert os.strerror(2) in str(caught.value)
