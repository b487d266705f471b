"""Names that the engine uses inside statements and tables, and that no plan may have.

Tables and columns that live within one statement are called "#...": a plan's names are letters, digits and _, so none can
stand for one of these. (DuckDB reads `t.age` as a column of a table `t` before it looks for a struct `t`.) What is carried
from statement to statement in Arrow tables has plain names, and plans that use one are refused when they are loaded.
"""

from __future__ import annotations

import re

_RESERVED = re.compile(r"_(o|p|m|q|l)|_x\d+(_\d+)?", re.IGNORECASE)

ROWS, LEFT, RIGHT, INNER = '"#rows"', '"#left"', '"#right"', '"#inner"'
STORED, STEP, PAIRS = '"#stored"', '"#step"', '"#pairs"'


def reserved(name: str) -> bool:
    """Whether a name is the engine's own.

    >>> reserved("_o"), reserved("order")
    (True, False)
    """
    return _RESERVED.fullmatch(name) is not None
