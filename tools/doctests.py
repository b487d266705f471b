"""An extension of Griffe, which reads docstrings for the site: doctests become code blocks, and a
method that waits for a coroutine has its signature and docstring.
"""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension, Function, Object

_REFERS = re.compile(r"(?:Takes the arguments of|Blocks until) `(\w+)`(?: ends)?\.\s*")
_DOCTEST = re.compile(r"^>>> .*(?:\n(?!$).*)*", re.MULTILINE)


class Doctests(Extension):
    """Puts the doctests of every docstring into code fences."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Handle a module, class, function or attribute."""
        if obj.docstring is not None:
            shown = _DOCTEST.sub(r"```pycon\n\g<0>\n```", obj.docstring.value)
            obj.docstring.value = re.sub(r" +# doctest: \+\w+", "", shown)
            of = _REFERS.search(obj.docstring.value)
            if of and isinstance(obj, Function) and obj.parent is not None:
                other = obj.parent.members[of[1]]
                obj.parameters = other.parameters
                says, args, rest = other.docstring.value.partition("Args:")
                own = obj.docstring.value[of.end() :]
                obj.docstring.value = f"{says}{own}\n\n{args}{rest}"
