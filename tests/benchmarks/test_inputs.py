"""What a run is given: a benchmark that lacks something is passed over, or, asked for by name, ends
the run before it begins.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from benchmarks.__main__ import _ready, app
from benchmarks.suite import Benchmark
from benchmarks.suite.inputs import INPUTS, UserInputs


def bench(name: str, lacks: str = "") -> Benchmark:
    return Benchmark(name, "What is asked?", "real", list, (), lacks=lambda: lacks)


def test_a_run_of_all_skips_benchmarks_that_lack_something(
    capsys: pytest.CaptureFixture[str],
) -> None:
    ready = _ready([bench("one"), bench("two", "a model: --model")], named=False)
    assert [one.name for one in ready] == ["one"]
    assert capsys.readouterr().err == "two: skipped: a model: --model\n"


def test_a_named_benchmark_that_lacks_something_ends_the_run(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(typer.Exit) as ended:
        _ready([bench("one"), bench("two", "a model: --model")], named=True)
    assert ended.value.exit_code == 2
    assert capsys.readouterr().err == "two: a model: --model\n"


@pytest.mark.parametrize("name", ["public", "real"])
def test_no_model_is_chosen_that_was_not_named(name: str) -> None:
    ended = CliRunner().invoke(app, ["run", name])
    assert ended.exit_code == 2
    assert "--model openai:gpt-4.1-mini --max-usd 1, or --model local" in ended.output


def test_an_invalid_model_is_reported_before_the_first_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for field in ("model", "max_usd", "data"):
        monkeypatch.setattr(INPUTS, field, None)
    ended = CliRunner().invoke(app, ["run", "real", "--model", "opnai:gpt"])
    assert ended.exit_code == 2
    assert '"opnai:gpt" is not a valid model' in ended.output


def test_a_judge_is_the_one_that_the_settings_bind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert UserInputs(model="local").judge() is None
    (tmp_path / "semgraph.toml").write_text('[models]\njudge = "openai:gpt-4o-2024-08-06"\n')
    assert str(UserInputs(model="local").judge()) == "openai:gpt-4o-2024-08-06"


def test_the_remaining_budget_is_never_negative() -> None:
    assert UserInputs().left is None
    assert UserInputs(max_usd=1, spent=0.25).left == 0.75
    assert UserInputs(max_usd=1, spent=1.1).left == 0
