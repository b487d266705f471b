"""Nodes, rows and minds for the contract suites, and how a way is run over them."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa

from semgraph.expr.types import TIMESTAMP, parse_type
from semgraph.llm.base import Embeddings
from semgraph.logical.plan import Choice
from semgraph.logical.prompt import Prompt, PromptSet, Template
from semgraph.logical.relational import Input
from semgraph.logical.semantic import SemAgg, SemFilter, SemJoin, SemMap, SemTopk
from semgraph.meter import StepMetrics
from semgraph.physical.answers import check_answer
from semgraph.physical.context import NodeContext
from semgraph.physical.contract import Rows, answer_schema
from semgraph.physical.library import Library
from tests.operators.oracle import Mind, Oracle

OPERATORS = ("sem_map", "sem_filter", "sem_join", "sem_agg", "sem_topk")
LEFT = pa.schema([("text", pa.string()), ("at", TIMESTAMP), ("kind", pa.string()), ("reference", pa.string())])
RIGHT = pa.schema([("text", pa.string()), ("weight", pa.float64())])
K = 2
VARIANTS = {
    "sem_map": ["packed(rows=3)", "packed(rows=1)"],
    "sem_filter": ["packed(rows=3)"],
    "sem_join": ["block(left=1)", "block(left=2, right=2)", "block(right=1)", "block(pairs=3)"],
    "sem_agg": ["tree(fan_in=2)", "tree(fan_in=3)"],
    "sem_topk": ["packed(rows=3)", "listwise(window=4)", "listwise(window=5)"],
}
LIBRARY = Library()


def ways(*operators: str, same: bool | None = None, packs: bool = False) -> list[tuple[str, str]]:
    """Pairs (operator, way): every implementation that the library finds, and some with other parameters."""
    found = []
    for operator in operators or OPERATORS:
        listed = {one.name: one for one in LIBRARY.list(operator)}
        for text in [*listed, *VARIANTS[operator]]:
            one = listed[Choice.parse(text).name]
            if same in (None, one.same) and not (packs and one.reference):
                found.append((operator, text))
    return found


def prompt(name: str, item: str, returns: Sequence[tuple[str, str]] = (), **more: Any) -> Prompt:
    sections = {key: Template.parse(more.pop(key)) for key in ("context", "other") if key in more}
    kinds = tuple((answer, parse_type(kind)) for answer, kind in returns)
    return Prompt(name, kinds, rules=more.pop("rules", "Be exact."), item=Template.parse(item), **sections, **more)


def prompts(*args: Any, by: bool = False, **more: Any) -> PromptSet:
    """One prompt; or two that differ, by the column `kind`."""
    one = prompt("one", *args, **more)
    if not by:
        return PromptSet((("", one),))
    return PromptSet((("a", one),), "kind", prompt("two", *args, rules="Be kind.", **more))


MAP_RETURNS = [
    ("code", "string"),
    ("size", "int64"),
    ("weight", "double null"),
    ("seen", "timestamp null"),
    ("length", "enum<short, long>"),
    ("parts", "list<struct<word: string, on: date null, good: boolean>>"),
]
CONTEXT = "Context: {reference}"


def node(operator: str, *, by: bool = False, context: bool = False, both: bool = False) -> Any:
    """A node of each operator. `both`: the join's question names both rows; else it has two sections."""
    source = Input(name="rows", columns=LEFT, step="rows")
    more: dict[str, Any] = {"context": CONTEXT} if context else {}
    given: dict[str, Any] = {"input": source, "step": "asked"}
    if operator == "sem_map":
        return SemMap(prompt=prompts("Describe “{text}” of {at}.", MAP_RETURNS, by=by, **more), **given)
    if operator == "sem_filter":
        return SemFilter(prompt=prompts("Is “{text}” good?", by=by, **more), **given)
    if operator == "sem_agg":
        returns = [("words", "list<string>"), ("rows", "int64")]
        return SemAgg(prompt=prompts("{text}", returns, by=by, **more), by=("kind",), **given)
    if operator == "sem_topk":
        return SemTopk(prompt=prompts("How loud is “{text}”?", by=by, **more), k=K, per=("kind",), **given)
    asked = ["Are “{text}” and “{c.text}” alike?"] if both else ["Left: {text}"]
    more |= {} if both else {"other": "Right: {text} {weight}"}
    returns = [("verdict", "enum<same, alike>"), ("note", "string null")]
    other = Input(name="others", columns=RIGHT, step="others")
    return SemJoin(prompt=prompts(*asked, returns, by=by, **more), other=other, alias="c", **given)


def hashed(text: str) -> int:
    return zlib.crc32(text.encode())


def _describe(text: str) -> dict[str, Any]:
    said, _, at = text.removeprefix("Describe “").removesuffix(".").rpartition("” of ")
    number = hashed(said)
    return {
        "code": f"{number:x}",
        "size": len(said),
        "weight": None if number % 3 == 0 else number / 7,
        "seen": at or None,
        "length": "short" if len(said) < 5 else "long",
        "parts": [{"word": w, "on": "2024-02-29" if hashed(w) % 2 else None, "good": True} for w in said.split()],
    }


def _pair(left: str, right: str) -> dict[str, Any] | None:
    if not right:
        left, right = left.removeprefix("Are “").removesuffix("” alike?").split("” and “", 1)
    else:
        left, right = left.removeprefix("Left:"), right.removeprefix("Right:").rpartition(" ")[0]
    a, b = left.strip(), right.strip()
    if a[:1].casefold() != b[:1].casefold():
        return None
    return {"verdict": "same" if a == b else "alike", "note": None if hashed(a) % 2 else a + "|" + b}


def _combine(texts: list[str], earlier: list[dict[str, Any]]) -> dict[str, Any]:
    words = {word for text in texts for word in text.split()} | {word for part in earlier for word in part["words"]}
    return {"words": sorted(words), "rows": len(texts) + sum(part["rows"] for part in earlier)}


def mind(operator: str) -> Mind:
    answers: dict[str, Callable[[str], dict[str, Any]]] = {
        "sem_map": _describe,
        "sem_filter": lambda text: {"answer": "no" if hashed(text) % 2 else "yes"},
    }
    return Mind(
        answer=answers.get(operator, lambda text: {}),
        match=_pair,
        combine=_combine,
        score=lambda text: hashed(text) % 10001 / 100,
    )


@dataclass
class Case:
    """Rows to ask about: for each left row a text, its partition, the prompt, the reference in its context, its group."""

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

    def node(self) -> Any:
        return node(self.operator, by=self.by, context=self.context, both=self.both)

    def rows(self) -> Rows:
        n = len(self.texts)
        kinds = self.kind or ["a"] * n
        start = datetime(2024, 5, 1, tzinfo=UTC)
        at = [
            None if t is None or len(t) % 4 == 0 else start + timedelta(days=len(t), microseconds=5) for t in self.texts
        ]
        columns = {"text": self.texts, "at": at, "kind": kinds, "reference": self.reference or ["r"] * n}
        left = pa.table({f.name: pa.array(columns[f.name], f.type) for f in LEFT})
        right = None
        if self.operator == "sem_join":
            weights = [None if t is None else len(t) / 2 for t in self.others]
            right = pa.table({"text": pa.array(self.others, pa.string()), "weight": pa.array(weights, pa.float64())})
        whose = self.partition or ["p"] * n
        return Rows(left, right, self._items(n), whose, [0 if not self.by or k == "a" else 1 for k in kinds])

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
        return pa.table({name: pa.array(list(values), pa.int64()) for name, values in columns.items()})


class NoEmbedder:
    """Fails a test that embeds: no shipped way does."""

    name = "none"

    async def dimensions(self) -> int:
        return 2

    async def embed(self, texts: Sequence[str], partition: str = "") -> Embeddings:
        return Embeddings(np.array([[len(t), 1] for t in texts], np.float32), calls=1, attempts=1)


async def ask(
    case: Case, way: str, llm: Any = None, metrics: StepMetrics | None = None, library: Library = LIBRARY
) -> pa.Table:
    """The answers of a way, checked."""
    llm = llm if llm is not None else Oracle(mind(case.operator))
    asked, rows = case.node(), case.rows()
    implementation = library.get(case.operator, Choice.parse(way))
    async with NodeContext(llm, NoEmbedder(), asked, metrics or StepMetrics()) as ctx:  # type: ignore[arg-type]
        table = await implementation.answer(asked, rows, ctx)
    check_answer(asked, rows, table, implementation)
    assert table.schema.equals(answer_schema(asked))
    return table.sort_by("item")


def answers(table: pa.Table) -> list[dict[str, Any]]:
    """Everything of a table of answers but the calls."""
    return table.drop_columns("calls").to_pylist()


def reference(operator: str) -> str:
    return Library.reference(operator).name
