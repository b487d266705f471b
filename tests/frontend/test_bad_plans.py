"""Messages of wrong plans: every file in bad/ has its messages beside it, word for word.

A message has the position (file:line:column), the step, the mistake, the names that exist, and the
likely intention. All problems of a file are reported at once, in its order; follow-up errors are
not.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from semgraph.errors import PlanError
from semgraph.frontend.build import OPERATORS
from semgraph.frontend.load import load_plan
from semgraph.logical.node import Node, walk
from semgraph.logical.relational import SampleRows

BAD = Path(__file__).parent / "bad"
CASES = sorted(path.stem for path in BAD.glob("*.txt"))


@pytest.fixture
def in_bad(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(BAD)


def messages_of(ref: str, **options: object) -> str:
    with pytest.raises(PlanError) as caught:
        load_plan(ref, **options)
    return str(caught.value)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.usefixtures("in_bad")
def test_a_wrong_plan_has_these_messages(case: str) -> None:
    assert messages_of(f"{case}.yaml") + "\n" == (BAD / f"{case}.txt").read_text()


def test_there_are_cases_and_every_wrong_plan_has_its_messages() -> None:
    plans = {path.stem for path in BAD.glob("*.yaml")}
    assert len(CASES) > 30
    parts = {"graph", "crooked_graph", "other_graph", "adder", "called", "called_graph", "writer"}
    assert plans - set(CASES) == parts


@pytest.mark.usefixtures("in_bad")
def test_every_problem_has_a_place_in_a_file_that_is_there() -> None:
    for case in CASES:
        with pytest.raises(PlanError) as caught:
            load_plan(f"{case}.yaml")
        for problem in caught.value.problems:
            assert problem.position is not None, problem
            lines = Path(problem.position.file).read_text().splitlines()
            assert 1 <= problem.position.line <= len(lines), problem
            assert 1 <= problem.position.column <= len(lines[problem.position.line - 1]) + 1, (
                problem
            )


@pytest.mark.usefixtures("in_bad")
def test_options_that_the_plan_does_not_know() -> None:
    assert messages_of("adder.yaml", params={"stpe": 2}) == (
        'params: no parameter "stpe". Parameters: step. Did you mean "step"?'
    )
    assert messages_of("adder.yaml", preset="fast") == (
        '--preset: no preset "fast": this plan has none. Parameters are given one by one: --set NAME=VALUE'
    )
    assert messages_of("adder.yaml", use={"mor": "block"}) == (
        '--use mor: use names no step "mor". Steps: more, less. Did you mean "more"?'
    )


@pytest.mark.usefixtures("in_bad")
def test_a_hostile_tag_runs_nothing(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    plan = tmp_path / "hostile.yaml"
    plan.write_text(f'plan: !!python/object/apply:os.system ["touch {trace}"]\n')
    assert "is not supported" in messages_of(str(plan))
    assert not trace.exists()


def test_a_plan_that_is_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert messages_of("add_epsiode") == 'no plan "add_epsiode". Did you mean "add_episode"?'
    assert messages_of("zzz") == 'no plan "zzz". See semgraph plans list'


def test_a_file_that_is_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("own").mkdir()
    for name in ("ingest.yaml", "own/ingest.yaml"):
        Path(name).write_text("plan: ingest")
    assert (
        messages_of("ingst.yaml")
        == 'ingst.yaml: there is no such file. Did you mean "ingest.yaml"?'
    )
    assert (
        messages_of("own/ingst.yaml")
        == 'own/ingst.yaml: there is no such file. Did you mean "own/ingest.yaml"?'
    )
    assert (
        messages_of("zzz/qqq.yaml")
        == "zzz/qqq.yaml: there is no such file. See semgraph plans list"
    )


def test_files_that_are_no_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("image.yaml").write_bytes(b"plan: x\n# \xff\xd8\xff\xe0")
    Path("nul.yaml").write_bytes(b"plan: x\n\n\0\0")
    Path("huge.yaml").write_text("# " + "x" * 10_000_000)
    Path("folder.yaml").mkdir()
    assert (
        messages_of("image.yaml") == "image.yaml:2:3  this is no plan: byte 10 is not UTF-8. "
        "If it is Latin-1: iconv -f latin1 -t utf-8 image.yaml > new"
    )
    assert (
        messages_of("nul.yaml")
        == "nul.yaml:3:1  this is no plan: it holds binary data. A plan is a text file"
    )
    assert messages_of("huge.yaml") == (
        "huge.yaml:1:1  this file is too large for a plan. 10.0 MB; a plan has at most 1 MB. "
        "Rows belong into an input file: -i NAME=FILE"
    )
    assert (
        messages_of("folder.yaml")
        == "folder.yaml:1:1  this is a folder, no plan. Name a file in it"
    )


def test_a_plan_that_is_nested_without_end(tmp_path: Path) -> None:
    plan = tmp_path / "deep.yaml"
    plan.write_text("plan: " + "[" * 5000)
    assert "nested too deeply" in messages_of(str(plan))
    plan.write_text("".join(" " * i + "a:\n" for i in range(800)))
    assert "nested too deeply" in messages_of(str(plan))


SCALARS = ("", "text", "{text}", 1, -1, 1.5, True, None)
VALUES = (
    *SCALARS,
    [],
    {},
    [1],
    ["text"],
    [None],
    [[]],
    [{}],
    [{"id": 1}],
    {"text": 1},
    {"prompt": 1},
    {"n": 1},
    {"add": 1},
)


LOWERED = (SampleRows,)
"""Operators that are other operators once the plan is loaded."""


@pytest.mark.parametrize(
    "operator",
    [each for each in OPERATORS if each not in LOWERED],
    ids=lambda operator: operator.keyword,
)
@pytest.mark.parametrize("value", VALUES, ids=json.dumps)
def test_an_operator_is_in_the_plan_or_the_plan_is_refused(
    operator: type[Node], value: Any, tmp_path: Path
) -> None:
    steps = {"rows": [{"from": "tickets"}, {operator.keyword: value}]}
    plan = {
        "plan": "p",
        "inputs": {"tickets": {"id": "int64", "text": "string"}},
        "steps": steps,
        "returns": ["rows"],
    }
    (tmp_path / "p.yaml").write_text(json.dumps(plan), encoding="utf-8")
    try:
        loaded = load_plan(tmp_path / "p.yaml")
    except PlanError:
        return
    assert any(isinstance(node, operator) for node in walk(*loaded.steps.values()))
