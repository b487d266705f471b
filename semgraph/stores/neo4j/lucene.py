"""Full-text queries in Lucene's language, out of plain words: quoted, so that nothing in them is
syntax.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from semgraph.expr.functions import words as plain_words

MOST_CLAUSES = 1000
_MOST_PARTITIONS = 20
_PLAIN = re.compile(r"[A-Za-z0-9_-]*[A-Za-z0-9][A-Za-z0-9_-]*\Z")


def queries(
    text: str | None, properties: Sequence[str], partition: str, values: Sequence[str] | None
) -> list[str]:
    """Queries whose scores add up to that of all words; any word in any of the properties makes a
    hit.

    Args:
        text: Its words are looked for, as `words` finds them.
        properties: Of the index, to look into.
        partition: The partition property, if it is in the index, else "".
        values: Partitions to which hits are confined; None: all. Analysed as text, so this only
            spares reading: the exact test comes after.

    >>> queries('who "AND', ["name"], "group_id", ["g1"])
    ['+(group_id:"g1"^0) +(name:"who" name:"and")']
    """
    words = list(dict.fromkeys(plain_words(text or "").split()))
    at_once = max(1, MOST_CLAUSES // len(properties))
    prefix = ""
    if (
        partition
        and values
        and len(values) <= _MOST_PARTITIONS
        and all(_PLAIN.match(value) for value in values)
    ):
        prefix = f"+({' '.join(f'{partition}:{quoted(value)}^0' for value in values)}) "
    return [
        f"{prefix}+({' '.join(f'{name}:{quoted(word)}' for word in words[i : i + at_once] for name in properties)})"
        for i in range(0, len(words), at_once)
    ]


def quoted(word: str) -> str:
    """A word in quotes, in which only the quote and the backslash mean something."""
    return '"' + word.replace("\\", "\\\\").replace('"', '\\"') + '"'
