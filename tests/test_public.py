"""The public names: few, loaded when they are used, and importing semgraph loads nothing heavy."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import semgraph
from semgraph import errors

HEAVY = ("pandas", "pyarrow", "numpy", "duckdb", "sqlglot", "networkx", "openai", "neo4j")
NAMES = {
    "BudgetReached", "Comparison", "ConcurrentWrite", "DataError", "EngineError", "Frame", "InputError", "ModelUnavailable", "PlanError", "Progress",
    "Result", "RowError", "SemgraphError", "Session", "StoreUnavailable", "UnavailableError", "call", "load_plan", "plan", "read_csv", "read_json",
    "read_parquet", "scan", "table", "union",
}  # fmt: skip


def loaded_by(code: str) -> list[str]:
    """The heavy libraries that a fresh interpreter has loaded after running some code."""
    asks = f"import sys; print(*(name for name in {HEAVY!r} if name in sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\n{asks}"], capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()[-1].split()


def test_the_public_names_are_these() -> None:
    assert set(semgraph.__all__) == NAMES
    assert set(dir(semgraph)) == NAMES | {"__version__"}


@pytest.mark.parametrize("name", sorted(NAMES))
def test_each_name_can_be_used(name: str) -> None:
    found = getattr(semgraph, name)
    assert found.__name__ == name
    assert found.__doc__


def test_every_error_of_the_tree_is_public_unless_it_never_leaves_semgraph() -> None:
    tree = {
        n
        for n, e in vars(errors).items()
        if isinstance(e, type) and issubclass(e, errors.SemgraphError)
    }
    assert tree <= NAMES


def test_an_unknown_name_is_an_ordinary_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'semgraph' has no attribute 'sesion'"):
        _ = semgraph.sesion  # type: ignore[attr-defined]


def test_the_version_is_that_of_the_package() -> None:
    from importlib.metadata import version

    assert semgraph.__version__ == version("semgraph")


@pytest.mark.parametrize(
    "code",
    [
        "import semgraph",
        "import semgraph.cli",
        "from semgraph import SemgraphError",
        "from typer.testing import CliRunner; from semgraph.cli import app; CliRunner().invoke(app, ['--help'])",
        "from typer.testing import CliRunner; from semgraph.cli import app; CliRunner().invoke(app, ['run', '--help'])",
    ],
)
def test_nothing_heavy_is_loaded_before_it_is_used(code: str) -> None:
    assert loaded_by(code) == []


def test_a_run_leaves_pandas_out_which_pyarrow_would_import(tmp_path: Path) -> None:
    assert find_spec("pandas") is not None
    probe = (
        "import os, sys; from semgraph.cli import main; end = os._exit\n"
        "os._exit = lambda code: (print('pandas' in sys.modules, 'pyarrow' in sys.modules, flush=True), end(code))\n"
        "main()"
    )
    command = ["run", "find", "--store", "memory"]
    plan = "plan: find\ninputs: {t: {n: int64}}\nsteps: {a: [{from: t}, {filter: n > 1}]}\nreturns: [a]\nexample: {inputs: {t: [{n: 1}, {n: 2}]}}\n"
    (tmp_path / "find.yaml").write_text(plan, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", probe, *command],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines()[-1] == "False True", done.stdout


def test_the_probe_detects_loaded_modules() -> None:
    assert loaded_by("import numpy") == ["numpy"]
