"""An extension of Griffe, which reads docstrings for the site: doctests become code blocks, and a
method that takes the arguments of another one has its signature and what it says of them.
"""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension, Function, Object

_TAKES = re.compile(r"_takes_arguments_of\((\w+)\)")
_SAYS_SO = re.compile(r"Takes the arguments of `\w+`\.\s*")
_DOCTEST = re.compile(r"^>>> .*(?:\n(?!$).*)*", re.MULTILINE)


class Doctests(Extension):
    """Puts the doctests of every docstring into code fences."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Handle a module, class, function or attribute."""
        if obj.docstring is not None:
            obj.docstring.value = _DOCTEST.sub(r"```pycon\n\g<0>\n```", obj.docstring.value)
        for decorator in obj.decorators if isinstance(obj, Function) else ():
            of = _TAKES.fullmatch(str(decorator.value))
            if of and obj.parent is not None:
                other = obj.parent.members[of[1]]
                obj.parameters = other.parameters
                says, args, rest = other.docstring.value.partition("Args:")
                own = _SAYS_SO.sub("", obj.docstring.value)
                obj.docstring.value = f"{says}{own}\n\n{args}{rest}"
