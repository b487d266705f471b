"""Mutation testing of one module: how many random faults do its tests detect?

    python -m tools.mutate semgraph/logical/relational.py tests/logical --mutants 60 --seed 1
    python -m tools.mutate semgraph/scores.py tests/scores --keep tests/mutants/scores
    python -m tools.mutate --kept tests/mutants             # all that were kept, with their tests
    python -m tools.mutate --kept tests/mutants/scores tests/scores/test_rows.py

Each mutant runs in a child process that loads the changed code in place of the module; no file of
the package is written. A mutant is killed if a test fails, or hangs for `--seconds`. `--keep` writes
each as a diff: its first line has the result and the tests. `--kept` runs the diffs of a folder a
second time, with other tests where some are named; a mutant that was killed and survives now, or
that does not apply any more, makes the exit status 1. A diff applies by the text of its lines, where
these stand once, whatever their numbers.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import difflib
import importlib.abc
import importlib.util
import os
import random
import shlex
import signal
import sys
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip


def change_of(node: ast.AST) -> tuple[ast.expr, ast.expr] | None:  # noqa: PLR0911 - one return for each kind
    """The expression that a mutation of a node replaces, and the new one; None if there is none."""
    match node:
        case ast.Compare(ops=[operator]) if type(operator) in COMPARISONS:
            return node, ast.Compare(node.left, [COMPARISONS[type(operator)]()], node.comparators)
        case ast.BoolOp(op=operator):
            return node, ast.BoolOp(
                ast.Or() if isinstance(operator, ast.And) else ast.And(), node.values
            )
        case ast.If(test=test) | ast.IfExp(test=test):
            return test, ast.UnaryOp(ast.Not(), test)
        case ast.Return(value=ast.expr() as value):
            return value, ast.Constant(None)
        case ast.Constant(value=bool(value)):
            return node, ast.Constant(not value)
        case ast.Constant(value=int(value)):
            return node, ast.Constant(value + 1)
        case ast.Expr(value=ast.Call() as call):
            return call, ast.Constant(None)
    return None


def mutants(source: str, number: int, seed: int) -> list[tuple[str, str]]:
    """Mutated sources, each with its change, in line order."""
    changes = [change for node in ast.walk(ast.parse(source)) if (change := change_of(node))]
    random.Random(seed).shuffle(changes)  # noqa: S311
    mutated: list[tuple[int, str, str]] = []
    for old, new in changes:
        if len(mutated) == number:
            break
        text = ast.unparse(new) if isinstance(new, ast.Constant) else f"({ast.unparse(new)})"
        if (changed := _replaced(source, old, text)) is not None:
            what = f"line {old.lineno}: {ast.unparse(old).splitlines()[0]}  ->  {text}"
            mutated.append((old.lineno, what, changed))
    return [(what, changed) for _, what, changed in sorted(mutated)]


def _replaced(source: str, old: ast.expr, text: str) -> str | None:
    """The source with a new text for an expression; None if Python gives a wrong position, as in
    some f-strings.
    """
    lines = source.encode().splitlines(keepends=True)
    assert old.end_lineno is not None
    assert old.end_col_offset is not None
    start = sum(map(len, lines[: old.lineno - 1])) + old.col_offset
    end = sum(map(len, lines[: old.end_lineno - 1])) + old.end_col_offset
    whole = source.encode()
    try:
        there = ast.parse(f"({whole[start:end].decode()})", mode="eval").body
        changed = (whole[:start] + text.encode() + whole[end:]).decode()
        ast.parse(changed)
    except (SyntaxError, UnicodeDecodeError):
        return None
    return changed if changed != source and ast.dump(there) == ast.dump(old) else None


def difference(path: str, source: str, changed: str) -> str:
    """A diff of a file with one change, with enough context lines to make its position unique."""
    before, after = source.splitlines(keepends=True), changed.splitlines(keepends=True)
    for around in range(3, len(before) + 3):
        diff = "".join(difflib.unified_diff(before, after, f"a/{path}", f"b/{path}", n=around))
        if len(_places(_hunk(diff)[0], source.splitlines())) == 1:
            return diff
    raise AssertionError(path)


def applied(diff: str, source: str) -> str | None:
    """The source with the change of a diff; None unless its lines occur exactly once. Context lines
    may differ, the farthest first.
    """
    old, new, leading, trailing = _hunk(diff)
    lines = source.splitlines()
    for top, bottom in sorted(product(range(leading + 1), range(trailing + 1)), key=sum):
        sought = old[top : len(old) - bottom]
        found = _places(sought, lines)
        if len(found) == 1:
            lines[found[0] : found[0] + len(sought)] = new[top : len(new) - bottom]
            return "\n".join(lines) + "\n"
    return None


def _hunk(diff: str) -> tuple[list[str], list[str], int, int]:
    """Old and new lines of a diff, and the number of equal lines at their start and end."""
    lines = diff.splitlines()
    lines = lines[next(n for n, line in enumerate(lines) if line.startswith("@@")) + 1 :]
    changed = [n for n, line in enumerate(lines) if line[:1] in "-+" and line]
    old = [line[1:] for line in lines if not line.startswith("+")]
    new = [line[1:] for line in lines if not line.startswith("-")]
    return old, new, changed[0], len(lines) - 1 - changed[-1]


def _places(sought: list[str], lines: list[str]) -> list[int]:
    return [n for n in range(len(lines)) if lines[n : n + len(sought)] == sought]


class Mutated(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Loads a mutant under the name of its module."""

    def __init__(self, path: Path, source: str) -> None:
        self.name = ".".join(path.with_suffix("").parts)
        self.path, self.source = path.absolute(), source

    def find_spec(self, fullname: str, *_: object) -> object:  # type: ignore[override]
        """The specification of the mutated module; None for others."""
        if fullname != self.name:
            return None
        return importlib.util.spec_from_file_location(fullname, self.path, loader=self)

    def exec_module(self, module: object) -> None:
        """Run the mutated code."""
        exec(compile(self.source, str(self.path), "exec"), vars(module))  # noqa: S102


class FirstFailure:
    """Reports the first failed test to the parent."""

    def __init__(self, pipe: int) -> None:
        self.pipe = pipe

    def pytest_runtest_logreport(self, report: object) -> None:
        """Write the name of a test that failed."""
        if getattr(report, "failed", False):
            os.write(self.pipe, f"{getattr(report, 'nodeid', '')}\n".encode())


def killed(path: Path, source: str, tests: Sequence[str], seconds: int) -> str:
    """The first test that fails on a mutant, or the end of its process; "" if all pass."""
    reading, writing = os.pipe()
    written = b""
    child = os.fork()
    if child == 0:
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(seconds)
        sys.meta_path.insert(0, Mutated(path, source))  # type: ignore[arg-type]
        import pytest

        arguments = ["-x", "-q", "-p", "no:cacheprovider", *tests]
        os._exit(int(pytest.main(arguments, plugins=[FirstFailure(writing)])))
    os.close(writing)
    _, status = os.waitpid(child, 0)
    os.set_blocking(reading, False)  # a process left over from a test may hold the other end
    with contextlib.suppress(BlockingIOError):
        written = os.read(reading, 4096)
    os.close(reading)
    how = (
        f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else f"exit status {status >> 8}"
    )
    return (written.decode().partition("\n")[0] or how) if status else ""


def kept(folder: Path, tests: Sequence[str], seconds: int) -> Iterator[bool]:
    """Run the diffs of a folder; yield whether each has its recorded result."""
    passed: set[tuple[Path, str]] = set()
    for file in sorted(folder.rglob("*.diff")):
        head, diff = file.read_text(encoding="utf-8").split("\n", 1)
        path = Path(diff.split("--- a/", 1)[1].split("\n", 1)[0])
        was, _, names = head.partition(" by ")
        own = tests or shlex.split(names)
        source = path.read_text(encoding="utf-8") if path.is_file() else ""
        changed = applied(diff, source)
        if changed is None:
            print(f"DOES NOT APPLY  {file}", flush=True)
            yield False
            continue
        if (path, shlex.join(own)) not in passed:
            _require_passing(path, source, own, seconds)
            passed.add((path, shlex.join(own)))
        by = killed(path, changed, own, seconds)
        is_worse = was == "killed" and not by
        print(f"{'SURVIVES NOW' if is_worse else f'{was}, '}  {file}: {by}", flush=True)
        yield not is_worse


def _require_passing(path: Path, source: str, tests: Sequence[str], seconds: int) -> None:
    if by := killed(path, source, tests, seconds):
        sys.exit(f"the tests of {path} fail without any mutation: {by}")


def main() -> None:
    """Run the mutants; print the surviving ones, and the kill rate."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.mutate",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="All other arguments are those of pytest: which tests are run.",
        allow_abbrev=False,
    )
    parser.add_argument("module", type=Path, nargs="?")
    parser.add_argument("--mutants", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=int, default=600)
    parser.add_argument("--keep", type=Path, metavar="FOLDER")
    parser.add_argument("--kept", type=Path, metavar="FOLDER")
    options, tests = parser.parse_known_args()
    import aiohttp, duckdb, numpy, pyarrow.compute, pytest, sqlglot  # noqa: E401, F401, ICN001, I001 - once, not in each child

    if options.kept:
        tests = [str(options.module), *tests] if options.module else tests
        results = list(kept(options.kept, tests, options.seconds))
        sys.exit(
            f"{results.count(False)} of {len(results)} mutants are not detected as before"
            if not all(results)
            else 0
        )
    path = options.module
    source = path.read_text(encoding="utf-8")
    _require_passing(path, source, tests, options.seconds)
    found = mutants(source, options.mutants, options.seed)
    dead = 0
    for number, (what, changed) in enumerate(found, start=1):
        by = killed(path, changed, tests, options.seconds)
        dead += bool(by)
        print(f"{'killed  ' if by else 'SURVIVED'}  {what}", flush=True)
        if options.keep:
            options.keep.mkdir(parents=True, exist_ok=True)
            result = (
                f"killed by {shlex.join(tests)}\nfirst by {by}"
                if by
                else f"survived by {shlex.join(tests)}"
            )
            diff = difference(path.as_posix(), source, changed)
            (options.keep / f"{number:02}.diff").write_text(f"{result}\n{diff}", encoding="utf-8")
    print(
        f"{path}: {dead} of {len(found)} mutants killed ({100 * dead / max(len(found), 1):.0f} %)"
    )


if __name__ == "__main__":
    main()
