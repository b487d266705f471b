"""The public names: few, loaded when they are used, and importing semgraph loads nothing heavy."""

from __future__ import annotations

import subprocess
import sys

import pytest

import semgraph
from semgraph import errors

HEAVY = ("pandas", "pyarrow", "numpy", "duckdb", "sqlglot", "networkx", "openai", "neo4j")
NAMES = {
    "BudgetReached", "Comparison", "ConcurrentWrite", "DataError", "EngineError", "Frame", "InputError", "ModelLacks", "ModelUnavailable", "PlanError",
    "Progress", "Result", "RowError", "SemgraphError", "Session", "StoreUnavailable", "UnavailableError", "call", "load_plan", "plan", "read_csv", "read_json",
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


def test_the_probe_detects_loaded_modules() -> None:
    assert loaded_by("import numpy") == ["numpy"]


def test_the_list_of_the_surface_has_every_name_and_the_options_of_models() -> None:
    from tools.surface import surface

    listed = set(surface())
    assert {line.split("(")[0] for line in listed} >= {f"python semgraph.{name}" for name in NAMES}
    assert "model openai price: FlatPrice.parse" in listed
