"""HTML that is escaped by construction: what is no `Html` already becomes text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from html import escape
from typing import Any

from semgraph.formats import UNKNOWN

_LONGEST, _ATTRIBUTE = 4000, 400
_UNFIT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")


class Html(str):
    """A piece of HTML; other strings are text."""

    __slots__ = ()


def clean(text: str) -> str:
    """A text that a page can hold: what is no character of UTF-8 or HTML becomes U+FFFD."""
    return _UNFIT.sub("\ufffd", text)


def cut(text: str, longest: int = _LONGEST) -> str:
    """A text that is not longer, or its beginning and how much is left out.

    >>> cut("abcdef", 4)
    'abcd … 2 more characters'
    """
    return (
        text
        if len(text) <= longest
        else f"{text[:longest]} … {len(text) - longest:,} more characters"
    )


def el(name: str, *children: object, **attributes: Any) -> Html:
    """An element. Attributes that are None or False are left out, `cls` is `class`, `_` in a name
    is `-`.

    >>> el("td", "<b>", cls="number", aria_label='"x"', hidden=False)
    '<td class="number" aria-label="&quot;x&quot;">&lt;b&gt;</td>'
    """
    parts = []
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        attribute = "class" if key == "cls" else key.rstrip("_").replace("_", "-")
        parts.append(
            f" {attribute}"
            if value is True
            else f' {attribute}="{escape(clean(cut(str(value), _ATTRIBUTE)))}"'
        )
    return Html(f"<{name}{''.join(parts)}>{join(children)}</{name}>")


def join(children: Iterable[object]) -> Html:
    """Pieces one after the other; of a text that is very long the beginning."""
    return Html(
        "".join(c if isinstance(c, Html) else text(str(c)) for c in children if c is not None)
    )


def text(said: str, longest: int = _LONGEST) -> Html:
    """A text; of one that is longer the beginning."""
    return Html(escape(clean(cut(said, longest))))


def table(
    caption: object,
    heads: Sequence[str],
    rows: Iterable[Sequence[object]],
    numbers: Iterable[int] = (),
    cls: str = "",
) -> Html:
    """A table that scrolls by itself where it is too wide; the first cell of a row names it.

    Args:
        caption: What it is.
        heads: Of the columns.
        rows: Cells, as many as heads.
        numbers: Columns that stand at the right.
        cls: A class of the table.
    """
    right = set(numbers)
    side = {i: "number" if i in right else None for i in range(len(heads))}
    head = el("tr", *(el("th", text, scope="col", cls=side[i]) for i, text in enumerate(heads)))
    body = [
        el(
            "tr",
            *(
                el("td" if i else "th", cell, cls=side[i], scope=None if i else "row")
                for i, cell in enumerate(row)
            ),
        )
        for row in rows
    ]
    made = el(
        "table",
        el("caption", el("span", caption)),
        el("thead", head),
        el("tbody", *body),
        cls=cls or None,
    )
    return scrolling(made, str(caption))


def scrolling(content: Html, name: str) -> Html:
    """A region that scrolls sideways, with the keyboard too."""
    return el(
        "div",
        content,
        cls="scroll",
        role="region",
        aria_label=re.sub("<[^>]*>", "", name),
        tabindex="0",
    )


def data(value: Any) -> Html:
    """Plain data in a page, for its script. No text in it can end the script."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return Html(
        clean(text)
        .replace("<", "\\u003c")
        .replace("\u2028", "\\u2028")
        .replace("\u2029", "\\u2029")
    )


class Texts:
    """Texts of a page, each kept once, as far as there is room.

    Args:
        longest: Characters of one text; the rest is left out, and the text says so.
        room: Characters of all, as they stand in the page.
    """

    def __init__(self, longest: int = 40_000, room: int = 1_000_000) -> None:
        self.longest, self.room = longest, room
        self.all: list[str] = []
        self.left_out = 0
        self._places: dict[str, int] = {}

    def add(self, text: str) -> int | None:
        """The place of a text; None where there is no room for it."""
        if text in self._places:
            return self._places[text]
        shown = cut(text, self.longest)
        takes = len(data(shown))
        if takes > self.room:
            self.left_out += 1
            return None
        self.room -= takes
        self.all.append(shown)
        return self._places.setdefault(text, len(self.all) - 1)


def listed_facts(pairs: Sequence[tuple[str, object]]) -> Html:
    """Names with their values; a dash for what is not known."""
    return el(
        "dl",
        *(el("div", el("dt", name), el("dd", value or UNKNOWN)) for name, value in pairs),
        cls="facts",
    )


def when(text: str) -> str:
    """A time of a record, to the second.

    >>> when("2025-06-15 17:06:40+02:00")
    '2025-06-15 15:06:40 UTC'
    """
    return (
        f"{datetime.fromisoformat(text).astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC" if text else UNKNOWN
    )
