"""An extension of Griffe, which reads docstrings for the site: doctests become code blocks."""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension, Object

_DOCTEST = re.compile(r"^>>> .*(?:\n(?!$).*)*", re.MULTILINE)


class Doctests(Extension):
    """Puts the doctests of every docstring into code fences."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Handle a module, class, function or attribute."""
        if obj.docstring is not None:
            obj.docstring.value = _DOCTEST.sub(r"```pycon\n\g<0>\n```", obj.docstring.value)
