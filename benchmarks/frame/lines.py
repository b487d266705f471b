"""Results: a JSON line for each trial, with the code that measured it and all that reproduces it."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import sqlite3
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results"
PACKAGES = "semgraph duckdb pyarrow numpy openai aiohttp neo4j networkx bpe-openai"
LOCAL = "xllamacpp"
"""The package of llama.cpp, which runs the local model; its version is that of llama.cpp's build."""
PEERS = {
    "lotus": (".venv-extras", "make test-extras", "lotus-ai litellm openai"),
    "graphiti-core": (".venv-graphiti", "make test-graphiti", "graphiti-core neo4j openai"),
    "palimpzest": (".venv-palimpzest", "make bench-palimpzest", "palimpzest litellm"),
}
"""The environment of each peer, the command that creates it, and its packages that lines name."""
_READ = (".py", ".yaml", ".md", ".json", ".csv")


def matches(key: Mapping[str, Any], where: Mapping[str, Any]) -> bool:
    """Whether a key has these values; a tuple of values means any of them."""
    return all(
        key.get(name) in (value if isinstance(value, tuple) else (value,))
        for name, value in where.items()
    )


@dataclass(frozen=True)
class Line:
    """One trial of one case.

    Args:
        benchmark: Its name.
        key: The case.
        trial: From 0; also the random seed.
        figures: The measured figures; empty if it failed.
        settings: The settings of the case.
        made: Time, commit, hash of the sources, versions, machine and its load, command.
        failed: The reason why there are no figures; the tables show it.
        kind: A `simulated` model or a `real` one.
    """

    benchmark: str
    key: Mapping[str, Any]
    trial: int
    figures: Mapping[str, Any]
    settings: Mapping[str, Any] = field(default_factory=dict)
    made: Mapping[str, Any] = field(default_factory=dict)
    failed: str = ""
    kind: str = "simulated"

    def is_of(self, where: Mapping[str, Any]) -> bool:
        """Whether its case has these values; a tuple of values means any of them."""
        return matches(self.key, where)

    def figure(self, name: str) -> Any:
        """A figure; None if the trial failed or has none."""
        return None if self.failed else self.figures.get(name)

    @property
    def version(self) -> str:
        """The version of semgraph that was measured."""
        return str(self.made.get("versions", {}).get("semgraph", "?"))

    @property
    def old(self) -> bool:
        """Whether other code measured it than that of this checkout, or nobody knows which."""
        return not self.made.get("current", False)

    @property
    def identity(self) -> str:
        """The identity of a trial by the same code with the same settings."""
        held = [self.key, self.trial, self.settings, self.made.get("hash")]
        return json.dumps(held, sort_keys=True)


class Lines:
    """The lines of one benchmark, in its file.

    Args:
        benchmark: Its name.
        folder: The folder of the file.
        code: The hash of the current sources: lines with another hash are `old`.
    """

    def __init__(self, benchmark: str, folder: Path = RESULTS, code: str = "") -> None:
        self.path = folder / f"{benchmark}.jsonl"
        self.code = code

    def __iter__(self) -> Iterator[Line]:
        text = self.path.read_text(encoding="utf-8") if self.path.exists() else ""
        for number, one in enumerate(text.splitlines(), 1):
            try:
                line = Line(**json.loads(one))
            except (ValueError, TypeError) as error:
                what = f"{self.path}:{number}  invalid line of results: {error}"
                raise ValueError(f"{what}. Remove it and run the benchmark again.") from None
            made = {**line.made, "current": bool(self.code) and line.made.get("hash") == self.code}
            yield Line(**vars(line) | {"made": made})

    def append(self, line: Line) -> None:
        """Write a line immediately, in place of an older one of the same trial."""
        older = [old for old in self if (old.key, old.trial) != (line.key, line.trial)]
        self.path.parent.mkdir(parents=True, exist_ok=True)
        draft = self.path.with_suffix(".tmp")
        draft.write_text("".join(map(_text, [*older, line])), encoding="utf-8")
        draft.replace(self.path)


def _text(line: Line) -> str:
    held = asdict(line)
    held["made"].pop("current", None)
    return json.dumps(held, ensure_ascii=False) + "\n"


def code_of(benchmark: str, sources: Iterable[str]) -> str:
    """The hash of a benchmark's own folder and of the sources that its figures depend on."""
    return content_hash((f"benchmarks/{benchmark}", *sources))


@cache
def content_hash(sources: tuple[str, ...]) -> str:
    """A hash of files and folders; results do not count."""
    digest = hashlib.sha256()
    for path in (ROOT / source for source in sources):
        files = sorted(f for f in path.rglob("*") if f.suffix in _READ) if path.is_dir() else [path]
        for file in files:
            if "results" not in file.parts:
                digest.update(f"{file.relative_to(ROOT)}\0".encode() + file.read_bytes())
    return digest.hexdigest()[:16]


def made_by(benchmark: str, sources: Iterable[str]) -> dict[str, Any]:
    """The provenance of a measurement made now."""
    sources = tuple(sources)
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": f"python -m benchmarks run {benchmark}",
        "commit": _git("rev-parse", "--short=12", "HEAD"),
        "changed": bool(_git("status", "--porcelain", "--", *sources, f"benchmarks/{benchmark}")),
        "hash": code_of(benchmark, sources),
        "python": platform.python_version(),
        "versions": _versions(),
        "machine": _machine(),
        "load": round(os.getloadavg()[0], 2),
    }


def _git(*words: str) -> str:
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip()


@cache
def _versions() -> dict[str, str]:
    from semgraph.stores.neo4j.local.server import VERSION

    versions = {name: metadata.version(name) for name in PACKAGES.split()}
    with suppress(metadata.PackageNotFoundError):
        versions[LOCAL] = metadata.version(LOCAL)
    versions |= {"sqlite": sqlite3.sqlite_version, "neo4j server, local": VERSION}
    for folder, _, names in PEERS.values():
        paths = [str(path) for path in (ROOT / folder / "lib").glob("python*/site-packages")]
        packages = metadata.distributions(path=paths) if paths else ()
        installed = {package.metadata["Name"].lower(): package.version for package in packages}
        versions |= {
            f"{name} in {folder}": installed[name] for name in names.split() if name in installed
        }
    return versions


@cache
def _machine() -> dict[str, Any]:
    text = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    models = [x.partition(":")[2].strip() for x in text.splitlines() if x.startswith("model name")]
    pages = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "processor": models[0] if models else "unknown",
        "cores": os.cpu_count(),
        "memory_gib": round(pages / 2**30, 1),
    }
