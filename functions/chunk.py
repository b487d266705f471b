"""Pieces of a long text, by tokens, words or sentences, with overlap."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TypedDict

from semgraph.function import token_spans

_WORD = re.compile(r"\S+")
Span = tuple[int, int]


class Piece(TypedDict):
    """A piece of a text: its number, and the place of its first character, both from 1."""

    nth: int
    start: int
    text: str


def chunk(text: str, size: int = 400, overlap: int = 0, by: str = "tokens") -> list[Piece]:
    """Pieces of `size` tokens, words or sentences, of which each repeats the last `overlap` of the
    one before.

    White space around a piece is left out. `substr(text, start, length(piece.text))` is the piece.

    >>> [piece["text"] for piece in chunk("One two. Three four. Five.", 2, 1, by="sentences")]
    ['One two. Three four.', 'Three four. Five.']
    >>> chunk("One two  three", 2, by="words")
    [{'nth': 1, 'start': 1, 'text': 'One two'}, {'nth': 2, 'start': 10, 'text': 'three'}]
    >>> chunk("")
    []
    """
    if size < 1:
        raise ValueError(f"size is a number from 1, not {size}")
    if not 0 <= overlap < size:
        raise ValueError(f"overlap is less than size, {size}, and not {overlap}")
    if by not in _UNITS:
        raise ValueError(f'by is one of {", ".join(_UNITS)}, not "{by}"')
    units = _UNITS[by](text)
    pieces: list[Piece] = []
    for first in range(0, max(len(units) - overlap, min(len(units), 1)), size - overlap):
        start, end = units[first][0], units[min(first + size, len(units)) - 1][1]
        piece = text[start:end]
        start += len(piece) - len(piece.lstrip())
        if stripped := piece.strip():
            pieces.append({"nth": len(pieces) + 1, "start": start + 1, "text": stripped})
    return pieces


def _words(text: str) -> Sequence[Span]:
    return [match.span() for match in _WORD.finditer(text)]


def _sentences(text: str) -> Sequence[Span]:
    from sentencex import segment

    spans, start = [], 0
    for sentence in segment("en", text):
        if sentence.strip():
            spans.append((start, start + len(sentence)))
        start += len(sentence)
    return spans


_UNITS = {"tokens": token_spans, "words": _words, "sentences": _sentences}
