"""The display of results: `semgraph.render` registers drawings for types of lower layers. A text
names options in the spelling of its reader.

A type of a lower layer calls these functions and contains no drawing code. The package registers a
loader of the drawings (`draw_with`); it is called when the first result is displayed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import singledispatch
from typing import Any

_unloaded: list[Callable[[], object]] = []
Notify = Callable[[str, str], object]  # called with the kind of a notice, and its text or ""


def draw_with(load: Callable[[], object]) -> None:
    """Set the function that loads the drawings before the first result is displayed."""
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


class Displayed:
    """A value that is shown by its drawings, in print and in notebooks."""

    def __str__(self) -> str:
        return as_text(self)

    def __repr__(self) -> str:
        return as_text(self)

    def _repr_html_(self) -> str:
        """The HTML for notebooks."""
        return as_html(self)


_PRE = (
    'font-family: var(--jp-code-font-family, ui-monospace), "DejaVu Sans Mono", monospace; '
    "font-size: 13px; line-height: 1.35; padding: 5px 0; "
)
_AS_IS = "white-space: pre; overflow-x: auto"


def preformatted(text: str) -> str:
    """A text as HTML that keeps its lines, spaces and columns, whatever the style of `pre` in the
    page.
    """
    from markupsafe import escape

    return f"<pre style='{_PRE}{_AS_IS}'>{escape(text)}</pre>"


class Drawing(str):
    """A drawing in characters. Notebooks show its `html`; without it, the characters."""

    __slots__ = ("html",)
    html: str

    def _repr_html_(self) -> str:
        return getattr(self, "html", "") or preformatted(self)


_SHELL = ContextVar("_SHELL", default=False)


@contextmanager
def in_shell(shell: bool = True) -> Iterator[None]:
    """Spell options for a shell's user, or as Python arguments. Commands enter this context."""
    token = _SHELL.set(shell)
    try:
        yield
    finally:
        _SHELL.reset(token)


def is_shell() -> bool:
    """Whether the reader types shell commands, not Python."""
    return _SHELL.get()


def option(name: str, value: str | int) -> str:
    """An option in the spelling of the reader: of a command, or as an argument in Python.

    >>> option("sample", 20)
    'sample=20'
    >>> with in_shell():
    ...     option("sample", 20)
    '--sample 20'
    """
    return f"--{name} {value}" if _SHELL.get() else f"{name}={json.dumps(value)}"


def command(shell: str, python: str) -> str:
    """The text that the reader types: in a shell, or in Python."""
    return shell if _SHELL.get() else python


_NOTIFY = ContextVar[Sequence[Notify]]("_NOTIFY", default=())


@contextmanager
def noticing(notify: Notify | None) -> Iterator[None]:
    """Pass the notices of what runs in this context to a function, as long as the context lasts."""
    listening = [notify] if notify else []
    token = _NOTIFY.set(listening)
    try:
        yield
    finally:
        _NOTIFY.reset(token)
        listening.clear()  # what was cancelled may go on for a while in its thread


def is_noticed() -> bool:
    """Whether notices of this context reach somebody."""
    return bool(_NOTIFY.get())


def notice(kind: str, text: str) -> None:
    """Show what a run waits for, such as the load of a model, until the next notice of this kind; ""
    ends it.
    """
    for notify in _NOTIFY.get():
        notify(kind, text)


@singledispatch
def exported(value: object, form: str, **options: Any) -> Any:
    """A value in another form: the text of a format, rows, a chart, or a figure."""
    drawing = _registered(exported, value)
    if drawing is None:
        raise TypeError(f"{type(value).__name__} has no form {form}")
    return drawing(value, form, **options)


def _registered(function: Any, value: object) -> Callable[..., Any] | None:
    """The drawing of a type, after all drawings are loaded."""
    while _unloaded:
        _unloaded.pop()()
    drawing: Callable[..., Any] = function.dispatch(type(value))
    return None if drawing is function.dispatch(object) else drawing
