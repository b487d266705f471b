"""Mutation testing of one module: how many random faults do its tests detect?

    python -m tools.mutate semgraph/logical/relational.py tests/logical --mutants 60 --seed 1

Each mutant runs in a child process that loads the changed code in place of the module; no file is
written. A mutant is killed if a test fails, or hangs for `--seconds`.
"""

from __future__ import annotations

import argparse
import ast
import copy
import importlib.abc
import importlib.util
import os
import random
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
Change = Callable[[ast.AST], None]


def change_of(node: ast.AST) -> Change | None:  # noqa: PLR0911 - one return for each kind
    """Mutate a node in place; returns the change, or None."""
    match node:
        case ast.Compare(ops=[operator]) if type(operator) in COMPARISONS:
            return lambda n: setattr(n, "ops", [COMPARISONS[type(operator)]()])
        case ast.BoolOp(op=operator):
            other = ast.Or() if isinstance(operator, ast.And) else ast.And()
            return lambda n: setattr(n, "op", other)
        case ast.If(test=test) | ast.IfExp(test=test):
            return lambda n: setattr(n, "test", ast.UnaryOp(ast.Not(), test))
        case ast.Return(value=ast.expr()):
            return lambda n: setattr(n, "value", ast.Constant(None))
        case ast.Constant(value=bool(value)):
            return lambda n: setattr(n, "value", not value)
        case ast.Constant(value=int(value)):
            return lambda n: setattr(n, "value", value + 1)
        case ast.Expr(value=ast.Call()):
            return lambda n: setattr(n, "value", ast.Constant(None))
    return None


def mutants(source: str, number: int, seed: int) -> list[tuple[str, ast.Module]]:
    """Mutated modules, each with its change."""
    tree = ast.parse(source)
    places = [index for index, node in enumerate(ast.walk(tree)) if change_of(node)]
    chosen = random.Random(seed).sample(places, min(number, len(places)))  # noqa: S311
    mutated = []
    for index in sorted(chosen):
        mutant = copy.deepcopy(tree)
        node = list(ast.walk(mutant))[index]
        before = ast.unparse(node).splitlines()[0]
        change = change_of(node)
        assert change is not None
        change(node)
        after = ast.unparse(node).splitlines()[0]
        mutated.append(
            (
                f"line {getattr(node, 'lineno', 0)}: {before}  ->  {after}",
                ast.fix_missing_locations(mutant),
            )
        )
    return mutated


class Mutated(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Loads a mutant under the name of its module."""

    def __init__(self, name: str, path: Path, tree: ast.Module) -> None:
        self.name, self.path, self.tree = name, path, tree

    def find_spec(self, fullname: str, *_: object) -> object:  # type: ignore[override]
        """The specification of the mutated module, and of no other."""
        if fullname != self.name:
            return None
        return importlib.util.spec_from_file_location(fullname, self.path, loader=self)

    def exec_module(self, module: object) -> None:  # type: ignore[override]
        """Run the mutated code."""
        exec(compile(self.tree, str(self.path), "exec"), vars(module))  # noqa: S102


def killed(name: str, path: Path, tree: ast.Module, tests: Sequence[str], seconds: int) -> bool:
    """Whether the tests fail over a mutant."""
    child = os.fork()
    if child == 0:
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(seconds)
        sys.meta_path.insert(0, Mutated(name, path, tree))
        import pytest

        arguments = ["-x", "-q", "-p", "no:cacheprovider", *tests]
        os._exit(int(pytest.main(arguments)))
    _, status = os.waitpid(child, 0)
    return status != 0


def main() -> None:
    """Run the mutants; print those that survive, and the kill rate."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.mutate",
        description=__doc__,
        epilog="All other arguments are those of pytest: which tests are run.",
        allow_abbrev=False,
    )
    parser.add_argument("module", type=Path)
    parser.add_argument("--mutants", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=int, default=600)
    options, tests = parser.parse_known_args()
    import duckdb, numpy, pyarrow, sqlglot  # noqa: E401, F401, ICN001, I001 - once, not in each child

    name = ".".join(options.module.with_suffix("").parts)
    source = options.module.read_text(encoding="utf-8")
    if killed(name, options.module.absolute(), ast.parse(source), tests, options.seconds):
        sys.exit("the tests fail without any mutation")
    dead = total = 0
    for what, tree in mutants(source, options.mutants, options.seed):
        total += 1
        is_killed = killed(name, options.module.absolute(), tree, tests, options.seconds)
        dead += is_killed
        print(f"{'killed  ' if is_killed else 'SURVIVED'}  {what}", flush=True)
    print(f"{name}: {dead} of {total} mutants killed ({100 * dead / max(total, 1):.0f} %)")


if __name__ == "__main__":
    main()
