"""`semgraph-bench`: the benchmarks of a checkout, from anywhere; quick runs leave the results
alone.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from benchmarks.suite.made import ROOT

FROM_CODE = "from semgraph.cli.bench import main; main()"


def test_it_finds_the_checkout_from_any_folder(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FROM_CODE, "list"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "ingest       What does it cost to ingest messages" in done.stdout


def test_without_a_checkout_it_says_how_to_get_one(tmp_path: Path) -> None:
    package = tmp_path / "site/semgraph/cli"
    package.mkdir(parents=True)
    for folder in (package, package.parent):
        (folder / "__init__.py").write_text("")
    shutil.copy(ROOT / "semgraph/cli/bench.py", package)
    environment = os.environ | {"PYTHONPATH": str(tmp_path / "site")}
    done = subprocess.run(
        [sys.executable, "-c", FROM_CODE],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    assert done.returncode == 2
    assert "They are in semgraph's source tree" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_quick_run_leaves_the_results_alone() -> None:
    before = {path: path.stat().st_mtime_ns for path in (ROOT / "benchmarks").rglob("results/*")}
    words = [sys.executable, "-m", "benchmarks", "run", "operators", "--quick"]
    words += ["--where", "way=packed(rows=10)"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert {
        path: path.stat().st_mtime_ns for path in (ROOT / "benchmarks").rglob("results/*")
    } == before
    quick = ROOT / ".semgraph" / "benchmarks"
    assert "| sem_filter 100 rows | packed(rows=10) |" in (quick / "operators.md").read_text()
