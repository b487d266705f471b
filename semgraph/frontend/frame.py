"""The fluent API: a relation with one method for each operator of the plan language, with the same argument names.

Each call builds and checks its node at once; nothing is computed before a session runs the frame.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa

from semgraph.errors import Fault, PlanError, Problem
from semgraph.expr.types import type_of_arrow
from semgraph.frontend.build import OPERATORS, SINKS, build, by_keyword, plan_keys, stands_bare
from semgraph.frontend.naming import makes_step
from semgraph.frontend.recording import FluentScope, Made, World, joined, told
from semgraph.frontend.semantic import SemanticMethods
from semgraph.logical.node import Node, walk
from semgraph.logical.plan import LogicalPlan
from semgraph.logical.schema import NAME

Columns = Mapping[str, Any] | Sequence[str] | str
Names = Sequence[str] | str
Using = Mapping[str, str] | Sequence[str] | str
Order = Sequence[str] | str
Condition = Sequence[str] | str
_CLASSES = by_keyword((*OPERATORS, *SINKS))


@dataclass(frozen=True, eq=False)
class Frame(SemanticMethods):
    """A relation: its rows are known when a session runs it, its columns now.

    >>> from semgraph.frontend.sources import table
    >>> table([{"id": 1, "text": "It leaks."}]).filter("length(text) > 3").columns
    ['id', 'text']
    """

    made: Made
    world: World
    key: str | None = None

    @property
    def node(self) -> Node:
        """The checked node."""
        return self.made.node

    @property
    def schema(self) -> pa.Schema:
        """Names and types of the columns."""
        return self.node.schema

    @property
    def columns(self) -> list[str]:
        """Names of the columns."""
        return self.schema.names

    @property
    def tables(self) -> dict[str, pa.Table]:
        """The given rows of each input that the frame is made from."""
        found: dict[str, pa.Table] = {}

        def visit(made: Made) -> None:
            if made.spec is not None and made.table is not None:
                found[made.spec.name] = made.table
            for read in made.reads:
                visit(read)

        visit(self.made)
        return found

    def __repr__(self) -> str:
        listed = ", ".join(f"{f.name} {type_of_arrow(f.type)}" for f in self.schema)
        return f"Frame({self.node.keyword}: {listed})"

    def then(self, keyword: str, arguments: Any) -> Frame:
        """An operator of the language on this relation; the methods below call it.

        Raises:
            PlanError: The arguments are wrong.
        """
        cls = _CLASSES[keyword]
        world, plain = joined(self.world, arguments)
        if not stands_bare(cls, plain):
            keys = plan_keys(cls)
            plain = {k: v for k, v in plain.items() if v is not None and (k not in keys or v != keys[k].default)}
        try:
            node = build(cls, plain, FluentScope(world), source=self.node)
        except Fault as fault:
            raise told(keyword, fault) from None
        return Frame(Made(keyword, plain, node, self.made), world, self.key if self.key in node.schema.names else None)

    def step(self, name: str) -> Frame:
        """The same relation as a step of this name, in plans, choices and messages: every operator also takes `step=name`.

        >>> from semgraph.frontend.sources import table
        >>> rows = table([{"id": 1}], name="rows")
        >>> dict(rows.limit(3, step="few").to_plan().document["steps"])
        {'few': [{'from': 'rows'}, {'limit': {'n': 3}}]}
        """
        if not NAME.match(name):
            raise PlanError(Problem(f'"{name}" cannot name a step', hint="letters, digits and _"))
        if self.made.spec is not None:
            raise PlanError(Problem("an input is no step", hint=f'write table(rows, name="{name}")'))
        return replace(self, made=replace(self.made, name=name))

    # -- relational operators ---------------------------------------------------------------------------------------

    @makes_step
    def filter(self, where: Condition) -> Frame:
        """σ: the rows for which `where` is true; of a list of conditions, all."""
        return self.then("filter", where)

    @makes_step
    def require(self, where: str, says: str) -> Frame:
        """The rows for which `where` is true; of any other `says`, an expression, is the error.

        >>> from semgraph.frontend.sources import table
        >>> table([{"id": 1}]).require("id > 0", "concat(id, ' is no id')").columns
        ['id']
        """
        return self.then("require", {"where": where, "says": says})

    @makes_step
    def project(self, columns: Columns) -> Frame:
        """π: only these columns.

        >>> from semgraph.frontend.sources import table
        >>> table([{"id": 1, "text": "It leaks."}]).project({"id": None, "n": "length(text)"})
        Frame(project: id int64, n int64)
        """
        return self.then("project", columns)

    @makes_step
    def add(self, columns: Columns) -> Frame:
        """All columns and these, computed from them; a name that is there is replaced."""
        return self.then("add", columns)

    @makes_step
    def join(
        self,
        other: Frame | str,
        alias: str | None = None,
        using: Using | None = None,
        where: str | None = None,
        how: Literal["inner", "left", "semi", "anti"] = "inner",
    ) -> Frame:
        """⋈: pairs of rows; the other row is the struct column `alias`. `where` sees the columns and `alias`.

        >>> from semgraph.frontend.sources import table
        >>> a, b = table([{"id": 1}], name="a"), table([{"id": 1, "n": 2}], name="b")
        >>> a.join(b, "b", using="id").filter("b.n > 1").columns
        ['id', 'b']
        """
        return self.then("join", {"other": other, "alias": alias, "using": using, "where": where, "how": how})

    @makes_step
    def group_join(
        self,
        other: Frame | str,
        alias: str,
        add: Columns,
        using: Using | None = None,
        where: str | None = None,
        order: Order | None = None,
        limit: int | None = None,
    ) -> Frame:
        """Each row once, with aggregates `add` of its matches in `other`."""
        rest = {"using": using, "where": where, "order": order, "limit": limit}
        return self.then("group_join", {"other": other, "alias": alias, **rest, "add": add})

    @makes_step
    def limit(self, n: int, per: Names | None = None, order: Order | None = None) -> Frame:
        """The first `n` rows by `order`, of each group of equal `per`."""
        return self.then("limit", {"n": n, "per": per, "order": order})

    @makes_step
    def sort(self, by: Order) -> Frame:
        """τ: the same rows in the order of `by`; NULLs last, ties as they were.

        >>> from semgraph.frontend.sources import table
        >>> table([{"id": 1}, {"id": 2}]).sort("id desc")
        Frame(sort: id int64)
        """
        return self.then("sort", by if isinstance(by, str) else list(by))

    @makes_step
    def distinct(self, by: Names = ()) -> Frame:
        """δ: the first row of each group of equal `by`; without, of equal rows."""
        return self.then("distinct", by if isinstance(by, str) else list(by))

    @makes_step
    def aggregate(self, by: Columns | None = None, add: Columns | None = None, having: str | None = None) -> Frame:
        """γ: one row for each group of equal `by`, with aggregates `add`; `having` filters the groups."""
        return self.then("aggregate", {"by": by, "add": add, "having": having})

    @makes_step
    def unnest(
        self, column: str, alias: str, position: str | None = None, how: Literal["inner", "left"] = "inner"
    ) -> Frame:
        """μ: a row for each element of a list; `position` names its ordinal, from 1."""
        return self.then("unnest", {"column": column, "alias": alias, "position": position, "how": how})

    @makes_step
    def cluster(
        self,
        nodes: Frame | str,
        key: str,
        source: str,
        target: str,
        alias: str = "cluster",
        weight: str | None = None,
        per: Names | None = None,
        algorithm: Literal["forest", "components", "label_propagation", "louvain"] = "components",
    ) -> Frame:
        """The rows of `nodes`, each with its cluster by the edges that this relation holds."""
        ends = {"source": source, "target": target, "weight": weight}
        rest = {"alias": alias, "per": per, "algorithm": algorithm}
        return self.then("cluster", {"nodes": nodes, "key": key, **ends, **rest})

    # -- store reads ------------------------------------------------------------------------------------------------

    @makes_step
    def search(
        self,
        over: str | Frame | Sequence[str | Frame],
        alias: str,
        k: int,
        by: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
        where: Condition | None = None,
        fuse: Literal["rrf", "none"] = "rrf",
        order: Order | None = None,
        how: Literal["inner", "left"] = "inner",
        partition: str | Sequence[str] | None = None,
        vectors: Names | None = None,
        source: str | None = None,
        target: str | None = None,
    ) -> Frame:
        """For each row the best `k` hits of a label, of a frame, or of `[label, frame]`, as the struct column `alias`.

        `vectors` brings stored vectors too; `source` and `target` name columns with the nodes at an edge's ends.
        """
        ends = {"source": source, "target": target}
        rest = {"fuse": fuse, "order": order, "how": how, "partition": partition, "vectors": vectors, **ends}
        return self.then("search", {"over": over, "alias": alias, "k": k, "by": by, "where": where, **rest})

    @makes_step
    def match(
        self,
        pattern: str,
        where: str | None = None,
        how: Literal["inner", "left"] = "inner",
        partition: str | None = None,
        vectors: Names | None = None,
    ) -> Frame:
        """For each row the paths of the graph that fit; the pattern's variables become struct columns."""
        rest = {"how": how, "partition": partition, "vectors": vectors}
        return self.then("match", {"pattern": pattern, "where": where, **rest})

    # -- plans ------------------------------------------------------------------------------------------------------

    def to_plan(
        self, name: str = "query", *, use: Mapping[str, str] | None = None, allow: Sequence[str] = (), doc: str = ""
    ) -> LogicalPlan:
        """The plan whose one result is this relation.

        Raises:
            PlanError: A choice names no step, or two steps have one name.
        """
        from semgraph.frontend.fluent import plan

        return plan(name, self, use=use, allow=allow, doc=doc)

    def to_yaml(self, name: str = "query", *, use: Mapping[str, str] | None = None) -> str:
        """The text of that plan's file."""
        from semgraph.frontend.yaml import dump

        return dump(self.to_plan(name, use=use))

    def save(self, path: str | Path, use: Mapping[str, str] | None = None) -> Path:
        """Write that plan's file; it is named after the file.

        Raises:
            PlanError: There it would not be the same plan: prompts or called plans are not beside it.
        """
        from semgraph.frontend.fluent import save

        return save(Path(path), self, use=use)

    @property
    def asks(self) -> bool:
        """Whether a model is asked anywhere in it."""
        return any(node.calls_llm for node in walk(self.node))
