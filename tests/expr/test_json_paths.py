"""Paths into JSON are scalars like others."""

from __future__ import annotations

import pyarrow as pa
import pytest

from semgraph.expr.binder import type_of
from semgraph.expr.scalar import parse_scalar

ROW = pa.schema([pa.field("meta", pa.string())])


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("json_extract_string(meta, '$.a.b')", pa.string()),
        ("CAST(json_extract(meta, '$.times[0]') AS BIGINT)", pa.int64()),
        ("CAST(json_object('a', meta) AS VARCHAR)", pa.string()),
    ],
)
def test_a_path_is_admitted_and_typed(text: str, kind: pa.DataType) -> None:
    scalar = parse_scalar(text)
    assert scalar.columns == ("meta",)
    assert type_of(scalar, ROW) == kind
