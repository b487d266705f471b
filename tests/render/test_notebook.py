"""How a notebook shows a result."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from semgraph.display import Drawing
from semgraph.execution.result import Result
from semgraph.meter import Meter, StepMetrics
from tests.render.test_html import line, recorded, texts


def result(**more: object) -> Result:
    meter = Meter(
        {"read": StepMetrics("sem_map", "per_row", calls_issued=5, calls_journal=2, dollars=0.5)}
    )
    table = pa.table({"name": ["<script>", None], "list": [["a"], []]})
    return Result("people", "7f3a", {"people": table}, meter, **more)  # type: ignore[arg-type]


def test_what_it_took_and_the_rows() -> None:
    shown = result(members=3, committed=2, skipped=1)._repr_html_()
    assert "5 calls (+2 from the journal)" in shown
    assert "$0.5" in shown
    assert "2 of 3 committed, 1 skipped" in shown
    assert "people</b>: 2 rows" in shown
    assert "<td>[&#34;a&#34;]</td>" in shown


def test_everything_is_escaped() -> None:
    assert "<script>" not in result(notes=("a <b> note",))._repr_html_()
    assert "&lt;script&gt;" in result()._repr_html_()


def test_a_price_that_is_not_known_is_not_zero() -> None:
    found = result()
    found.meter.step("read").dollars = None
    assert "price unknown" in found._repr_html_()


def test_a_row_opens_to_the_messages_that_were_sent(tmp_path: Path) -> None:
    record = recorded(tmp_path, "<b> or not", [line("c1", **texts("Is it <b>?", "{}"))])
    shown = result(record=record.folder)._repr_html_()
    assert "<b>told</b> 1 row<" in shown
    assert (
        "<details><summary>text “&lt;b&gt; or not” → pairs [“&lt;b&gt; or not”]</summary>" in shown
    )
    assert "<pre>Is it &lt;b&gt;?</pre>" in shown
    assert "100 → 7 tokens · 1.0 s" in shown


def test_a_call_that_the_journal_lost_is_said_to_be(tmp_path: Path) -> None:
    shown = result(record=recorded(tmp_path, lines=[line("c1")]).folder)._repr_html_()
    assert "call c1: the journal does not have it" in shown


def test_the_first_table_precedes_the_graph_and_the_others_are_folded(tmp_path: Path) -> None:
    found = result(record=recorded(tmp_path).folder)
    found.tables = {"none": pa.table({"n": []}), **found.tables, "more": pa.table({"n": [7]})}
    shown = found._repr_html_()
    assert '"name":"Bob 1"' in shown
    assert shown.index("<p><b>people</b>: 2 rows</p>") < shown.index('<svg class="graph"')
    assert "<p><b>none</b>: 0 rows</p>" in shown
    assert "<details><summary><b>more</b>: 1 row</summary>" in shown


def test_numbers_stand_right_and_generated_keys_are_short() -> None:
    key = "bd4ef8c7-b48c-59ba-9bff-2627edd8350a"
    found = result()
    found.tables = {"people": pa.table({"id": [key], "n": [7]})}
    shown = found._repr_html_()
    assert '<td class="number">7</td>' in shown
    assert "<td>bd4ef8c7…</td>" in shown


def test_texts_keep_their_columns() -> None:
    assert "white-space: pre; overflow-x: auto" in Drawing("a  b")._repr_html_()
