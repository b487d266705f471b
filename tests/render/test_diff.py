"""A difference between two states of a graph, as a terminal, a report and a notebook show it."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from semgraph.diff import FILE, Change, Diff
from semgraph.display import in_shell
from semgraph.execution.record import Run
from semgraph.logical.schema import Draw
from semgraph.render.diff import NOTHING, lines
from semgraph.render.html import page
from tests.render.test_html import HOSTILE, Read, graphs, recorded, rows_of

DRAWS = {
    "Note": Draw(node="content"),
    "Person": Draw(node="name"),
    "TIE": Draw(edge="name", text="fact", start="since", end="until"),
    "NAMES": Draw(),
}
NAMES = {"a": "Ada", "riga": "Riga", "oslo": "Oslo", "n": "Ada: I live in Oslo."}
ROW, PROMPT = ("row n edited",), ("prompt facts changed",)
KEY = "bd4ef8c7-b48c-59ba-9bff-2627edd8350a"


def tie(sign: Any, key: str, target: str, causes: tuple[str, ...] = ROW, **more: Any) -> Change:
    fact = f"Ada lives in {NAMES[target]}."
    row = {"source": "a", "target": target, "name": "LIVES_IN", "fact": fact}
    since = datetime(2025, 1, 15, 9, tzinfo=UTC)
    return Change(sign, "TIE", key, "g", {**row, "since": since}, causes=causes, **more)


SUMMARY = {
    "before": {"summary": "Ada works at Luma. Ada lives in Riga."},
    "after": {"summary": "Ada works at Luma. Ada lives in Oslo."},
}
NOTE = Change("~", "Note", "n", "g", {"content": "Ada: I live in Oslo."}, {"content": "Ada: I live in Riga."},
              {"content": "Ada: I live in Oslo."}, ROW)  # fmt: skip
ADA = Change("~", "Person", "a", "g", {"name": "Ada"}, **SUMMARY, causes=ROW)
OSLO = Change("+", "Person", "oslo", "g", {"name": "Oslo"}, causes=ROW)
NAMED = Change("+", "NAMES", "m", "g", {"source": "n", "target": "oslo"}, causes=ROW)
DIFF = Diff(
    (NOTE, ADA, OSLO, tie("-", "t1", "riga"), tie("+", "t2", "oslo"), NAMED),
    reasons=ROW,
    names=NAMES,
    draws=DRAWS,
)


def shown(diff: Diff, width: int = 80) -> str:
    with in_shell():
        return "\n".join(line.plain for line in lines(diff, width)) + "\n"


def test_an_empty_difference_is_one_line() -> None:
    assert shown(Diff()) == "no difference: the graph follows from its inputs\n"
    assert shown(Diff(reasons=PROMPT)) == "prompt facts changed\nno difference\n"
    assert str(Diff()) == "no difference: the graph follows from its inputs"


def test_rows_stand_below_their_node() -> None:
    assert (
        shown(DIFF)
        == """\
row n edited
3 new, 1 gone, 2 changed: 3 nodes, 3 edges
~ Ada: I live in Oslo.  Note
    content: Ada: I live in Riga. → Ada: I live in Oslo.
  + ─ NAMES ─▶ Oslo
~ Ada  Person
    summary: … Ada lives in Riga. → … Ada lives in Oslo.
  - ─ LIVES_IN ─▶ Riga  "Ada lives in Riga."  2025-01-15 →
  + ─ LIVES_IN ─▶ Oslo  "Ada lives in Oslo."  2025-01-15 →
+ Oslo  Person
"""
    )


def test_a_wide_terminal_shows_whole_texts() -> None:
    whole = (
        "    summary: Ada works at Luma. Ada lives in Riga. → Ada works at Luma. Ada lives in Oslo."
    )
    assert whole in shown(DIFF, 120).splitlines()


@pytest.mark.parametrize("width", [40, 80, 120])
def test_no_line_is_too_long(width: int) -> None:
    long = replace(ADA, before={"summary": "word " * 90}, after={"summary": "word " * 91 + "end"})
    fact = tie("+", "t3", "oslo")
    fact = replace(fact, row={**fact.row, "fact": "word " * 90})
    found = shown(replace(DIFF, changes=(*DIFF.changes, long, fact)), width)
    assert max(map(len, found.splitlines())) <= width
    assert "word end" in found
    assert "Riga" in found


def test_causes_stand_at_rows_where_those_of_a_node_differ_else_below_it() -> None:
    other = tie("+", "t2", "oslo", PROMPT)
    diff = replace(DIFF, changes=(OSLO, tie("-", "t1", "riga"), other), reasons=(*ROW, *PROMPT))
    assert (
        shown(diff, 100)
        == """\
row n edited
prompt facts changed
2 new, 1 gone: 1 node, 2 edges
+ Oslo  Person
    ← row n edited
  Ada
  - ─ LIVES_IN ─▶ Riga  "Ada lives in Riga."  2025-01-15 →  ← row n edited
  + ─ LIVES_IN ─▶ Oslo  "Ada lives in Oslo."  2025-01-15 →  ← prompt facts changed
"""
    )


def test_a_changed_time_is_shown_with_its_minutes_and_none_by_name() -> None:
    since = datetime(2025, 1, 15, 9, 30, tzinfo=UTC)
    change = replace(tie("~", "t1", "riga"), before={"since": since}, after={"since": None})
    for diff in (replace(DIFF, changes=(change,)), Diff.from_dict(replace(DIFF, changes=(change,)).as_dict())):  # fmt: skip
        assert shown(diff).splitlines()[2:] == [
            "  Ada",
            '  ~ ─ LIVES_IN ─▶ Riga  "Ada lives in Riga."',
            "      since: 2025-01-15 09:30 → (none)",
        ]


def test_texts_that_differ_in_their_lines_only_differ_visibly() -> None:
    lines_ = replace(ADA, before={"summary": "One.\nTwo."}, after={"summary": "One. Two."})
    found = shown(replace(DIFF, changes=(lines_,))).splitlines()
    assert found[-1] == r'    summary: "One.\nTwo." → "One. Two."'


def test_ends_that_moved_are_named_and_lists_have_short_keys() -> None:
    before, after = {"target": "riga", "notes": [KEY]}, {"target": "oslo", "notes": []}
    change = replace(tie("~", "t1", "oslo"), before=before, after=after)
    found = shown(replace(DIFF, changes=(change,))).splitlines()
    assert found[-2:] == ["      target: Riga → Oslo", "      notes: bd4ef8c7 → (empty)"]


def test_keys_of_rows_that_are_new_or_gone_are_shown_where_nothing_else_changed() -> None:
    gone = tie("-", "t1", "riga")
    node = replace(ADA, before={"ties": ["t1"]}, after={"ties": []})
    also = replace(
        ADA, before=node.before | {"summary": "A."}, after=node.after | {"summary": "B."}
    )
    assert "    ties: t1 → (empty)" in shown(replace(DIFF, changes=(node, gone))).splitlines()
    assert "ties:" not in shown(replace(DIFF, changes=(also, gone)))


def test_at_most_about_forty_rows_are_shown_and_the_rest_counted() -> None:
    many = tuple(Change("+", "Person", f"p{i}", "g", {"name": f"P {i}"}) for i in range(120))
    found = shown(replace(DIFF, changes=many)).splitlines()
    assert len(found) < 50
    assert found[-1] == "  … and 80 more: --format json"
    ties = tuple(replace(tie("+", f"t{i}", "oslo"), causes=()) for i in range(120))
    assert shown(replace(DIFF, changes=ties)).splitlines()[-1] == "  … and 81 more: --format json"


def test_rows_that_stay_as_somebody_edited_them() -> None:
    gone = replace(tie("-", "t1", "riga"), causes=())
    edited = replace(ADA, before={"summary": "Mine."}, after={"summary": "The plan's."})
    diff = replace(DIFF, changes=(), edited=(edited, gone))
    assert (
        shown(diff)
        == """\
row n edited
no difference
kept as edited:
~ Ada  Person
    summary: Mine. (the plan: The plan's.)
- Ada ─ LIVES_IN ─▶ Riga  "Ada lives in Riga."  2025-01-15 →
"""
    )


def test_commands_explain_a_new_and_a_gone_row_whose_runs_are_known() -> None:
    new = replace(tie("+", KEY, "oslo"), run="7f3a")
    old = replace(tie("-", "an id", "riga"), run="19ab")
    diff = replace(DIFF, changes=(OSLO, old, new))
    assert shown(diff).splitlines()[-2:] == [
        "Next: semgraph why 7f3a bd4ef8c7   (new: LIVES_IN ─▶ Oslo)",
        "      semgraph why 19ab 'an id'   (gone: LIVES_IN ─▶ Riga)",
    ]
    assert "Next: session.why('bd4ef8c7', '7f3a')" in str(diff)


def test_signs_have_colours() -> None:
    styles = {line.plain.strip()[0]: str(line.style) for line in list(lines(DIFF, 80))[2:]}
    assert {sign: styles[sign] for sign in "+-~"} == {"+": "green", "-": "red", "~": "yellow"}


def test_control_characters_are_escaped() -> None:
    hostile = replace(OSLO, row={"name": "red \x1b[31mfox"}, causes=("\x1b[2J",))
    found = shown(replace(DIFF, changes=(hostile, ADA), reasons=("row \x1b[2J",)))
    assert "\x1b" not in found
    assert r"red \x1b[31mfox" in found


def refreshed(folder: Path, diff: Diff) -> Run:
    """A record of a refresh."""
    record = recorded(folder)
    (record.folder / FILE).write_text(json.dumps(diff.as_dict()))
    return record


def test_a_report_has_what_changed_as_a_table(tmp_path: Path) -> None:
    mine = replace(ADA, before={"summary": "Mine."}, after={"summary": "The plan's."}, causes=())
    read = Read(page([refreshed(tmp_path, replace(DIFF, edited=(mine,)))]))
    assert read.all("h2")[:3] == ["Summary", "Failures", "What changed"]
    head, *rows = rows_of(read, "Rows that are new, gone or changed.")
    assert head == ["change", "label", "row", "text", "holds", "differs", "cause"]
    ada = "summary: Ada works at Luma. Ada lives in Riga. → Ada works at Luma. Ada lives in Oslo."
    assert rows[2:5] == [
        ["~ changed", "Person", "Ada", "", "", ada, "row n edited"],
        ["- gone", "TIE", "Ada ─ LIVES_IN ─▶ Riga", "Ada lives in Riga.", "2025-01-15 →", "", "row n edited"],
        ["+ new", "TIE", "Ada ─ LIVES_IN ─▶ Oslo", "Ada lives in Oslo.", "2025-01-15 →", "", "row n edited"],
    ]  # fmt: skip
    kept = ["~ changed", "Person", "Ada", "", "", "summary: Mine. (the plan: The plan's.)"]
    assert rows[-1] == [*kept, "stays as edited"]
    notes = read.all("ul", class_="notes")[1]
    assert "3 new, 1 gone, 2 changed: 3 nodes, 3 edges" in notes


def test_a_report_draws_what_changed_between_its_unchanged_neighbours(tmp_path: Path) -> None:
    read = Read(page([refreshed(tmp_path, DIFF)]))
    drawn = graphs(read)[0]
    signs = {node["name"]: drawn["kinds"][node["kind"]]["sign"] for node in drawn["nodes"]}
    assert (signs["Ada"], signs["Riga"], signs["Oslo"]) == ("changed", "unchanged", "new")
    gone = [e["text"] for e in drawn["edges"] if drawn["kinds"][e["kind"]]["sign"] == "gone"]
    assert gone == ["Ada lives in Riga."]
    assert {"gone", "new", "changed", "unchanged"} <= set(
        read.all("ul", class_="legend")[0].split()
    )
    shapes = {kind["shape"] for kind in drawn["kinds"] if kind["shape"]}
    assert len(shapes) > 2, "signs differ in shape, not in colour alone"


def test_a_refresh_without_a_difference_says_so_in_its_report(tmp_path: Path) -> None:
    read = Read(page([refreshed(tmp_path, Diff())]))
    assert "What changed" in read.all("h2")
    assert NOTHING in read.all("li")


def test_a_notebook_shows_the_same_parts() -> None:
    shown = DIFF._repr_html_()
    assert "<b>3 new, 1 gone, 2 changed: 3 nodes, 3 edges</b> · row n edited" in shown
    assert 'class="graph-data"' in shown
    assert '<span class="sign kind-gone">- gone</span>' in shown
    assert NOTHING in Diff()._repr_html_()


def test_nothing_of_a_difference_becomes_html(tmp_path: Path) -> None:
    told = HOSTILE.replace("\ud83d", "")
    row = {"source": told, "target": "a", "name": told, "fact": told}
    hostile = Change("~", told, told, told, row, {told: told}, {told: "x"}, (told,))
    diff = Diff((hostile,), (hostile,), (told,), {told: told}, {told: DRAWS["TIE"]})
    read = Read(page([refreshed(tmp_path, diff)]))
    assert "img" not in read.tags
    assert len(read.all("script")) == 2 + len(graphs(read))
    assert "<img" not in diff._repr_html_()


def test_many_reasons_of_a_kind_are_one_line_and_keys_are_short() -> None:
    key = "24333165-fe78-59ea-a40a-c82956de4096"
    prompts = [f"prompt p{i} of read/facts changed" for i in range(4)]
    implementations = [f"implementation of s{i} changed" for i in range(2)]
    mixed = (*prompts[:2], *implementations, *prompts[2:], f"row {key} edited")
    assert shown(Diff(reasons=mixed), 200).splitlines() == [
        "4 prompts changed: p0 of read/facts, p1 of read/facts, p2 of read/facts, …",
        *implementations,
        "row 24333165 edited",
        "no difference",
    ]
