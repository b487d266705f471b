"""Pieces of a long text, by tokens, words or sentences, or by tokens in whole sentences, with overlap."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
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

    With `by="whole"` a piece has at most `size` tokens in whole sentences, and repeats the last
    sentences of the one before, of at most `overlap` tokens; a sentence beyond `size` is cut. White
    space around a piece is left out. `substr(text, start, length(piece.text))` is the piece.

    >>> [piece["text"] for piece in chunk("One two. Three four. Five.", 2, 1, by="sentences")]
    ['One two. Three four.', 'Three four. Five.']
    >>> [piece["text"] for piece in chunk("One two. Three four. Five.", 8, 4, by="whole")]
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
    if by not in (*_UNITS, "whole"):
        raise ValueError(f'by is one of {", ".join([*_UNITS, "whole"])}, not "{by}"')
    if by == "whole":
        spans = _whole(text, size, overlap)
    else:
        units = _UNITS[by](text)
        firsts = range(0, max(len(units) - overlap, min(len(units), 1)), size - overlap)
        spans = ((units[n][0], units[min(n + size, len(units)) - 1][1]) for n in firsts)
    pieces: list[Piece] = []
    for start, end in spans:
        piece = text[start:end]
        place = start + len(piece) - len(piece.lstrip()) + 1
        if stripped := piece.strip():
            pieces.append({"nth": len(pieces) + 1, "start": place, "text": stripped})
    return pieces


def _whole(text: str, size: int, overlap: int) -> Iterator[Span]:
    """Spans of whole sentences of at most `size` tokens; longer sentences are cut."""
    units: list[Span] = []
    sizes: list[int] = []
    for start, end in _sentences(text):
        tokens = token_spans(text[start:end])
        for n in range(0, len(tokens), size):
            own = tokens[n : n + size]
            units.append((start + own[0][0], start + own[-1][1]))
            sizes.append(len(own))
    first = last = 0
    while last < len(units):
        while last < len(units) and sum(sizes[first : last + 1]) <= size:
            last += 1
        yield units[first][0], units[last - 1][1]
        first, room = last, min(overlap, size - sizes[last]) if last < len(units) else 0
        while sizes[first - 1] <= room:
            first -= 1
            room -= sizes[first]


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
