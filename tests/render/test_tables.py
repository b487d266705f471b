"""Tables in a terminal: what stays, what falls away, and that the last line says so."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from semgraph.render.tables import Column, fit, hanging, lines, result_lines, wrapped

COLUMNS = [
    Column("name", ["Ann", "Bartholomew"]),
    Column("calls", ["2,310", "7"], right=True),
    Column("what it said", ["short", "a much longer text than fits"]),
]


def test_a_table_that_fits_is_shown_whole() -> None:
    assert list(lines(COLUMNS, 80)) == [
        "  name         calls  what it said",
        "  Ann          2,310  short",
        "  Bartholomew      7  a much longer text than fits",
    ]


def test_the_longest_text_gives_way_first_down_to_half() -> None:
    assert list(lines(COLUMNS, 40)) == [
        "  name         calls  what it said",
        "  Ann          2,310  short",
        "  Bartholomew      7  a much longer tex…",
    ]


def test_then_columns_fall_away_from_the_right() -> None:
    assert list(lines(COLUMNS, 30)) == [
        "  name         calls",
        "  Ann          2,310",
        "  Bartholomew      7",
        "  … 1 more column: what it",
        "  said",
    ]


def test_columns_that_name_an_order_fall_away_in_it() -> None:
    calls, text = replace(COLUMNS[1], drop=1), COLUMNS[2]
    assert list(lines([COLUMNS[0], calls, text], 30)) == [
        "  name         what it said",
        "  Ann          short",
        "  Bartholomew  a much longer …",
        "  … 1 more column: calls",
    ]


def test_a_column_that_stays_is_not_cut_to_equal_cells_while_others_can_fall_away() -> None:
    models = Column("model", ["openai:gpt-4.1-mini", "openai:gpt-4.1-nano"], drop=-1)
    calls, told = Column("calls", ["8", "2"], right=True), Column("tokens", ["343", "331"], True)
    assert list(lines([models, calls, told], 28)) == [
        "  model                calls",
        "  openai:gpt-4.1-mini      8",
        "  openai:gpt-4.1-nano      2",
        "  … 1 more column: tokens",
    ]
    assert list(lines([models], 16))[1] == "  openai:gpt-4.…"


def test_the_first_column_stays_whatever_the_width() -> None:
    found = list(lines(COLUMNS, 8))
    assert found[:3] == ["  name", "  Ann", "  Barth…"]
    assert found[3:] == ["  … 2 more columns:", "  calls, what it", "  said"]


def test_wide_letters_are_counted_by_their_places() -> None:
    assert fit("東京タワー", 6) == "東京 …"
    assert fit("東京", 6) == "東京  "


def test_a_result_shows_its_first_rows_and_how_many_more_there_are() -> None:
    table = pa.table({"name": [f"n{i}" for i in range(25)], "score": [i / 2 for i in range(1, 26)]})
    found = list(result_lines("hits", table, 80))
    assert found[:3] == ["hits: 25 rows", "  name  score", "  n0      0.5"]
    assert found[-1] == "  … 5 more rows"


def test_a_result_without_rows_is_one_line() -> None:
    assert list(result_lines("hits", pa.table({"name": pa.array([], pa.string())}), 80)) == [
        "hits: 0 rows"
    ]


def test_a_column_that_says_the_same_everywhere_stands_beside_the_name_and_an_empty_one_below() -> (
    None
):
    key = "14234c82-554e-5d05-953b-8c4bc6244b7c"
    table = pa.table(
        {
            "id": pa.array([None, None], pa.string()),
            "query": ["who?"] * 2,
            "n": [1, 1],
            "uuid": [key, "x"],
        }
    )
    assert list(result_lines("hits", table, 80)) == [
        "hits: 2 rows   (query who?)", "  n  uuid", "  1  14234c82", "  1  x", "  1 column without a value: id",
    ]  # fmt: skip
    assert list(result_lines("hits", table.slice(0, 1).select(["query"]), 80)) == [
        "hits: 1 row",
        "  query",
        "  who?",
    ]


def test_columns_without_a_value_are_named_below_as_far_as_rows_are_shown() -> None:
    nothing = [None] * 25
    table = pa.table(
        {"n": range(25), "at": pa.array(nothing, pa.date32()), "late": [None] * 24 + ["x"]}
    )
    assert list(result_lines("hits", table, 80))[-2:] == [
        "  2 columns without a value in these rows: at, late", "  … 5 more rows",
    ]  # fmt: skip
    assert list(result_lines("hits", table.slice(0, 2).select(["at"]), 80)) == [
        "hits: 2 rows", "  1 column without a value: at",
    ]  # fmt: skip


def test_a_long_first_word_loses_neither_its_letters_nor_its_indent() -> None:
    word = "https://example.org/" + "a-word-" * 5
    for whole in (True, False):
        found = hanging(f"    {word} it says", 40, 4, whole_words=whole)
        assert "".join(line.strip() for line in found).replace(" ", "") == f"{word}itsays"
        assert all(line.startswith("    ") for line in found)
        assert whole or all(len(line) <= 40 for line in found)
    assert hanging("    ", 40, 4) == []


def test_a_long_line_continues_indented() -> None:
    line = "  a  ≤ 6 calls for read/graphs; those of 5 more steps depend on the answers"
    assert wrapped(line, 40) == [
        "  a  ≤ 6 calls for read/graphs; those of",
        "    5 more steps depend on the answers",
    ]
    assert wrapped(line, 80) == [line]


def test_a_command_stays_whole_on_a_line_of_its_own() -> None:
    why = "Next: semgraph why 3270 WORKS_AT   (the prompts; models make mistakes)"
    assert wrapped(why, 40) == [
        "Next: semgraph why 3270 WORKS_AT",
        "  (the prompts; models make mistakes)",
    ]
    failed = "  these rows only: semgraph run add_episode -i episodes=failed.jsonl"
    assert wrapped(failed, 40) == [
        "  these rows only:",
        "    semgraph run add_episode -i episodes=failed.jsonl",
    ]
