"""Names of arguments of the Python API: a wrong one is answered with the right one."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from semgraph.errors import Problem
from semgraph.frontend.document import unknown_key

P = ParamSpec("P")
R = TypeVar("R")


def checks_arguments(
    function: Callable[P, R], place: str = "", beside: Iterable[str] = ()
) -> Callable[P, R]:
    """The function, which refuses an argument that it does not have with the nearest one that it has,
    or with what is written instead of it.

    Args:
        function: The function.
        place: What messages call it; default: its name.
        beside: What it takes as `**`.

    Raises:
        TypeError: When it is called with such an argument.

    >>> @checks_arguments
    ... def limit(n, by=None): ...
    >>> limit(n=3, bye="city")
    Traceback (most recent call last):
    TypeError: limit has no argument "bye". Arguments: n, by. Did you mean "by"?
    """
    name = place or function.__name__
    own = inspect.signature(function).parameters.values()
    known = [p.name for p in own if p.name != "self" and p.kind is not p.VAR_KEYWORD]
    known += [word for word in beside if word not in known]

    @wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        refuse_unknown(name, kwargs, known)
        return function(*args, **kwargs)

    return checked


def refuse_unknown(place: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Refuse names that a call has no argument for. Raises TypeError."""
    listed = list(known)
    for name in given:
        if name not in listed:
            raise TypeError(unknown_argument(place, name, listed))


def unknown_argument(place: str, name: str, known: Iterable[str]) -> str:
    """The message about an argument that a call does not have."""
    fault: Any = unknown_key(place, name, known, f"{place} has no argument", "arguments")
    what = fault.what if fault.there else f"{place}: {fault.what}"
    return str(Problem(what, there=fault.there, hint=fault.hint))
