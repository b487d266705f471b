"""Bounds of what an expression may take: its text, lists put in for parameters, and functions that make a value of any size.

`lpad(x, 2000000000, 'a')` takes gigabytes whatever the rows hold. A size that the text says is refused when the plan is
loaded; one that depends on the rows is tested row by row before the function is called.
"""

from __future__ import annotations

import re

from sqlglot import exp

from semgraph.errors import Fault

MOST_CHARACTERS = 50_000
"""Of an expression, besides what its string literals hold."""
MOST_ITEMS = 20_000
"""Of a list that a parameter brings into an expression."""
MOST_DEEP = 500
"""Levels of an expression; conditions joined by AND are a level each. DuckDB stops at 1,000."""
MOST = 1_000_000
"""Characters, bits or items that one call may make."""

_RESIZING = {"list_resize": 1, "array_resize": 1, "bitstring": 1}  # and which argument is the size
_LITERAL = re.compile(r"'(?:[^']|'')*'")
_WIDE = re.compile(r"\d{7,}|%[-+ #0]*\*|\{[^{}]*\{")  # a width of a format: too many digits, or an argument
_SQL_WIDE = r"[0-9]{7,}|%[-+ #0]*\*|\{[^{}]*\{"


def refuse_long(source: str) -> None:
    """Refuse the text of an expression that takes long to read, whatever its string literals hold. Raises Fault."""
    if len(source) > MOST_CHARACTERS and (length := len(_LITERAL.sub("''", source))) > MOST_CHARACTERS:
        what = f"an expression has at most {MOST_CHARACTERS:,} characters; this one has {length:,}"
        raise Fault(what, hint="give many values as an input and join it")


def refuse_deep(tree: exp.Expr) -> None:
    """Refuse an expression of too many levels. Raises Fault."""
    level, parts = 0, [tree]
    while parts:
        level += 1
        if level > MOST_DEEP:
            raise Fault(f"an expression has at most {MOST_DEEP} levels", hint="compute parts of it in steps before")
        parts = [inner for part in parts for inner in part.iter_expressions()]


def refuse_many(items: int) -> None:
    """Refuse a parameter's list that makes an expression too long. Raises Fault."""
    if items > MOST_ITEMS:
        what = f"a list in an expression has at most {MOST_ITEMS:,} items; this one has {items:,}"
        raise Fault(what, hint="give many values as an input and join it")


def bounded(tree: exp.Expr) -> exp.Expr:
    """The same expression with sizes that depend on rows tested. Raises Fault for sizes that are too large anyway."""
    for call in list(tree.find_all(exp.Pad, exp.Repeat, exp.GenerateSeries, exp.Anonymous, exp.Format)):
        name = call.sql(dialect="duckdb").partition("(")[0].lower()
        if isinstance(call, exp.Pad):
            _bound(call, "expression", call.expression.copy(), name)
        elif isinstance(call, exp.Repeat):
            times = call.args["times"]
            length = exp.func("greatest", exp.func("len", call.this.copy()), exp.Literal.number(1))
            _bound(call, "times", exp.Mul(this=exp.cast(exp.paren(times.copy()), "hugeint"), expression=length), name)
        elif isinstance(call, exp.GenerateSeries):
            _bound_series(call, name)
        elif name in _RESIZING and len(call.expressions) > _RESIZING[name]:
            _bound(call, "expressions", call.expressions[_RESIZING[name]].copy(), name, _RESIZING[name])
        elif isinstance(call, exp.Format) or name in {"printf", "format"}:
            _bound_format(call, name)
    return tree


def _plain(tree: exp.Expr) -> exp.Expr:
    while isinstance(tree, exp.Paren):
        tree = tree.this
    return tree


def _number(tree: exp.Expr) -> int | None:
    """A whole number as the text says it, with or without a sign."""
    tree = _plain(tree)
    if isinstance(tree, exp.Neg):
        inner = _number(tree.this)
        return None if inner is None else -inner
    return int(tree.this) if isinstance(tree, exp.Literal) and tree.is_int else None


def _bound(call: exp.Expr, key: str, size: exp.Expr, name: str, index: int | None = None) -> None:
    """Test `size` before the argument `key` is used."""
    argument = call.args[key] if index is None else call.args[key][index]
    number = _plain(argument)
    if isinstance(number, exp.Literal):
        text = _plain(call.this) if key == "times" else None
        known = len(text.name) if isinstance(text, exp.Literal) else 1
        if number.is_int and int(number.this) * known > MOST:
            raise _too_large(name)
        if text is None or isinstance(text, exp.Literal):
            return
    call.set(key, _unless(exp.GT(this=size, expression=exp.Literal.number(MOST)), argument.copy(), name), index)


def _bound_series(call: exp.GenerateSeries, name: str) -> None:
    """Test where a series ends: more than `MOST` steps behind its start, in either direction."""
    start, end = call.args["start"], call.args["end"]
    step = call.args.get("step") or exp.Literal.number(1)
    first, last, by = (_number(part) for part in (start, end, step))
    if first is not None and last is not None and by is not None:
        if by and (last - first) / by > MOST:
            raise _too_large(name)
        return

    def behind(steps: int) -> exp.Expr:
        width = exp.Mul(this=exp.paren(step.copy()), expression=exp.Literal.number(steps))
        return exp.paren(exp.Add(this=exp.paren(start.copy()), expression=width))

    def beyond(less: type[exp.Binary]) -> exp.Expr:
        pairs = [(exp.paren(start.copy()), exp.paren(end.copy())), (behind(MOST), exp.paren(end.copy())),
                 (exp.paren(start.copy()), behind(1))]  # fmt: skip
        return exp.and_(*(less(this=a, expression=b) for a, b in pairs))

    if _of_lengths(end):
        return
    call.set("end", _unless(exp.or_(beyond(exp.LT), beyond(exp.GT)), end.copy(), name))


def _of_lengths(tree: exp.Expr) -> bool:
    """Whether a number is made of lengths of values and of literals, by addition, so that it is no larger than they are."""
    if isinstance(tree, (exp.Length, exp.ArraySize)):
        return True
    if isinstance(tree, (exp.Add, exp.Sub, exp.Paren)):
        return all(_of_lengths(part) for part in tree.iter_expressions())
    return isinstance(tree, exp.Literal) and tree.is_int and int(tree.this) <= MOST


def _bound_format(call: exp.Expr, name: str) -> None:
    """Refuse, or test for, widths of many digits and widths that are arguments."""
    key, index = ("this", None) if isinstance(call, exp.Format) else ("expressions", 0)
    arguments = call.args.get(key)
    if not arguments:
        return
    text = arguments if index is None else arguments[index]
    if isinstance(text, exp.Literal):
        if _WIDE.search(text.name):
            raise _too_large(name)
        return
    wide = exp.Anonymous(this="regexp_matches", expressions=[text.copy(), exp.Literal.string(_SQL_WIDE)])
    call.set(key, _unless(wide, text.copy(), name), index)


def _unless(too_large: exp.Expr, value: exp.Expr, name: str) -> exp.Expr:
    error = exp.Anonymous(this="error", expressions=[exp.Literal.string(str(_too_large(name)))])
    return exp.Case(ifs=[exp.If(this=too_large, true=error)], default=value)


def _too_large(name: str) -> Fault:
    return Fault(f'"{name}" makes at most {MOST:,} characters or items')
