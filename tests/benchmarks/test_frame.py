"""The frame: what is run, what a line says, and that pages and charts are what the lines say."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from benchmarks.__main__ import app
from benchmarks.frame import Benchmark, Case, Chart, Line, Lines, Table, Target, Unmeasured
from benchmarks.frame.cases import load, names
from benchmarks.frame.charts import draw, draw_ratios
from benchmarks.frame.lines import ROOT, code_of
from benchmarks.frame.pages import DOCUMENTS, files, filled, page, parts, wrong
from benchmarks.frame.processes import request
from benchmarks.frame.run import expected, measure, outstanding, work

MADE = {
    "machine": {"cores": 2, "processor": "one", "memory_gib": 8.0},
    "commit": "abc", "changed": False, "at": "2026-01-02T03:04:05+00:00", "hash": "h", "current": True,
    "versions": {"semgraph": "0.9"},
}  # fmt: skip
RESULTS = "benchmarks/results"


def bench(*cases: Case, **more: Any) -> Benchmark:
    given = {"tables": (), "sources": (), **more}
    return Benchmark("ingest", "What is asked?", lambda: cases, **given)


def line(way: str, trial: int, failed: str = "", kind: str = "simulated", **figures: Any) -> Line:
    return Line("ingest", {"way": way}, trial, figures, {}, MADE, failed, kind)


def test_trials_alternate_and_are_measured_once_for_the_same_code(tmp_path: Path) -> None:
    ran: list[str] = []

    def run(way: str) -> Mapping[str, int]:
        ran.append(way)
        return {"calls": 1}

    one = bench(*(Case({"way": way}, lambda _, way=way: run(way), trials=2) for way in "ab"))
    lines, todo = Lines("ingest", tmp_path), work(one, quick=False, full=False)
    assert [made.trial for made in measure(one, todo[:3], lines)] == [0, 0, 1]
    left = outstanding(one, todo, lines)
    assert [(case.key["way"], trial) for case, trial in left] == [("b", 1)]
    list(measure(one, left, lines))
    assert ran == ["a", "b", "a", "b"]
    assert not outstanding(one, todo, lines)
    assert work(one, quick=False, full=False, where={"variant": "b"}) == todo[1::2]


def test_failures_and_overdue_cases_are_lines_and_what_cannot_be_measured_is_none(
    tmp_path: Path,
) -> None:
    def fail(_: int) -> Any:
        raise ValueError("no such thing\nsecond line")

    def lack(_: int) -> Any:
        raise Unmeasured("Run: make it")

    cases = [
        Case({"way": "a"}, fail, trials=1),
        Case({"way": "b"}, lambda _: time.sleep(9) or {}, seconds=0.05, trials=1),
    ]
    one = bench(*cases, Case({"way": "c"}, lack, trials=1))
    done = list(measure(one, work(one, quick=False, full=False), Lines("ingest", tmp_path)))
    assert [made.failed for made in done] == [
        "ValueError: no such thing", "not finished after 0.05 s", "not measured: Run: make it",
    ]  # fmt: skip
    assert len(list(Lines("ingest", tmp_path))) == 2


def test_a_line_has_the_code_that_measured_it_and_all_that_reproduces_it(tmp_path: Path) -> None:
    one = bench(Case({"way": "a"}, lambda _: {"calls": 1}, {"latency_s": 0.2}, trials=1))
    list(measure(one, [(one.cases()[0], 0)], Lines("ingest", tmp_path)))
    held = json.loads((tmp_path / "ingest.jsonl").read_text())
    assert (held["settings"], held["kind"], held["figures"]) == (
        {"latency_s": 0.2},
        "simulated",
        {"calls": 1},
    )
    assert set(held["made"]) == {
        "at", "command", "commit", "changed", "hash", "python", "versions", "machine", "load", "seed", "seconds",
    }  # fmt: skip
    [same], [other] = (
        Lines("ingest", tmp_path, code_of("ingest", ())),
        Lines("ingest", tmp_path, "other"),
    )
    assert (same.old, other.old) == (False, True)


def test_an_invalid_line_names_its_file(tmp_path: Path) -> None:
    (tmp_path / "ingest.jsonl").write_text("{}\n")
    with pytest.raises(ValueError, match=r"ingest.jsonl:1  invalid line of results"):
        list(Lines("ingest", tmp_path))


def test_a_table_has_medians_ranges_multiples_and_failures() -> None:
    table = Table("Q?", "way", "calls ×; CPU ms=cpu:.1f; said", baseline={"way": "b"}, note="N.")
    lines = [line("a", 0, calls=2, cpu=1.25, said="x"), line("a", 1, calls=3, cpu=1.25, said="x")]
    lines += [line("b", 0, calls=4, cpu=2.0), line("b", 1, failed="broken")]
    assert table.markdown(lines, [{"way": way} for way in "abc"]) == (
        "**Q?**\n\n| variant | calls | CPU ms | said |  |\n| --- | --: | --: | --: | --- |\n"
        "| a | 2 (2–3), 0.5× | 1.2 | x |  |\n| b | 4 | 2.0 | — | 1 of 2 failed: broken |\n"
        "| c | — | — | — | not measured |\n\nN.\n"
    )
    worse = [line("a", 0, calls=9), line("b", 0, calls=3)]
    assert "| a | 9, **3×** |" in Table("", "way", "calls ×", baseline={"way": "b"}).markdown(
        worse, [{"way": "a"}]
    )
    assert table.markdown([], []) == "**Q?**\n\nNot measured yet.\n"
    with pytest.raises(ValueError, match="is real, the benchmark simulated. Measure it again"):
        page(bench(tables=(table,)), [line("a", 0, calls=1), line("a", 1, kind="real", calls=1)])


def test_what_was_not_measured_has_a_row() -> None:
    table = Table("", "size, way", "calls")
    order = [{"size": size, "way": way} for size in (1, 2) for way in "ab"]
    own = Line("ingest", order[0], 0, {"calls": 3}, made=MADE)
    head = "| size | variant | calls |  |\n| --- | --- | --: | --- |\n"
    assert table.markdown([own], order) == f"{head}| 1 | a | 3 |  |\n| 2 |  | — | not measured |\n"
    many = Table("", "way", "calls").markdown([], [{"way": f"way {n}"} for n in range(20)])
    assert "| all | — | not measured |" in many
    assert "way 3" not in many


def test_a_target_says_whether_it_is_reached_and_by_which_code() -> None:
    lines = [line("a", 0, calls=2), line("a", 1, calls=3)]
    most, least = (Target("calls", {"way": "a"}, "calls", **{at: 2}) for at in ("most", "least"))
    assert most.row("b", lines) == ["b", "calls", "<= 2", "2.5", "no", "this commit's"]
    assert least.row("b", lines)[2:5] == [">= 2", "2.5", "yes"]
    old = [replace(one, made={**MADE, "current": False}) for one in lines]
    assert most.row("b", old)[-1] == "other code"
    assert Target("f1", {"way": "a"}, "f1", most=1).row("b", lines)[4] == "not measured"


def test_a_run_is_estimated_by_recorded_trials_and_by_what_a_case_says(tmp_path: Path) -> None:
    known, new = ({"way": "a"}, {"way": "b"})
    cases = [Case(known, lambda _: {}, trials=2), Case(new, lambda _: {}, about=90, trials=1)]
    lines = Lines("ingest", tmp_path)
    lines.append(Line("ingest", known, 0, {}, made=MADE | {"seconds": 120}))
    left = work(bench(*cases), quick=False, full=False)
    assert expected(left, lines) == " (about 6 min)"
    assert expected([], lines) == ""


def test_a_page_names_the_versions_that_it_used() -> None:
    versions = {"semgraph": "0.9", "xllamacpp": "1.2", "lotus-ai in .venv-extras": "3.4"}
    own = replace(
        line("local: a", 0, calls=1), made=MADE | {"versions": versions, "python": "3.13"}
    )
    text = page(bench(tables=(Table("", "way", "calls"),)), [own])
    assert "\nsemgraph 0.9; Python 3.13; llama.cpp (xllamacpp) 1.2; commit abc.\n" in text


def test_ratios_are_dots_with_a_line_to_one() -> None:
    svg = draw_ratios("T", "ratio", {"join †": {"calls": 0.1, "$": 2.0}}, "note")
    assert svg.count('class="one"') == 1
    [calls, dollars] = re.findall(r'class="line" d="M([\d.]+),[\d.]+H([\d.]+)"', svg)
    assert float(calls[0]) < float(calls[1]) == float(dollars[1]) < float(dollars[0])
    assert ">0.1<" in svg
    assert "<rect" not in svg


def test_what_other_code_measured_has_a_sign_and_a_sentence_in_tables_and_charts() -> None:
    old = replace(line("a", 0, calls=2, size=1), made={**MADE, "current": False})
    lines = [old, line("b", 0, calls=3, size=2)]
    sentence = "† Measured with semgraph 0.9, by other code than this commit's."
    made = Table("", "way", "calls").markdown(lines, [{"way": "a"}, {"way": "b"}])
    assert made == f"| variant | calls |\n| --- | --: |\n| a † | 2 |\n| b | 3 |\n\n{sentence}\n"
    svg = draw(Chart("c", "C", "size", "calls", "way", ("size", "calls")), lines)
    assert ">a †<" in svg
    assert ">b<" in svg
    assert sentence.replace("'", "&#x27;") in svg
    assert "prefers-color-scheme:dark" in svg


def test_a_chart_is_the_same_for_the_same_lines_and_labels_stay_apart() -> None:
    lines = [line(f"way {n}", 0, usd=1, f1=0.5) for n in range(4)]
    chart = Chart("c", "C", "usd", "f1", "way", ("$", "F1"), labelled=True)
    assert draw(chart, lines) == draw(chart, lines)
    assert (
        len({text.split(">")[0] for text in draw(chart, lines).split("<text") if ">way " in text})
        == 4
    )
    assert "<svg" in draw(chart, [])


def test_parts_of_a_page_are_filled_and_wrong_tags_reported() -> None:
    text = "a\n<!-- made: x -->\nold\n<!-- /made -->\nb"
    assert filled(text, {"x": "new\n"}, "p") == text.replace("old", "new")
    with pytest.raises(ValueError, match=r'p: unknown part "y"; parts: x'):
        filled("<!-- made: y -->\n<!-- /made -->", {"x": ""}, "p")
    with pytest.raises(ValueError, match="p: 1 tags"):
        filled("<!-- made: x -->\n", {"x": ""}, "p")


def test_before_anything_is_measured_the_pages_say_so() -> None:
    made = parts({name: (load(name), []) for name in names()}, "results")
    assert "| sem_filter 100 rows |  | — | — | — | — | — | — | not measured |" in made["overview"]
    assert "Not measured yet: `python -m benchmarks run engine`." in page(load("engine"), [])


def test_committed_pages_agree_with_the_lines() -> None:
    assert wrong() == [], "run: python -m benchmarks table"


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The pages and the lines of one benchmark, in a checkout of its own."""
    for name in (*DOCUMENTS, f"{RESULTS}/engine.jsonl"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    for path, text in files(tmp_path / RESULTS, tmp_path).items():
        path.write_text(text, encoding="utf-8")
    return tmp_path


def test_every_changed_page_is_detected_and_one_without_lines(copy: Path) -> None:
    results = copy / RESULTS
    assert wrong(results, copy) == []
    touched = [copy / "docs/benchmarks.md", results / "engine.md", results / "engine-cpu.svg"]
    for path in touched:
        path.write_text(
            path.read_text(encoding="utf-8").replace("CPU", "cpu").replace("What does", "What did"),
            encoding="utf-8",
        )
    (results / "gone.md").write_text("# gone\n")
    assert sorted(wrong(results, copy)) == sorted([*touched, results / "gone.md"])


def test_lines_of_removed_cases_are_kept_and_not_shown(copy: Path) -> None:
    before = files(copy / RESULTS, copy)
    gone = Line("engine", {"what": "CPU of a call", "way": "gone"}, 0, {"seconds": 1}, {}, MADE)
    Lines("engine", copy / RESULTS).append(gone)
    assert files(copy / RESULTS, copy) == before
    assert '"gone"' in (copy / RESULTS / "engine.jsonl").read_text()


def test_a_process_that_fails_reports_its_last_line_and_a_missing_peer_its_command() -> None:
    with pytest.raises(RuntimeError, match="no_such_module ended with 1: .*No module named"):
        request("no_such_module", {})
    if not (ROOT / ".venv-graphiti").exists():
        with pytest.raises(
            Unmeasured, match=r"graphiti-core is not installed .* Run: make test-graphiti"
        ):
            request("benchmarks.graphiti_itself", {}, peer="graphiti-core")


def _run(*words: str, folder: Path = ROOT, **environment: str) -> subprocess.CompletedProcess[str]:
    env = os.environ | environment
    return subprocess.run(
        [sys.executable, *words], cwd=folder, capture_output=True, text=True, check=False, env=env
    )


def test_the_command_finds_the_checkout_from_any_folder_or_says_how_to_get_one(
    tmp_path: Path,
) -> None:
    code = "from semgraph.cli.bench import main; main()"
    done = _run("-c", code, "list", folder=tmp_path, PYTHONPATH=str(ROOT))
    assert "ingest     What does it cost to ingest messages" in done.stdout, done.stderr
    package = tmp_path / "site/semgraph/cli"
    package.mkdir(parents=True)
    for each in (package, package.parent):
        (each / "__init__.py").write_text("")
    shutil.copy(ROOT / "semgraph/cli/bench.py", package)
    done = _run("-c", code, folder=tmp_path, PYTHONPATH=str(tmp_path / "site"))
    assert (done.returncode, "They are in semgraph's source tree" in done.stderr) == (2, True)


def _bench(*words: str) -> Result:
    """Run a command in this process; `run` sets what a signal does."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        return CliRunner().invoke(app, list(words))
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_quick_run_leaves_the_results_alone() -> None:
    held = {path: path.stat().st_mtime_ns for path in (ROOT / RESULTS).iterdir()}
    done = _bench("run", "operators", "--quick", "--where", "way=packed(rows=10)")
    assert done.exit_code == 0, done.stderr
    assert {path: path.stat().st_mtime_ns for path in (ROOT / RESULTS).iterdir()} == held
    text = (ROOT / ".semgraph" / "benchmarks" / "operators.md").read_text()
    assert "| sem_filter 100 rows | packed(rows=10) |" in text


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("serch",), 'no benchmark "serch"; .* Did you mean "search"'),
        (("engine", "--where", "way"), '--where "way": use KEY=VALUE'),
        (("quality",), "quality: it calls a real model: --model"),
    ],
)
def test_wrong_words_end_the_run_before_it_starts(words: tuple[str, ...], said: str) -> None:
    done = _bench("run", *words)
    assert done.exit_code == 2
    assert re.search(said, done.stderr)
