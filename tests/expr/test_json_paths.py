"""Paths into JSON are scalars like others."""

from __future__ import annotations

import pyarrow as pa
import pytest

from semgraph.errors import Fault
from semgraph.expr.duckdb import constant, type_of
from semgraph.expr.scalar import parse_scalar

ROW = pa.schema([pa.field("meta", pa.string())])


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("json_extract_string(meta, '$.a.b')", pa.string()),
        ("CAST(json_extract(meta, '$.times[0]') AS BIGINT)", pa.int64()),
        ("meta::json->'$..*'", pa.list_(pa.string())),
        ("json_extract_string(meta, '$..name')", pa.list_(pa.string())),
        ("json_extract(meta, ['$.a', '$.b'])", pa.list_(pa.string())),
        ("CAST(json_object('a', meta) AS VARCHAR)", pa.string()),
    ],
)
def test_a_path_is_admitted_and_typed(text: str, kind: pa.DataType) -> None:
    scalar = parse_scalar(text)
    assert scalar.columns == ("meta",)
    assert type_of(scalar, ROW) == kind


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("""'{"a.b": 1, "a": {"b": 2}}'::json ->> 'a.b'""", "1"),
        ("""'{"a.b": 1, "a": {"b": 2}}'::json ->> '$.a.b'""", "2"),
        ("""'{"a": {"b": 2}}'::json ->> '/a/b'""", "2"),
        ("""json_extract_string('{"a": {"a": 1}}', '$..a')""", ['{"a":1}', "1"]),
        ("""json_extract_string('{"a": {"a": 1}}', '$..*')[2]""", "1"),
        ("""'[1, 2]'::json ->> 1""", "2"),
    ],
)
def test_a_path_means_what_it_means_in_duckdb(text: str, expected: object) -> None:
    assert constant(parse_scalar(text)) == expected


@pytest.mark.parametrize("path", ["$[1:2]", "$.a[?(@.b)]", "$[0, 1]", "$.."])
def test_a_path_that_duckdb_cannot_read_is_refused(path: str) -> None:
    with pytest.raises(Fault, match="JSON path error"):
        type_of(parse_scalar(f"meta::json -> '{path}'"), ROW)
