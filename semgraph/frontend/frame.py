"""The fluent API: a relation with one method per operator of the plan language, with the same
argument names.

Each call builds and checks its node immediately. A session computes the rows when it runs the
frame.
"""

# `operator` gives methods without a body one:
# mypy: disable-error-code="empty-body"

from __future__ import annotations

import inspect
import os
import re
import unicodedata
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, wraps
from pathlib import Path
from typing import Any, Concatenate, Literal, ParamSpec, Protocol, TypedDict, Unpack, cast, overload

import pyarrow as pa

from semgraph.errors import Fault, InputError, PlanError, Problem, among, did_you_mean
from semgraph.expr.types import PYTHON_TYPES, Type, type_of_arrow
from semgraph.folders import plans_folder
from semgraph.frontend import composed
from semgraph.frontend import dump as recording
from semgraph.frontend import head as heads
from semgraph.frontend.build import OPERATORS, SINKS, build, by_keyword, is_shorthand, plan_keys
from semgraph.frontend.classes import Called
from semgraph.frontend.document import (
    Document,
    checks_arguments,
    inside,
    parse,
    refuse_unknown,
    shown,
    walk_paths,
)
from semgraph.frontend.example_rows import plain_examples
from semgraph.frontend.functions import Functions
from semgraph.frontend.graph_files import graph_file, read_graph
from semgraph.frontend.load import Loader, dump, load_document
from semgraph.frontend.prompt_files import answer_types
from semgraph.frontend.renamed import ELSEWHERE
from semgraph.frontend.row_files import delimited_rows, json_rows, parquet_rows, rows_of_path
from semgraph.frontend.rows import (
    RowColumns,
    columns_of,
    few,
    is_empty,
    is_flat,
    is_null,
    is_pandas,
    read_rows,
    row_faults,
)
from semgraph.logical.graph import Scan
from semgraph.logical.iterate import Round
from semgraph.logical.node import Node, walk
from semgraph.logical.plan import ALL, InputSpec, LogicalPlan
from semgraph.logical.relational import Except, Input, Intersect, Union
from semgraph.logical.schema import NAME, Graph
from semgraph.logical.sinks import Sink

P = ParamSpec("P")

_STEP = inspect.Parameter(
    "step", inspect.Parameter.KEYWORD_ONLY, default=None, annotation="str | None"
)


class Operator(Protocol[P]):
    """A method of a frame, with its own arguments or with `step` too."""

    @overload
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Frame: ...
    @overload
    def __call__(self, *args: Any, step: str | None, **kwargs: Any) -> Frame: ...


class OperatorMethod(Protocol[P]):
    """The attribute of the class that such a method is."""

    def __get__(self, frame: object, owner: type | None = None) -> Operator[P]: ...


def operator(method: Callable[Concatenate[Frame, P], Frame]) -> OperatorMethod[P]:
    """Let a method without a body make the operator of its name from its arguments, the question
    first; and let it take `step`: `a.limit(3, step="few")` is `a.limit(3).step("few")`.
    """
    keyword, signature = method.__name__, inspect.signature(method)
    names = [*list(signature.parameters)[1:], "step"]

    @wraps(method)
    def named(frame: Frame, *args: Any, step: str | None = None, **kwargs: Any) -> Frame:
        refuse_unknown(keyword, kwargs, names)
        made: Any = method(frame, *args, **kwargs)
        if made is None:
            values = signature.bind(frame, *args, **kwargs).arguments
            question_first = ("prompt", "returns", "role", "examples", *names)
            arguments = {name: values[name] for name in question_first if name in values}
            sole = len(plan_keys(_CLASSES[keyword])) == 1
            made = frame.then(keyword, next(iter(arguments.values())) if sole else arguments)
        return cast("Frame", made if step is None else made.step(step))

    named.__signature__ = signature.replace(parameters=[*signature.parameters.values(), _STEP])  # type: ignore[attr-defined]
    return cast("OperatorMethod[P]", named)


OnError = Literal["raise", "null"]
Prompt = str | Mapping[str, str]
Types = Any  # types by name, of plans or of Python; a Pydantic model or TypedDict; one type
Columns = Mapping[str, Any] | Sequence[str] | str
Names = Sequence[str] | str
Using = Mapping[str, str] | Sequence[str] | str
Order = Sequence[str] | str
Condition = Sequence[str] | str
_CLASSES = by_keyword((*OPERATORS, *SINKS))


@dataclass(frozen=True, eq=False)
class Frame:
    """A relation. Its columns are known immediately, its rows when a session runs it.

    A `prompt` is a question, a file's name, or `{"on": COLUMN, ...}`; `role` names the model that
    answers it. `returns` takes types of plans (`"list<string>"`), of Python (`list[str]`,
    `Literal["a", "b"]`), or a Pydantic model: its descriptions and limits are part of the question,
    and an answer that it refuses is requested again. `examples` are rows with right answers that
    requests show: a file's name, or rows as `table` takes them.

    >>> from semgraph.frontend.frame import table
    >>> table([{"id": 1, "text": "It leaks."}]).filter("length(text) > 3").columns
    ['id', 'text']
    """

    made: recording.Made
    world: recording.World
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
        """The rows of each input that the frame is made from."""
        rows: dict[str, Any] = {
            name: frame.made.table for name, frame in input_frames(self).items()
        }
        return {name: table.replace_schema_metadata(None) for name, table in rows.items()}

    def __getattr__(self, name: str) -> Any:
        """Refuse an unknown name, with a hint at the operator that may be meant."""
        operators = [*_CLASSES, "step", "to_plan", "to_yaml", "columns", "schema", "tables"]
        hint = ELSEWHERE.get(name) or did_you_mean(name, operators)
        raise AttributeError(str(Problem(f'a frame has no "{name}"', hint=hint)))

    def __repr__(self) -> str:
        listed = ", ".join(f"{f.name} {type_of_arrow(f.type)}" for f in self.schema)
        return f"Frame({self.node.keyword}: {listed})"

    def then(self, keyword: str, arguments: Any) -> Frame:
        """An operator of the language on this relation; the methods below call it.

        Raises:
            PlanError: The arguments are wrong.
        """
        cls = _CLASSES[keyword]
        for name, plainly in (("returns", answer_types), ("examples", plain_examples)):
            if isinstance(arguments, Mapping) and arguments.get(name) is not None:
                with recording.errors_of(keyword, name):
                    arguments = {**arguments, name: plainly(arguments[name])}
        world, plain = recording.joined(self.world, arguments)
        if not is_shorthand(cls, plain):
            defaults = {key: each.default for key, each in plan_keys(cls).items()}
            plain = {
                key: value
                for key, value in plain.items()
                if value is not None
                and not (type(default := defaults.get(key)) is type(value) and default == value)
            }
        with recording.errors_of(keyword):
            node = build(cls, plain, world, source=self.node)
        key = self.key if self.key in node.schema.names else None
        return Frame(recording.Made(keyword, plain, node, self.made), world, key)

    def step(self, name: str) -> Frame:
        """The same relation as a step with this name in plans, choices and messages. Every operator
        also takes `step=name`.

        >>> from semgraph.frontend.frame import table
        >>> rows = table([{"id": 1}], name="rows")
        >>> dict(rows.limit(3, step="few").to_plan().document["steps"])
        {'few': [{'from': 'rows'}, {'limit': {'n': 3}}]}
        """
        if not NAME.match(name):
            raise PlanError(f'"{name}" cannot name a step', hint="letters, digits and _")
        if self.made.spec is not None:
            raise PlanError("an input is no step", hint=f'write table(rows, name="{name}")')
        return replace(self, made=replace(self.made, name=name))

    # -- relational operators
    # ---------------------------------------------------------------------------------------

    @operator
    def filter(self, where: Condition) -> Frame:
        """σ: the rows for which `where` is true; in a list of conditions, all must be true."""

    @operator
    def require(self, where: str, says: str, ends: bool = True, fails: bool = True) -> Frame:
        """The rows for which `where` is true; other rows fail with the text of the expression
        `says`. A row of no window ends the run, or is left out with a note if `ends` is false. If
        `fails` is false, all rows stay, and the metrics count the others by their texts.

        >>> from semgraph.frontend.frame import table
        >>> table([{"id": 1}]).require("id > 0", "concat(id, ' is no id')").columns
        ['id']
        """

    @operator
    def project(self, columns: Columns) -> Frame:
        """π: only these columns.

        >>> from semgraph.frontend.frame import table
        >>> table([{"id": 1, "text": "It leaks."}]).project({"id": None, "n": "length(text)"})
        Frame(project: id int64, n int64)
        """

    @operator
    def add(self, columns: Columns) -> Frame:
        """All columns, and these computed ones; a column with the same name is replaced."""

    @operator
    def join(
        self,
        other: Frame | str,
        alias: str | None = None,
        using: Using | None = None,
        where: str | None = None,
        how: Literal["inner", "left", "semi", "anti"] = "inner",
    ) -> Frame:
        """⋈: pairs of rows; the other row is the struct column `alias`. `where` sees the columns
        and `alias`.

        >>> from semgraph.frontend.frame import table
        >>> a, b = table([{"id": 1}], name="a"), table([{"id": 1, "n": 2}], name="b")
        >>> a.join(b, "b", using="id").filter("b.n > 1").columns
        ['id', 'b']
        """

    @operator
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

    @operator
    def limit(self, n: int, by: Names | None = None, order: Order | None = None) -> Frame:
        """The first `n` rows by `order`, of each group of equal `by`."""

    @operator
    def sample(self, n: int, by: Names | None = None, seed: int = 0) -> Frame:
        """`n` rows by their hash, or all rows of `n` values of `by`; `seed` gives another choice."""

    @operator
    def sort(self, by: Order) -> Frame:
        """τ: the same rows in the order of `by`; NULLs last, ties as they were.

        >>> from semgraph.frontend.frame import table
        >>> table([{"id": 1}, {"id": 2}]).sort("id desc")
        Frame(sort: id int64)
        """
        return self.then("sort", by if isinstance(by, str) else list(by))

    @operator
    def distinct(self, by: Names = ()) -> Frame:
        """δ: the first row of each group of equal `by`; without `by`, of equal rows."""
        return self.then("distinct", by if isinstance(by, str) else list(by))

    @operator
    def intersect(self, *others: Frame) -> Frame:
        """∩: the rows that all `others` have too, equal rows once; NULL equals NULL."""
        return _combined(Intersect, [self, *others])

    @operator
    def except_(self, *others: Frame) -> Frame:
        """−: the rows that none of the `others` has, equal rows once; NULL equals NULL."""
        return _combined(Except, [self, *others])

    @operator
    def aggregate(
        self, by: Columns | None = None, add: Columns | None = None, having: str | None = None
    ) -> Frame:
        """γ: one row for each group of equal `by`, with aggregates `add`; `having` filters the
        groups.
        """

    @operator
    def unnest(
        self,
        column: str,
        alias: str,
        position: str | None = None,
        how: Literal["inner", "left"] = "inner",
    ) -> Frame:
        """μ: a row for each element of a list; `position` names its ordinal, from 1."""

    @operator
    def cluster(
        self,
        nodes: Frame | str | None = None,
        key: str | None = None,
        source: str | None = None,
        target: str | None = None,
        alias: str = "cluster",
        weight: str | None = None,
        by: Names | None = None,
        algorithm: str | Mapping[str, Any] = "components",
        vector: str | None = None,
    ) -> Frame:
        """The rows of `nodes` with their clusters, by the edges in this relation; without `nodes`,
        the rows of this relation. `algorithm` is forest, components, or a file of `cluster/` with
        parameters: `louvain(resolution=1.2)`.
        """

    @operator
    def iterate(
        self,
        do: Callable[[Frame], Frame],
        times: int,
        until: str | None = None,
        keep: Literal["last", "all"] = "last",
        by: Names | None = None,
        key: Names | None = None,
        distinct: Names | None = None,
    ) -> Frame:
        """The rows after rounds of `do`, a function from the rows of a round to the rows of the
        next one; this relation is round 0.

        Groups of equal `by` end separately: without rows, after `times` rounds, or when `until`
        holds for a round. `until` reads the row of the previous round with the same `key` as `was`.

        >>> from semgraph.frontend.frame import table
        >>> numbers = table([{"n": 1}], name="numbers")
        >>> doubled = numbers.iterate(
        ...     lambda last: last.project({"n": "2 * n"}), times=9, until="min(n) > 50"
        ... )
        >>> dict(doubled.to_plan().document["steps"]["step1"][1]["iterate"])["do"]
        [{'from': 'last'}, {'project': {'n': '2 * n'}}]
        """
        last, body = self._looped(do)
        rest = {"until": until, "keep": keep, "by": by, "key": key, "distinct": distinct}
        rounds = {"as": last.made.arguments, "times": times, "do": body}
        made = self.then("iterate", {**rounds, **rest})
        arguments = {**made.made.arguments, "as": last.made}
        return replace(made, made=replace(made.made, arguments=arguments))

    def _looped(self, do: Callable[[Frame], Frame]) -> tuple[Frame, Frame]:
        """The last round of a loop over these rows, and the loop's body. Raises PlanError."""
        depth = recording.LOOPS.get()
        name = next(iter(inspect.signature(do).parameters), "last")
        node = Round(
            name=name, columns=self.schema, windowed=self.node.windowed, depth=depth, step=name
        )
        last = Frame(recording.Made(recording.ROUND, name, node), self.world, self.key)
        token = recording.LOOPS.set(depth + 1)
        try:
            body = do(last)
        finally:
            recording.LOOPS.reset(token)
        for made in recording.walk_made([body.made]):
            if made.name and made.node.rounds:
                hint = "questions in do belong to the step of the loop: name the loop"
                raise PlanError(f'"{made.name}" names a step inside do', hint=hint)
        return last, body

    # -- store reads
    # ------------------------------------------------------------------------------------------------

    @operator
    def search(
        self,
        over: str | Frame | Sequence[str | Frame],
        alias: str,
        k: int,
        methods: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
        where: Condition | None = None,
        fuse: Literal["rrf", "none"] = "rrf",
        order: Order | None = None,
        how: Literal["inner", "left"] = "inner",
        partition: str | Sequence[str] | None = None,
        vectors: Names | None = None,
        source: str | None = None,
        target: str | None = None,
        key: str | None = None,
    ) -> Frame:
        """For each row the best `k` hits of a label, of a frame, or of `[label, frame]`, as the
        struct column `alias`.

        `vectors` adds stored vectors. `source` and `target` name columns with the nodes at an
        edge's ends. `key` is the key column of a frame that is searched without a label; default:
        the graph's key.
        """

    @operator
    def match(
        self,
        pattern: str,
        where: str | None = None,
        how: Literal["inner", "left"] = "inner",
        partition: str | None = None,
        vectors: Names | None = None,
    ) -> Frame:
        """For each row the matching paths of the graph. The pattern's variables become struct
        columns.
        """

    # -- operators that a model answers, and writes
    # -----------------------------------------------------------------------

    @operator
    def embed(self, add: Columns) -> Frame:
        """Each row with vectors, the embeddings of texts. A text is embedded once per run; NULL
        stays NULL.

        >>> from semgraph.frontend.frame import table
        >>> table([{"id": 1, "body": "The kettle leaks."}]).embed({"vector": "body"})
        Frame(embed: id int64, body string, vector vector)
        """

    @operator
    def sem_map(
        self,
        prompt: Prompt,
        returns: Types | None = None,
        when: str | None = None,
        otherwise: Columns | None = None,
        on_error: OnError = "raise",
        schema: str | None = None,
        role: str | None = None,
        refs: Mapping[str, Mapping[str, Any]] | None = None,
        check: Mapping[str, Any] | None = None,
        examples: Any = None,
    ) -> Frame:
        """Each row with typed columns that the model answers. Rows for which `when` is not true are
        not sent and take `otherwise`.

        `schema` is a column with the JSON Schema of each row's answer: `{"field": {"type":
        "string"}}`. `refs` are relations to whose rows the answers refer: `{"known": {"of": rows,
        "using": "id", "shows": ["text"]}}` inserts numbered records for `{known}` in the prompt,
        and an answer of type `ref<known>` is the row. `check` is a condition on answers: with
        `{"where": "length(product) < 30", "message": "'too long'"}` an answer that fails it is
        requested again.

        >>> from semgraph.frontend.frame import table
        >>> tickets = table([{"id": 1, "body": "The kettle leaks."}])
        >>> tickets.sem_map("Which product is {body} about?", returns={"product": "string"}).columns
        ['id', 'body', 'product']
        """

    @operator
    def sem_filter(
        self,
        prompt: Prompt,
        on_error: OnError = "raise",
        role: str | None = None,
        returns: Types | None = None,
        when: str | None = None,
        otherwise: str | bool | None = None,
        check: Mapping[str, Any] | None = None,
        examples: Any = None,
    ) -> Frame:
        """The rows for which the model says yes, with typed columns that it answers before the
        verdict.

        Rows for which `when` is not true are not sent; they stay if `otherwise` is true. Answers
        that fail the `check` are requested again.

        >>> from semgraph.frontend.frame import table
        >>> tickets = table([{"id": 1, "body": "The kettle leaks."}])
        >>> tickets.sem_filter("Does {body} complain?", returns={"reason": "string"}).columns
        ['id', 'body', 'reason']
        """

    @operator
    def sem_join(
        self,
        other: Frame | str,
        alias: str,
        prompt: Prompt,
        using: Using | None = None,
        where: str | None = None,
        keep: Literal["all", "one"] = "all",
        order: Order | None = None,
        how: Literal["inner", "left", "semi", "anti"] = "inner",
        returns: Types | None = None,
        on_error: OnError = "raise",
        role: str | None = None,
        check: Mapping[str, Any] | None = None,
        examples: Any = None,
    ) -> Frame:
        """Pairs for which the model says yes, among the pairs that `using` and `where` allow.
        Answers that fail the `check` are requested again.
        """

    @operator
    def sem_agg(
        self,
        prompt: Prompt,
        by: Names | None = None,
        order: Order | None = None,
        when: str | None = None,
        otherwise: Columns | None = None,
        returns: Types | None = None,
        add: Columns | None = None,
        on_error: OnError = "raise",
        role: str | None = None,
        check: Mapping[str, Any] | None = None,
    ) -> Frame:
        """A row for each group of equal `by`, with answers about its rows and aggregates `add`.

        Groups for which the aggregate `when` is not true are not sent and take `otherwise`. Answers
        that fail the `check` are requested again.

        >>> from semgraph.frontend.frame import table
        >>> tickets = table([{"id": 1, "city": "Riga", "body": "The kettle leaks."}])
        >>> several = {"when": "count(*) > 1", "otherwise": {"all": "first(body)"}}
        >>> tickets.sem_agg(
        ...     "{body}", by="city", returns={"all": "string"}, add={"n": "count(*)"}, **several
        ... ).columns
        ['city', 'all', 'n']
        """

    @operator
    def sem_topk(
        self,
        prompt: Prompt,
        k: int,
        by: Names | None = None,
        on_error: OnError = "raise",
        role: str | None = None,
        examples: Any = None,
    ) -> Frame:
        """The `k` best rows of each group of equal `by`, best first, with `rank` and `score`."""

    sem_search = operator(composed.sem_search)
    sem_sim_join = operator(composed.sem_sim_join)
    sem_dedup = operator(composed.sem_dedup)
    sem_cluster_by = operator(composed.sem_cluster_by)
    sem_classify = operator(composed.sem_classify)
    sem_extract = operator(composed.sem_extract)

    @checks_arguments
    def merge(
        self,
        node: str | None = None,
        edge: str | None = None,
        key: str | None = None,
        source: str | None = None,
        target: str | None = None,
        set: Columns | None = None,  # noqa: A002 - the word of the language
        create: Columns | None = None,
        unite: Sequence[str] | str | None = None,
        only: Literal["existing"] | None = None,
        first: bool = False,
    ) -> Frame:
        """A write of these rows as nodes or edges; pass it to `plan(writes=[...])`."""
        ends = {"key": key, "source": source, "target": target}
        rest = {"set": set, "create": create, "unite": unite, "only": only, "first": first}
        return self.then("merge", {"node": node, "edge": edge, **ends, **rest})

    @checks_arguments
    def delete(
        self,
        node: str | None = None,
        edge: str | None = None,
        key: str | None = None,
        detach: bool = False,
    ) -> Frame:
        """A deletion of the nodes or edges of these rows; pass it to `plan(writes=[...])`."""
        return self.then("delete", {"node": node, "edge": edge, "key": key, "detach": detach})

    # -- plans
    # ------------------------------------------------------------------------------------------------------

    @checks_arguments
    def to_plan(
        self,
        name: str = "query",
        *,
        use: Mapping[str, str] | None = None,
        allow: Sequence[str] = (),
        doc: str = "",
    ) -> LogicalPlan:
        """The plan with this relation as its only result.

        Raises:
            PlanError: A choice names no step, or two steps have one name.
        """
        return plan(name, self, use=use, allow=allow, doc=doc)

    @checks_arguments
    def to_yaml(self, name: str = "query", *, use: Mapping[str, str] | None = None) -> str:
        """The text of the plan file of `to_plan`. Raises PlanError, also if a class validates answers:
        a file cannot hold it.
        """
        plan = self.to_plan(name, use=use)
        _refuse_classes(plan.document)
        return dump(plan)

    @checks_arguments
    def save(self, path: str | Path, use: Mapping[str, str] | None = None) -> Path:
        """Write the plan of `to_plan` to a file, which also names it.

        Raises:
            PlanError: The file would be another plan, because its folder lacks prompts or called
                plans.
        """
        return save(Path(path), self, use=use)

    @property
    def asks(self) -> bool:
        """Whether it calls the model."""
        return any(node.calls_model for node in walk(self.node))


_GRAPH = "graph.yaml"  # the file name in plans of a graph that was passed as an object
Returns = Frame | Mapping[str, Frame] | Sequence[Frame]


@checks_arguments
def plan(
    name: str,
    returns: Returns | None = None,
    *,
    writes: Sequence[Frame] = (),
    use: Mapping[str, str] | None = None,
    allow: Sequence[str] = (),
    doc: str = "",
) -> LogicalPlan:
    """A plan of frames.

    Args:
        name: Its name.
        returns: The results: a frame, frames, or frames by name.
        writes: The writes: results of `merge` and `delete` of frames.
        use: Implementations of steps, by name of the step.
        allow: Rewrites that may change answers.
        doc: A description of the plan.

    Raises:
        PlanError: The frames do not form a plan.

    >>> from semgraph.frontend.frame import table
    >>> tickets = table([{"id": 1, "body": "The kettle leaks."}], name="tickets")
    >>> plan("complaints", tickets.sem_filter("Does {body} complain?").step("complaints")).document[
    ...     "steps"
    ... ]
    {'complaints': [{'from': 'tickets'}, {'sem_filter': {'prompt': 'Does {body} complain?'}}]}
    """
    world, document = _document(name, returns, writes, use, allow, doc)
    return _load(document, world)


@checks_arguments
def save(
    path: Path,
    returns: Returns | None = None,
    *,
    writes: Sequence[Frame] = (),
    use: Mapping[str, str] | None = None,
    allow: Sequence[str] = (),
    doc: str = "",
) -> Path:
    """Write a plan of frames to a file, which also names it. Arguments as `plan`.

    Raises:
        PlanError: The file would be another plan, because its folder lacks the graph, prompts or
            called plans.
    """
    world, document = _document(path.stem, returns, writes, use, allow, doc)
    meant = _load(document, world)
    _refuse_classes(document)
    file = world.graph_file
    if file is not None:
        copied = path.parent / file.name  # a plan must not name a graph file outside its folder
        if not inside(file, (path.parent,)) and copied.is_file():
            file = copied
        document["graph"] = _graph_name(file, path.parent)
    text = recording.write_yaml(document)
    there = load_document(parse(text, shown(path)), path, functions=world.functions)
    if there.fingerprint != meant.fingerprint:
        what = f"{path} would be another plan: its graph, prompts or called plans differ"
        hint = f"save it in {world.folder}, or copy what it needs from there"
        raise PlanError(what, hint=hint)
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise PlanError(f"cannot write {path}: {error.strerror or error}") from None
    return path


def _refuse_classes(document: Mapping[str, Any]) -> None:
    values = (value for _, value in walk_paths(dict(document)))
    cls = next((value for value in values if isinstance(value, Called)), None)
    if cls is not None:
        what = f"{cls.name} has validators, or fields that only it can check: no file holds them"
        hint = "run the frame in Python, or write the conditions as check"
        raise PlanError(what, hint=hint)


def _load(document: Mapping[str, Any], world: recording.World) -> LogicalPlan:
    path = world.folder / f"{document['plan']}.yaml"
    graphs = {(world.folder / _GRAPH).resolve(): world.graph} if world.graph_file is None else {}
    try:
        return load_document(
            Document("", document), path, graphs=graphs, confined=False, functions=world.functions
        )
    except PlanError as error:
        raise PlanError(*(replace(problem, position=None) for problem in error.problems)) from None


def _document(
    name: str,
    returns: Returns | None,
    writes: Sequence[Frame],
    use: Mapping[str, str] | None,
    allow: Sequence[str],
    doc: str,
) -> tuple[recording.World, dict[str, Any]]:
    results = _results(returns)
    if not results and not writes:
        raise PlanError("a plan needs frames that it returns or writes")
    world = recording.together(
        [frame.world for frame in (*(frame for _, frame in results), *writes)]
    )
    sources = [_written(frame.made) for frame in writes]
    recorded = recording.RecordedSteps(
        [*(frame.made for _, frame in results), *sources], world.graph.labels
    )
    returned = [(result, recorded.reference(frame.made)) for result, frame in results]
    specs = {name: made.spec for name, made in recorded.inputs.items() if made.spec is not None}
    graph = _GRAPH if world.graph.labels else ""
    parts: dict[str, Any] = {
        "plan": name,
        "doc": doc,
        "graph": _graph_name(world.graph_file, world.folder) if world.graph_file else graph,
        "inputs": {
            name: {column: str(kind) for column, kind in spec.columns}
            for name, spec in specs.items()
        },
        "optional": _optional(specs.values()),
        "windows": _windows(recorded.inputs),
        "steps": recorded.steps,
        "writes": [
            {made.keyword: {"from": recorded.reference(source), **recorded.plain(made.arguments)}}
            for made, source in zip((frame.made for frame in writes), sources, strict=True)
        ],
        "returns": dict(returned) if isinstance(returns, Mapping) else [to for _, to in returned],
        "use": dict(use or {}),
        "allow": list(allow),
    }
    return world, {key: value for key, value in parts.items() if value}


def _results(returns: Returns | None) -> list[tuple[str, Frame]]:
    """The results, each with its name; "" stands for the name of its step."""
    if isinstance(returns, Mapping):
        return list(returns.items())
    return [("", frame) for frame in ([returns] if isinstance(returns, Frame) else returns or ())]


def _written(made: recording.Made) -> recording.Made:
    """The rows that a merge or a delete writes. Raises PlanError."""
    if not isinstance(made.node, Sink) or made.parent is None:
        hint = "give it frame.merge(...) or frame.delete(...)"
        raise PlanError("writes holds a frame that writes nothing", hint=hint)
    return made.parent


def _graph_name(file: Path, folder: Path) -> str:
    """A graph file in a plan of a folder: the name of a shipped graph, otherwise the path."""
    home = plans_folder().resolve()
    if file.resolve().is_relative_to(home) and not inside(folder, ()):
        return file.resolve().relative_to(home).with_suffix("").as_posix()
    return os.path.relpath(file, folder).replace(os.sep, "/")


def _optional(specs: Iterable[InputSpec]) -> list[str] | dict[str, str]:
    optional = {s.name: ALL if s.or_all else "none" for s in specs if s.optional}
    return optional if ALL in optional.values() else list(optional)


def _windows(inputs: Mapping[str, recording.Made]) -> dict[str, Any]:
    cut = {name: made.windows for name, made in inputs.items() if made.windows}
    if len(cut) > 1:
        raise PlanError("two tables have windows: " + ", ".join(cut), hint="a plan cuts one input")
    return next(({"input": name, **windows} for name, windows in cut.items()), {})


class TableOptions(TypedDict, total=False):
    """The options that `table` and the readers of files share."""

    key: str | None
    name: str | None
    types: Mapping[str, Any] | None
    graph: str | Path | Graph | None
    folder: str | Path | None
    windows: Mapping[str, Any] | None
    optional: bool | Literal["all"]
    functions: Sequence[str | Path]


@checks_arguments
def table(
    rows: Any,
    key: str | None = None,
    name: str | None = None,
    *,
    types: Mapping[str, Any] | None = None,
    graph: str | Path | Graph | None = None,
    folder: str | Path | None = None,
    windows: Mapping[str, Any] | None = None,
    optional: bool | Literal["all"] = False,
    functions: Sequence[str | Path] = (),
) -> Frame:
    """Rows as a relation.

    Args:
        rows: A data frame of pandas or Polars, an Arrow table or any object with Arrow's stream
            interface, a list of mappings, or the `Path` of a file. The index of pandas is left out:
            `reset_index()` makes it a column.
        key: The key column; its values must be distinct.
        name: The name of the input in plans; default: the name of the file, or `table`.
        types: Types of columns, of plans or of Python: `{"at": "timestamp"}`. Other types are
            inferred from values. Rows without columns have these columns.
        graph: The graph for store reads and writes: its file, a shipped graph by name (`"graph"`),
            or a `Graph`.
        folder: The folder of `prompts/` and called plans; default: the folder of the graph file,
            otherwise the working directory.
        windows: The windowing of the rows, as in a plan's `windows` without `input`.
        optional: Whether a saved plan also runs without these rows. It then has no rows; with `all`
            it has all partitions of the store.
        functions: Folders with user functions for expressions.

    Raises:
        InputError: The rows cannot be read as a table.

    >>> table([{"id": 1, "at": "2025-01-15"}], key="id")
    Frame(input: id int64, at string)
    >>> table([{"id": 1, "at": "2025-01-15"}], types={"at": "timestamp"})
    Frame(input: id int64, at timestamp)
    """
    if isinstance(rows, Path):
        rows, name = rows_of_path(rows, types or ()), name or _named_after(rows)
    name = name or "table"
    if isinstance(rows, str):
        what = f"input {name}: rows are no text"
        raise InputError(what, hint=f"the rows of a file: Path({rows[:60]!r})")
    world = _world(graph, folder, functions)
    data, spec = _spec(rows, name, types or {})
    if key is not None and key not in dict(spec.columns):
        what = f'input {name} has no column "{key}", which is to be its key'
        raise InputError(what, **among(key, data.values, "columns"))
    cut, partition = None, world.graph.partition
    if windows is not None:
        with recording.errors_of("windows"):
            cut = heads.read_windows({"input": name, **windows}, {name: spec}, partition)
    meaning = {name: ALL} if optional == ALL else [name] if optional else []
    with recording.errors_of("optional"):
        of_windows = "" if cut is None else name
        spec = heads.read_optional(meaning, {name: spec}, (), of_windows, world.graph)[name]
    unique, partition = key or (cut.key if cut else ""), cut.partition if cut else ""
    checked = read_rows(spec, data, key=unique, partition=partition)
    windowed = cut is not None
    columns = heads.input_schema(spec, windowed=windowed)
    node = Input(step=name, name=name, columns=columns, windowed=windowed)
    made = recording.Made("", {}, node, table=checked, spec=spec, windows=dict(windows or {}))
    return Frame(made, world, key)


def read_csv(
    path: str | Path, *, delimiter: str | None = None, **options: Unpack[TableOptions]
) -> Frame:
    """The rows of a file with a delimiter as a relation.

    The first line names the columns. A column has the first type that fits all its cells: integer,
    number, boolean (true and false), date, time (ISO 8601; without a zone: UTC), otherwise text.
    `007` is text. An empty cell is NULL, `""` an empty text.

    Args:
        path: The file.
        delimiter: The character between cells; default: a tab if the file ends in .tsv, else a comma.
        **options: As in `table`; the input is named after the file.

    Raises:
        InputError: The file cannot be read as rows.
    """
    read = partial(delimited_rows, delimiter=delimiter, texts=options.get("types") or ())
    return _of_file("read_csv", read, path, options, "delimiter")


def read_json(path: str | Path, **options: Unpack[TableOptions]) -> Frame:
    """The rows of a JSON file as a relation: an object on each line if it ends in .jsonl or .ndjson,
    otherwise one list of objects. `options` are as in `table`; the input is named after the file.

    Raises:
        InputError: The file cannot be read as rows.
    """
    return _of_file("read_json", json_rows, path, options)


def read_parquet(path: str | Path, **options: Unpack[TableOptions]) -> Frame:
    """The rows of a Parquet file as a relation. `options` are as in `table`; the input is named
    after the file.

    Raises:
        InputError: The file cannot be read as rows.
    """
    return _of_file("read_parquet", parquet_rows, path, options)


def _of_file(
    reader: str, read: Callable[[Path], Any], path: str | Path, options: TableOptions, *own: str
) -> Frame:
    refuse_unknown(reader, options, ["path", *own, *TableOptions.__annotations__])
    named: TableOptions = {**options, "name": options.get("name") or _named_after(Path(path))}
    return table(read(Path(path)), **named)


def _named_after(path: Path) -> str:
    return path.stem if NAME.match(path.stem) else "table"


def _world(
    graph: str | Path | Graph | None,
    folder: str | Path | None,
    functions: Sequence[str | Path] = (),
) -> recording.World:
    own = Functions(tuple(map(Path, functions)))
    if isinstance(graph, (str, Path)):
        with recording.errors_of("graph"):
            path = graph_file(graph)
        beside = path.parent if Path(graph).is_file() else Path()  # not of a shipped graph
        return recording.World(
            read_graph(path), path, beside if folder is None else Path(folder), own
        )
    return recording.World(graph or heads.NO_GRAPH, None, Path(folder or "."), own)


def _spec(rows: Any, name: str, own: Mapping[str, Any]) -> tuple[RowColumns, InputSpec]:
    """The columns of rows, and the matching declaration; `own` are the types that the user gave."""
    try:
        data = columns_of(rows)
    except Fault as fault:
        raise InputError(f"input {name} {fault.what}", hint=fault.hint) from None
    if data.count and data.count == len(data.unreadable):
        raise InputError(*few([str(row.problem) for row in data.unreadable.values()]))
    declared = _declared(name, own, data.values if data.count or data.values else None)
    columns = dict(data.values) or {column: [] for column in declared}
    if len(columns) > 1:
        columns.pop("", None)  # of an index, which is left out
    _refuse_names(name, columns, rows)
    types, problems = {}, []
    for column, values in columns.items():
        try:
            columns[column], types[column] = _typed(values, declared.get(column), data.unreadable)
        except (Fault, pa.ArrowException) as error:
            hint = getattr(error, "hint", None) or "give each column values of one type"
            mixed = _kinds(values) if isinstance(values, list) else ""
            there = _proposed(column, values) if mixed else None
            what = f'input {name}, column "{column}": {mixed or error}'
            problems.append(Problem(what, there=there, hint=hint))
    if problems:
        raise InputError(*problems)
    with recording.errors_of("table"):
        specs, faults = heads.read_inputs({name: types})
        faults.refuse()
    return replace(data, values=columns), specs[name]


def _proposed(column: str, values: list[Any]) -> str | None:
    """The type that reads all values of a column, as an argument."""
    rows = RowColumns({column: values}, len(values))
    for kind in ("timestamp", "string", "json"):
        if not row_faults(InputSpec("", ((column, Type(kind, nullable=True)),)), rows):
            return f'types={{"{column}": "{kind}"}} reads them'
    return None


def _kinds(values: list[Any]) -> str:
    """The kinds of a column's values in words, each with its first row; "" if there is one kind."""
    first: dict[str, int] = {}
    for row, value in enumerate(values, 1):
        if value is not None:
            kinds = (PYTHON_TYPES[kind] for kind in type(value).__mro__ if kind in PYTHON_TYPES)
            first.setdefault(next(kinds, type(value).__name__), row)
    return " and ".join(f"{kind} in row {row}" for kind, row in first.items() if len(first) > 1)


def _declared(
    name: str, own: Mapping[str, Any], columns: Mapping[str, Any] | None
) -> dict[str, str]:
    """The types that the user gave, in the notation of plans. Raises PlanError or InputError."""
    with recording.errors_of("table", "types"):
        types: dict[str, str] = answer_types(own)
    known = list(columns or types)
    for column in types:
        if column not in known:
            what = f'input {name} has no column "{column}", whose type is given'
            raise InputError(what, **among(column, known, "columns"))
    if not known:
        hint = 'name them: types={"text": "string"}'
        raise InputError(f"input {name} has no columns", hint=hint)
    return types


def _refuse_names(name: str, columns: Mapping[str, Any], rows: Any) -> None:
    """Refuse columns that expressions and prompts cannot name. Raises InputError."""
    odd = [column for column in columns if not NAME.match(column)]
    if not odd:
        return
    names = {str(column): column for column in rows.columns} if is_pandas(rows) else {}
    better = {names.get(column, column): _name_like(column) for column in odd}
    hint = f"rename: df.rename(columns={better})" if names else f"rename: {better}"
    what = f"input {name}: {', '.join(repr(column) for column in better)} cannot name a column"
    rule = "a name has letters, digits and _, and begins with no digit"
    raise InputError(what, there=rule, hint=hint)


def _name_like(text: str) -> str:
    words = re.sub(r"\W+", "_", unicodedata.normalize("NFC", text)).strip("_")
    return words if NAME.match(words) else f"column_{words}".rstrip("_")


def _typed(values: Any, declared: str | None, bad: Container[int]) -> tuple[Any, str]:
    """A column as an array, or unchanged if its type is `declared`, and its type in the notation of
    plans. A NULL in a row that is not bad makes it `T null`. Raises Fault.
    """
    listed = isinstance(values, list)
    good = [v for i, v in enumerate(values) if i not in bad] if listed else values
    if declared is not None:
        null = any(is_null(v) or is_empty(v) for v in good) if listed else bool(values.null_count)
        values = [None if is_null(v) else v for v in values] if listed else values
        text = declared if declared.endswith(" null") or not null else f"{declared} null"
        return values, text
    array: Any = _array(good) if listed else values
    return (array if len(array) == len(values) else values), str(_type_of(array))


def _array(values: list[Any]) -> Any:
    """Values as an array. A NaN among values that are no numbers is NULL, as in pandas. Values that
    no array can hold are left out: their rows are set aside.
    """
    flat = [value for value in values if is_flat(value)]
    try:
        return _arrow(flat)
    except (pa.ArrowException, UnicodeEncodeError, OverflowError):
        fit = [value for value in flat if _fits(value)]
        if len(fit) == len(flat):
            raise
        return _arrow(fit)


def _arrow(values: list[Any]) -> Any:
    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return pa.array(values, from_pandas=True)


def _fits(value: Any) -> bool:
    try:
        _arrow([value])
    except (UnicodeEncodeError, OverflowError):
        return False
    except pa.ArrowException:  # of its type
        pass
    return True


def _type_of(array: Any) -> Type:
    """The type of a column, with `null` if its values contain NULL, also inside lists and structs.
    Raises Fault.
    """
    array = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
    kind = type_of_arrow(array.type)
    if kind.item is not None and kind.name == "list":
        kind = replace(kind, item=_type_of(array.drop_null().flatten()))
    elif kind.name == "struct":
        fields = zip(kind.fields, array.drop_null().flatten(), strict=True)
        kind = replace(kind, fields=tuple((name, _type_of(values)) for (name, _), values in fields))
    return replace(kind, nullable=bool(array.null_count))


def input_frames(frame: Frame) -> dict[str, Frame]:
    """The inputs of a frame, including their unreadable rows."""
    return {
        made.spec.name: Frame(made, frame.world)
        for made in recording.walk_made([frame.made])
        if made.spec is not None and made.table is not None
    }


@checks_arguments
def scan(
    label: str,
    *,
    graph: str | Path | Graph,
    partition: str | None = None,
    folder: str | Path | None = None,
    functions: Sequence[str | Path] = (),
) -> Frame:
    """The stored rows of a label: `from: LABEL`. `partition="all"` reads all partitions.
    `functions` are folders, as in `table`.
    """
    world = _world(graph, folder, functions)
    arguments = label if partition is None else {"label": label, "partition": partition}
    with recording.errors_of("from"):
        node = build(Scan, arguments, world)
    return Frame(recording.Made("from", arguments, node), world)


@checks_arguments
def union(relations: Sequence[Frame], *, fill: bool = False, step: str | None = None) -> Frame:
    """∪: all rows of relations with the same columns, relation by relation. With `fill`, a missing
    column is NULL. `step` names the step.

    >>> union([table([{"id": 1}], name="a"), table([{"id": 2}], name="b")])
    Frame(union: id int64)
    """
    if not relations:
        raise PlanError("union: expected a list of relations, found nothing")
    made = _combined(Union, relations, fill=fill)
    return made if step is None else made.step(step)


def _combined(cls: type[Node], relations: Sequence[Frame], *, fill: bool = False) -> Frame:
    world, plain = recording.joined(relations[0].world, list(relations))
    plain = {"of": plain, "fill": True} if fill else plain
    with recording.errors_of(cls.keyword):
        node = build(cls, plain, world)
    return Frame(recording.Made(cls.keyword, plain, node), world)


@checks_arguments
def call(
    plan: str,
    inputs: Mapping[str, Frame],
    params: Mapping[str, Any] | None = None,
    preset: str | None = None,
    *,
    step: str = "",
    graph: str | Path | Graph | None = None,
) -> dict[str, Frame]:
    """Another plan as a step: its results by name. `step` names the step. `graph` is the graph of the
    plan, if no input has one: its file, a shipped graph by name (`"graph"`), or a `Graph`.

    Raises:
        PlanError: The plan does not exist or has errors, or the inputs do not fit.
    """
    arguments: dict[str, Any] = {"plan": plan, "inputs": dict(inputs)}
    arguments |= {"params": dict(params)} if params else {}
    arguments |= {"preset": preset} if preset else {}
    worlds = [each.world for each in inputs.values() if graph is None and isinstance(each, Frame)]
    world, plain = recording.joined(worlds[0] if worlds else _world(graph, None), arguments)
    state = heads.LoadState(functions=world.functions)
    head = heads.Head(state, Document("", {}), world.folder, confined=False, graph=world.graph)
    with recording.errors_of("call"):
        results = Loader(head).call(plain, step or "call", None, world)
    if head.state.problems:
        raise PlanError(*head.state.problems)
    if not results.tables:
        raise PlanError(f'call: plan "{plan}" returns nothing')
    made = recording.Made("call", plain, next(iter(results.tables.values())), name=step)
    return {
        name: Frame(recording.Made("result", name, node, made), world)
        for name, node in results.tables.items()
    }
