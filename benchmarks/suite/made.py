"""The provenance of a result: code, versions, machine, command."""

from __future__ import annotations

import hashlib
import os
import platform
import sqlite3
import subprocess
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
_PACKAGES = (
    "semgraph",
    "duckdb",
    "pyarrow",
    "numpy",
    "openai",
    "aiohttp",
    "neo4j",
    "networkx",
    "bpe-openai",
)
_PEERS = {
    ".venv-extras": ("lotus-ai", "litellm", "openai"),
    ".venv-graphiti": ("graphiti-core", "neo4j", "openai"),
    ".venv-ray": ("ray",),
}
"""Packages in the environments of other engines; the same environments as in `peers.PEERS`."""
_READ = (".py", ".yaml", ".md", ".json", ".csv")


def made_by(folder: str, sources: Iterable[str]) -> dict[str, Any]:
    """The provenance of a measurement made now."""
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": f"python -m benchmarks run {folder}",
        "commit": _git("rev-parse", "--short=12", "HEAD"),
        "changed": bool(_git("status", "--porcelain", "--", *sources, f"benchmarks/{folder}")),
        "hash": content_hash((f"benchmarks/{folder}", *sources)),
        "python": platform.python_version(),
        "versions": _versions(),
        "machine": _machine(),
        "load": round(os.getloadavg()[0], 2),
    }


def content_hash(sources: Iterable[str]) -> str:
    """A hash of the files that figures depend on."""
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
    from semgraph.stores.neo4j.local.server import VERSION

    versions = {name: metadata.version(name) for name in _PACKAGES}
    versions |= {"sqlite": sqlite3.sqlite_version, "neo4j server, local": VERSION}
    for folder, names in _PEERS.items():
        paths = [str(path) for path in (ROOT / folder / "lib").glob("python*/site-packages")]
        packages = metadata.distributions(path=paths) if paths else ()
        installed = {package.metadata["Name"].lower(): package.version for package in packages}
        versions |= {f"{name} in {folder}": installed[name] for name in names if name in installed}
    return versions


@cache
def _machine() -> dict[str, Any]:
    info = Path("/proc/cpuinfo")
    models = [
        line.partition(":")[2].strip()
        for line in info.read_text().splitlines()
        if line.startswith("model name")
    ]
    pages = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "processor": models[0] if models else "unknown",
        "cores": os.cpu_count(),
        "memory_gib": round(pages / 2**30, 1),
    }
