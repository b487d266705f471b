"""A parser for the SQL scalars that the generator of plans writes. It shares no code with the
engine.

A syntax tree is a tuple: its kind first, then its parts.
"""

from __future__ import annotations

import re
from datetime import datetime
from functools import lru_cache
from typing import Any

Tree = tuple[Any, ...]
_TOKEN = re.compile(
    r"""\s*(?:(?P<number>\d+\.\d+(?:[eE][+-]?\d+)?|\d+)|'(?P<text>(?:[^']|'')*)'|"(?P<quoted>[^"]+)"
    |(?P<word>[$A-Za-z_][A-Za-z0-9_]*)|(?P<sign><>|<=|>=|!=|::|\|\||//|:=|[-+*/%()\[\],.=<>{}:]))""",
    re.VERBOSE,
)
_DATE = re.compile(r"\d{4}-\d\d-\d\d\Z")
_COMPARISONS = {"=", "<>", "!=", "<", "<=", ">", ">="}
_SUMS, _PRODUCTS = {"+", "-", "||"}, {"*", "/", "//", "%"}


class NotUnderstood(Exception):
    """An expression outside the subset: a fault of the generator, never of the engine."""


@lru_cache(maxsize=20_000)
def parse(text: str) -> Tree:
    """The syntax tree of an expression.

    >>> parse("n + 1 > 2")
    ('binary', '>', ('binary', '+', ('path', 'n'), ('literal', 1)), ('literal', 2))
    """
    parser = _Parser(_tokens(text))
    tree = parser.either()
    if parser.rest:
        raise NotUnderstood(f"{text!r}: {parser.rest[0]!r} is left over")
    return tree


def _tokens(text: str) -> list[tuple[str, Any]]:
    tokens, place = [], 0
    while text[place:].strip():
        match = _TOKEN.match(text, place)
        if match is None:
            raise NotUnderstood(f"{text!r} at {place}")
        kind, place = match.lastgroup or "", match.end()
        value: Any = match[kind]
        if kind == "number":
            value = float(value) if "." in value else int(value)
        if kind == "text":
            value = value.replace("''", "'")
        tokens.append((kind, value))
    return tokens


def _is_date(value: Any) -> bool:
    """Whether a literal stands for a time: the generator writes no date that is meant as a text."""
    return isinstance(value, str) and _DATE.match(value) is not None


class _Parser:
    """Recursive descent; a method for each level of precedence."""

    def __init__(self, rest: list[tuple[str, Any]]) -> None:
        self.rest = rest

    def word(self, *words: str) -> str | None:
        """Take one of these key words, if it is next."""
        if self.rest and self.rest[0][0] == "word" and self.rest[0][1].upper() in words:
            return self.rest.pop(0)[1].upper()
        return None

    def sign(self, *signs: str) -> str | None:
        """Take one of these signs, if it is next."""
        if self.rest and self.rest[0][0] == "sign" and self.rest[0][1] in signs:
            return self.rest.pop(0)[1]
        return None

    def need(self, text: str) -> None:
        """Take what must come next."""
        if (self.word(text) if text[0].isalpha() else self.sign(text)) is None:
            raise NotUnderstood(f"expected {text!r} before {self.rest[:3]}")

    def either(self) -> Tree:
        left = self.both()
        while self.word("OR"):
            left = ("or", left, self.both())
        return left

    def both(self) -> Tree:
        left = self.negated()
        while self.word("AND"):
            left = ("and", left, self.negated())
        return left

    def negated(self) -> Tree:
        return ("not", self.negated()) if self.word("NOT") else self.compared()

    def compared(self) -> Tree:
        left = self.summed()
        while True:
            if sign := self.sign(*_COMPARISONS):
                left = ("binary", "<>" if sign == "!=" else sign, left, self.summed())
            elif self.word("IS"):
                left = self.tested(left)
            elif self.word("NOT"):
                left = ("not", self.ranged(left))
            elif (
                self.rest
                and self.rest[0][0] == "word"
                and self.rest[0][1].upper() in {"IN", "BETWEEN"}
            ):
                left = self.ranged(left)
            else:
                return left

    def tested(self, left: Tree) -> Tree:
        negated = self.word("NOT")
        if self.word("DISTINCT"):
            self.need("FROM")
            tree: Tree = ("distinct", left, self.summed())
        else:
            self.need("NULL")
            tree = ("null", left)
        return ("not", tree) if negated else tree

    def ranged(self, left: Tree) -> Tree:
        if self.word("IN"):
            if self.sign("["):
                return (
                    "call",
                    "list_contains",
                    (("list", self.listed("]")), left),
                    False,
                    (),
                    None,
                )
            self.need("(")
            return ("in", left, self.listed(")"))
        self.need("BETWEEN")
        low = self.summed()
        self.need("AND")
        return ("between", left, low, self.summed())

    def summed(self) -> Tree:
        left = self.multiplied()
        while sign := self.sign(*_SUMS):
            left = ("binary", sign, left, self.multiplied())
        return left

    def multiplied(self) -> Tree:
        left = self.signed()
        while sign := self.sign(*_PRODUCTS):
            left = ("binary", sign, left, self.signed())
        return left

    def signed(self) -> Tree:
        return ("minus", self.signed()) if self.sign("-") else self.applied()

    def applied(self) -> Tree:
        tree = self.primary()
        while True:
            if self.sign("::"):
                tree = ("cast", tree, self.kind(), False)
            elif self.sign("["):
                tree = ("item", tree, self.either())
                self.need("]")
            elif self.sign("."):
                tree = ("field", tree, self.rest.pop(0)[1])
            else:
                return tree

    def kind(self) -> str:
        name = str(self.rest.pop(0)[1]).upper()
        while self.sign("["):
            self.need("]")
            name += "[]"
        return name

    def primary(self) -> Tree:
        kind, value = self.rest[0] if self.rest else ("", "nothing")
        if kind in {"number", "text"}:
            self.rest.pop(0)
            return (
                "literal",
                datetime.fromisoformat(f"{value}T00:00:00+00:00") if _is_date(value) else value,
            )
        if self.sign("("):
            inner = self.either()
            self.need(")")
            return inner
        if self.sign("["):
            return ("list", self.listed("]"))
        if self.sign("{"):
            return self.struct()
        if kind == "quoted":
            self.rest.pop(0)
            return ("path", value)
        if kind == "word":
            return self.named()
        raise NotUnderstood(f"{value!r} begins no expression")

    def listed(self, end: str) -> tuple[Tree, ...]:
        found: list[Tree] = []
        while not self.sign(end):
            if found:
                self.need(",")
            found.append(self.either())
        return tuple(found)

    def struct(self) -> Tree:
        fields: list[tuple[str, Tree]] = []
        while not self.sign("}"):
            if fields:
                self.need(",")
            name = self.rest.pop(0)[1]
            self.need(":")
            fields.append((name, self.either()))
        return ("struct", tuple(fields))

    def named(self) -> Tree:
        word = self.rest.pop(0)[1]
        upper = word.upper()
        if upper in {"NULL", "TRUE", "FALSE"}:
            return ("literal", {"NULL": None, "TRUE": True, "FALSE": False}[upper])
        if upper == "CASE":
            return self.cases()
        if upper in {"CAST", "TRY_CAST"}:
            self.need("(")
            inner = self.either()
            self.need("AS")
            kind = self.kind()
            self.need(")")
            return ("cast", inner, kind, upper == "TRY_CAST")
        if upper == "TIMESTAMPTZ" and self.rest and self.rest[0][0] == "text":
            return ("cast", ("literal", self.rest.pop(0)[1]), "TIMESTAMPTZ", False)
        if word.startswith("$"):
            return ("parameter", word[1:])
        return self.call(word.lower()) if self.sign("(") else ("path", word)

    def cases(self) -> Tree:
        branches = []
        while self.word("WHEN"):
            test = self.either()
            self.need("THEN")
            branches.append((test, self.either()))
        rest = self.either() if self.word("ELSE") else ("literal", None)
        self.need("END")
        return ("case", tuple(branches), rest)

    def call(self, name: str) -> Tree:
        """A function, an aggregate (`distinct`, its own `order`, `filter`), or either of them over
        a window.
        """
        distinct = self.word("DISTINCT") is not None
        arguments: list[Tree] = []
        order: tuple[Tree, ...] = ()
        while not self.sign(")"):
            if self.word("ORDER"):
                self.need("BY")
                order = self.terms()
                continue
            if arguments:
                self.need(",")
            arguments.append(("star",) if self.sign("*") else self.either())
        where: Tree | None = None
        if self.word("FILTER"):
            self.need("(")
            self.need("WHERE")
            where = self.either()
            self.need(")")
        tree: Tree = ("call", name, tuple(arguments), distinct, order, where)
        return ("over", tree, *self.window()) if self.word("OVER") else tree

    def terms(self) -> tuple[Tree, ...]:
        found = [self.term()]
        while self.sign(","):
            found.append(self.term())
        return tuple(found)

    def term(self) -> Tree:
        tree = self.either()
        return (tree, self.word("ASC", "DESC") == "DESC")

    def window(self) -> tuple[tuple[Tree, ...], tuple[Tree, ...]]:
        self.need("(")
        by: tuple[Tree, ...] = ()
        order: tuple[Tree, ...] = ()
        if self.word("PARTITION"):
            self.need("BY")
            by = tuple(tree for tree, _ in self.terms())
        if self.word("ORDER"):
            self.need("BY")
            order = self.terms()
        self.need(")")
        return by, order
