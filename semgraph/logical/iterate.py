"""Bounded recursion: a body that is applied repeatedly to its last result."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import pyarrow as pa
from sqlglot import exp

from semgraph.errors import Fault, Faults
from semgraph.expr.duckdb import is_aggregate
from semgraph.expr.scalar import Scalar
from semgraph.expr.types import type_of_arrow
from semgraph.logical import node as core
from semgraph.logical.relational import Input

MOST_ROUNDS = 10_000
ROUND, WAS = "round", "was"


@dataclass(frozen=True, eq=False, kw_only=True)
class Round(core.Node, keyword="round"):
    """The rows of the previous round of a loop, in its body.

    `windowed`: the rows derive from windowed rows. `depth`: the number of loops around this one; it
    distinguishes this round from those of outer loops.
    """

    name: str = core.argument("name")
    columns: pa.Schema = core.argument("schema")
    windowed: bool = core.argument("flag", default=False)
    depth: int = core.argument("number", default=0)

    def infer(self) -> pa.Schema:
        return self.columns

    @property
    def rounds(self) -> frozenset[int]:
        return frozenset({self.depth})


@dataclass(frozen=True, eq=False, kw_only=True)
class Iterate(core.Node, keyword="iterate", rows="any"):
    """The rows after several rounds of `do`, which reads the rows of the previous round by the name
    `as`. Round 0 is the input.

    Groups with equal `by`, in each window, end independently: when no row is left, after `times`
    rounds, or when `until` is true for a round. In `until`, `was` is the row of the previous round
    with the same `key`. `keep: all` returns the rows of all rounds, with the column `round`; with
    `distinct`, only the first of a group's rows with equal `distinct`.
    """

    input: core.Node = core.argument("input")
    name: str = core.argument(
        "new_name", key="as", doc="the name of the previous round's rows in `do`"
    )
    times: int = core.argument("number", doc="the maximum number of rounds")
    body: core.Node = core.argument("body", key="do", doc="the operators of a round")
    until: Scalar | None = core.argument("scalar", default=None)
    keep: Literal["last", "all"] = core.argument("choice", choices=("last", "all"), default="last")
    by: tuple[str, ...] = core.argument("names", default=())
    key: tuple[str, ...] = core.argument("names", default=())
    distinct: tuple[str, ...] = core.argument("names", default=())
    depth: int = 0

    def infer(self) -> pa.Schema:
        if faults := [*self._wrong_arguments(), *self._wrong_body()]:
            raise Faults(faults)
        schema = self.input.schema
        return schema if self.keep == "last" else schema.append(pa.field(ROUND, pa.int64()))

    def _wrong_arguments(self) -> Iterator[Fault]:
        schema = self.input.schema
        if self.times > MOST_ROUNDS:
            yield Fault(f"times is at most {MOST_ROUNDS:,}, not {self.times:,}", "times")
        if self.keep == "all" and ROUND in schema.names:
            yield Fault("round is a column already", "keep", hint="project it to another name")
        if self.keep == "last" and self.distinct:
            yield Fault("distinct needs keep: all", "distinct")
        for argument_name in ("by", "key", "distinct"):
            try:
                core.check_names(getattr(self, argument_name), schema, argument_name)
            except Fault as fault:
                yield fault
        if self.key and WAS in schema.names:
            yield Fault('"was" is a column already', "key", hint="project it to another name")
        elif self.until is not None:
            yield from self._wrong_until(self.until)

    def _wrong_until(self, until: Scalar) -> Iterator[Fault]:
        if not self.key and WAS in until.roots and WAS not in self.input.schema.names:
            yield Fault("until reads was: name key", "until")
            return
        calls = until.shared_ast.find_all(exp.Func)
        if not any(map(is_aggregate, calls)):
            yield Fault("until is no aggregate: max(...), count(*), bool_and(...)", "until")
            return
        try:
            groups = [core.column_scalar(name).sql for name in self.by]
            core.expect_type_of_groups(until, self.judged, pa.bool_(), groups)
        except Fault as fault:
            yield fault.under("until")

    def _wrong_body(self) -> Iterator[Fault]:
        above, below = self.input.schema, self.body.schema
        if self.depth not in self.body.rounds:
            yield Fault(f'do does not read "{self.name}": every round would be the same', "body")
            return
        for field in above:
            name, kind = field.name, type_of_arrow(field.type)
            if name not in below.names:
                yield Fault(f'do lacks "{name}" ({kind}), which the rows above have', "body")
                continue
            own = below.field(name).type
            if own != field.type:
                what = f'"{name}" is {type_of_arrow(own)} in do, {kind} above: cast it'
                yield Fault(what, "body")
        for name in below.names:
            if name not in above.names:
                yield Fault(f'do gives "{name}" besides: project it away', "body")
        if self.input.windowed and not self.body.windowed:
            windowed = (
                n.name for n in core.walk(self.input) if isinstance(n, Input) and n.windowed
            )
            rows = next(windowed, "the input with windows")
            what = f'do derives from no row of {rows}: it must read "{self.name}"'
            yield Fault(what, "body")

    @property
    def judged(self) -> pa.Schema:
        """The columns that `until` may read."""
        schema = self.input.schema
        return schema.append(pa.field(WAS, core.struct_of(schema))) if self.key else schema

    @cached_property
    def rounds(self) -> frozenset[int]:
        return self.input.rounds | (self.body.rounds - {self.depth})

    @cached_property
    def each_round(self) -> frozenset[core.Node]:
        """The nodes that depend on the previous round, also those of inner loops."""
        found: set[core.Node] = set()
        pending = [self.body]
        while pending:
            node = pending.pop()
            if node in found or self.depth not in node.rounds:
                continue
            found.add(node)
            if isinstance(node, Iterate):
                found |= node.each_round
            pending += node.inputs
        return frozenset(found)

    @cached_property
    def own_rounds(self) -> tuple[Round, ...]:
        """The leaves of the body that stand for the last round; () if rewrites have removed them."""
        return tuple(
            node
            for node in core.walk(self.body)
            if isinstance(node, Round) and node.depth == self.depth and node in self.each_round
        )

    @cached_property
    def once(self) -> tuple[core.Node, ...]:
        """The loop-invariant nodes that rounds read; they are computed once."""
        if self.body not in self.each_round:
            return (self.body,)
        read = (child for node in self.each_round for child in node.inputs)
        outside = set(read) - self.each_round
        return tuple(node for node in core.walk(self.body) if node in outside)

    @property
    def reads(self) -> frozenset[str]:
        return frozenset(self.input.schema.names)

    def first_needs(self, needed: core.Needs) -> core.Needs:  # noqa: ARG002
        """All columns, because all rounds have the same columns."""
        return None

    def is_empty_over(self, empty: Sequence[bool]) -> bool:
        return empty[0]


def loops_of(*roots: core.Node) -> list[Iterate]:
    """The outermost loops below the roots, in the order of computation."""
    loops = [node for node in core.walk(*roots) if isinstance(node, Iterate)]
    inner = frozenset().union(*(loop.each_round for loop in loops))
    return [loop for loop in loops if loop not in inner]


def of_first_round(roots: tuple[core.Node, ...], node: core.Node) -> tuple[core.Node, ...]:
    """The inputs of an operator below the roots; in a loop, its inputs in the first round."""
    loops = [n for n in core.walk(*roots) if isinstance(n, Iterate) and node in n.each_round]
    inputs = node.inputs
    for loop in sorted(loops, key=lambda loop: -loop.depth):
        own = dict.fromkeys(loop.own_rounds, loop.input)
        inputs = core.rewrite(inputs, lambda n, own=own: own.get(n, n))  # type: ignore[misc]
    return inputs
