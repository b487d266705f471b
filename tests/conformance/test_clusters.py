"""Partitioning algorithms of `cluster` are checked as implementations are."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from semgraph import extras
from semgraph.cli import app
from semgraph.conformance import check_folder, report_lines
from semgraph.conformance.clusters import CLUSTER_CHECKS
from semgraph.logical.plan import Choice
from semgraph.semantic.library import Library

LIBRARY = Library()
VARIANTS = ["louvain(resolution=3.0)", "leiden(resolution=0.3)", "kmeans(k=2, cosine=true)"]


@pytest.mark.parametrize("check", CLUSTER_CHECKS)
@pytest.mark.parametrize("name", [*LIBRARY.names("cluster"), *VARIANTS])
def test_the_contract_holds(name: str, check: str) -> None:
    CLUSTER_CHECKS[check](LIBRARY.algorithm(Choice.parse(name)))


@pytest.mark.parametrize(
    ("name", "package"), [("kmeans", "scikit-learn"), ("leiden", "graspologic-native")]
)
def test_a_package_that_is_missing_is_named_with_the_extra(
    monkeypatch: pytest.MonkeyPatch, name: str, package: str
) -> None:
    algorithm = LIBRARY.algorithm(Choice(name))
    assert algorithm.refuses() is None
    monkeypatch.setattr(extras, "_installed", lambda _: False)
    assert algorithm.refuses() == f'it needs {package}: pip install "semgraph[{name}]"'


@pytest.mark.parametrize(
    ("body", "failed"),
    [
        ("return [0] * min(len(keys), 30)", "a partition of all keys: wrong in FILE broke"),
        ("global n; n += 1; return [n // 5 % 2] + [0] * (len(keys) - 1)", "the same for a seed"),
        ("import random; return [random.randrange(9) for _ in keys]", "order of rows: another"),
        ("keys.reverse(); return [0] * len(keys)", "arguments: it changed"),
        ("return [0 for _ in keys] if edges else None", "one key, no edges, a partition"),
        ("return [hash(edges[0]) for _ in keys]", "one key, no edges, a partition"),
    ],
)
def test_a_wrong_algorithm_fails(tmp_path: Path, body: str, failed: str) -> None:
    file = tmp_path / "cluster" / "wrong.py"
    file.parent.mkdir()
    file.write_text(f'"""Wrong."""\nn = 0\ndef cluster(keys, edges, vectors, seed):\n    {body}\n')
    (checked,) = check_folder(tmp_path)
    text = "\n".join(report_lines(checked, every=True))
    assert failed.replace("FILE", str(file)) in text, text


def test_an_algorithm_that_does_not_end_is_stopped(tmp_path: Path) -> None:
    file = tmp_path / "cluster" / "slow.py"
    file.parent.mkdir()
    text = "def cluster(keys, edges, vectors, seed):\n    while True: pass\n"
    file.write_text(f'"""Slow."""\n{text}')
    (checked,) = check_folder(tmp_path, patience=0.2)
    assert next(report_lines(checked)).endswith(f"an end: slow in {file} was stopped after 0.2 s")


def test_the_first_file_passes_the_check_as_it_is_written(tmp_path: Path) -> None:
    mine = str(tmp_path / "mine")
    done = CliRunner().invoke(app, ["operators", "new", "cluster", "by_weight", mine])
    assert done.stdout.strip() == f"{mine}/cluster/by_weight.py"
    checked = CliRunner().invoke(app, ["operators", "check", mine])
    assert checked.stdout == "cluster/by_weight  6 passed\n"


def test_algorithms_are_listed_with_their_parameters() -> None:
    done = CliRunner().invoke(app, ["operators", "list", "--format", "json"])
    listed = json.loads(done.stdout)["cluster"]
    assert {each["name"] for each in listed} == set(LIBRARY.names("cluster"))
    assert "louvain(resolution=1.0)" in {each["signature"] for each in listed}
    assert all(each["doc"] for each in listed)
