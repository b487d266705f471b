'''The one module for authors of functions: everything that a file `<folder>/<name>.py` needs besides
Python's own types.

A complete one, `my_functions/initials.py`; in a plan, `initials(name)`:

    """The first letters of the words of a name."""

    def initials(name: str, most: int = 3) -> str:
        return "".join(word[0] for word in name.split())[:most]

`python -m doctest my_functions/initials.py` runs its doctests.
'''

from __future__ import annotations

from semgraph.expr.own_functions import Json
from semgraph.llm.tokens import token_spans

__all__ = ["Json", "token_spans"]
