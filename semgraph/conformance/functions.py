"""The check of functions of one's own: their types, their doctests, and equal results for equal
arguments.
"""

from __future__ import annotations

import copy
import doctest
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from typing import Any

from semgraph.errors import PlanError, Problem
from semgraph.expr.own_functions import FunctionFailed, OwnFunction
from semgraph.formats import plural
from semgraph.frontend.functions import Functions, loaded


@dataclass
class CheckedFunction:
    """The outcome of the check of a file.

    Args:
        name: The function.
        file: The file.
        calls: How many calls its doctests make.
        failures: What is wrong with what it does.
        problem: Why it cannot be called at all.
    """

    name: str
    file: Path
    calls: int = 0
    failures: list[str] = field(default_factory=list)
    problem: str | None = None

    def line(self, width: int = 0) -> str:
        """One line: `initials  2 calls, equal results`."""
        name = self.name.ljust(width)
        if self.problem is not None:
            return f"{name}  not checked: {self.problem}"
        if self.failures:
            return f"{name}  failed: {'; '.join(dict.fromkeys(self.failures))}"
        return f"{name}  {plural(self.calls, 'call')}, each twice with equal results"


def check_functions(folder: Path) -> Iterator[CheckedFunction]:
    """Check the functions of a folder, one after another.

    Raises:
        PlanError: The folder does not exist, has no function, or a name is taken.
    """
    own = folder.resolve()
    files = [file for file in Functions((own,)).files.values() if file.parent == own]
    if not files:
        hint = f"a function is a file {folder}/<name>.py that defines <name>"
        raise PlanError(Problem(f'"{folder}" holds no function', hint=hint))
    for file in sorted(files):
        yield _checked(file)


def _checked(file: Path) -> CheckedFunction:
    checked = CheckedFunction(file.stem, file)
    try:
        function = loaded(file)
    except PlanError as error:
        checked.problem = str(error)
        return checked
    module = sys.modules[function.python.__module__]
    names = {**vars(module), function.name: _twice(function, checked)}
    runner = doctest.DocTestRunner(verbose=False)
    found = doctest.DocTestFinder().find(function.python, function.name, module, names)
    reports: list[str] = []
    for test in found:
        runner.run(test, out=reports.append)
    checked.failures += [_first_line(report) for report in reports]
    if not checked.calls:
        checked.failures.append("no example calls it: write a doctest")
    return checked


def _twice(function: OwnFunction, checked: CheckedFunction) -> Callable[..., Any]:
    """The function, for its doctests: called twice, with its results compared and their types
    checked.
    """

    @wraps(function.python)
    def call(*arguments: Any, **named: Any) -> Any:
        checked.calls += 1
        again, shown = (copy.deepcopy((arguments, named)) for _ in range(2))
        result = function.python(*arguments, **named)
        repeated = function.python(*again[0], **again[1])
        if repeated != result and repr(repeated) != repr(result):  # NaN equals nothing
            checked.failures.append(f"{function.name} gives another result the second time")
        try:
            function.converted(result, _values(function, *shown))
        except FunctionFailed as failed:
            checked.failures.append(str(failed))
        return result

    return call


def _values(
    function: OwnFunction, arguments: Sequence[Any], named: Mapping[str, Any]
) -> Sequence[Any]:
    """The value of each parameter in a call."""
    bound = inspect.signature(function.python).bind(*arguments, **named)
    bound.apply_defaults()
    return tuple(bound.arguments.values())


def _first_line(report: str) -> str:
    """A failed example of doctest, in one line."""
    lines = [line.strip() for line in report.splitlines() if not line.startswith("*")]
    return " ".join(line for line in lines if line)
