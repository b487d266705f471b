"""Pages are what the lines say, the committed ones too; a figure that was typed or is old fails."""

from __future__ import annotations

import io
import json
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from benchmarks.suite import Case, Column, Contest, Entry, Line, Lines, Table, Target, charts, pages
from benchmarks.suite.benchmark import load, names
from benchmarks.suite.charts import draw_bars
from benchmarks.suite.documents import filled
from benchmarks.suite.made import ROOT
from benchmarks.suite.overview import shares
from benchmarks.suite.pages import DOCUMENTS, files, page, parts, wrong
from tests.benchmarks.made import MADE, bench, case, line


def git(*words: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, check=False)


@pytest.fixture(scope="module", autouse=True)
def drawn_once() -> Iterator[None]:
    """A chart of the same lines is drawn once."""
    drawn: dict[str, str] = {}

    def draw(*of: Any) -> str:
        key = repr(of)
        if key not in drawn:
            drawn[key] = charts.draw(*of)
        return drawn[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pages, "draw", draw)
        yield


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """This checkout; where lines were measured that are not committed, what is committed: a
    benchmark may run beside this.
    """
    if git("diff", "--quiet", "HEAD", "--", "benchmarks/results/*.jsonl").returncode != 1:
        return ROOT
    archive = git("archive", "HEAD", "benchmarks/results", *DOCUMENTS)
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as held:
        held.extractall(tmp_path, filter="data")
    return tmp_path


def test_committed_pages_agree_with_the_lines(checkout: Path) -> None:
    assert wrong(checkout / "benchmarks/results", checkout) == [], "run: python -m benchmarks table"


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The pages of a checkout of its own and the lines of one benchmark, with one measured trial
    more.
    """
    for name in (*DOCUMENTS, "benchmarks/results/engine.jsonl"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    case = load("engine").cases()[0]
    figures = {"cpu_ms_per_call": 8, "seconds": 1.5}
    Lines("engine", tmp_path / "benchmarks/results").append(
        Line("engine", case.key, 0, figures, case.settings, MADE)
    )
    return tmp_path


def _written(root: Path) -> None:
    for path, text in files(root / "benchmarks/results", root).items():
        path.write_text(text, encoding="utf-8")


def test_every_changed_page_is_detected(copy: Path) -> None:
    results = copy / "benchmarks/results"
    _written(copy)
    assert wrong(results, copy) == []
    touched = [
        copy / "docs/benchmarks-appendix.md",
        results / "engine.md",
        results / "engine-cpu-dark.svg",
    ]
    for path in touched:
        path.write_text(path.read_text(encoding="utf-8").replace("8", "7"), encoding="utf-8")
    assert sorted(wrong(results, copy)) == sorted(touched)
    _written(copy)
    lines = results / "engine.jsonl"
    lines.write_text(lines.read_text().replace('"cpu_ms_per_call": ', '"cpu_ms_per_call": 9'))
    assert results / "engine.md" in wrong(results, copy)


def test_a_page_without_lines_is_detected(copy: Path) -> None:
    _written(copy)
    left = copy / "benchmarks/results/gone.md"
    left.write_text("# gone\n")
    assert wrong(copy / "benchmarks/results", copy) == [left]


def test_before_anything_is_measured_the_pages_say_so(tmp_path: Path) -> None:
    measured = [(load(name), list(Lines(name, tmp_path))) for name in names()]
    made = parts(measured, "results")
    assert made["overview"] == "Not measured yet: `make bench`.\n"
    rows = [row for row in made["targets"].splitlines()[2:] if row]
    assert rows
    assert all("not measured" in row for row in rows)


def test_every_number_to_reach_is_in_one_table_with_its_command() -> None:
    made = parts([(load(name), []) for name in names()], "results")["targets"]
    wanted = [target.what for name in names() for target in load(name).targets]
    assert len(wanted) == len(set(wanted))
    assert all(f"| {what} |" in made for what in wanted)
    assert all("`run " in row for row in made.splitlines()[2:])


def test_rows_of_a_real_model_are_in_the_order_of_the_cases() -> None:
    table = Table("", ("way",), (Column("calls", "calls"),))
    one = bench(
        *(Case({"way": way, "model": "any"}, lambda _: {}) for way in ("a", "b")),
        kind="real",
        parts={"rows": table},
    )
    lines = [
        Line("ingest", {"way": way, "model": "local"}, trial, {"calls": 1}, {}, {}, "", "real")
        for trial in (0, 1)
        for way in ("b", "gone", "a")
    ]
    rows = parts([(one, lines)], "r")["ingest/rows"].splitlines()[2:]
    assert [row.split(" | ")[0] for row in rows] == ["| a", "| b", "| gone"]


def test_kinds_of_figures_never_share_a_column_or_a_page() -> None:
    table = Table("Q?", ("way",), (Column("calls", "calls"),))
    with pytest.raises(ValueError, match=r"real and simulated figures in one table"):
        table.markdown(
            [line("a", 0, calls=1), line("b", 0, kind="real", calls=2)],
            [{"way": "a"}, {"way": "b"}],
        )
    with pytest.raises(ValueError, match=r"is real, the benchmark simulated"):
        page(bench(case("a", lambda _: {}), tables=(table,)), [line("a", 0, kind="real", calls=1)])
    real = bench(kind="real", targets=(Target("other", {"way": "a"}, "calls", 3),))
    both = [(bench(targets=(Target("one", {"way": "a"}, "calls", 3),)), [line("a", 0, calls=1)])]
    both.append((real, [line("a", 0, kind="real", calls=2)]))
    head, _, simulated, of_real = parts(both, "r")["targets"].splitlines()
    assert "| measured, simulated model | measured, real model |" in head
    assert "| ≤ 3 | 1 |  | — | met |" in simulated
    assert "| ≤ 3 |  | 2 | — | met |" in of_real


def test_a_target_shows_f1_and_the_figure_of_the_other_engine() -> None:
    target = Target("calls", {"way": "a"}, "calls", 3, others={"way": "b"}, quality="f1")
    lines = [line("a", 0, calls=4, f1=0.8), line("b", 0, calls=9, f1=1.0)]
    made = parts([(bench(targets=(target,)), lines)], "r")
    assert "| calls | 9 | ≤ 3 | 4 | 0.800 | **not met** |" in made["targets"]


def test_the_overview_shows_costs_and_f1_of_both_engines_and_a_chart_of_their_shares() -> None:
    entries = (
        Entry("sort", "other", {"way": "b"}, "f1", baseline=True),
        Entry("sort", "semgraph", {"way": "a"}, "f1", {"way": "known"}, charted=True),
        Entry("sort", "semgraph, slowly", {"way": "not measured"}, "f1", charted=True),
    )
    ours = [
        line("a", i, calls=2 + i, tokens_in=10, usd=0.5, seconds=1, cpu_ms=250) for i in range(3)
    ]
    others = [line("b", 0, calls=12, tokens_in=1000, usd=1, seconds=2, cpu_ms=125, f1=0.9)]
    lines = [*ours, *others, line("known", 0, f1=0.7, calls=1)]
    made = parts([(bench(overview=entries), lines)], "r")["overview"]
    assert "| sort | other | 12 | 1,000 | 1.00 | 2.00 | 0.125 | 0.900 |" in made
    assert "| sort | semgraph | 3 | 10 | 0.500 | 1.00 | 0.250 | 0.700 |" in made
    assert "| sort | semgraph, slowly | — | — | — | — | — | — |" in made
    assert "r/overview-light.svg" in made
    drawn = shares([(entry, lines) for entry in entries])
    costs = {"calls": 0.25, "tokens in": 0.01, "$": 0.5, "s": 0.5, "CPU s": 2.0}
    assert drawn == {"sort\nsemgraph": costs}
    assert "semgraph" in draw_bars("shares", drawn, "light")


def test_losses_list_missed_targets_and_worse_figures() -> None:
    losing = bench(
        targets=(Target("calls of a", {"way": "a"}, "calls", 3),),
        contests=(Contest("way", ("b",), {"calls": "calls"}),),
    )
    made = parts([(losing, [line("a", 0, calls=4), line("b", 0, calls=2)])], "r")["loses"]
    assert "- not met: calls of a: 4, target ≤ 3" in made
    assert "| a | b | calls | 2.00× |" in made


def test_lines_of_removed_cases_are_not_shown(copy: Path) -> None:
    results = copy / "benchmarks/results"
    before = files(results, copy)
    gone = {"what": "CPU of a call", "way": "gone"}
    Lines("engine", results).append(Line("engine", gone, 0, {"cpu_ms_per_call": 1}, {}, MADE))
    assert files(results, copy) == before


def test_charts_are_shown_by_the_readers_theme() -> None:
    text = "".join(page(load(name), []) for name in names())
    assert '<source media="(prefers-color-scheme: dark)" srcset="ingest-quality-dark.svg">' in text
    assert 'src="ingest-quality-light.svg"' in text


def test_unclosed_and_unknown_parts_of_a_page_are_reported() -> None:
    assert filled("a\n<!-- made: x -->\nold\n<!-- /made -->\nb", {"x": "new\n"}, "p") == (
        "a\n<!-- made: x -->\nnew\n<!-- /made -->\nb"
    )
    with pytest.raises(ValueError, match=r'p: unknown part "y"; parts: x'):
        filled("<!-- made: y -->\n<!-- /made -->", {"x": ""}, "p")
    with pytest.raises(ValueError, match=r"p: 1 tags"):
        filled("<!-- made: x -->\n", {"x": ""}, "p")


def test_a_line_has_all_that_is_needed_to_measure_it_again(tmp_path: Path) -> None:
    from benchmarks.suite.running import measure

    one = bench(case("a", lambda _: {"calls": 1}, trials=1, settings={"latency_s": 0.2}))
    (made,) = measure(one, [(one.cases()[0], 0)], Lines("ingest", tmp_path))
    held = json.loads((tmp_path / "ingest.jsonl").read_text())
    assert held | {"made": 0} == asdict(made) | {"made": 0}
    assert held["kind"] == "simulated"
    assert held["settings"] == {"latency_s": 0.2}
    assert {
        "at",
        "commit",
        "changed",
        "hash",
        "command",
        "python",
        "versions",
        "machine",
        "load",
        "seconds",
    } <= set(held["made"])
    assert {"semgraph", "duckdb", "openai", "sqlite"} <= set(held["made"]["versions"])
    assert {"processor", "cores", "memory_gib"} <= set(held["made"]["machine"])
