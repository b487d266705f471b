"""The argument that every operator of the fluent API takes beside its own: `step`, the name of the step that it makes."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, TypeVar, cast, overload

if TYPE_CHECKING:
    from semgraph.frontend.frame import Frame

P = ParamSpec("P")
S = TypeVar("S")

_STEP = inspect.Parameter("step", inspect.Parameter.KEYWORD_ONLY, default=None, annotation="str | None")


class Operator(Protocol[P]):
    """A method of a frame, with its own arguments or with `step` too."""

    @overload
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Frame: ...
    @overload
    def __call__(self, *args: Any, step: str | None, **kwargs: Any) -> Frame: ...


class Method(Protocol[P]):
    """What a class has of it."""

    def __get__(self, frame: object, owner: type | None = None) -> Operator[P]: ...


def makes_step(method: Callable[Concatenate[S, P], Frame]) -> Method[P]:
    """Let a method that makes a relation take `step` too: `a.limit(3, step="few")` is `a.limit(3).step("few")`."""

    @wraps(method)
    def named(frame: S, *args: Any, step: str | None = None, **kwargs: Any) -> Frame:
        made = method(frame, *args, **kwargs)
        return made if step is None else made.step(step)

    own = inspect.signature(method)
    named.__signature__ = own.replace(parameters=[*own.parameters.values(), _STEP])  # type: ignore[attr-defined]
    return cast("Method[P]", named)
