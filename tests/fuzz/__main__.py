"""`make fuzz`: random plans, and the property tests with new cases, for as long as one likes.

With a seed it repeats the plan of that seed. The exit code is 1 if something was found.
"""

from __future__ import annotations

import argparse
import itertools
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.fuzz.checking import Report, check
from tests.fuzz.coverage import LEAST
from tests.fuzz.engine import Engine

_ROOT = Path(__file__).parents[2]


def main() -> int:
    """Run what the command line asks for; its exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument(
        "--seconds", type=float, default=60, help="for so long, half of it the property tests"
    )
    parser.add_argument(
        "--plans", type=int, help="so many plans, from seed 0, and no property tests"
    )
    parser.add_argument("--seed", type=int, help="the plan of this seed alone")
    options = parser.parse_args()
    if options.seed is not None:
        return _ended(_checked(iter([options.seed])))
    if options.plans is not None:
        report = _checked(iter(range(options.plans)))
        return _ended(report, coverage=True) or _covered(report, options.plans)
    first = secrets.randbelow(2**40)
    print(f"plans from seed {first} on", flush=True)
    ended = _ended(_checked(_for(options.seconds / 2, first)), coverage=True)
    return ended or _properties(options.seconds / 2)


def _for(seconds: float, first: int) -> Iterator[int]:
    """Seeds, as long as there is time."""
    end = time.monotonic() + seconds
    return itertools.takewhile(lambda _: time.monotonic() < end, itertools.count(first))


def _checked(seeds: Iterator[int]) -> Report:
    with tempfile.TemporaryDirectory() as folder, Engine(Path(folder)) as engine:
        return check(engine, seeds)


def _ended(report: Report, *, coverage: bool = False) -> int:
    """Print what came of it; the exit code."""
    if coverage:
        print(report.coverage.table())
    print(", ".join(f"{outcome}: {count} plans" for outcome, count in report.outcomes.items()))
    for failure in report.failures:
        print(f"\n{failure}")
    return 1 if report.failures else 0


def _covered(report: Report, plans: int) -> int:
    """Whether each cell of the table was hit often enough; the exit code."""
    rare = report.coverage.rare(LEAST * plans // 3000)
    for operator, clause, feature, count in rare:
        print(f"{operator}.{clause} met {feature} in {count} plans only")
    return 1 if rare else 0


def _properties(seconds: float) -> int:
    """Run the property tests with new cases; a failure prints what reproduces it."""
    files = sorted(
        str(file)
        for file in (_ROOT / "tests").rglob("test_*.py")
        if "from hypothesis" in file.read_text("utf-8")
    )
    options = [
        "-q",
        "-x",
        "-p",
        "no:cacheprovider",
        "-k",
        "not neo4j",
        "--hypothesis-profile",
        "random",
    ]
    command = [sys.executable, "-m", "pytest", *options, *files]
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            ended = subprocess.run(
                command, cwd=_ROOT, timeout=max(end - time.monotonic(), 1), check=False
            ).returncode
        except subprocess.TimeoutExpired:
            print(f"property tests: nothing found in {seconds:.0f} s")
            return 0
        if ended:
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
