"""What a result is made of: the code, the versions, the machine."""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
_PACKAGES = ("semgraph", "duckdb", "pyarrow", "numpy", "openai", "aiohttp", "neo4j", "networkx")
_READ = (".py", ".yaml", ".md", ".json", ".csv")


def made_by(folder: str, sources: Iterable[str]) -> dict[str, Any]:
    """Everything that is to be known of a measurement made now, besides its settings."""
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": _git("rev-parse", "--short=12", "HEAD"),
        "changed": bool(_git("status", "--porcelain", "--", *sources, f"benchmarks/{folder}")),
        "hash": content_hash((f"benchmarks/{folder}", *sources)),
        "python": platform.python_version(),
        "versions": _versions(),
        "machine": _machine(),
        "load": round(os.getloadavg()[0], 2),
    }


def content_hash(sources: Iterable[str]) -> str:
    """A hash of the files that figures depend on, whatever the commit."""
    digest = hashlib.sha256()
    for source in sources:
        path = ROOT / source
        files = sorted(f for f in path.rglob("*") if f.suffix in _READ) if path.is_dir() else [path]
        for file in files:
            if "results" not in file.parts:
                digest.update(f"{file.relative_to(ROOT)}\0".encode() + file.read_bytes())
    return digest.hexdigest()[:16]


def _git(*words: str) -> str:
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip()


@cache
def _versions() -> dict[str, str]:
    return {name: metadata.version(name) for name in _PACKAGES}


@cache
def _machine() -> dict[str, Any]:
    info = Path("/proc/cpuinfo")
    models = [line.partition(":")[2].strip() for line in info.read_text().splitlines() if line.startswith("model name")]
    pages = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "processor": models[0] if models else "unknown",
        "cores": os.cpu_count(),
        "memory_gib": round(pages / 2**30, 1),
    }
