"""SQL scalars: one expression over the columns of one relation. Parsed and admitted here, typed by
DuckDB (`duckdb`).

sqlglot reads far more than a scalar (`a; DROP TABLE x`, sub-queries). So only listed node types are
admitted, and all others are refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from itertools import pairwise
from math import isfinite
from typing import Any, ClassVar, cast

from sqlglot import Token, TokenType, exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import ParseError, SqlglotError

from semgraph.errors import Fault, among
from semgraph.expr.own_functions import (
    FunctionsByName,
    OwnFunction,
    called_of,
    calls_own,
    plain_names,
    with_own_calls,
)

_RESERVED = re.compile(r"_(o|p|m|q|l)|_x\d+|_[xy]\d+_\d+", re.IGNORECASE)

ROWS, LEFT, RIGHT, STEP, PAIRS = '"#rows"', '"#left"', '"#right"', '"#step"', '"#pairs"'


def reserved(name: str) -> bool:
    """Whether a name is reserved for the engine.

    >>> reserved("_o"), reserved("order")
    (True, False)
    """
    return _RESERVED.fullmatch(name) is not None


_CLOSERS = {TokenType.L_PAREN: ")", TokenType.L_BRACKET: "]", TokenType.L_BRACE: "}"}
_CLOSING = {TokenType.R_PAREN: ")", TokenType.R_BRACKET: "]", TokenType.R_BRACE: "}"}
_QUOTED = re.compile(r"""'(?:[^']|'')*'?|"(?:[^"]|"")*"?""")
_PAIRS = {"(": ")", "[": "]", "{": "}"}


def _unclosed(tokens: Sequence[Token]) -> str | None:
    """The missing bracket of an expression, with its position, in the parser's words; None if all
    brackets match.

    The parser itself does not check brackets in functions with special syntax: it reads
    `trim(a <> ''` as `trim(a <> '')`.
    """
    wanted: list[str] = []
    for token in tokens:
        if token.token_type in _CLOSERS:
            wanted.append(_CLOSERS[token.token_type])
        elif (closing := _CLOSING.get(token.token_type)) and closing != (wanted or [""]).pop():
            return f"Invalid expression / Unexpected token. Line {token.line}, Col: {token.col}."
    if not wanted:
        return None
    return f"Expecting {wanted[-1]}. Line {tokens[-1].line}, Col: {tokens[-1].col}."


@lru_cache(maxsize=4096)
def depth(text: str) -> int:
    """The number of brackets that a piece of an expression leaves open; negative if it closes more
    than it opens.

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


def called_in(text: str) -> Iterator[str]:
    """The words before an opening parenthesis in the text of an expression, in lower case.

    >>> list(called_in("iif(a IN (1, 2), upper(b), 'f(x)')"))
    ['iif', 'in', 'upper']
    """
    for token, following in pairwise(_tokens(text)):
        plain = token.token_type not in {TokenType.STRING, TokenType.IDENTIFIER, *_TEXTS}
        word = token.text[:1].isalpha() and len(token.text.split()) == 1  # no ORDER BY
        if plain and word and following.token_type == TokenType.L_PAREN:
            yield token.text.lower()


class Faithful(DuckDB):
    """DuckDB's dialect with corrections: JSON paths remain texts, a list comprehension includes all
    text before its FOR, and brackets after IN are a list. It logs nothing.

    sqlglot has its own rules for paths: it drops the slice of `$[1:2]`, cannot write `$..name`, and
    reads `a.b` as a path, which is one key in DuckDB.
    """

    class Tokenizer(DuckDB.Tokenizer):
        """sqlglot's tokenizer, without operators that DuckDB lacks or interprets differently."""

        KEYWORDS: ClassVar = {
            word: kind
            for word, kind in DuckDB.Tokenizer.KEYWORDS.items()
            if word not in {"<=>", "DIV", "RLIKE", "REGEXP"}
        }
        COMMANDS: ClassVar = set()  # words after which sqlglot reads the rest as one text

    class Generator(DuckDB.Generator):  # type: ignore[misc, valid-type]  # assigned there
        """sqlglot's generator without warnings: DuckDB refuses unsupported syntax."""

        def unsupported(self, message: str) -> None:
            """Do nothing: DuckDB decides."""

    class Parser(DuckDB.Parser):  # type: ignore[misc, valid-type]  # assigned there
        """sqlglot's parser with corrections: sqlglot reads `[a <> b FOR a IN list]` as
        `[a <> (b FOR a IN list)]`, and `a IN [b, NULL]` as `a IN (b, NULL)`.
        """

        FUNCTIONS: ClassVar = {**DuckDB.Parser.FUNCTIONS}
        FUNCTIONS.pop("DECODE")  # sqlglot drops its second argument

        def _warn_unsupported(self) -> None:
            """Do nothing for a statement: `_admit` refuses it."""

        def _parse_in(self, this: exp.Expr | None, alias: bool = False) -> exp.In:
            if self._curr.token_type != TokenType.L_BRACKET:
                return cast("exp.In", super()._parse_in(this, alias))
            return cast("exp.In", self.expression(exp.In(this=this, field=self._parse_bitwise())))

        def parse(self, raw_tokens: list[Token], sql: str | None = None) -> list[exp.Expr | None]:
            """The trees of statements."""
            trees: list[exp.Expr | None] = super().parse(raw_tokens, sql)
            for tree in trees:
                for node in [] if tree is None else list(tree.find_all(exp.Comprehension)):
                    _of_whole_item(node)
            return trees

    def to_json_path(self, path: exp.Expr | None) -> exp.Expr | None:
        """The path, unchanged."""
        return path


def _of_whole_item(comprehension: exp.Comprehension) -> None:
    """Extend a comprehension to the text before it in its list item."""
    item: exp.Expr = comprehension
    while isinstance(item.parent, (exp.Binary, exp.Unary, exp.In)) and not isinstance(
        item.parent, exp.Paren
    ):
        item = item.parent
    if item is not comprehension and isinstance(item.parent, exp.Array):
        comprehension.replace(comprehension.this)
        item.replace(comprehension)
        comprehension.set("this", item)


_DIALECT = Faithful()


MOST_CHARACTERS = 50_000  # characters of an expression, without its string literals
MOST_ITEMS = 20_000  # items of the lists that parameters add to an expression
# Levels of an expression; each condition joined by AND is a level. DuckDB's limit is 1,000.
MOST_DEEP = 500
MOST = 1_000_000  # characters, bits or items that one call may make

_RESIZING = {"list_resize": 1, "array_resize": 1, "bitstring": 1}  # and which argument is the size
_LITERAL = re.compile(r"'(?:[^']|'')*'")
# A width of a format: too many digits, or an argument.
_WIDE = re.compile(r"\d{7,}|%[-+ #0]*\*|\{[^{}]*\{")
_SIZED = (exp.Pad, exp.Repeat, exp.GenerateSeries, exp.Anonymous, exp.Format)
_SQL_WIDE = r"[0-9]{7,}|%[-+ #0]*\*|\{[^{}]*\{"


def refuse_long(source: str) -> None:
    """Refuse an expression that is too long, without counting its string literals. Raises Fault."""
    length = len(source) if len(source) <= MOST_CHARACTERS else len(_LITERAL.sub("''", source))
    if length > MOST_CHARACTERS:
        what = f"an expression has at most {MOST_CHARACTERS:,} characters; this one has {length:,}"
        raise Fault(what, hint="give many values as an input and join it")


def refuse_deep(tree: exp.Expr) -> None:
    """Refuse an expression with too many levels. Raises Fault."""
    level, parts = 0, [tree]
    while parts:
        level += 1
        if level > MOST_DEEP:
            hint = "compute parts of it in steps before"
            raise Fault(f"an expression has at most {MOST_DEEP} levels", hint=hint)
        parts = [inner for part in parts for inner in part.iter_expressions()]


def bounded(tree: exp.Expr) -> exp.Expr:
    """The expression with tests of sizes that depend on rows. Raises Fault for constant sizes that
    are too large.
    """
    for call in list(tree.find_all(*_SIZED)):
        named = call.name if isinstance(call, exp.Anonymous) else call.sql(dialect=_DIALECT)
        name = named.partition("(")[0].lower()
        _refuse_product(call, name)
        if isinstance(call, exp.GenerateSeries):
            _bound_series(call, name)
        elif isinstance(call, exp.Format) or name in {"printf", "format"}:
            _bound_format(call, name)
        elif (place := _place_of_size(call)) is not None:
            _bound_size(call, name, place)
    return tree


_Place = tuple[str, int | None]  # of an argument of a call: its key, and its index in a list


def _place_of_size(call: exp.Expr) -> _Place | None:
    """The argument that says how large the result is."""
    if isinstance(call, exp.Pad | exp.Repeat):
        return ("expression" if isinstance(call, exp.Pad) else "times"), None
    index = _RESIZING.get(call.name.lower(), len(call.expressions))
    return ("expressions", index) if index < len(call.expressions) else None


def _at(call: exp.Expr, place: _Place) -> exp.Expr:
    key, index = place
    found: exp.Expr = call.args[key] if index is None else call.args[key][index]
    return found


def _series(call: exp.GenerateSeries) -> tuple[exp.Expr, exp.Expr, exp.Expr]:
    """The start, the end and the step of a series."""
    return call.args["start"], call.args["end"], call.args.get("step") or exp.Literal.number(1)


def _size(call: exp.Expr) -> int:
    """The size of a call's result if it is written as numbers, otherwise 1."""
    if isinstance(call, exp.GenerateSeries):
        start, end, step = map(_number, _series(call))
        known = start is not None and end is not None and step
        return max(-((start - end) // step), 1) if known else 1  # type: ignore[operator]
    place = _place_of_size(call)
    return max((_number(_at(call, place)) if place else None) or 1, 1)


def _refuse_product(call: exp.Expr, name: str) -> None:
    """Refuse a call whose results for all items of the surrounding lists are too large. Raises
    Fault.
    """
    total, item = _size(call), call
    if total == 1:
        return
    while (around := item.parent) is not None:
        source = None
        if isinstance(around, exp.Lambda) and around.parent is not None:
            around = around.parent
            source = next(around.iter_expressions())
        elif isinstance(around, exp.Comprehension) and item.arg_key != "iterator":
            source = around.args["iterator"]
        total *= 1 if source is None else _size(_plain(source))
        item = around
    if total > MOST:
        raise _too_large(name)


def _plain(tree: exp.Expr) -> exp.Expr:
    while isinstance(tree, exp.Paren):
        tree = tree.this
    return tree


def _number(tree: exp.Expr) -> int | None:
    """A literal integer, with or without a sign, or None."""
    tree = _plain(tree)
    if isinstance(tree, exp.Neg):
        inner = _number(tree.this)
        return None if inner is None else -inner
    return int(tree.this) if isinstance(tree, exp.Literal) and tree.is_int else None


def _bound_size(call: exp.Expr, name: str, place: _Place) -> None:
    """Test a size before it is used: of `repeat` the number of times the length of the text."""
    size = _at(call, place)
    text = _plain(call.this) if isinstance(call, exp.Repeat) else exp.Literal.string("")
    if isinstance(_plain(size), exp.Literal) and isinstance(text, exp.Literal):
        if (_number(size) or 0) * len(text.name) > MOST:
            raise _too_large(name)
        return
    all_of_it = size.copy()
    if isinstance(call, exp.Repeat):
        length = exp.func("greatest", exp.func("len", call.this.copy()), exp.Literal.number(1))
        all_of_it = exp.Mul(this=exp.cast(exp.paren(all_of_it), "hugeint"), expression=length)
    too_large = exp.GT(this=all_of_it, expression=exp.Literal.number(MOST))
    call.set(place[0], _unless(too_large, size.copy(), name), place[1])


def _bound_series(call: exp.GenerateSeries, name: str) -> None:
    """Test that a series has at most `MOST` steps, in either direction."""
    start, end, step = _series(call)
    if _of_lengths(end) or None not in map(_number, (start, end, step)):
        return
    first, last = exp.paren(start.copy()), exp.paren(end.copy())

    def behind(steps: int) -> exp.Expr:
        times: exp.Expr = exp.Literal.number(steps)
        if abs(_number(step) or 0) > 1_000:  # else the product of two literals has 32 bits
            times = exp.cast(times, "bigint")
        width = exp.Mul(this=exp.paren(step.copy()), expression=times)
        return exp.paren(exp.Add(this=first.copy(), expression=width))

    def beyond(less: type[exp.Binary]) -> exp.Expr:
        pairs = ((first, last), (behind(MOST), last), (first, behind(1)))
        return exp.and_(*(less(this=a.copy(), expression=b.copy()) for a, b in pairs))

    call.set("end", _unless(exp.or_(beyond(exp.LT), beyond(exp.GT)), end.copy(), name))


def _of_lengths(tree: exp.Expr) -> bool:
    """Whether a number is a sum of lengths of values and literals, so that existing values bound
    it.
    """
    if isinstance(tree, (exp.Length, exp.ArraySize)):
        return True
    if isinstance(tree, (exp.Add, exp.Sub, exp.Paren)):
        return all(_of_lengths(part) for part in tree.iter_expressions())
    return isinstance(tree, exp.Literal) and tree.is_int and int(tree.this) <= MOST


def _bound_format(call: exp.Expr, name: str) -> None:
    """Refuse or test widths with many digits and widths that are arguments."""
    place: _Place = ("this", None) if isinstance(call, exp.Format) else ("expressions", 0)
    if not call.args.get(place[0]):
        return
    text = _at(call, place)
    if isinstance(text, exp.Literal):
        if _WIDE.search(text.name):
            raise _too_large(name)
        return
    searched = [text.copy(), exp.Literal.string(_SQL_WIDE)]
    wide = exp.Anonymous(this="regexp_matches", expressions=searched)
    call.set(place[0], _unless(wide, text.copy(), name), place[1])


def _unless(too_large: exp.Expr, value: exp.Expr, name: str) -> exp.Expr:
    error = exp.Anonymous(this="error", expressions=[exp.Literal.string(str(_too_large(name)))])
    return exp.Case(ifs=[exp.If(this=too_large, true=error)], default=value)


def _too_large(name: str) -> Fault:
    return Fault(f'"{name}" makes at most {MOST:,} characters or items')


NOW = "now"
_PARAMETERS = (exp.Parameter, exp.Placeholder)
# Nodes whose SQL is read back as the same tree, except for quotes around names.
_READ_BACK = frozenset({
    exp.Column, exp.Identifier, exp.Literal, exp.Boolean, exp.Null, exp.Paren, exp.And, exp.Or, exp.Not, exp.Is, exp.In,
    exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.NullSafeNEQ, exp.Coalesce, exp.Lower, exp.Upper,
    exp.Trim, exp.Length, exp.DPipe, exp.Add, exp.Sub, exp.Concat, exp.Array, exp.ArrayContains, exp.Least, exp.Greatest,
    exp.Anonymous,
})  # fmt: skip
_ADMITTED: tuple[type[exp.Expr], ...] = (
    exp.Column, exp.Identifier, exp.Literal, exp.Boolean, exp.Null, exp.Paren, exp.Binary, exp.Unary,
    exp.Between, exp.In, exp.Case, exp.If, exp.Cast, exp.DataType, exp.DataTypeParam, exp.Func, exp.Window,
    exp.WindowSpec, exp.Order, exp.Ordered, exp.Filter, exp.Where, exp.Distinct, exp.Lambda, exp.Bracket,
    exp.PropertyEQ, exp.Interval, exp.Var, exp.Tuple, exp.Slice, exp.Parameter, exp.Placeholder, exp.Star,
    exp.Comprehension, exp.AtTimeZone, exp.Escape, exp.IgnoreNulls, exp.RespectNulls, exp.WithinGroup,
    exp.Kwarg, exp.ColumnDef, exp.IntervalSpan, exp.JSONPath, exp.JSONPathPart, exp.JSONKeyValue,
)  # fmt: skip


@dataclass(frozen=True)
class Scalar:
    """An admitted SQL scalar."""

    text: str  # in the plan
    # canonical, for DuckDB: identifiers quoted, parameters substituted; fingerprints use it
    sql: str
    columns: tuple[str, ...]  # paths of the columns read, such as `name` or `cand.name_key`; sorted

    def __str__(self) -> str:
        return self.text

    @property
    def canonical_text(self) -> str:
        """The canonical text, equal for scalars that differ only in notation."""
        return f"sql:{self.sql}"

    @property
    def roots(self) -> frozenset[str]:
        """The columns read, without struct fields."""
        return frozenset(path.split(".")[0] for path in self.columns)

    @property
    def fields(self) -> frozenset[str]:
        """The paths of `columns`, with `cand.` for a column that is only tested for NULL."""
        return frozenset(self.columns) if self.is_column else _fields(self.sql)

    @property
    def is_column(self) -> bool:
        """Whether it is just a column or a field of a struct column."""
        return len(self.columns) == 1 and self.sql.replace('"', "") == self.columns[0]

    @property
    def has_window(self) -> bool:
        """Whether it reads other rows, so that it cannot move past an operator that drops rows."""
        return "OVER" in self.sql and _has_window(self.sql)

    @property
    def ast(self) -> exp.Expr:
        """A fresh syntax tree of `sql`."""
        return _tree(self.sql).copy()

    @property
    def shared_ast(self) -> exp.Expr:
        """The syntax tree of `sql`, which must not be changed."""
        return _tree(self.sql)

    @property
    def asks_now(self) -> bool:
        """Whether it depends on `$now`, the time of a window."""
        return "$" in self.sql and self.shared_ast.find(*_PARAMETERS) is not None

    @property
    def calls_own(self) -> bool:
        """Whether it calls a user function, which is computed only over rows."""
        return calls_own(self.sql)

    def conjuncts(self) -> tuple[Scalar, ...]:
        """The parts of a conjunction, which rules may move separately."""
        return ("AND" in self.sql and _conjuncts(self.sql)) or (self,)


@lru_cache(maxsize=4096)
def _conjuncts(sql: str) -> tuple[Scalar, ...]:
    """The parts of a conjunction; () for other expressions."""
    tree = _tree(sql)
    while isinstance(tree, exp.Paren):
        tree = tree.this
    if not isinstance(tree, exp.And):
        return ()
    return tuple(part for side in tree.flatten() for part in from_ast(side).conjuncts())


def conjunction(parts: Iterable[Scalar]) -> Scalar:
    """All of the parts, as one scalar."""
    tree = exp.and_(*(part.ast for part in parts))
    return from_ast(tree)


_trees: dict[str, exp.Expr] = {}


def _tree(sql: str) -> exp.Expr:
    """The syntax tree of canonical SQL; shared."""
    tree = _trees.get(sql)
    return _keep_tree(sql, _DIALECT.parse(sql)[0]) if tree is None else tree


def _keep_tree(sql: str, tree: exp.Expr | None) -> exp.Expr:
    if tree is None:
        raise ParseError("No expression")
    if len(_trees) >= _MOST_PARSED:
        _trees.clear()
    return _trees.setdefault(sql, tree)


def to_sql(tree: exp.Expr) -> str:
    """DuckDB SQL of a syntax tree, identifiers quoted."""
    return tree.sql(dialect=_DIALECT, identify=True, normalize_functions=False)


def from_ast(tree: exp.Expr, text: str | None = None) -> Scalar:
    """A scalar from an admitted syntax tree."""
    sql = to_sql(tree)
    return Scalar(plain_names(sql) if text is None else text, sql, _columns(tree.walk()))


def parse_scalar(
    text: object, params: Mapping[str, Any] | None = None, functions: FunctionsByName | None = None
) -> Scalar:
    """Read a scalar, which may call user functions, and substitute `$parameters`. Raises Fault.

    >>> parse_scalar("length(name) > $least", {"least": 3}).sql
    'LENGTH("name") > 3'
    """
    source = _source(text)
    if not isinstance(source, str):
        raise Fault(f"expected an SQL expression, found {type(text).__name__}")
    known = params or {}
    names = _PARAMETER_NAME.findall(source) if "$" in source else ()
    own = called_of(source, functions)
    values = (repr(known[name]) if name in known else "" for name in names)
    key = (source, *values, *(function.sql_name for function in own))
    if key not in _scalars:
        if len(_scalars) >= _MOST_PARSED:
            _scalars.clear()
        try:
            _scalars[key] = _parse(source, known, own)
        except (RecursionError, MemoryError):
            what = f'cannot read the expression "{short(source)}"'
            raise Fault(what, there="it is nested too deeply") from None
    return _scalars[key]


_PARAMETER_NAME = re.compile(r"\$(\w+)")
_scalars: dict[tuple[str, ...], Scalar] = {}  # by source and values of parameters
_MOST_PARSED = 4096


def _parse(source: str, params: Mapping[str, Any], own: Sequence[OwnFunction]) -> Scalar:
    refuse_long(source)
    tree = _read(source)
    nodes = list(tree.walk())
    if len(nodes) > MOST_DEEP:
        refuse_deep(tree)
    _admit(nodes, source)
    if own:
        tree = _with_own_calls(tree, source, own)
        nodes = list(tree.walk())
    if any(map(_is_rewritten, nodes)):
        tree = bounded(_substitute(tree, params, source))
        nodes = list(tree.walk())
    reads_back = not tree.comments and all(type(node) in _READ_BACK for node in nodes)
    try:
        columns = _columns(nodes)
        sql = tree.sql(dialect=_DIALECT, identify=True, normalize_functions=False, copy=False)
        if reads_back:
            _keep_tree(sql, tree)
        else:
            _tree(sql)
    except (SqlglotError, ValueError) as error:  # "@" without an operand; no SQL for a node
        what = f'cannot read the expression "{short(source)}"'
        raise Fault(what, there=_first_line(error)) from None
    return Scalar(source, sql, columns)


def _with_own_calls(tree: exp.Expr, source: str, own: Sequence[OwnFunction]) -> exp.Expr:
    try:
        return with_own_calls(tree, own)
    except Fault as fault:
        what = f'"{short(source)}": {fault.what}'
        raise Fault(what, there=fault.there, hint=fault.hint) from None


_TEXTS = {TokenType.BYTE_STRING, TokenType.HEREDOC_STRING, TokenType.NATIONAL_STRING}
_NO_WORDS = {TokenType.STRING, TokenType.NUMBER, TokenType.IDENTIFIER, *_TEXTS}
# Words after which an operand stands, words that stand after an operand, and those that NOT negates.
_BEFORE = frozenset(
    ["AND", "OR", "CASE", "WHEN", "THEN", "ELSE", "BETWEEN", "IN", "LIKE", "ILIKE", "GLOB", "SIMILAR TO", "ESCAPE",
     "ORDER BY", "PARTITION BY", "WHERE", "IF", "FROM", "FOR"]
)  # fmt: skip
_NEGATED = frozenset(["IN", "LIKE", "ILIKE", "GLOB", "SIMILAR TO", "BETWEEN"])
_AFTER = _NEGATED | frozenset(
    ["AND", "OR", "IS", "ISNULL", "NOTNULL", "THEN", "ELSE", "END", "WHEN", "ASC", "DESC", "NULLS", "FOR", "ORDER BY",
     "AS", "AT", "COLLATE", "ESCAPE", "NOT"]
)  # fmt: skip
# Names already, and words that are values.
_KEPT = {TokenType.VAR, TokenType.TRUE, TokenType.FALSE, TokenType.NULL,
         *_DIALECT.parser_class.NO_PAREN_FUNCTIONS}  # fmt: skip


def _name_words(tokens: Sequence[Token]) -> None:
    """Make names of the words of SQL that stand where only an operand can: `from` in `from = 1`.

    A word is an operand if an operand is due, and what follows can only stand after an operand.
    """
    due, of_type, before = True, 0, None  # of_type: 1 and the open brackets of a type
    for i, token in enumerate(tokens):
        word, kind = _word(tokens, i), token.token_type
        opens = i + 1 < len(tokens) and tokens[i + 1].token_type == TokenType.L_PAREN
        if of_type:
            of_type += (kind == TokenType.L_PAREN) - (kind == TokenType.R_PAREN)
            of_type = of_type if of_type > 1 else 0
        elif before in {TokenType.ALIAS, TokenType.DCOLON} and opens:
            of_type = 1
        elif not word:
            due = kind not in {TokenType.VAR, TokenType.DCOLON, *_CLOSING, *_NO_WORDS}
        elif before == TokenType.DOT or (due and _is_name(tokens, i)):
            if (kind not in _KEPT or word in {"IF", "LAMBDA"}) and not opens:
                token.token_type = TokenType.IDENTIFIER
            due = False
        elif word not in {"NOT", "DISTINCT"}:
            due = word in _BEFORE
        before = token.token_type


def _word(tokens: Sequence[Token], i: int) -> str:
    """The word at a place in upper case; "" for signs, values, quoted names and beyond the end."""
    token = tokens[i] if i < len(tokens) else None
    named = token and token.token_type not in _NO_WORDS and token.text[:1].isalpha()
    return token.text.upper() if token and named else ""


def _is_name(tokens: Sequence[Token], i: int) -> bool:
    """Whether a word where an operand is due is one, and no syntax before an operand."""
    word, before = _word(tokens, i), [token.text.upper() for token in tokens[max(i - 2, 0) : i]]
    if " " in word or (word, before[-1:]) == ("WHEN", ["CASE"]) or before == ["FILTER", "("]:
        return False
    if word in {"ROWS", "RANGE"} and _word(tokens, i + 1) == "BETWEEN":  # a frame
        return False
    opens = before[-1:] in ([], ["("])
    if word in {"NOT", "CASE", "ARRAY", "INTERVAL"} or (word in {"DISTINCT", "SELECT"} and opens):
        following, sign = _word(tokens, i + 1), "".join(t.text for t in tokens[i + 1 : i + 2])
        another = (word, following) == ("CASE", "WHEN") or (following and _follows(tokens, i + 2))
        if another or sign in {"+", "-", "*", "~", "@", "["}:
            return False
    return _follows(tokens, i + 1)


def _follows(tokens: Sequence[Token], i: int) -> bool:
    """Whether the token at a place can only stand after an operand."""
    if word := _word(tokens, i):
        return word in _AFTER and (word != "NOT" or _word(tokens, i + 1) in _NEGATED)
    opening = {TokenType.L_PAREN, TokenType.L_BRACE, TokenType.PARAMETER, *_NO_WORDS}
    return i >= len(tokens) or tokens[i].token_type not in opening


@lru_cache(maxsize=256)
def _tokens(source: str) -> list[Token]:
    """The tokens of an expression, cached from its parser to its check."""
    return _DIALECT.tokenize(source)


def _read(source: str) -> exp.Expr:
    """The syntax tree of one expression. Raises Fault."""
    try:
        tokens = _tokens(source)
        _name_words(tokens)
        _as_duckdb(tokens, source)
        parsed = _DIALECT.parser().parse(tokens, source)
        lacks = _unclosed(tokens)
    except SqlglotError as error:
        parsed, lacks = [], _first_line(error)
    if lacks is not None:
        raise Fault(f'cannot read the expression "{short(source)}"', there=lacks)
    tree = parsed[0] if len(parsed) == 1 else None
    if tree is None:
        msg = f'"{short(source)}" is not one expression'
        raise Fault(msg, hint="scalars only: no statement, no semicolon")
    return tree


_UNICODE = re.compile(r"(?<!\\)(?:\\\\)*\\[uU]")


def _as_duckdb(tokens: Sequence[Token], source: str) -> None:
    r"""Convert literals such as `E'\n'` and `$$a$$` to plain text literals. Raises Fault for `'a'
    'b'`, which the parser accepts and DuckDB refuses.
    """
    for i, token in enumerate(tokens):
        if token.token_type in _TEXTS:
            escapes = token.token_type == TokenType.BYTE_STRING
            if escapes and _UNICODE.search(source[token.start : token.end]):
                raise Fault(f'"{short(source)}": no escape \\u', hint="write the letter itself")
            token.token_type = TokenType.STRING
        if not i or not token.token_type == tokens[i - 1].token_type == TokenType.STRING:
            continue
        if "\n" not in source[tokens[i - 1].end + 1 : token.start]:
            raise Fault(f'"{short(source)}": two texts in a row', hint="join texts with ||")


def _source(value: object) -> object:
    """The SQL of a value: YAML reads `true`, `null` and `3` as values."""
    if value is None or isinstance(value, bool):
        return {None: "NULL", True: "TRUE", False: "FALSE"}[value]
    return str(value) if isinstance(value, (int, float)) else value


_MISSING = re.compile(r"Required keyword: '\w+' missing for <class '[^']*'>")


def short(text: str) -> str:
    """The beginning of an expression, for messages."""
    return text if len(text) <= 80 else text[:77] + "..."


def _first_line(error: BaseException) -> str:
    line = str(error).splitlines()[0] if str(error) else type(error).__name__
    return _MISSING.sub("Something is missing", line)


def _admit(nodes: Iterable[exp.Expr], source: str) -> None:
    for node in nodes:
        if isinstance(node, (exp.Query, exp.Exists)):
            msg = f'"{short(source)}" holds a sub-query'
            raise Fault(msg, hint="scalars only: join the relation in a step of its own")
        if isinstance(node, exp.Alias):
            msg = f'"{short(source)}" names its value'
            raise Fault(msg, hint="the name is the key: {name: expression}")
        if isinstance(node, exp.Star) and not isinstance(node.parent, exp.Count):
            msg = f'"{short(source)}": * is not a scalar'
            raise Fault(msg, hint="list the columns; count(*) is fine")
        if isinstance(node, exp.Dot) and isinstance(call := node.expression, exp.Func):
            name = call.name.lower() if isinstance(call, exp.Anonymous) else "f"
            what = f'"{short(source)}" calls a function behind a dot'
            raise Fault(what, hint=f"write {name}(x), not x.{name}()")
        if not isinstance(node, _ADMITTED):
            msg = f'"{short(source)}": {type(node).__name__.lower()} has no place in a scalar'
            raise Fault(msg, hint="scalars only: no statement, no sub-query")


def _is_rewritten(node: exp.Expr) -> bool:
    """Whether a node is a parameter, or a call that `_substitute` or `bounded` may change."""
    if isinstance(node, exp.Anonymous):
        return str(node.this).lower() in {"id", "printf", "format", *_RESIZING}
    return isinstance(node, (*_PARAMETERS, *_SIZED))


def _substitute(tree: exp.Expr, params: Mapping[str, Any], source: str) -> exp.Expr:
    """The changed tree, with parameters substituted and ids computed. Raises Fault."""
    root = exp.Paren(this=tree)
    for node in list(tree.find_all(exp.Anonymous, *_PARAMETERS)):
        if isinstance(node, exp.Anonymous) and str(node.this).lower() == "id":
            listed = exp.Anonymous(this="json_array", expressions=node.expressions)
            node.set("this", "uuid5")
            node.set("expressions", [exp.cast(listed, "varchar", copy=False)])
        elif isinstance(node, _PARAMETERS) and (name := _name_of_parameter(node, source)) != NOW:
            node.replace(literal(_value_of(name, params)))
    changed: exp.Expr = root.this
    changed.pop()
    return changed


def _name_of_parameter(node: exp.Expr, source: str) -> str:
    """The name of a parameter. Raises Fault unless it is written `$NAME`, for example for `?` or
    `:a`.
    """
    name = node.this.name if isinstance(node.this, exp.Expr) else node.this
    if name not in _PARAMETER_NAME.findall(source):
        what = f'"{name}" is no parameter as it is written'
        what = what if name else '"?" has no place in an expression'
        raise Fault(f'"{short(source)}": {what}', hint="a parameter is written $NAME")
    return str(name)


def _value_of(name: str, params: Mapping[str, Any]) -> Any:
    """The value of a parameter. Raises Fault."""
    if name not in params:
        known = [f"${p}" for p in (*params, NOW)]
        raise Fault(f'no parameter "${name}"', **among(f"${name}", known, "parameters"))
    return params[name]


def literal(value: Any) -> exp.Expr:
    """A plain value as SQL. Raises Fault for a value without an SQL literal."""
    if isinstance(value, (list, tuple)):
        if (items := len(value)) > MOST_ITEMS:
            what = (
                f"a list in an expression has at most {MOST_ITEMS:,} items; this one has {items:,}"
            )
            raise Fault(what, hint="give many values as an input and join it")
        return exp.Array(expressions=[literal(v) for v in value])
    if isinstance(value, float) and not isfinite(value):
        return exp.cast(exp.Literal.string(str(value)), "double")
    if isinstance(value, (int, float)) and str(value)[0] == "-":  # also -0.0
        return exp.Paren(this=exp.Neg(this=exp.convert(abs(value))))
    if value is None or isinstance(value, (str, int, float, bool)):
        return exp.convert(value)
    if isinstance(value, date):
        return exp.convert(value.isoformat())
    msg = f"a parameter in an expression is text, a number, a time, true, false, null or a list, not {type(value).__name__}"
    raise Fault(msg)


def _columns(nodes: Iterable[exp.Expr]) -> tuple[str, ...]:
    """The paths of the columns among the nodes of a tree, sorted."""
    columns = (node for node in nodes if isinstance(node, exp.Column))
    return tuple(sorted({path for column in columns for path in _path_of(column)}))


def _path_of(column: exp.Column) -> Iterator[str]:
    if column.name:
        parts = [part.name for part in column.parts if not isinstance(part, exp.Star)]
        outer: exp.Expr = column
        while isinstance(outer.parent, exp.Dot) and outer.parent.this is outer:
            outer = outer.parent
            if isinstance(outer.expression, exp.Identifier):
                parts.append(outer.expression.name)
        if parts and parts[0] not in _bound_names(column):
            yield ".".join(parts)


def read_from(scalar: Scalar, item: str) -> str:
    """SQL of a scalar in which every column is read from the struct `item`.

    >>> read_from(parse_scalar("left(old.text, n)"), "r")
    'LEFT("r"."old"."text", "r"."n")'
    """
    tree = exp.Paren(this=scalar.ast)
    for column in [c for c in tree.find_all(exp.Column) if any(_path_of(c))]:
        struct = _DIALECT.parse(item)[0]
        for part in column.parts:
            struct = exp.Dot(this=struct, expression=part.copy())
        column.replace(struct)
    return to_sql(tree.this)


def lists_of(scalar: Scalar, column: str) -> bool:
    """Whether a scalar is the list of a column's values, or an empty list, and reads the column
    nowhere else.

    >>> lists_of(parse_scalar("coalesce(list(a) FILTER (a IS NOT NULL), [])"), "a")
    True
    """
    tree = scalar.shared_ast
    while isinstance(tree, (exp.Coalesce, exp.Paren, exp.Filter)):
        if isinstance(tree, exp.Coalesce) and not _is_empty_list(tree.expressions):
            return False
        tree = tree.this
    listed = tree.this if isinstance(tree, exp.ArrayAgg) else None
    return isinstance(listed, exp.Column) and column_path(listed) == column


def _is_empty_list(trees: Sequence[exp.Expr]) -> bool:
    return len(trees) == 1 and isinstance(trees[0], exp.Array) and not trees[0].expressions


def replace_column(scalar: Scalar, column: str, text: str) -> Scalar:
    """A scalar with a column replaced by an expression, except where it is only tested for NULL."""
    tree = exp.Paren(this=scalar.ast)
    for found in list(tree.find_all(exp.Column)):
        if column_path(found) == column and not isinstance(found.parent, exp.Is):
            found.replace(_DIALECT.parse(text)[0])
    return from_ast(tree.this)


def replace_roots(scalar: Scalar, values: Mapping[str, Scalar]) -> Scalar:
    """A scalar with columns replaced by expressions, also where it reads their fields. Its text is
    unchanged.

    >>> replace_roots(parse_scalar("m.at > n"), {"m": parse_scalar("known[m]")}).sql
    '"known"["m"]."at" > "n"'
    """
    tree = exp.Paren(this=scalar.ast)
    for column in [c for c in tree.find_all(exp.Column) if any(_path_of(c))]:
        first, *fields = column.parts
        if first.name in values:
            value: exp.Expr = values[first.name].ast
            for part in fields:
                value = exp.Dot(this=value, expression=part.copy())
            column.replace(value)
    return from_ast(tree.this, scalar.text)


def column_path(tree: exp.Expr) -> str | None:
    """The path of a column or struct field, such as `cand.name`; None for other expressions."""
    fields: list[str] = []
    while isinstance(tree, exp.Dot) and isinstance(tree.expression, exp.Identifier):
        fields.insert(0, tree.expression.name)
        tree = tree.this
    if not isinstance(tree, exp.Column) or not tree.name:
        return None
    return ".".join([*(part.name for part in tree.parts), *fields])


@lru_cache(maxsize=4096)
def _has_window(sql: str) -> bool:
    return _tree(sql).find(exp.Window) is not None


@lru_cache(maxsize=4096)
def _fields(sql: str) -> frozenset[str]:
    return _paths_read(_tree(sql))


def _paths_read(tree: exp.Expr) -> frozenset[str]:
    """The paths that an expression reads. `cand.` is a column that is only tested for NULL or
    counted; `known.text` may also be a field of an element of the list `known`.
    """
    paths = set()
    for column in tree.find_all(exp.Column):
        path = next(_path_of(column), None)
        if path is None:
            continue
        parent = column.parent
        tested = isinstance(parent, exp.Is) and isinstance(parent.expression, exp.Null)
        if (tested or isinstance(parent, exp.Length)) and "." not in path:
            paths.add(f"{path}.")
        else:
            paths.add(".".join([path, *_fields_of_element(column)]))
    return frozenset(paths)


def _fields_of_element(column: exp.Column) -> list[str]:
    """The field path that is read from an element of a list: `b`, `c` for `a[1].b.c`."""
    item = column.parent
    if not isinstance(item, exp.Bracket) or item.this is not column or not _is_item(item):
        return []
    names: list[str] = []
    outer: exp.Expr = item
    while isinstance(outer.parent, exp.Dot) and outer.parent.this is outer:
        outer = outer.parent
        names.append(outer.expression.name)
    return names


def _is_item(bracket: exp.Bracket) -> bool:
    """Whether a bracket selects an element by index, not a field by name or a slice of a list."""
    place = bracket.expressions[0]
    by_name = isinstance(place, exp.Literal) and place.is_string
    return len(bracket.expressions) == 1 and not by_name and not isinstance(place, exp.Slice)


@lru_cache(maxsize=4096)
def paths_for(scalar: Scalar, fields: frozenset[str]) -> frozenset[str]:
    """The paths that a scalar reads if only `fields` of its value, or of the value's elements, are
    needed. Without fields, only whether it is NULL is needed.

    >>> sorted(paths_for(parse_scalar("[known[n] for n in numbers]"), frozenset({"id"})))
    ['known.id', 'numbers']
    """
    return _paths_for(scalar.shared_ast, fields)


def _paths_for(tree: exp.Expr, fields: frozenset[str]) -> frozenset[str]:
    while isinstance(tree, exp.Paren):
        tree = tree.this
    if (path := column_path(tree)) is not None:
        bound = path.split(".")[0] in _bound_names(tree)
        return frozenset() if bound else frozenset(f"{path}.{name}" for name in fields or ("",))
    match tree:
        case exp.Bracket() if _is_item(tree):
            paths = _paths_for(tree.this, fields) | _paths_read(tree.expressions[0])
        case exp.Array(expressions=[exp.Comprehension() as comprehension]):
            paths = _paths_for_elements(comprehension, fields)
        case exp.Case() if (value := _only_value(tree)) is not None:
            tests = (_paths_read(branch.this) for branch in tree.args["ifs"])
            paths = _paths_for(value, fields).union(*tests)
        case exp.Struct() if all(isinstance(p, exp.PropertyEQ) for p in tree.expressions):
            parts = (_paths_for_part(p.this.name, p.expression, fields) for p in tree.expressions)
            paths = frozenset[str]().union(*parts)
        case _:
            paths = _paths_read(tree)
    return paths


def _paths_for_part(name: str, value: exp.Expr, fields: frozenset[str]) -> frozenset[str]:
    if name in fields:
        return _paths_read(value)
    inner = (path.split(".", 1)[1] for path in fields if path.startswith(f"{name}."))
    return _paths_for(value, frozenset(inner))


def _paths_for_elements(tree: exp.Comprehension, fields: frozenset[str]) -> frozenset[str]:
    condition, name = tree.args.get("condition"), tree.expression.name
    tests = _paths_read(condition) if condition is not None else frozenset()
    if column_path(tree.this) != name:
        return _paths_for(tree.this, fields) | _paths_read(tree.args["iterator"]) | tests
    columns = condition.find_all(exp.Column) if condition is not None else ()
    tested = {column_path(_outermost(c)) for c in columns if c.parts[0].name == name}
    if name in tested:
        return _paths_read(tree)
    own = {path.split(".", 1)[1] for path in tested if path is not None}
    return _paths_for(tree.args["iterator"], fields | own) | tests


def _outermost(column: exp.Expr) -> exp.Expr:
    while isinstance(column.parent, exp.Dot) and column.parent.this is column:
        column = column.parent
    return column


def _only_value(case: exp.Case) -> exp.Expr | None:
    """The value of a CASE that is NULL in all other branches."""
    branches = [*(branch.args["true"] for branch in case.args["ifs"]), case.args.get("default")]
    values = [value for value in branches if not isinstance(value, exp.Null | None)]
    return values[0] if len(values) == 1 and case.this is None else None


def with_bound_fields(tree: exp.Expr) -> exp.Expr:
    """The changed tree, in which fields of variables of a lambda or comprehension are read from a
    name in parentheses. Without these, DuckDB would read the field of a column with the same name.
    """
    for column in [c for c in tree.find_all(exp.Column) if c.table]:
        if column.parts[0].name in _bound_names(column):
            column.replace(column.to_dot())
    for dot in list(tree.find_all(exp.Dot)):
        if isinstance(dot.this, exp.Identifier):  # only fields of bound variables
            dot.set("this", exp.Paren(this=dot.this))
    return tree


def _bound_names(node: exp.Expr) -> set[str]:
    """Names that a lambda or a list comprehension around the node binds."""
    names: set[str] = set()
    parent = node.parent
    while parent is not None:
        if isinstance(parent, exp.Lambda):
            names |= {each.name for each in parent.expressions}
        if isinstance(parent, exp.Comprehension):
            bound = (parent.expression, parent.args.get("position"))
            names |= {each.name for each in bound if each}
        parent = parent.parent
    return names
