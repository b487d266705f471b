"""Brackets of expressions: what is open, and what would close it."""

from __future__ import annotations

import re
from functools import lru_cache

import sqlglot
from sqlglot import TokenType

_CLOSERS = {TokenType.L_PAREN: ")", TokenType.L_BRACKET: "]", TokenType.L_BRACE: "}"}
_CLOSING = {TokenType.R_PAREN: ")", TokenType.R_BRACKET: "]", TokenType.R_BRACE: "}"}
_QUOTED = re.compile(r"""'(?:[^']|'')*'?|"(?:[^"]|"")*"?""")
_PAIRS = {"(": ")", "[": "]", "{": "}"}


def unclosed(source: str) -> str | None:
    """What an expression lacks, with the place, in the parser's words; None if every bracket has its other half.

    The parser itself does not insist on it in functions that have a syntax of their own: it takes `trim(a <> ''` for
    `trim(a <> '')`.

    >>> unclosed("trim(a"), unclosed("trim('(')")
    ('Expecting ). Line 1, Col: 6.', None)
    """
    wanted: list[str] = []
    tokens = sqlglot.tokenize(source, dialect="duckdb")
    for token in tokens:
        if token.token_type in _CLOSERS:
            wanted.append(_CLOSERS[token.token_type])
        elif (closing := _CLOSING.get(token.token_type)) and (not wanted or wanted.pop() != closing):
            return f"Invalid expression / Unexpected token. Line {token.line}, Col: {token.col}."
    return f"Expecting {wanted[-1]}. Line {tokens[-1].line}, Col: {tokens[-1].col}." if wanted else None


@lru_cache(maxsize=4096)
def depth(text: str) -> int:
    """How many brackets a piece of an expression leaves open; below 0 if it closes one that it did not open.

    >>> depth("coalesce(a"), depth("coalesce(a, 'x')"), depth("b)")
    (1, 0, -1)
    """
    wanted: list[str] = []
    for sign in _QUOTED.sub("", text):
        if sign in _PAIRS:
            wanted.append(_PAIRS[sign])
        elif sign in _PAIRS.values() and (not wanted or wanted.pop() != sign):
            return -1
    return len(wanted)
