"""Partitioning algorithms of `cluster` beside the implementations of operators."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from semgraph import extras
from semgraph.cli import app
from semgraph.logical.plan import Choice
from semgraph.semantic.library import Library

LIBRARY = Library()


@pytest.mark.parametrize(
    ("name", "package"), [("kmeans", "scikit-learn"), ("leiden", "graspologic-native")]
)
def test_a_package_that_is_missing_is_named_with_the_extra(
    monkeypatch: pytest.MonkeyPatch, name: str, package: str
) -> None:
    algorithm = LIBRARY.algorithm(Choice(name))
    assert algorithm.refuses() is None
    monkeypatch.setattr(extras, "is_installed", lambda _: False)
    assert algorithm.refuses() == f'it needs {package}: pip install "semgraph[{name}]"'


def test_an_algorithm_that_cannot_be_loaded_is_a_problem(tmp_path: Path) -> None:
    file = tmp_path / "cluster" / "wrong.py"
    file.parent.mkdir()
    file.write_text('"""Wrong."""\n')
    checked = CliRunner().invoke(app, ["operators", "check", str(tmp_path)])
    assert checked.exit_code == 2
    assert f"cluster/wrong  not checked: {file}: it has no function cluster" in checked.stdout


def test_the_first_file_passes_the_check_as_it_is_written(tmp_path: Path) -> None:
    mine = str(tmp_path / "mine")
    done = CliRunner().invoke(app, ["operators", "new", "cluster", "by_weight", mine])
    assert done.stdout.strip() == f"{mine}/cluster/by_weight.py"
    checked = CliRunner().invoke(app, ["operators", "check", mine])
    assert checked.stdout == "cluster/by_weight  1 passed\n"


def test_algorithms_are_listed_with_their_parameters() -> None:
    done = CliRunner().invoke(app, ["operators", "list", "--format", "json"])
    listed = json.loads(done.stdout)["cluster"]
    assert {each["name"] for each in listed} == set(LIBRARY.names("cluster"))
    assert "louvain(resolution=1.0)" in {each["signature"] for each in listed}
    assert all(each["doc"] for each in listed)
