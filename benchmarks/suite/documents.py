"""Parts of written pages that are made: what stands between `<!-- made: NAME -->` and `<!-- /made
-->`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_PART = re.compile(r"(<!-- made: (\S+) -->\n)(.*?)(<!-- /made -->)", re.DOTALL)


def filled(text: str, parts: Mapping[str, str], page: str) -> str:
    """A page with its parts made anew.

    Raises:
        ValueError: A mark names no part, or is not closed.
    """
    opened, closed = len(re.findall(r"<!-- made: ", text)), text.count("<!-- /made -->")
    found = _PART.findall(text)
    if not opened == closed == len(found):
        msg = f"{page}: {opened} marks `<!-- made: NAME -->`, {closed} marks `<!-- /made -->`. Each part has one of each."
        raise ValueError(msg)
    for _, name, _, _ in found:
        if name not in parts:
            msg = f'{page}: nothing makes the part "{name}"; there are {", ".join(parts)}'
            raise ValueError(msg)
    return _PART.sub(lambda part: f"{part[1]}{parts[part[2]].strip()}\n{part[4]}", text)
