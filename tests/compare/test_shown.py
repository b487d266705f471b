"""What people see: a table that fits, the best of each column bold, what stands below it, a
chart.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from rich.cells import cell_len
from rich.text import Text

from semgraph.compare.comparison import Arm, Comparison, Quality, Spent, Trial
from semgraph.render.comparison import lines


def arm(
    name: str,
    calls: int,
    dollars: float | None,
    seconds: float | None,
    quality: Quality,
    trials: int = 1,
) -> Arm:
    spent = Spent(calls, calls * 100, calls * 3, dollars)
    times = [seconds and seconds + n / 10 for n in range(trials)]
    made = tuple(
        Trial(n + 1, spent, spent, time, model_seconds=time or 0.0) for n, time in enumerate(times)
    )
    return Arm(name, {"link": name}, made, quality)


def made(**changes: object) -> Comparison:
    """Three variants with numbers that can be told apart."""
    arms = (
        arm("nested_loop", 10_000, 0.744, 161.0, Quality(0.93, 0.95, 0.94, (0.918, 0.958)), 3),
        arm("block(rows=10)", 50, 0.123, 4.6, Quality(0.92, 0.93, 0.925, (0.901, 0.944), (0.92, 0.93), (-0.015, -0.032, 0.001), 0.976), 3),
        arm("cascade", 28, 0.053, None, Quality(0.94, 0.9, 0.919, (0.894, 0.94), (0.91, 0.92), (-0.021, -0.039, -0.004), 0.964), 3),
    )  # fmt: skip
    given = {
        "id": "4b21", "plan": "link", "step": "link", "model": "openai:gpt-4.1-mini", "arms": arms, "trials": 3,
        "truth": True, "reference": "nested_loop", "store": "memory", "paid": Spent(10_078, 1, 1, 3.08),
        "frozen": {"rows": {"mentions": 500, "near": 10_000}, "sha": "9c1e77"},
    }  # fmt: skip
    return Comparison(**(given | changes))  # type: ignore[arg-type]


def shown(comparison: Comparison, width: int = 200) -> list[Text]:
    return list(lines(comparison, width))


def bold(line: Text) -> set[str]:
    return {
        line.plain[span.start : span.end].strip() for span in line.spans if span.style == "bold"
    }


def test_the_table() -> None:
    head, *rows = [line.plain for line in shown(made())[:4]]
    assert head.split("  ")[0] == "variant"
    assert [row.split("  ")[0] for row in rows] == ["nested_loop", "block(rows=10)", "cascade"]
    assert ".940 [.918 .958]" in rows[0]
    assert "−.015 [−.032 +.001]" in rows[1]
    assert "97.6 %" in rows[1]
    assert "4.7 s [4.6 s–4.8 s]" in rows[1]
    assert "1 M / 30 k" in rows[0]


@pytest.mark.parametrize("width", [60, 80, 100])
def test_no_line_is_wider_than_the_terminal_and_nothing_is_said_less(width: int) -> None:
    """What stands below the table goes on in an indented line, cut between what is said or, at the
    worst, between words.
    """
    found = made(
        model="openai:stand-in@http://127.0.0.1:43651/v1", store="sqlite:/home/ann/work/.semgraph/graph.db", truth=False,
        notes=("3 of 3 rows are in the graph already, so the copy has their content before the comparison",),
    )  # fmt: skip
    narrow = [line.plain for line in shown(found, width)]
    assert max(map(cell_len, narrow)) <= width
    wide = " ".join(line.plain for line in shown(found, 400)[4:])
    words = " ".join(
        narrow[narrow.index(next(line for line in narrow if line.startswith("step "))) :]
    ).split()
    assert [word for word in words if word.isalnum()][:30] == [
        word for word in wide.split() if word.isalnum()
    ][:30]
    assert any(line.startswith("  ") and "kept as" not in line for line in narrow)


def test_printed_in_a_script_it_is_the_table_of_the_terminal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for width in (200, 80):
        monkeypatch.setenv("COLUMNS", str(width))
        found = made()
        assert (
            str(found).splitlines()
            == repr(found).splitlines()
            == [line.plain for line in shown(found, width)]
        )


def test_the_best_of_each_column_is_bold() -> None:
    found = [bold(line) for line in shown(made())[1:4]]
    assert found == [
        {".95", ".940 [.918 .958]"},
        {"4.7 s [4.6 s–4.8 s]", "97.6 %"},
        {"28", "2.8 k / 84", "0.053", ".94"},
    ]


def test_columns_fall_away_from_the_right_and_a_line_says_so() -> None:
    found = [line.plain for line in shown(made(), 80)]
    assert all(len(line) <= 80 for line in found[:4])
    assert found[4].startswith("… ")
    assert "model time, 3 trials, over trials" in found[4]
    assert "F1 [95 %]" in found[0]
    assert "$ cold" in found[0]


def test_what_stands_below() -> None:
    text = "\n".join(line.plain for line in shown(made()))
    assert (
        "the same frozen input for all (mentions × near: 500 × 10,000 rows, sha 9c1e) · openai:gpt-4.1-mini"
        in text
    )
    assert (
        "3 independent trials of each · paid now 10,078 calls, $3.08 · nothing written to memory"
        in text
    )
    assert "no truth" not in text


def test_agreement_is_called_so() -> None:
    arms = (
        arm("per_row", 6, None, 1.0, Quality()),
        arm("packed", 2, None, 1.0, Quality(same=0.5, interval=(0.2, 0.8))),
    )
    found = made(arms=arms, truth=False, trials=1, reference="per_row")
    plain = [line.plain for line in shown(found)]
    assert "agreement [95 %]" in plain[0]
    assert "F1" not in "\n".join(plain)
    assert ".500 [.200 .800]" in plain[2]
    assert "no truth: this is agreement with per_row, the reference, not correctness" in plain


def test_what_is_missing_is_said() -> None:
    arms = (arm("per_row", 6, 0.1, 1.0, Quality()), Arm("packed", {}))
    plain = "\n".join(
        line.plain for line in shown(made(arms=arms, truth=False, stopped="max_calls 6", trials=2))
    )
    assert "! stopped: max_calls 6" in plain
    assert "! missing trials: 1 of per_row, 2 of packed" in plain
    assert "0 of 2" in plain


def test_answers_that_were_replayed_are_counted_and_have_no_time() -> None:
    spent = Spent(6, 600, 60, 0.1)
    arms = (Arm("per_row", {}, (Trial(1, spent, Spent()),)),)
    plain = [line.plain for line in shown(made(arms=arms, truth=False, trials=1))]
    assert "6 answers shared or replayed, not sent" in "\n".join(plain)
    assert "–" in plain[1]


def test_in_a_notebook_it_is_a_table_with_nothing_unescaped() -> None:
    arms = (
        arm("<per_row>", 6, 0.2, 1.0, Quality(f1=0.5)),
        arm("packed", 2, 0.1, 1.0, Quality(f1=0.4)),
    )
    found = made(arms=arms)._repr_html_()
    assert "<b>.500<" in found
    assert "<per_row>" not in found.replace("&lt;", "")
    assert found.count("<tr>") == 3


def test_measures_of_which_nothing_is_known_have_no_column() -> None:
    """Whole plans without a truth, of which only the reference was finished."""
    arms = (arm("blocks", 6, 0.1, 1.0, Quality()), Arm("pairs", {}))
    plain = [
        line.plain
        for line in shown(made(arms=arms, step="", truth=False, stopped="max_calls 6", trials=1))
    ]
    assert plain[0].split() == [
        "variant",
        "calls",
        "tokens",
        "in/out",
        "$",
        "cold",
        "time",
        "trials",
    ]


class TestForms:
    def test_rows_for_a_data_frame(self) -> None:
        frame = made().to_pandas()
        assert list(frame["variant"]) == ["nested_loop", "block(rows=10)", "cascade"]
        assert list(frame["f1"]) == [0.94, 0.925, 0.919]
        assert frame["difference_low"][1] == -0.032
        trials = made().to_pandas(trials=True)
        assert len(trials) == 9
        assert list(trials["trial"][:3]) == [1, 2, 3]

    def test_csv_has_the_same_rows(self) -> None:
        head, first, *_ = made().to_csv().splitlines()
        assert head.startswith("variant,f1,precision,recall,same,low,high,difference")
        assert first.startswith("nested_loop,0.94,0.93,0.95,,0.918,0.958,,")

    def test_latex_is_a_table_that_escapes_names(self) -> None:
        text = made().to_latex()
        assert text.startswith("\\begin{tabular}{lrrrrrrr}\n\\toprule\nvariant & calls")
        assert "nested\\_loop & 10,000 & 1 M / 30 k & 0.744" in text
        assert "\\textbf{.940 [.918 .958]}" in text
        assert "$-$.015 [$-$.032 +.001]" in text
        assert "same rows" not in text

    def test_a_name_in_latex_is_no_argument_and_no_accent(self) -> None:
        arms = (
            replace(arm, name=name)
            for arm, name in zip(made().arms, ("[1,2]", "a|b<c"), strict=False)
        )
        text = replace(made(), arms=tuple(arms), reference="[1,2]").to_latex()
        assert "\\midrule\n{}[1,2] & " in text
        assert "a$|$b$<$c & " in text

    def test_markdown(self) -> None:
        head, rule, first, *_ = made().to_markdown().splitlines()
        assert head.startswith("| variant | calls | tokens in/out | $ cold |")
        assert rule.startswith("|---|--:|")
        assert first.startswith("| nested\\_loop | 10,000 |")
        assert "**.940 \\[.918 .958]**" in first

    def test_a_sentence_says_what_is_shown(self) -> None:
        equal, worse = made().sentence().split(". ")
        assert equal == (
            "No difference of F1 is shown between block(rows=10) and nested_loop "
            "(95 % -3.2 to +0.1 points, n = 500, 3 trials) for 0.005 of the tokens"
        )
        assert worse == (
            "cascade loses 2.1 points of F1 against nested_loop "
            "(95 % 0.4 to 3.9, n = 500, 3 trials) for 0.003 of the tokens."
        )


def test_what_a_difference_shows_is_said_in_words() -> None:
    below = "\n".join(line.plain for line in shown(made())[4:])
    assert "block(rows=10): no difference shown · cascade: worse by at least .004" in below
    assert "corrected for the number of variants (Holm)" in below


@pytest.mark.parametrize("width", [60, 80, 100])
def test_quality_and_dollars_never_fall_away(width: int) -> None:
    long = arm("packed(rows=10) @ openai:gpt-4.1-nano, models.small=gpt", 9, 0.1, 1.0, Quality(0.9, 0.9, 0.9, (0.8, 0.95)))  # fmt: skip
    head = next(iter(shown(made(arms=(*made().arms, long)), width))).plain
    assert "F1 [95 %]" in head
    assert "$ cold" in head
    assert width == 60 or {"P", "R"} <= {*head.split()}


def test_they_outlast_what_the_variants_of_a_grid_change() -> None:
    keys = ("models.default", "preset", "verdicts", "params.similar", "prompts.judge")
    arms = [
        replace(a, changes={key: f"{key} of {a.name} in a long text" for key in keys})
        for a in made()
    ]
    arms = [replace(a, name=", ".join(a.changes.values())) for a in arms]
    head = next(iter(shown(replace(made(), arms=tuple(arms), reference=arms[0].name), 80))).plain
    assert head.split("  ")[0] == "models.default"
    assert "F1 [95 %]" in head
    assert "$ cold" in head
