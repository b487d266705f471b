"""The five operators that a language model answers, with the names of LOTUS, and `embed`.

An implementation only answers items by number. The engine defines rows and pairs, handles errors
and assembles results.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal, Self

import pyarrow as pa

from semgraph.errors import Collected, Fault, faults_at
from semgraph.expr.duckdb import check_columns, expect_type
from semgraph.expr.scalar import Scalar
from semgraph.expr.types import Type
from semgraph.logical import node as core
from semgraph.logical.prompt import PromptSet, check_sections, without_forms

OnError = Literal["raise", "null"]
Answers = tuple[tuple[str, Type], ...]


@dataclass(frozen=True)
class Check:
    """A condition that answers must meet. An answer for which `where` is not true is requested again
    with the text of `message`, at most `retries` times; then it is an error of its row.
    """

    tag: ClassVar[str] = "Check"
    where: Scalar
    message: Scalar
    retries: int = 2

    @property
    def scalars(self) -> tuple[Scalar, Scalar]:
        """Its expressions."""
        return self.where, self.message

    @property
    def roots(self) -> frozenset[str]:
        """The columns and answers that it reads."""
        return self.where.roots | self.message.roots


# The column with the verdict, beside the answers in examples.
VERDICTS = {"sem_filter": "keep", "sem_join": "match", "sem_topk": "score"}


@dataclass(frozen=True, eq=False, kw_only=True)
class Semantic(core.Node, calls_model=True, returns_types=True):
    """A semantic operator. `on_error: null` keeps a row whose answer failed, with NULL answers.

    `returns_types` is a trait: whether a prompt returns typed answers, which plans write in
    `returns` beside an inline question.
    """

    input: core.Node = core.argument("input")
    prompt: PromptSet = core.argument("prompt")
    on_error: OnError = core.argument("choice", choices=("raise", "null"), default="raise")
    owner: str = ""  # the column with the partition of a row without a window

    @property
    def embeds(self) -> bool:
        return any(prompt.shown and prompt.shown.nearest for prompt in self.prompt.all)

    def of_model(self, model: str) -> Self:
        """The same operator, whose prompts are for this model; "": for those of their roles."""
        return replace(self, prompt=self.prompt.of_role(model)) if model else self

    @property
    def gated(self) -> bool:
        """Whether some rows or pairs may need no call."""
        return False

    @property
    def answers(self) -> Answers:
        """What the model returns for an item, typed."""
        return self.prompt.first.returns

    def answer_fields(self) -> list[pa.Field]:  # type: ignore[type-arg]
        """The answers as Arrow fields."""
        return [pa.field(name, kind.arrow) for name, kind in self.answers]

    def check_prompt(self, left: pa.Schema, right: pa.Schema | None = None) -> None:
        """Every placeholder must be a column; all prompts of a set must return the same."""
        for prompt in self.prompt.all:
            check_sections(prompt, pairs=right is not None)
            if without_forms(prompt.returns) != without_forms(self.answers):
                msg = f'prompts "{self.prompt.first.name}" and "{prompt.name}" return different things'
                raise Fault(msg, "prompt")
        for fields, schema in (
            (self.prompt.fields, left),
            (self.prompt.other_fields, right or left),
        ):
            for path in fields:
                try:
                    check_columns(core.column_scalar(path), schema)
                except Fault as fault:
                    msg = f'prompt "{self.prompt.first.name}": {fault.what}'
                    raise Fault(msg, "prompt", there=fault.there, hint=fault.hint) from None

    @property
    def reads(self) -> frozenset[str]:
        return super().reads | core.owner_column(self.input, self.owner)


@dataclass(frozen=True, eq=False, kw_only=True)
class Answering(Semantic):
    """A semantic operator with typed answers, which a `check` may judge."""

    check: Check | None = core.argument("check", default=None, added=True)

    def fit_check(self, schema: pa.Schema) -> None:
        """Refuse a check that does not fit what it sees, or judges no answer. Raises Fault."""
        if self.check is None:
            return
        faults = Collected()
        where, message = self.check.scalars
        parts = (("where", where, pa.bool_()), ("message", message, pa.string()))
        for key, scalar, kind in parts:
            with faults.at("check", key):
                expect_type(scalar, schema, kind, windows=False)
        if not faults and not self.check.where.roots & dict(self.answers).keys():
            names = ", ".join(name for name, _ in self.answers)
            there = f"its answers: {names}" if names else None
            hint = "name one, or filter the rows before" if names else "write returns: {NAME: TYPE}"
            faults.append(Fault("check reads no answer", "check", "where", there=there, hint=hint))
        faults.refuse()

    @property
    def seen_by_check(self) -> pa.Schema:
        """What its check sees: the columns of the result."""
        return self.schema


def _with_verdict(schema: pa.Schema) -> pa.Schema:
    return core.merged(schema, [pa.field("keep", pa.bool_())])


def needs_answers(node: Semantic) -> None:
    """Refuse a prompt that returns nothing."""
    if not node.answers:
        hint = 'write returns: {answer: string}, or "returns" in the prompt file'
        raise Fault(f'prompt "{node.prompt.first.name}" returns nothing', "prompt", hint=hint)


@dataclass(frozen=True, eq=False, kw_only=True)
class SemMap(Answering, keyword="sem_map", rows="1:1", carries=True, by_row=True):
    """Each row, with typed columns that the model answers. A row for which `when` is not true is
    not sent to the model and takes the values of `otherwise`.

    `schema` names a JSON column that holds the schema of the row's json answer: types by name, as
    in `returns` of a prompt. Rows that share a call share the schema. A row whose schema is NULL is
    not sent to the model.
    """

    when: Scalar | None = core.argument("scalar", default=None)
    otherwise: core.Columns = core.argument("columns", default=())
    answer_schema: str = core.argument("path", key="schema", default="", tag="form")
    stop: core.Stop | None = None
    # the operator above it requests rows as it needs them
    pulled: bool = field(default=False, metadata={"tag": "fed"})
    # columns with numbered records, and what happens to an answer `ref<COLUMN>` with an unknown number
    numbers_of: tuple[tuple[str, str], ...] = core.argument("numbers", default=(), added=True)

    def infer(self) -> pa.Schema:
        schema = self.input.schema
        self.check_prompt(schema)
        needs_answers(self)
        for f in self.answer_fields():
            core.fresh(schema, f.name, "the answer")
        core.check_condition(self.when, schema, "when", windows=True)
        if self.answer_schema:
            self._check_answer_schema()
        core.check_standing_in(self.otherwise, schema, self.answer_fields())
        result = core.merged(schema, self.answer_fields())
        self.fit_check(result)
        return result

    def _check_answer_schema(self) -> None:
        with faults_at("answer_schema"):
            expect_type(core.column_scalar(self.answer_schema), self.input.schema, pa.string())
        if [kind.name for _, kind in self.answers].count("json") != 1:
            msg = f'prompt "{self.prompt.first.name}" returns no json, or several: the schema is that of one'
            raise Fault(msg, "answer_schema", hint="returns: {attributes: json}")

    @property
    def gated(self) -> bool:
        return self.when is not None or self.stop is not None or self.pulled


@dataclass(frozen=True, eq=False, kw_only=True)
class SemFilter(
    Answering, keyword="sem_filter", sole="prompt", rows="subset", carries=True, by_row=True
):
    """The rows for which the model answers yes, with typed answers if the prompt returns some. A
    row for which `when` is not true is not sent to the model; it stays, with NULL answers, if
    `otherwise` is true.
    """

    when: Scalar | None = core.argument("scalar", default=None, added=True)
    otherwise: Scalar | None = core.argument("scalar", default=None, added=True)
    stop: core.Stop | None = None
    pulled: bool = field(default=False, metadata={"tag": "fed"})
    # the columns of its rows in the plan, if the optimizer moved it above joins that may repeat rows
    original_columns: tuple[str, ...] = field(default=(), metadata={"tag": "late"})

    def infer(self) -> pa.Schema:
        schema = self.input.schema
        self.check_prompt(schema)
        if "keep" in dict(self.answers):
            what = '"keep" is the verdict of a sem_filter: call the answer otherwise'
            raise Fault(what, "prompt")
        for f in self.answer_fields():
            core.fresh(schema, f.name, "the answer")
        core.check_condition(self.when, schema, "when", windows=True)
        core.check_condition(self.otherwise, schema, "otherwise", windows=True)
        if (self.when is None) != (self.otherwise is None):
            lacking = "when" if self.when is None else "otherwise"
            hint = "when: which rows are asked about; otherwise: whether the others stay"
            raise Fault(f"when and otherwise belong together, and {lacking} is missing", hint=hint)
        result = core.merged(schema, self.answer_fields())
        if self.check is not None and "keep" in self.check.roots:
            core.fresh(schema, "keep", "the verdict", "check")
        self.fit_check(_with_verdict(result))
        return result

    @property
    def seen_by_check(self) -> pa.Schema:
        """The columns of the result, and the verdict `keep`."""
        return _with_verdict(self.schema)

    @property
    def gated(self) -> bool:
        return self.when is not None or self.stop is not None or self.pulled


@dataclass(frozen=True, eq=False, kw_only=True)
class SemJoin(Answering, core.Pairing, keyword="sem_join", carries=True, by_row=True):
    """The pairs of rows for which the model answers yes. It is asked about the pairs that `using`
    and `where` allow; without either, about all pairs.

    The right row is the struct `alias`; typed answers are columns next to it. `keep: one` keeps the
    first match of a left row by `order`. `how: left` also keeps left rows without a match; `semi`
    keeps the left rows that have a match, `anti` those that have none.
    """

    other: core.Node = core.argument("relation")
    alias: str = core.argument("name")
    using: core.Using = core.argument("using", default=())
    where: Scalar | None = core.argument("scalar", default=None)
    keep: Literal["all", "one"] = core.argument("choice", choices=("all", "one"), default="all")
    order: tuple[core.Sort, ...] = core.argument("order", default=())
    how: core.JoinHow = core.argument(
        "choice", choices=("inner", "left", "semi", "anti"), default="inner"
    )

    def __post_init__(self) -> None:
        of_pairs = self.prompt.each(lambda prompt: replace(prompt, alias=self.alias))
        object.__setattr__(self, "prompt", of_pairs)
        super().__post_init__()

    fields: tuple[str, ...] | None = None

    def infer(self) -> pa.Schema:
        left, right = self.input.schema, self.other.schema
        core.fresh(left, self.alias, "alias", "alias")
        self.check_prompt(left, right)
        core.check_using(self.using, left, right)
        both = core.combined(left, right, self.alias, self.fields)
        core.check_condition(self.where, both)
        for f in self.answer_fields():
            core.fresh(both, f.name, "the answer")
        result = core.merged(both, self.answer_fields())
        core.check_sort(self.order, result)
        self.fit_check(result)
        return left if self.only_left else result

    @property
    def seen_by_check(self) -> pa.Schema:
        """The columns of both rows, and the answers."""
        both = core.combined(self.input.schema, self.other.schema, self.alias, self.fields)
        return core.merged(both, self.answer_fields())

    @property
    def _scalars(self) -> list[Scalar]:
        where = [] if self.where is None else [self.where]
        check = () if self.check is None else self.check.scalars
        return [*where, *(term.by for term in self.order), *check]

    @property
    def gated(self) -> bool:
        return bool(self.using) or self.where is not None

    def without_empty(self, empty: Sequence[bool]) -> core.Node:
        return self.input if empty[1] and self.how == "anti" else self

    def other_needs(self, needed: core.Needs) -> tuple[core.Needs, ...]:
        (wanted,) = super().other_needs(needed)
        own = frozenset(self.prompt.other_fields) | core.owner_column(self.other, self.owner)
        return (None if wanted is None else wanted | own,)


@dataclass(frozen=True, eq=False, kw_only=True)
class SemAgg(Answering, keyword="sem_agg", rows="collapse"):
    """One row for each group with equal `by`: the model's answers about the group's rows in
    `order`, and the aggregates `add`.

    A group for which `when` is not true is not sent to the model and takes the values of
    `otherwise`. Both are aggregates over the group's rows in `order`.
    """

    by: tuple[str, ...] = core.argument("names", default=())
    order: tuple[core.Sort, ...] = core.argument("order", default=())
    when: Scalar | None = core.argument("scalar", default=None, added=True)
    otherwise: core.Columns = core.argument("columns", tag="alone", default=())
    add: core.Columns = core.argument("columns", default=(), added=True)

    def infer(self) -> pa.Schema:
        schema = self.input.schema
        self.check_prompt(schema)
        needs_answers(self)
        core.check_names(self.by, schema, "by")
        core.check_sort(self.order, schema)
        result = pa.schema([*(schema.field(name) for name in self.by)])
        for f in self.answer_fields():
            core.fresh(result, f.name, "the answer")
        result = core.merged(result, self.answer_fields())
        groups = [core.column_scalar(name).sql for name in self.by]
        if self.when is not None:
            with faults_at("when"):
                core.expect_type_of_groups(self.when, schema, pa.bool_(), groups)
        elif self.otherwise:
            hint = "when: count(*) > 1 asks about groups of several rows"
            what = "otherwise needs when: which groups are asked about"
            raise Fault(what, "otherwise", hint=hint)
        core.check_standing_in(self.otherwise, schema, self.answer_fields(), groups)
        for f in core.typed_of_groups(self.add, schema, groups):
            core.fresh(result, f.name, "the aggregate", "add")
            result = result.append(f)
        self.fit_check(result)
        return result

    @property
    def gated(self) -> bool:
        return self.when is not None

    def narrowed(self, needed: frozenset[str]) -> core.Node:
        own = frozenset[str]() if self.check is None else self.check.roots
        return self.with_fields(add=core.needed_columns(self.add, needed | own))


@dataclass(frozen=True, eq=False, kw_only=True)
class SemTopk(Semantic, keyword="sem_topk", returns_types=False, rows="subset", carries=True):
    """The `k` best rows of each group with equal `by`, best first, with the columns `rank` (from 0)
    and `score`.
    """

    k: int = core.argument("number")
    by: tuple[str, ...] = core.argument("names", tag="per", default=())

    def infer(self) -> pa.Schema:
        schema = self.input.schema
        self.check_prompt(schema)
        core.check_names(self.by, schema, "by")
        if self.answers:
            what = "a sem_topk answers with a ranking: its prompt cannot return anything else"
            raise Fault(what, "prompt")
        if self.k < 1:
            raise Fault("k must be at least 1", "k")
        for name in ("rank", "score"):
            core.fresh(schema, name, "the answer")
        return core.merged(schema, [pa.field("rank", pa.int64()), pa.field("score", pa.float64())])


VECTOR = pa.list_(pa.float32())


@dataclass(frozen=True, eq=False, kw_only=True)
class Embed(core.Node, keyword="embed", sole="add", rows="1:1", carries=True, by_row=True):
    """Each row with columns of vectors: the embeddings of texts. A NULL text has a NULL vector.

    Equal texts are embedded once in a run, also if a search or a write embeds them.
    """

    input: core.Node = core.argument("input")
    add: core.Columns = core.argument("columns")
    owner: str = ""  # the column with the partition of a row without a window

    def infer(self) -> pa.Schema:
        result = self.input.schema
        for name, scalar in self.add:
            with faults_at("add", name):
                expect_type(scalar, self.input.schema, pa.string())
            core.fresh(result, name, "the vector", "add")
            result = result.append(pa.field(name, VECTOR))
        return result

    @property
    def embeds(self) -> bool:
        return True

    @property
    def reads(self) -> frozenset[str]:
        return super().reads | core.owner_column(self.input, self.owner)

    @property
    def is_identity(self) -> bool:
        return not self.add

    def narrowed(self, needed: frozenset[str]) -> core.Node:
        return self.with_fields(add=core.needed_columns(self.add, needed))
