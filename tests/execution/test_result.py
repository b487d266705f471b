"""A result's tables in the forms that Python programs use."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pyarrow as pa
import pytest

from semgraph.execution.result import Result
from semgraph.meter import Meter

ROWS = [{"id": 1, "text": "a"}, {"id": 2, "text": None}]
TABLE = pa.Table.from_pylist(ROWS)


def result(*names: str) -> Result:
    return Result("notes", "abcd", dict.fromkeys(names, TABLE), Meter())


def test_a_result_is_found_by_its_name_and_the_only_one_without() -> None:
    assert result("kept", "rest")["rest"] is TABLE
    assert result("kept").to_arrow() is TABLE
    assert result("kept", "rest").rows("kept") == result("kept").rows() == ROWS
    assert result("kept").to_pandas()["id"].tolist() == [1, 2]


def test_polars_reads_the_arrow_table(monkeypatch: pytest.MonkeyPatch) -> None:
    polars = SimpleNamespace(from_arrow=lambda table: ("frame", table))
    monkeypatch.setitem(sys.modules, "polars", polars)  # it is no dependency
    assert result("kept").to_polars() == ("frame", TABLE)


@pytest.mark.parametrize(
    ("names", "name", "problem"),
    [
        (("kept",), "kpt", 'notes returned no "kpt"; its results: kept'),
        ((), "kept", 'notes returned no "kept"; its results: none'),
        (("kept", "rest"), None, "name one of the results of notes: kept, rest"),
    ],
)
def test_other_names_are_refused(names: tuple[str, ...], name: str | None, problem: str) -> None:
    with pytest.raises(KeyError) as caught:
        result(*names).to_arrow(name)
    assert caught.value.args == (problem,)
