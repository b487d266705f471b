"""The extras of the package: what each is for, what it lacks here, and the command that installs
it. Their requirements are those of the package's metadata.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution, requires

# What each extra is for, in the order in which `semgraph doctor` shows them.
PURPOSES: Mapping[str, str] = {
    "local": "models on this machine",
    "neo4j-local": "semgraph neo4j start",
    "sentence-transformers": "embedders of that library",
    "pandas": "data frames",
    "ray": "runs on a cluster (--engine ray)",
    "mcp": "plans as tools of agents (serve --mcp)",
    "otel": "spans of runs, steps and calls (OpenTelemetry)",
    "cross-encoder": "sem_topk by cross_encoder",
    "kmeans": "cluster by kmeans",
    "leiden": "cluster by leiden",
    "minhash": "sem_join by cascade with jaccard",
    "measures": "nDCG, MRR and others of ranked rows (compare --labels)",
    "lotus": "LOTUS's own operators, in an environment of their own",
}

_REQUIREMENT = re.compile(r"([A-Za-z0-9][\w.-]*).*;.*\bextra == [\"']([\w.-]+)[\"']")


def install(extra: str) -> str:
    """The command that installs an extra.

    >>> install("local")
    'pip install "semgraph[local]"'
    """
    return f'pip install "semgraph[{extra}]"'


def missing(extra: str) -> tuple[str, ...]:
    """The packages of an extra that are not installed. Imports none of them. Raises KeyError for
    an extra that the package does not have.
    """
    return tuple(name for name in requirements()[extra] if not is_installed(name))


def lacking(extra: str) -> str | None:
    """Why an extra cannot be used, with the command that installs it; None if all of it is here."""
    packages = missing(extra)
    return f"it needs {' and '.join(packages)}: {install(extra)}" if packages else None


@cache
def requirements() -> Mapping[str, tuple[str, ...]]:
    """The names of the packages that each extra installs."""
    packages: dict[str, tuple[str, ...]] = {}
    for requirement in requires("semgraph") or ():
        if match := _REQUIREMENT.match(requirement):
            name, extra = match.groups()
            packages[extra] = (*packages.get(extra, ()), name)
    return packages


def is_installed(name: str) -> bool:
    """Whether a package is installed."""
    try:
        distribution(name)
    except PackageNotFoundError:
        return False
    return True
