"""How results show themselves: `semgraph.render` registers drawings for types of lower layers. Options
that a text names are spelled for its reader.

A type of a lower layer calls these functions and stays free of drawing. The package says where the
drawings are (`draw_with`); they are loaded when the first result is shown.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import singledispatch
from typing import Any

_unloaded: list[Callable[[], object]] = []


def draw_with(load: Callable[[], object]) -> None:
    """Load drawings by this function before the first result is shown."""
    _unloaded.append(load)


@singledispatch
def as_text(value: object) -> str:
    """A value as text, for `print`."""
    drawing = _registered(as_text, value)
    return str(drawing(value)) if drawing else object.__repr__(value)


@singledispatch
def as_html(value: object) -> str:
    """A value as HTML, for notebooks."""
    drawing = _registered(as_html, value)
    return str(drawing(value)) if drawing else preformatted(as_text(value))


_PRE = (
    'font-family: var(--jp-code-font-family, ui-monospace), "DejaVu Sans Mono", monospace; '
    "font-size: 13px; line-height: 1.35; padding: 5px 0; "
)
_AS_IS = "white-space: pre; overflow-x: auto"
_WRAPPED = "white-space: pre-wrap; word-break: normal; overflow-wrap: anywhere"
_HANGING = 2  # columns by which the rest of a broken line is indented more


def preformatted(text: str, *, wrapped: bool = False) -> str:
    """A text as HTML that keeps its lines, spaces and columns, whatever the page says of `pre`; with
    `wrapped`, long lines are broken, and their rest is indented.
    """
    from markupsafe import escape

    if not wrapped:
        return f"<pre style='{_PRE}{_AS_IS}'>{escape(text)}</pre>"
    lines = []
    for line in text.splitlines():
        words = line.lstrip(" ")
        left = len(line) - len(words) + _HANGING
        style = f"display: block; padding-left: {left}ch; text-indent: -{_HANGING}ch"
        lines.append(f"<span style='{style}'>{escape(words) or '&nbsp;'}</span>")
    return f"<pre style='{_PRE}{_WRAPPED}'>{''.join(lines)}</pre>"


class Drawing(str):
    """A drawing in characters. Notebooks show its `html`; without any, the characters as they are."""

    __slots__ = ("html",)
    html: str

    def _repr_html_(self) -> str:
        return getattr(self, "html", "") or preformatted(self)


class Wrapped(Drawing):
    """A drawing without columns, whose long lines notebooks break."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return preformatted(self, wrapped=True)


_SHELL = ContextVar("_SHELL", default=False)


@contextmanager
def in_shell(shell: bool = True) -> Iterator[None]:
    """Spell options as a shell's user types them, or as arguments. The commands enter it."""
    token = _SHELL.set(shell)
    try:
        yield
    finally:
        _SHELL.reset(token)


def is_shell() -> bool:
    """Whether the reader types commands, not Python."""
    return _SHELL.get()


def option(name: str, value: str | int) -> str:
    """An option as the reader of a text writes it: as a command's, or as an argument in Python.

    >>> option("sample", 20)
    'sample=20'
    >>> with in_shell():
    ...     option("sample", 20)
    '--sample 20'
    """
    return f"--{name} {value}" if _SHELL.get() else f"{name}={json.dumps(value)}"


def command(shell: str, python: str) -> str:
    """What the reader of a text types: in a shell, or in Python."""
    return shell if _SHELL.get() else python


@singledispatch
def as_chart(value: object) -> Any:
    """A value as a chart: a figure, or text."""
    drawing = _registered(as_chart, value)
    return drawing(value) if drawing else as_text(value)


def _registered(function: Any, value: object) -> Callable[[object], Any] | None:
    """The drawing of a type, once all drawings are loaded."""
    while _unloaded:
        _unloaded.pop()()
    drawing: Callable[[object], Any] = function.dispatch(type(value))
    return None if drawing is function.dispatch(object) else drawing
