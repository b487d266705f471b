"""Rows that cannot be computed with or written: told with file, line and step, and what to do;
other groups go on.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import semgraph
from semgraph.errors import DataError

GRAPH = """
graph: notes
nodes:
  Note: {properties: {text: string, n: int64, at: timestamp, tags: list<string>, more: json}}
edges:
  AFTER: {source: Note, target: Note}
"""
PLAN = """
plan: notes
graph: graph.yaml
inputs: {notes: {id: string null, group_id: string, text: string, before: string null}}
WINDOWS
steps:
  told:
    - from: notes
    - filter: text <> ''
    - sort: [text]
  ties:
    - from: notes
    - filter: before IS NOT NULL
    - project: {uuid: "id(id, before)", group_id, source: id, target: before}
writes:
  - merge: {from: told, node: Note, key: id}
returns: [told]
"""
WINDOWS = "windows: {input: notes, partition: group_id, key: id, key_of: [text]}"
GOOD = {"id": "z", "group_id": "h", "text": "1"}
MERGE = "merge: {from: told, node: Note, key: id}"
CASES: dict[str, tuple[tuple[str, str], str, str]] = {
    "no key": (
        (MERGE, "merge: {from: told, node: Note, key: before}"),
        'step merge Note: the key "uuid" of a row to write is NULL: group_id "g", text "a"',
        "filter: before IS NOT NULL",
    ),
    "two that differ": (
        (MERGE, "merge: {from: told, node: Note, key: group_id}"),
        'step merge Note: two rows with uuid "g" differ in "text": "a" and "b"',
        "{distinct: [uuid]} keeps the first",
    ),
    "an end that is not there": (
        (MERGE, f"{MERGE}\n  - merge: {{from: ties, edge: AFTER}}"),
        'has the source "a", which is no Note of its group; nothing was written',
        "Merge the Note in the same plan",
    ),
    "what a step cannot read": (
        ("sort: [text]", "add: {n: CAST(text AS BIGINT)}"),
        "step told: add cannot compute with its rows: Conversion Error: Could not convert string 'a' to INT64",
        "try_cast(x AS TYPE) gives NULL",
    ),
    "what a write cannot read": (
        (MERGE, "merge: {from: told, node: Note, key: id, set: {n: CAST(text AS BIGINT)}}"),
        "what is to be written cannot be computed: Conversion Error: Could not convert string 'a' to INT64",
        "try_cast(x AS TYPE) gives NULL",
    ),
    "no JSON": (
        (MERGE, "merge: {from: told, node: Note, key: id, set: {more: text}}"),
        "step merge Note: more of Note a is not JSON",
        "to_json(...)",
    ),
}  # fmt: skip


@pytest.fixture
def session(tmp_path: Path):
    (tmp_path / "graph.yaml").write_text(GRAPH)
    with semgraph.Session(store="memory", journal=False, runs="", folder=tmp_path) as found:
        yield found


def written(folder: Path, change: tuple[str, str], windows: str) -> tuple[Path, int]:
    """The plan with a mistake; the line it stands in."""
    text = PLAN.replace("WINDOWS", windows)
    assert change[0] in text
    text = text.replace(*change)
    if "AFTER" in change[1]:
        text = text.replace("filter: text <> ''", "filter: text <> 'a'")
    (folder / "notes.yaml").write_text(text)
    last = change[1].splitlines()[-1]
    return folder / "notes.yaml", next(
        i for i, line in enumerate(text.splitlines(), 1) if last in line
    )


def rows(case: str) -> list[dict[str, Any]]:
    before = "b" if case == "an end that is not there" else None
    found = [
        {"id": "a", "group_id": "g", "text": "a", "before": before},
        {"id": "b", "group_id": "g", "text": "b"},
    ]
    return [*found, {**GOOD, "before": "z"} if case == "no key" else GOOD]


REFUSED = {  # the rows that fail in each case; the others are written
    "no key": ["a", "b"],
    "two that differ": ["b"],
    "an end that is not there": ["a"],
    "what a step cannot read": ["a", "b"],
    "what a write cannot read": ["a", "b"],
    "no JSON": ["a", "b"],
}
COMPUTED = {"what a step cannot read", "what a write cannot read"}


@pytest.mark.parametrize("case", CASES)
def test_a_row_that_cannot_be_written_is_set_aside_and_the_others_are_written(
    session, tmp_path: Path, case
) -> None:
    change, error, to_do = CASES[case]
    plan, line = written(tmp_path, change, WINDOWS.replace("}", ", size: all}"))
    result = session.run(plan, notes=rows(case))
    assert [result.keys[f.input_row] for f in result.failed] == REFUSED[case]
    first = result.failed[0]
    assert re.match(rf".*notes\.yaml:{line}:\d+  (?!step)", first.error), first.error
    assert (
        error.removeprefix(f"step {first.step}: ").removesuffix("; nothing was written")
        in first.error
    )
    assert "nothing was written" not in first.error
    assert to_do in first.error
    assert [row["id"] for row in result.tables["told"].to_pylist()] == [
        row["id"] for row in rows(case) if row["id"] not in REFUSED[case]
    ]
    assert result.committed == 3 - len(REFUSED[case])
    assert (result.exit_code, result.notes) == (3, ())


@pytest.mark.parametrize("case", CASES)
def test_without_an_order_nothing_is_written_and_the_run_ends(
    session, tmp_path: Path, case: str
) -> None:
    change, error, to_do = CASES[case]
    plan, line = written(tmp_path, change, "")
    with pytest.raises(DataError) as caught:
        session.run(plan, notes=rows(case))
    message = str(caught.value)
    assert re.search(rf"notes\.yaml:{line}:\d+  ", message)
    assert error.removesuffix("; nothing was written") in message
    assert to_do in message
    assert ("; nothing was written" in message) is (case not in COMPUTED)


def test_null_has_the_type_of_the_property_that_it_is_written_to(session, tmp_path: Path) -> None:
    nothing = '{n: "NULL", at: "CASE WHEN false THEN NULL END", tags: "NULL", more: "NULL"}'
    plan, _ = written(
        tmp_path,
        (
            MERGE,
            f"merge: {{from: told, node: Note, key: id, set: {nothing}, create: {{text: text}}}}",
        ),
        "",
    )
    assert session.run(plan, notes=[GOOD]).written == {"Note": 1}
