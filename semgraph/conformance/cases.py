"""Nodes, rows and simulated answers for the checks of implementations, and functions that run an
implementation over them.

Left rows have the columns `name`, `at`, `kind` and `reference`, right rows of a join `name` and
`weight`.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from semgraph.conformance.oracle import Grams, Mind, Oracle
from semgraph.expr.types import TIMESTAMP, Type, parse_type
from semgraph.llm.base import LLM, Limits
from semgraph.logical.plan import Choice
from semgraph.logical.prompt import Prompt, PromptSet, Template
from semgraph.logical.relational import Input
from semgraph.logical.semantic import SemAgg, SemFilter, SemJoin, SemMap, SemTopk
from semgraph.meter import StepMetrics
from semgraph.semantic.context import Context
from semgraph.semantic.contract import Rows, answer_schema
from semgraph.semantic.implementation import Implementation, Watched, check_answer
from semgraph.semantic.library import Library

_TEXT: Any = pa.string()
LEFT: Any = pa.schema({"name": _TEXT, "at": TIMESTAMP, "kind": _TEXT, "reference": _TEXT})
RIGHT: Any = pa.schema({"name": _TEXT, "weight": pa.float64()})
K = 2
LIBRARY = Library()
MAP_RETURNS = [
    ("code", "string"),
    ("size", "int64"),
    ("weight", "double null"),
    ("seen", "timestamp null"),
    ("length", "enum<short, long>"),
    ("parts", "list<struct<word: string, on: date null, good: boolean>>"),
]
CONTEXT = "Context: {reference}"


def prompt(name: str, item: str, returns: Sequence[tuple[str, str]] = (), **more: Any) -> Prompt:
    """A prompt from its sections."""
    sections: dict[str, Any] = {
        key: Template.parse(more.pop(key)) for key in ("context", "other") if key in more
    }
    kinds = tuple((answer, parse_type(kind)) for answer, kind in returns)
    return Prompt(
        name,
        kinds,
        rules=more.pop("rules", "Be exact."),
        item=Template.parse(item),
        **sections,
        **more,
    )


def prompts(*args: Any, by: bool = False, **more: Any) -> PromptSet:
    """One prompt; or two that differ, by the column `kind`."""
    one = prompt("one", *args, **more)
    if not by:
        return PromptSet((("", one),))
    return PromptSet((("a", one),), "kind", prompt("two", *args, rules="Be kind.", **more))


def formed_prompts() -> PromptSet:
    """Two prompts, by the column `kind`, with different answer schemas."""
    held = ({"size": "int64", "at": "timestamp null"}, {"words": "list<string>"})
    forms = [
        Type("json", fields=tuple((name, parse_type(kind)) for name, kind in fields.items()))
        for fields in held
    ]
    item = Template.parse("Form “{name}” as {kind}.")
    one, two = (
        Prompt(f"form{i}", (("held", form),), rules="Be exact.", item=item)
        for i, form in enumerate(forms)
    )
    return PromptSet((("a", one),), "kind", two)


def node(
    operator: str,
    *,
    by: bool = False,
    context: bool = False,
    both: bool = False,
    answers: bool = True,
    forms: bool = False,
) -> Any:
    """A node of each operator.

    Args:
        operator: The operator.
        by: Two prompts, by the column `kind`.
        context: The prompt has a context, the column `reference`.
        both: The join's question names both rows; else it has two sections.
        answers: The join returns answers besides the match.
        forms: The map's json answer has a schema, by the column `kind`.
    """
    source = Input(name="rows", columns=LEFT, step="rows")
    more: dict[str, Any] = {"context": CONTEXT} if context else {}
    shared: dict[str, Any] = {"input": source, "step": "asked"}
    if operator == "sem_map" and forms:
        return SemMap(prompt=formed_prompts(), **shared)
    if operator == "sem_map":
        return SemMap(
            prompt=prompts("Describe “{name}” of {at}.", MAP_RETURNS, by=by, **more), **shared
        )
    if operator == "sem_filter":
        return SemFilter(prompt=prompts("Is “{name}” good?", by=by, **more), **shared)
    if operator == "sem_agg":
        returns = [("words", "list<string>"), ("rows", "int64")]
        return SemAgg(prompt=prompts("{name}", returns, by=by, **more), by=("kind",), **shared)
    if operator == "sem_topk":
        return SemTopk(
            prompt=prompts("How loud is “{name}”?", by=by, **more), k=K, by=("kind",), **shared
        )
    questions = ["Are “{name}” and “{c.name}” alike?"] if both else ["Left: {name}"]
    more |= {} if both else {"other": "Right: {name} {weight}"}
    returns = [("verdict", "enum<same, alike>"), ("note", "string null")] if answers else []
    other = Input(name="others", columns=RIGHT, step="others")
    return SemJoin(
        prompt=prompts(*questions, returns, by=by, **more), other=other, alias="c", **shared
    )


def hashed(text: str) -> int:
    """A number that depends on the text alone."""
    return zlib.crc32(text.encode())


def _describe(text: str) -> dict[str, Any]:
    name, _, at = text.removeprefix("Describe “").removesuffix(".").rpartition("” of ")
    number = hashed(name)
    return {
        "code": f"{number:x}",
        "size": len(name),
        "weight": None if number % 3 == 0 else number / 7,
        "seen": at or None,
        "length": "short" if len(name) < 5 else "long",
        "parts": [
            {"word": w, "on": "2024-02-29" if hashed(w) % 2 else None, "good": True}
            for w in name.split()
        ],
    }


def _form(text: str) -> dict[str, Any]:
    name, _, kind = text.removeprefix("Form “").removesuffix(".").rpartition("” as ")
    return {
        "held": {"size": len(name), "at": "2024-05-01"} if kind == "a" else {"words": name.split()}
    }


def names(left: str, right: str) -> tuple[str, str]:
    """The names of both rows in a question of a join."""
    if not right:
        left, right = left.removeprefix("Are “").removesuffix("” alike?").split("” and “", 1)
    else:
        left, right = left.removeprefix("Left:"), right.removeprefix("Right:").rpartition(" ")[0]
    return left.strip(), right.strip()


def _pair(left: str, right: str) -> dict[str, Any] | None:
    a, b = names(left, right)
    if a[:1].casefold() != b[:1].casefold():
        return None
    return {
        "verdict": "same" if a == b else "alike",
        "note": None if hashed(a) % 2 else a + "|" + b,
    }


def _combine(texts: list[str], earlier: list[dict[str, Any]]) -> dict[str, Any]:
    words = {word for text in texts for word in text.split()} | {
        word for part in earlier for word in part["words"]
    }
    return {"words": sorted(words), "rows": len(texts) + sum(part["rows"] for part in earlier)}


def mind(operator: str) -> Mind:
    """The answers of the model to the rows of these cases: pseudo-random, seeded by the text."""
    answers: dict[str, Callable[[str], dict[str, Any]]] = {
        "sem_map": lambda text: (_form if text.startswith("Form “") else _describe)(text),
        "sem_filter": lambda text: {"answer": "no" if hashed(text) % 2 else "yes"},
    }
    return Mind(
        answer=answers.get(operator, lambda text: {}),  # noqa: ARG005
        match=_pair,
        combine=_combine,
        score=lambda text: hashed(text) % 10001 / 100,
    )


@dataclass
class Case:
    """Rows of a check: for each left row its name, partition, prompt, reference (the context) and
    group. `again`: the answers were refused, that of item (or group) 3 because of `wrong-3-`.
    """

    operator: str
    texts: list[str | None]
    partition: list[str] = field(default_factory=list)
    kind: list[str] = field(default_factory=list)
    reference: list[str] = field(default_factory=list)
    group: list[int] = field(default_factory=list)
    others: list[str | None] = field(default_factory=list)
    pairs: list[tuple[int, int]] | None = None
    by: bool = False
    context: bool = False
    both: bool = False
    answers: bool = True
    forms: bool = False
    again: bool = False

    def node(self) -> Any:
        """The node."""
        more = {"answers": self.answers, "forms": self.forms}
        return node(self.operator, by=self.by, context=self.context, both=self.both, **more)

    def rows(self) -> Rows:
        """The rows passed to an implementation."""
        n = len(self.texts)
        kinds = self.kind or ["a"] * n
        start = datetime(2024, 5, 1, tzinfo=UTC)
        at = [
            None if t is None or len(t) % 4 == 0 else start + timedelta(days=len(t), microseconds=5)
            for t in self.texts
        ]
        columns: dict[str, Any] = {
            "name": self.texts,
            "at": at,
            "kind": kinds,
            "reference": self.reference or ["r"] * n,
        }
        left = pa.table({f.name: pa.array(columns[f.name], f.type) for f in LEFT})
        right = None
        if self.operator == "sem_join":
            weights = [None if t is None else len(t) / 2 for t in self.others]
            right = pa.table(
                {
                    "name": pa.array(self.others, pa.string()),
                    "weight": pa.array(weights, pa.float64()),
                }
            )
        partitions = self.partition or ["p"] * n
        rows = Rows(
            left,
            right,
            self._items(n),
            partitions,
            [0 if not (self.by or self.forms) or k == "a" else 1 for k in kinds],
        )
        units = len(rows.groups()) if self.operator == "sem_agg" else rows.items.num_rows
        return rows.again({i: f"wrong-{i}-" for i in range(units)}) if self.again else rows

    def _items(self, n: int) -> pa.Table:
        columns: dict[str, Sequence[int]] = {"left": range(n)}
        if self.operator == "sem_join":
            pairs = self.pairs
            if pairs is None:
                pairs = [(i, j) for i in range(n) for j in range(len(self.others))]
            columns = {"left": [i for i, _ in pairs], "right": [j for _, j in pairs]}
        if self.operator in {"sem_agg", "sem_topk"}:
            groups = self.group or [0] * n
            dense = {g: i for i, g in enumerate(dict.fromkeys(groups))}
            order = sorted(range(n), key=lambda i: dense[groups[i]])
            columns = {"group": [dense[groups[i]] for i in order], "left": order}
        return pa.table(
            {name: pa.array(list(values), pa.int64()) for name, values in columns.items()}
        )


def some(operator: str, n: int = 9, **more: Any) -> Case:
    """Some plain rows, in groups of up to six."""
    texts: list[str | None] = [f"{'abc'[i % 3]}{i} word{i % 4}" for i in range(n)]
    more.setdefault("group", [i // 6 for i in range(n)])
    return Case(operator, texts, others=[f"{c}9" for c in "abcd"], **more)


async def run(
    case: Case,
    implementation: Implementation[Any],
    llm: LLM | None = None,
    metrics: StepMetrics | None = None,
    instead: Any = None,
) -> pa.Table:
    """The checked answers of an implementation, by item; `instead` replaces the case's node."""
    llm = llm if llm is not None else Oracle(mind(case.operator))
    instead, rows = instead or case.node(), case.rows()
    async with Context(llm, Grams(), instead, metrics or StepMetrics()) as ctx:
        table = await Watched(
            implementation.answer(instead, rows, ctx), implementation, instead.step
        ).ended()
    check_answer(instead, rows, table, implementation)
    answers_: pa.Table = table.sort_by("item")
    return answers_


async def ask(
    case: Case,
    name: str,
    llm: Any = None,
    metrics: StepMetrics | None = None,
    library: Library = LIBRARY,
) -> pa.Table:
    """The answers of an implementation, by its choice."""
    table = await run(case, library.get(case.operator, Choice.parse(name)), llm, metrics)
    assert table.schema.names[: len(answer_schema(case.node()))] == answer_schema(case.node()).names
    return table


def usable(operator: str, implementation: Implementation[Any]) -> str | None:
    """The reason why an implementation cannot run these cases (such as a missing package), or None."""
    return implementation.refusal(node(operator), Limits())


def answers(table: pa.Table) -> list[dict[str, Any]]:
    """A table of answers without the calls."""
    rows: list[dict[str, Any]] = table.drop_columns("calls").to_pylist()
    return rows


def reference(operator: str) -> str:
    """The name of the implementation that defines an operator's answers."""
    return Library.reference(operator).name
