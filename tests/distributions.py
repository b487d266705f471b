"""Distributions of the package, built as a release builds them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def built(kind: str, source: Path, into: Path) -> Path:
    """A distribution of a folder, `wheel` or `sdist`, built without the network."""
    build = [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(into)]
    subprocess.run(build, cwd=source, check=True, capture_output=True)
    (path,) = into.iterdir()
    return path
