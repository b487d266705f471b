"""The charts of a comparison: quality or time over cost, and the cost of each step, in characters, as
SVG, and by matplotlib.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

import semgraph as sg
from semgraph.compare.comparison import (
    FILE,
    Arm,
    ChartKind,
    Comparison,
    Quality,
    Spent,
    load_comparison,
    save,
)
from semgraph.errors import PlanError
from semgraph.execution.record import RunRecord
from semgraph.render.chart import Axis, bars, front, points, text
from semgraph.render.comparison import plain
from tests.compare.conftest import compared, opened
from tests.compare.test_command import PLAN
from tests.compare.test_shown import arm, made
from tests.llm.server import ModelServer

KINDS: tuple[ChartKind, ...] = ("quality", "time", "steps")
LONG = "packed(rows=10) @ openai:gpt-4.1-nano, models.small=gpt-4.1-mini"


def by_step(comparison: Comparison, **shares: float) -> Comparison:
    """The comparison with the cost of each trial divided among steps."""

    def divided(spent: Spent) -> dict[str, Spent]:
        return {
            step: Spent(1, round(spent.tokens_in * share), 0, (spent.dollars or 0) * share)
            for step, share in shares.items()
        }

    arms = [
        replace(each, trials=tuple(replace(t, steps=divided(t.cold)) for t in each.trials))
        for each in comparison.arms
    ]
    return replace(comparison, arms=tuple(arms))


def many() -> Comparison:
    """Ten variants with long names, whose costs differ by a factor of 200."""
    arms = [
        arm(f"packed(rows={n}), models.default={model}", n, price / n, 50 / n, Quality(f1=f1, interval=(f1 - 0.05, f1 + 0.03)))
        for model, price, top in (("small", 0.02, 0.8), ("large", 0.4, 0.95))
        for n in (1, 2, 5, 10, 20)
        for f1 in (top - n * 0.006,)
    ]  # fmt: skip
    return made(arms=tuple(arms), reference=arms[0].name)


def shown(comparison: Comparison, kind: ChartKind, width: int = 60) -> list[str]:
    return text(comparison, width, kind).splitlines()


class TestInCharacters:
    def test_points_stand_where_their_cost_and_quality_are(self) -> None:
        lines = shown(made(), "quality")
        assert lines[0] == "F1, from 0.88"
        assert lines[1].startswith("0.96 ┤")
        assert lines[3].startswith("0.94 ┤")
        assert lines[3].endswith("a*")
        assert lines[5].startswith("0.92 ┤    c*")
        assert lines[9].startswith("0.88 ┤")
        assert re.fullmatch(r" +\$0 +\$0\.2 +\$0\.4 +\$0\.6 +\$0\.8", lines[11])
        assert lines[12].strip() == "dollars of one trial"

    def test_the_legend_names_variants_the_front_and_the_bars(self) -> None:
        assert [line.strip() for line in shown(made(), "quality")[13:]] == [
            "a *nested_loop · b *block(rows=10) · c *cascade",
            "* on the front: no other is cheaper and better",
            "│ 95 % interval",
        ]

    def test_an_interval_is_a_bar_through_its_point(self) -> None:
        lines = shown(made(), "quality")
        column = next(line.index("c") for line in lines if "┤    c" in line)
        marks = "".join(line[column : column + 1] for line in lines[1:10])
        assert marks.strip() == "││c│││"

    def test_time_over_cost_names_what_is_not_drawn(self) -> None:
        lines = shown(made(), "time")
        assert lines[0] == "model time of one trial in seconds, from 2, logarithmic"
        assert "a nested_loop · b *block(rows=10)" in lines[-3]
        assert lines[-2].strip() == "* on the front: no other is cheaper and faster"
        assert lines[-1].strip() == "not drawn, as nothing is known: cascade"

    def test_wall_times_are_drawn_where_all_have_them(self) -> None:
        assert shown(made(arms=made().arms[:2]), "time")[0].startswith("time of one trial")

    def test_the_cost_of_each_step_is_a_part_of_a_bar(self) -> None:
        lines = shown(by_step(made(), link=0.75, verdicts=0.25), "steps")
        assert lines[0] == "nested_loop  $0.744"
        assert lines[1] == "│a" + "━" * 39 + "b" + "━" * 12
        assert lines[2:6] == ["block(rows=10)  $0.123", "│a━━━━━━b━", "cascade  $0.053", "│a━━b"]
        assert lines[7].split() == ["$0", "$0.2", "$0.4", "$0.6", "$0.8"]
        assert lines[-1].strip() == "a link · b verdicts"

    def test_steps_are_counted_in_tokens_where_a_price_is_unknown(self) -> None:
        arms = tuple(
            replace(each, trials=tuple(replace(t, cold=replace(t.cold, dollars=None)) for t in each.trials))
            for each in made().arms
        )  # fmt: skip
        lines = shown(by_step(made(arms=arms), link=1.0), "steps")
        assert lines[0] == "nested_loop  1,000,000 tokens"
        assert "tokens of one trial" in lines[-2]

    @pytest.mark.parametrize("width", [24, 60, 80, 120])
    @pytest.mark.parametrize("kind", KINDS)
    def test_no_line_is_wider_than_the_terminal_and_no_name_is_cut(
        self, kind: ChartKind, width: int
    ) -> None:
        long = arm(LONG, 9, 0.1, 1.0, Quality(f1=0.9, interval=(0.8, 0.95)))
        wide = arm("日本語" * 30, 9, 0.2, 1.0, Quality(f1=0.8))
        found = by_step(made(arms=(*made().arms, long, wide)), link=0.7, verdicts=0.3)
        for comparison in (found, by_step(many(), link=1.0)):
            lines = shown(comparison, kind, width)
            assert max(map(cell_len, lines)) <= width
            together = "".join("".join(line.split()) for line in lines)
            for each in comparison:
                assert "".join(each.name.split()) in together

    def test_variants_in_one_place_share_a_letter(self) -> None:
        arms = tuple(
            arm(name, calls, 0.1 * calls, 1.0, Quality(f1=1.0))
            for name, calls in (("a", 1), ("b", 1), ("c", 2))
        )
        lines = shown(made(arms=arms), "quality")
        assert lines[1].startswith("1.0 ┤")
        assert lines[1].count("a") == lines[1].count("b") == 1
        assert lines[-2].strip() == "a *a, *b · b c"

    def test_more_variants_than_letters_share_a_sign(self) -> None:
        arms = tuple(arm(f"v{i}", i, 0.1 + i, 1.0, Quality(f1=(i % 9) / 10)) for i in range(1, 60))
        assert "+ " in "\n".join(shown(made(arms=arms), "quality", 100))

    def test_no_control_character_of_a_name_is_printed(self) -> None:
        found = made(arms=(*made().arms[:2], arm("red \x1b[31m", 9, 0.1, 1.0, Quality(f1=0.9))))
        assert "\x1b" not in "".join(text(by_step(found, a=1.0), 80, kind) for kind in KINDS)


class TestWithoutAChart:
    def test_one_point_is_none(self) -> None:
        alone = made(arms=made().arms[:1])
        assert shown(alone, "quality") == [
            "no chart: fewer than two variants have a quality and a cost"
        ]
        assert "no chart" not in plain(alone, 80)
        assert alone.chart()._repr_html_().count("<svg") == 0

    def test_a_chart_that_was_asked_for_says_what_is_missing(self) -> None:
        assert str(made().chart("steps")) == "no chart: no cost by step is recorded"

    def test_an_unknown_chart_is_refused(self) -> None:
        unknown: Any = "cost"
        for draw in (made().chart, made().figure):
            with pytest.raises(PlanError, match=r'there is no chart "cost"'):
                draw(unknown)


class TestAxes:
    @pytest.mark.parametrize(
        ("values", "ends", "title"),
        [
            ([70.0, 100.0], (70, 100), "cost, from 70"),
            ([10.0, 100.0], (0, 100), "cost"),
            ([3.0, 90.0], (2, 100), "cost, from 2, logarithmic"),
            ([0.004, 700.0], (0.001, 1000), "cost, from 0.001, logarithmic"),
            ([0.0, 700.0], (0, 800), "cost"),
            ([0.0, 0.0], (0, 1), "cost"),
            ([0.912, 0.9121], (0.912, 0.9121), "cost, from 0.91200"),
            ([0.91199, 0.91209], (0.91198, 0.9121), "cost, from 0.91198"),
        ],
    )
    def test_they_begin_and_end_at_round_values_and_say_so(
        self, values: list[float], ends: tuple[float, float], title: str
    ) -> None:
        axis = Axis.of("cost", values, str)
        assert axis.ends == pytest.approx(ends)
        assert axis.title == title
        assert [axis.at(end) for end in axis.ends] == [0.0, 1.0]
        assert all(0 <= axis.at(value) <= 1 for value in values)

    def test_ticks_of_one_axis_have_equally_many_digits(self) -> None:
        assert [label for _, label in Axis.of("dollars", [0.05, 0.2], str).labels] == [
            "$0",
            "$0.05",
            "$0.10",
            "$0.15",
            "$0.20",
        ]


class TestFront:
    def test_it_has_what_none_beats_in_both(self) -> None:
        names = [point.arm.name for point in front(points(made()))]
        assert names == ["cascade", "block(rows=10)", "nested_loop"]

    def test_over_time_lower_is_better(self) -> None:
        found = made(arms=made().arms[:2])
        assert [p.arm.name for p in front(points(found, "time"), "time")] == ["block(rows=10)"]

    def test_equal_variants_are_both_on_it(self) -> None:
        arms = tuple(arm(name, 1, 0.1, 1.0, Quality(f1=0.9)) for name in "ab")
        assert len(front(points(made(arms=arms)))) == 2


class TestSvg:
    def test_a_chart_is_text_in_print_and_svg_in_a_notebook(self) -> None:
        chart = made().chart()
        assert str(chart).startswith("F1, from 0.88\n")
        drawn = chart._repr_html_()
        assert drawn.count('class="point-name best"') == 3
        assert "dollars of one trial" in drawn
        assert drawn.count("<svg") == made()._repr_html_().count("<svg") == 1
        assert re.search(r'<path d="M[\d.]+ [\d.]+(H[\d.]+V[\d.]+){2}" class="front"', drawn)

    def test_only_variants_of_the_front_have_bold_names(self) -> None:
        drawn = made(arms=made().arms[:2]).chart("time")._repr_html_()
        assert drawn.count('class="point-name best"') == drawn.count('class="point-name"') == 1

    def test_parts_of_bars_have_letters_and_what_they_cost(self) -> None:
        drawn = by_step(made(), link=0.75, verdicts=0.25).chart("steps")._repr_html_()
        assert "<title>nested_loop, link: $0.558</title>" in drawn
        assert "</svg> a link</li>" in drawn
        widths = [float(w) for w in re.findall(r'<rect x="[\d.]+" y="18" width="([\d.]+)"', drawn)]
        assert widths[0] == pytest.approx(3 * widths[1], abs=0.2)

    def test_all_names_have_a_place_or_are_listed(self) -> None:
        for kind in KINDS[:2]:
            drawn = many().chart(kind)._repr_html_()
            names = re.findall(r'class="point-name[^>]*>([^<]+)<', drawn)
            assert sorted(names) == sorted(each.name for each in many())

    def test_names_are_no_html(self) -> None:
        arms = tuple(arm(name, 6, 0.2, 1.0, Quality(f1=0.5)) for name in ("<b>x", "y"))
        found = by_step(made(arms=arms), **{"<i>": 1.0})
        for kind in KINDS:
            assert not re.search(r"<b>x|<i>", found.chart(kind)._repr_html_())


class TestFigures:
    def test_points_intervals_and_the_front(self) -> None:
        figure = made().figure()
        (axes,) = figure.axes
        assert (axes.get_xlabel(), axes.get_ylabel()) == ("dollars of one trial", "F1, from 0.88")
        assert (axes.get_xlim(), axes.get_ylim()) == ((0.0, 0.8), (0.88, 0.96))
        (legend,) = figure.legends
        names = {label.get_text() for label in legend.get_texts()}
        assert names == {"front", "nested_loop", "block(rows=10)", "cascade"}

    def test_scales_are_those_of_the_chart(self) -> None:
        (axes,) = many().figure("time").axes
        assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")

    def test_bars(self) -> None:
        (axes,) = by_step(made(), link=0.75, verdicts=0.25).figure("steps").axes
        first, second = axes.containers
        assert [bar.get_width() for bar in first] == pytest.approx([0.558, 0.09225, 0.03975])
        assert second[0].get_x() == pytest.approx(0.558)

    def test_there_is_none_of_one_point(self) -> None:
        with pytest.raises(PlanError, match="fewer than two variants"):
            made(arms=made().arms[:1]).figure()


SECOND_STEP = """
  kinds:
    - from: asked
    - sem_map: {prompt: "What kind is “{text}”?", returns: {kind: "enum<fault, other>"}}
returns: [kinds]
"""
TWO_STEPS = PLAN.partition("returns:")[0].rstrip() + SECOND_STEP


class TestCostsByStep:
    async def test_the_costs_of_steps_are_those_of_the_trial(
        self, server: ModelServer, tmp_path: Path
    ) -> None:
        (tmp_path / "complaints.yaml").write_text(TWO_STEPS)
        tickets = [{"id": 1, "text": "It leaks."}, {"id": 2, "text": "Lovely."}]
        ways = {"rows": {"asked": "per_row"}, "packs": {"asked": "packed(rows=2)"}}
        async with opened(server, tmp_path) as session:
            found = await session.acompare(
                tmp_path / "complaints.yaml", variants=ways, say=None, tickets=tickets
            )
        calls = {each.name: {s: c.calls for s, c in each.steps.items()} for each in found}
        assert calls == {"rows": {"asked": 2, "kinds": 1}, "packs": {"asked": 1, "kinds": 1}}
        for each in found:
            assert sum(each.steps.values(), Spent()) == each.cold
        drawn = bars(found)
        assert drawn is not None
        assert [step for _, step in drawn.steps] == ["asked", "kinds"]

    async def test_a_step_has_its_own_costs_alone(
        self, session: sg.Session, complaints: Any
    ) -> None:
        found = await compared(session, complaints)
        assert all(list(each.steps) == ["complaints"] for each in found)

    def test_they_are_recorded_and_older_records_have_none(self, tmp_path: Path) -> None:
        found = by_step(made(), link=0.75, verdicts=0.25)
        record = RunRecord(tmp_path / "4b21")
        save(found, record)
        record.describe(plan="link", kind="comparison", status="compared", journal=None)
        again = load_comparison("4b21", tmp_path)
        assert text(again, 80, "steps") == text(found, 80, "steps")
        file = record.folder / FILE
        data = json.loads(file.read_text())
        for each in data["arms"]:
            for trial in each["trials"]:
                del trial["steps"]
        file.write_text(json.dumps(data))
        older = load_comparison("4b21", tmp_path)
        assert text(older, 80, "steps") == "no chart: no cost by step is recorded"
        assert text(older, 80) == text(found, 80)


def test_an_arm_without_trials_has_no_bar() -> None:
    found = by_step(made(), link=1.0)
    more = replace(found, arms=(*found.arms, Arm("late", {})))
    drawn = bars(more)
    assert drawn is not None
    assert len(drawn.rows) == 3
