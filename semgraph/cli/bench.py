"""`semgraph-bench`: runs the benchmarks, which are in the source tree but not in the package."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

_GIVEN = "pyproject.toml", "benchmarks/__main__.py"


def main() -> None:
    """Run `python -m benchmarks` of the checkout from which semgraph is installed, or of the
    current folder.
    """
    for root in (Path(__file__).resolve().parents[2], Path.cwd()):
        if all((root / name).exists() for name in _GIVEN):
            sys.path.insert(0, str(root))
            runpy.run_module("benchmarks", run_name="__main__")
            return
    sys.stderr.write(
        "semgraph-bench: no benchmarks here. They are in semgraph's source tree, not in the installed package: get the tree, "
        'go to its folder (where pyproject.toml is), `pip install -e ".[dev]"`, and run semgraph-bench there.\n'
    )
    raise SystemExit(2)
