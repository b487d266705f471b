"""Weigh the code: lines, statements, lines of docstrings and files, by folder.

    python -m tools.weigh           # the files of the index
    python -m tools.weigh COMMIT    # those of a commit, and the difference from it to the index

Lines are those of `wc -l` over the `*.py` files in Git. The last lines have the measures of a
change: the sum of `semgraph/`, `operators/` and `tools/`, because code that moves between them
saves nothing; the share of docstrings; and the `fmt:` comments in `semgraph/` and `operators/`,
which keep lines long.
"""

from __future__ import annotations

import ast
import io
import subprocess
import sys
import tarfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

FOLDERS = ("semgraph", "operators", "functions", "tools", "tests", "benchmarks")
JUDGED = ("semgraph", "operators", "tools")
SUM = "semgraph/ operators/ tools/"
HAVE_DOCSTRINGS = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


class Weight(NamedTuple):
    """The measures of one file or folder."""

    lines: int = 0
    statements: int = 0
    docstrings: int = 0
    files: int = 0
    fmt: int = 0

    def plus(self, other: Weight, sign: int = 1) -> Weight:
        """The sum of two weights, or the difference with `sign` -1."""
        return Weight(*(a + sign * b for a, b in zip(self, other, strict=True)))


def weight(source: str) -> Weight:
    """Weigh one file."""
    nodes = list(ast.walk(ast.parse(source)))
    docstrings = 0
    for node in nodes:
        if isinstance(node, HAVE_DOCSTRINGS) and ast.get_docstring(node, clean=False) is not None:
            first = node.body[0]
            docstrings += (first.end_lineno or first.lineno) - first.lineno + 1
    statements = sum(isinstance(node, ast.stmt) for node in nodes)
    return Weight(source.count("\n"), statements, docstrings, 1, source.count("# fmt:"))


def sources(commit: str | None) -> Iterator[tuple[str, str]]:
    """The Python files of the index as they are on disk, or those of a commit."""
    if commit is None:
        for name in _git("ls-files", "-z", *FOLDERS).decode().split("\0"):
            if name.endswith(".py") and Path(name).is_file():
                yield name, Path(name).read_text(encoding="utf-8")
        return
    with tarfile.open(fileobj=io.BytesIO(_git("archive", commit, *FOLDERS))) as archive:
        for member in archive:
            if member.name.endswith(".py") and (file := archive.extractfile(member)):
                yield member.name, file.read().decode()


def _git(*arguments: str) -> bytes:
    return subprocess.run(["git", *arguments], check=True, stdout=subprocess.PIPE).stdout


def weights(commit: str | None = None) -> dict[str, Weight]:
    """The weights of the folders, and of those in `semgraph`; `semgraph/*` are its own files."""
    found: dict[str, Weight] = defaultdict(Weight)
    for name, source in sources(commit):
        top, *rest = name.split("/")
        inner = f"semgraph/{rest[0] if len(rest) > 1 else '*'}"
        for folder in (top, inner) if top == "semgraph" else (top,):
            found[folder] = found[folder].plus(weight(source))
    for folder in JUDGED:
        found[SUM] = found[SUM].plus(found[folder])
    return dict(found)


def main(commit: str | None = None) -> None:
    """Print a table of the weights."""
    now = weights()
    shown = weights(commit) if commit else now
    print(f"{'folder':30}" + "".join(f"{name:>18}" for name in Weight._fields[:4]))
    for name in (*sorted((shown | now).keys() - {SUM}), SUM):
        old, new = shown.get(name, Weight()), now.get(name, Weight())
        changes = [f" ({n:+,})" if commit else "" for n in new.plus(old, -1)]
        columns = [f"{n:,}{change}" for n, change in zip(old[:4], changes, strict=False)]
        print(f"{name:30}" + "".join(f"{column:>18}" for column in columns))
    for when, of in {commit or "now": shown, "now": now}.items():
        share = of["semgraph"].docstrings / of["semgraph"].lines
        fmt = of["semgraph"].fmt + of["operators"].fmt
        print(f"{when}: {share:.1%} of semgraph/ are docstrings; fmt: comments: {fmt}")


if __name__ == "__main__":
    main(*sys.argv[1:2])
