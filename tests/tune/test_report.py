"""What people see of a tuning: in a terminal, on a page, in a notebook, as data."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from rich.cells import cell_len
from rich.text import Text

import semgraph as sg
from semgraph.compare.comparison import Spent
from semgraph.display import in_shell
from semgraph.errors import PlanError
from semgraph.execution.record import Run
from semgraph.render.html import page
from semgraph.render.outcome import run_page, summary
from semgraph.render.tuning import lines
from semgraph.tune.tuning import FILE, Tuning, load_tuning
from tests.render.test_html import Read
from tests.tune.tunings import (
    CAVEATS,
    CHOSEN,
    PROMISE,
    REFERENCE,
    TRIED,
    found,
    kept,
    recorded,
    several,
    stopped,
    tuning,
)

ALL = (tuning, found, kept, stopped, several)
every_one = pytest.mark.parametrize("made", ALL, ids=[each.__name__ for each in ALL])


def shown(made: Tuning, width: int = 120) -> list[Text]:
    with in_shell():
        return list(lines(made, width))


def text(made: Tuning, width: int = 120) -> str:
    """The report as one line."""
    return " ".join(" ".join(line.plain for line in shown(made, width)).split())


def table(made: Tuning, width: int = 120) -> dict[str, list[str]]:
    """The cells of the table, by the name of the candidate."""
    plain = [line.plain for line in shown(made, width)]
    first = next(i for i, line in enumerate(plain) if line.startswith("candidate "))
    rows = plain[first : next(i for i in range(first, len(plain)) if "  " not in plain[i])]
    return {cells[0]: cells[1:] for cells in (re.split(r"\s{2,}", row) for row in rows)}


class TestInATerminal:
    @every_one
    @pytest.mark.parametrize("width", [80, 120])
    def test_no_line_is_wider_and_nothing_is_called_best(
        self, made: Callable[..., Tuning], width: int
    ) -> None:
        found = [line.plain for line in shown(made(), width)]
        assert max(map(cell_len, found)) <= width
        assert "best" not in "\n".join(found).lower()

    def test_first_stand_the_choice_its_price_the_promise_and_its_limits(self) -> None:
        first, then, nots, *_ = [line.plain for line in shown(tuning(), 999)]
        assert first == (
            f"Chosen for complaints: {CHOSEN}, the cheapest shown to have an F1 of at least 0.93. "
            "1,000 rows cost $0.044, and $0.332 with the reference, the plan as it is."
        )
        assert then == f"Promised: {PROMISE}"
        assert nots == CAVEATS[0]

    def test_the_highest_bound_at_a_price_is_called_so(self) -> None:
        first = text(tuning(floor=None, per_1000=0.05))
        assert (
            "shown to have an F1 of at least 0.936, the most within $0.050 for 1,000 rows" in first
        )
        assert "cheapest shown" not in first

    def test_power_and_gain_stand_before_the_table(self) -> None:
        report = text(tuning())
        assert (
            report.index("power: ")
            < report.index("gain: ")
            < report.index("candidate $ / 1,000 rows")
        )

    def test_candidates_stand_in_the_order_of_trial(self) -> None:
        head, *rows = table(tuning()).items()
        assert head == (
            "candidate",
            ["$ / 1,000 rows", "F1", "at least", "checked", "alpha", "verdict"],
        )
        tried = [each.name for each in TRIED if each.verdict in ("hopeless", "not shown", "shown")]
        assert [name for name, _ in rows] == ["reference", *tried]
        assert rows[0][1] == ["0.332", ".981", ".962", "400", "–", "reference"]
        assert dict(rows)[CHOSEN] == ["0.044", ".965", ".936", "400", "0.0071", "chosen, shown"]
        assert dict(rows)[TRIED[0].name][-1] == "hopeless after 134"

    def test_a_bound_is_rounded_down(self) -> None:
        """A bound of 0.9499 does not show 0.95."""
        own = replace(TRIED[3], at_least=0.94999)
        assert table(tuning(tried=(own,)))[CHOSEN][2] == ".949"

    def test_candidates_without_figures_stand_below_the_table_with_the_reason(self) -> None:
        report = [line.plain for line in shown(tuning(), 200)]
        assert (
            "not tried, a cheaper one is shown: good=per_row @ small $0.066 · good=packed(rows=10) $0.151"
            in report
        )
        assert "failed: good=packed(rows=20) @ small: the model refused 3 answers" in report

    def test_without_a_floor_nothing_is_judged(self) -> None:
        verdicts = {own[-1] for own in table(tuning(floor=None, per_1000=0.05)).values()}
        assert verdicts == {
            "verdict",
            "reference",
            "hopeless after 134",
            "measured",
            "chosen, measured",
        }

    def test_facts_of_a_graph_are_not_counted_as_groups(self) -> None:
        assert table(found(unit="group"))["candidate"] == [
            "$ / 1,000 rows",
            "F1",
            "at least",
            "alpha",
            "verdict",
        ]

    @every_one
    def test_cost_f1_bound_and_verdict_are_never_dropped(self, made: Callable[..., Tuning]) -> None:
        for width in (80, 100):
            head = table(made(), width)["candidate"]
            assert head[:3] == ["$ / 1,000 rows", "F1", "at least"]
            assert head[-1] == "verdict"

    def test_only_the_chosen_row_is_bold(self) -> None:
        bold = [line.plain for line in shown(tuning()) if "bold" in {s.style for s in line.spans}]
        assert [line.split("  ")[0] for line in bold] == [CHOSEN]
        assert not any(line.spans for line in shown(found()))

    def test_the_chart_has_bounds_as_bars_and_the_floor(self) -> None:
        report = [line.plain for line in shown(tuning())]
        assert "F1 against the truth, from 0.6" in report
        assert "  │ from F1 down to its exact lower bound" in report
        assert "  ┄ floor 0.93" in report
        assert any("┄┄┄┄" in line and "┤" not in line for line in report)

    def test_without_a_truth_the_reference_is_drawn_by_its_second_trial(self) -> None:
        untrue = tuning(
            measure="F1 against the reference's answers",
            reference=replace(REFERENCE, f1=None, at_least=None),
        )
        assert "a *reference" in text(untrue)
        assert "*reference" not in text(replace(untrue, agrees=None))

    def test_losses_stand_by_step(self) -> None:
        report = [line.plain for line in shown(several())]
        rows = [line.split() for line in report if line.startswith("  good ")]
        assert rows[0][1:3] == ["packed(rows=5)", "@"]
        assert rows[0][-5:] == ["0.044", ".970", ".030", "200", "yes"]
        assert rows[1][-1] == "200"

    def test_the_first_disagreements_and_the_command_for_their_prompts(self) -> None:
        report = [line.plain for line in shown(tuning())]
        first = report.index("chosen and reference disagree: 12 rows")
        assert report[first + 2].split() == ["0", '["yes"]', "[]"]
        assert report[first + 12 : first + 14] == [
            "  … 2 more rows",
            "prompts and answers of each row: semgraph report 7ab2 -o complaints.html",
        ]
        assert "disagree" not in text(several())

    def test_the_search_has_its_price_and_pays_back_or_not(self) -> None:
        assert (
            "The search cost 1,334 calls, $0.420 · paid now 900 calls, $0.290 · 65 s · pays back after 1,460 rows"
            in text(tuning())
        )
        assert "it never pays back" in text(tuning(pays_back=None))
        unpriced = tuning(
            priced=False,
            pays_back=None,
            spent=Spent(9, 1, 1, None),
            reference=replace(REFERENCE, cost=123_456),
        )
        assert "pays back" not in text(unpriced)
        assert "The search cost 9 calls, price unknown" in text(unpriced)
        assert table(unpriced)["reference"][0] == "123.5 k"

    def test_last_stands_the_file_and_the_next_command(self) -> None:
        assert text(tuning()).endswith(
            "Written: plans/complaints.tuned.yaml · run it: semgraph run complaints --preset tuned"
        )
        assert "--preset chosen.yaml" in text(tuning(file=Path("chosen.yaml")))
        assert "semgraph run" not in text(found())

    def test_what_is_only_found_is_not_promised(self) -> None:
        report = text(found())
        assert report.startswith(
            "Nothing is chosen for complaints, which stays as it is: one world is one unit"
        )
        assert (
            f"Found, not shown: {CHOSEN}: a measured F1 of 0.965 (at least 0.936): more checked rows may show it. "
            "1,000 rows cost $0.044." in report
        )
        assert "Nothing is promised." in report
        assert table(found())[CHOSEN][-1] == "found, not shown"

    def test_nothing_to_gain_is_a_reason(self) -> None:
        report = text(kept())
        assert (
            "which stays as it is: at most 3 % of its cost is to gain. Nothing is promised."
            in report
        )
        assert "The search cost 0 calls, $0" in report
        assert "┤" not in report

    def test_a_limit_is_named(self) -> None:
        report = text(stopped())
        assert (
            "! stopped: before good=packed(rows=5) @ small, about $0.087, would pass max_usd 0.3"
            in report
        )
        assert f"not tried, the limit was reached: {CHOSEN} $0.044" in report

    def test_control_characters_are_escaped(self) -> None:
        assert "\x1b" not in text(tuning(promise="red \x1b[31mfox"))


class TestRecorded:
    @every_one
    def test_a_record_has_all_of_it(self, made: Callable[..., Tuning], tmp_path: Path) -> None:
        first = recorded(made(), tmp_path)
        loaded = load_tuning("7ab", tmp_path)
        assert loaded.to_json() == first.to_json()
        assert [line.plain for line in shown(loaded)] == [line.plain for line in shown(first)]

    def test_json_has_no_comparison_and_is_plain(self, tmp_path: Path) -> None:
        data = json.loads(json.dumps(recorded(tuning(), tmp_path).to_json()))
        assert (data["schema"], data["kind"], data["status"]) == (1, "tuning", "shown")
        assert data["tried"][3]["changes"] == {"good": "packed(rows=5) @ small"}
        assert data["file"] == "plans/complaints.tuned.yaml"
        assert "comparison" not in data

    def test_what_is_no_tuning_is_refused(self, tmp_path: Path) -> None:
        folder = recorded(tuning(), tmp_path).record
        assert folder is not None
        (folder / FILE).unlink()
        with pytest.raises(PlanError, match="7ab2 is no finished tuning"):
            load_tuning("last", tmp_path)

    def test_runs_names_the_kind_and_the_command(self, tmp_path: Path) -> None:
        run = Run(recorded(tuning(), tmp_path).record or Path())
        assert summary(run)["kind"] == "tuning"
        assert list(run_page(run, 120))[-1] == "Its table: semgraph tune --show 7ab2"


def read(made: Tuning, runs: Path) -> Read:
    return Read(page([Run(recorded(made, runs).record or Path())]))


class TestOnAPage:
    def test_the_tuning_comes_first_then_its_comparison(self, tmp_path: Path) -> None:
        shown = read(tuning(), tmp_path)
        assert shown.all("h1") == ["complaints · tuning 7ab2"]
        assert shown.all("h2") == [
            "The choice",
            "The search",
            "The variants",
            "Charts",
            "Differences",
        ]
        ids = [value for _, attrs, _ in shown.found if (value := attrs.get("id"))]
        assert len(ids) == len(set(ids))

    @every_one
    def test_a_page_has_what_the_terminal_has(
        self, made: Callable[..., Tuning], tmp_path: Path
    ) -> None:
        shown = read(made(comparison=None), tmp_path)
        words = " ".join(" ".join(shown.all("main")).split())
        for each in (
            made().promise or "Nothing is promised.",
            *made().before,
            *made().caveats,
            *(t.why for t in made().tried),
        ):
            assert each in words
        assert re.search(r"\bbest\b", words.lower()) is None

    def test_the_chart_names_the_floor_and_what_costs_are_of(self, tmp_path: Path) -> None:
        shown = read(tuning(comparison=None), tmp_path)
        assert "floor 0.93" in shown.all("text")
        assert "Costs are of 1,000 rows." in shown.all("figcaption")[0]
        assert "One trial" not in shown.all("figcaption")[0]

    def test_steps_have_a_table(self, tmp_path: Path) -> None:
        shown = read(several(), tmp_path)
        assert shown.all("h2") == ["The choice", "The search"]
        assert "packed(rows=20) @ openai:gpt-4.1-nano" in shown.all("td")

    def test_a_session_writes_it(self, tmp_path: Path) -> None:
        runs = tmp_path / ".semgraph" / "runs"
        recorded(tuning(), runs)
        session = sg.Session(store="memory", folder=tmp_path)
        assert "tuning 7ab2" in session.report("7ab2", to="page.html").read_text(encoding="utf-8")


class TestInANotebook:
    def test_the_choice_the_table_and_the_chart(self) -> None:
        shown = tuning()._repr_html_()
        assert shown.index("Promised: ") < shown.index("<table") < shown.index("<svg")
        assert "chosen, shown" in shown
        assert "(best)" not in shown
        assert "packed(rows=20) @ openai" in several()._repr_html_()

    def test_in_print_it_is_the_report(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("COLUMNS", "80")
        assert str(tuning()).splitlines()[:20] == [line.plain for line in shown(tuning(), 80)][:20]
        assert f"tuning.comparison['{CHOSEN}'].why(COLUMN=VALUE)" in str(tuning()).replace(
            "\n  ", " "
        )

    def test_the_chart_is_a_drawing(self) -> None:
        assert "┄ floor 0.93" in tuning().chart()
        assert "<svg" in tuning().chart()._repr_html_()
        assert kept().chart().startswith("no chart: fewer than two")

    def test_the_table_is_a_data_frame(self) -> None:
        frame = tuning().table
        assert list(frame["name"]) == ["reference", *(each.name for each in TRIED)]
        assert list(frame["calls"])[:2] == [400, 134]
        assert frame["at_least"][4] == 0.93679
