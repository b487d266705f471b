"""The interface between the engine and the implementations of semantic operators: items, outcomes
and costs. Authors import it from `semgraph.operator`; what they call is `calls` and `context`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from semgraph.expr.types import python_values
from semgraph.llm.base import Vectors
from semgraph.logical.prompt import Prompt, PromptSet, show
from semgraph.logical.semantic import VERDICTS, Semantic
from semgraph.relational.batch import dense

Block = Sequence[int]
# The implementation of each operator that defines its answers.
REFERENCES = {
    "sem_map": "per_row",
    "sem_filter": "per_row",
    "sem_join": "nested_loop",
    "sem_agg": "single",
    "sem_topk": "pointwise",
}
OPERATORS = tuple(REFERENCES)


class Item(NamedTuple):
    """An item: its left row, for sem_join its right row, and for sem_agg and sem_topk its group."""

    left: int
    right: int = -1
    group: int = 0


class Rows(NamedTuple):
    """The items to answer, and the rows they refer to.

    Args:
        left: The left rows: the columns that the prompts read (dotted paths flattened to columns
            named by the path), in row order, without duplicates except for sem_agg.
        right: The right rows of a join, without duplicates; None for other operators.
        items: The items in order: rows, for sem_join the candidate pairs, for sem_agg and sem_topk
            the rows of groups, from group 0 on, in their order. Groups with equal rows become one
            group. For sem_topk, equal rows of a group become one row, and a left row may be in
            several groups.
        partition: The partition of each left row: rows of two partitions never share a request.
        prompt: For each left row, the index of its prompt in `node.prompt.all`: rows of two prompts
            never share a request.
        times: For each left row, the number of rows of the relation that it represents because the
            prompt does not distinguish them (sem_map, sem_filter); () if each represents one.
        reasons: For each item why its earlier answers were refused; () in the first round. The
            context adds the reason to the request.
    """

    left: pa.Table
    right: pa.Table | None
    items: Sequence[Item]
    partition: Sequence[str]
    prompt: Sequence[int]
    times: Sequence[int] = ()
    reasons: Sequence[tuple[str, ...]] = ()

    def blocks(
        self,
        node: Semantic,
        *,
        left: int | None = None,
        right: int | None = None,
        pairs: int | None = None,
        order: str | None = None,
    ) -> list[list[int]]:
        """Cut the items into blocks that may share a request, each item in one.

        Args:
            node: The node of the items.
            left: The maximum number of left rows in a block; None: as many as may share a request.
            right: For pairs: the maximum number of distinct right rows; None: each left row keeps
                its whole list.
            pairs: For pairs: the maximum number of pairs in a block; a left row with more pairs is
                a block of its own.
            order: A column of `left` to sort the items by before they are cut (NULL last); default:
                their order.

        Raises:
            ValueError: The prompts name no column `order`, or a size is below 1.
        """
        for name, size in (("left", left), ("right", right), ("pairs", pairs)):
            if size is not None and size < 1:
                raise ValueError(f"{name}={size}: a block holds at least 1")
        if order is not None and order not in self.left.column_names:
            known = ", ".join(self.left.column_names) or "none"
            what = f'order="{order}" is no column that the prompts name'
            raise ValueError(f"{what}; they name {known}")
        if self.right is None:
            right = pairs = None
        keys = Keys(node, self)
        values = [] if order is None else python_values(self.left.column(order))
        places = [(value is None, 0 if value is None else value) for value in values]
        cut: list[list[int]] = []
        for items in by_key(range(len(self.items)), keys.of):
            if order is not None:
                items.sort(key=lambda item: places[keys.left[item]])
            cut += _blocks(self, items, left, right, pairs)
        return cut

    @property
    def lefts(self) -> list[int]:
        """The left row of each item."""
        return [item.left for item in self.items]

    @property
    def rights(self) -> list[int]:
        """The right row of each item, for sem_join."""
        return [item.right for item in self.items]

    def only(self, items: Sequence[int]) -> Rows:
        """The same rows with a selection of the items; items and groups are renumbered in this
        order.
        """
        chosen, reasons = [self.items[item] for item in items], self.reasons
        numbers, _ = dense([item.group for item in chosen])
        own = [item._replace(group=n) for item, n in zip(chosen, numbers, strict=True)]
        return self._replace(items=own, reasons=[reasons[i] for i in items] if reasons else ())

    def again(self, node: Semantic, refused: Mapping[int, str]) -> Rows:
        """The same rows with the items (for sem_agg: the groups) whose answers were refused,
        renumbered in this order. The reason is added to earlier reasons.
        """
        units = self.units(node)
        part = self.only([item for unit in refused for item in units[unit]])
        added = [reason for unit, reason in refused.items() for _ in units[unit]]
        before = part.reasons or [()] * len(added)
        return part._replace(reasons=[(*b, r) for b, r in zip(before, added, strict=True)])

    def groups(self) -> list[list[int]]:
        """The items of each group, in their order, for sem_agg and sem_topk."""
        return by_key(range(len(self.items)), lambda item: self.items[item].group)

    def units(self, node: Semantic) -> list[list[int]]:
        """The items of each answer: one, or for sem_agg those of a group."""
        return self.groups() if node.keyword == "sem_agg" else [[i] for i in range(len(self.items))]


class RowEstimate(NamedTuple):
    """Estimated numbers of `left` rows, distinct `right` rows, `items` and `groups`."""

    left: float
    right: float
    items: float
    groups: float


class Observed(NamedTuple):
    """Tokens per item and selectivity of the same prompts, from an earlier run or from sample
    prompts.

    With sample prompts, `shared` is the number of tokens that every call has (rules, examples,
    answer schema), and `own` the number that one item adds.
    """

    tokens_in: float
    tokens_out: float
    selectivity: float
    shared: float = 0.0
    own: float | None = None


class Cost(NamedTuple):
    """An estimate: model calls, sequential rounds, and tokens if known.

    If `rounds` is above 1, later requests depend on answers. `calls` is then an expected value or,
    with `least`, the upper end of the range that begins at `least`.
    """

    calls: float
    rounds: float = 1
    tokens_in: float | None = None
    tokens_out: float | None = None
    least: float | None = None

    @classmethod
    def of_items(cls, calls: float, items: float, seen: Observed | None) -> Cost:
        """The cost of calls in one round, with the observed tokens of `items` items."""
        if seen is None:
            return cls(calls)
        sent = items * seen.tokens_in
        if seen.own is not None:
            sent = calls * seen.shared + items * seen.own
        return cls(calls, 1, sent, items * seen.tokens_out)


class Outcome(NamedTuple):
    """The outcome of an item: the answers by name (and `keep`, `match` or `score`), or an `error`.

    `error` is a kind in one word, a colon and a message. `calls` are the ids of the calls on which
    the outcome is based.
    """

    values: Mapping[str, Any] | None
    error: str | None = None
    calls: tuple[str, ...] = ()


class Words(NamedTuple):
    """The possible one-word answers, the instruction, and examples: pairs (question, answer)."""

    words: tuple[str, ...]
    instruction: str
    examples: tuple[tuple[str, str], ...] = ()


class Part(NamedTuple):
    """A part of a group that is aggregated in one call: items, or the outcomes of earlier parts."""

    group: int
    members: Sequence[int | Outcome]


class Ranking(NamedTuple):
    """The items of one window, best first; None with an `error`. `faulty` are the items that also
    failed when they were sent alone.
    """

    order: tuple[int, ...] | None
    error: str | None = None
    calls: tuple[str, ...] = ()
    faulty: Mapping[int, Outcome] = {}


def log_odds(outcome: Outcome) -> float:
    """The log-odds of yes against no in an outcome of `Context.ask_words`."""
    assert outcome.values is not None
    yes, no = outcome.values["logprobs"]
    return float(yes - no)


def verdict_field(node: Semantic) -> pa.Field[Any] | None:
    """The field that the operator adds to the prompt's answers: `keep`, `match`, `score`, or None."""
    name = VERDICTS.get(node.keyword)
    return None if name is None else pa.field(name, pa.float64() if name == SCORE else pa.bool_())


def refuse_answers(node: Semantic, because: str) -> str | None:
    """The reason why a sem_filter implementation that returns only verdicts cannot run a node: the
    node has answers. None without answers.
    """
    names = ", ".join(name for name, _ in node.answers)
    return f"{because}, and the prompt also returns {names}; use packed" if names else None


def refuse_check(node: Semantic, because: str) -> str | None:
    """The reason why an implementation cannot run a node with a check, or None.

    It applies to implementations whose requests omit the reason of a refused answer. Classes that
    validate answers are a check.
    """
    validated = any(prompt.validators for prompt in node.prompt.all)
    if not validated and getattr(node, "check", None) is None:
        return None
    return f"{because}, and the step has a check; use {REFERENCES[node.keyword]}"


SCORE = "score"


def answer_fields(node: Semantic) -> list[pa.Field[Any]]:
    """The values of an outcome of a node: the operator's own, and the prompt's answers."""
    verdict = verdict_field(node)
    return [*([] if verdict is None else [verdict]), *node.answer_fields()]


def prompt_numbers(prompts: PromptSet, picked: Sequence[str | None]) -> list[int | None]:
    """The prompt number of each row, by its value of `on`; None if no prompt has that value."""
    first = {id(prompt): i for i, prompt in reversed([*enumerate(prompts.all)])}
    places = {value: first[id(prompt)] for value, prompt in prompts.prompts}
    rest = None if prompts.otherwise is None else first[id(prompts.otherwise)]
    return [places.get(value or "", rest) for value in picked]


class Keys:
    """The properties in which items of one request must be equal."""

    def __init__(self, node: Semantic, rows: Rows) -> None:
        self.left = rows.lefts
        self._rows = rows
        self._contexts = [prompt.context or None for prompt in node.prompt.all]
        contexts = filter(None, self._contexts)
        paths = dict.fromkeys(path for context in contexts for path in context.fields)
        self._columns = {path: python_values(rows.left.column(path)) for path in paths}
        groups = rows.groups() if node.keyword == "sem_agg" else []
        self._groups = {item: number for number, items in enumerate(groups) for item in items}
        self._keys: dict[int, tuple[str, int, str, int]] = {}

    def of(self, item: int) -> tuple[str, int, str, int]:
        """Partition, prompt, rendered context, and for sem_agg the group."""
        key = self._of_left(self.left[item])
        return (*key[:3], self._groups[item]) if self._groups else key

    def mixed(self, items: Sequence[int]) -> str | None:
        """In what items differ so that they may not share a request: `partitions`, ..., or None."""
        keys = zip(*map(self.of, items), strict=True)
        named = zip(("partitions", "prompts", "contexts"), keys, strict=False)
        return next((what for what, own in named if len(set(own)) > 1), None)

    def context(self, left: int) -> str:
        """The rendered context of a left row."""
        return self._of_left(left)[2]

    def _of_left(self, left: int) -> tuple[str, int, str, int]:
        key = self._keys.get(left)
        if key is None:
            prompt, text = self._rows.prompt[left], ""
            if context := self._contexts[prompt]:
                values = {path: self._columns[path][left] for path in context.fields}
                text = context.render(values).strip()
            key = self._keys[left] = (self._rows.partition[left], prompt, text, 0)
        return key


def _blocks(
    rows: Rows, items: Sequence[int], left: int | None, right: int | None, pairs: int | None
) -> Iterator[list[int]]:
    lefts = rows.lefts
    lists = by_key(items, lefts.__getitem__)
    if right is None:
        yield from _cut(lists, left, pairs)
        return
    rights = rows.rights
    for block in _cut(lists, left, None):
        distinct = list(dict.fromkeys(rights[item] for item in block))
        for i in range(0, len(distinct), right):
            part = set(distinct[i : i + right])
            own = (item for item in block if rights[item] in part)
            yield from _cut(by_key(own, lefts.__getitem__), None, pairs)


def by_key(items: Iterable[int], key: Callable[[int], Hashable]) -> list[list[int]]:
    """Items grouped by key, in order of first appearance."""
    groups: dict[Hashable, list[int]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return list(groups.values())


def _cut(lists: Sequence[list[int]], left: int | None, pairs: int | None) -> Iterator[list[int]]:
    """Join the item lists of left rows into blocks of at most `left` rows and `pairs` pairs."""
    block: list[int] = []
    lefts = 0
    for items in lists:
        full = left is not None and lefts == left
        if block and (full or (pairs is not None and len(block) + len(items) > pairs)):
            yield block
            block, lefts = [], 0
        block += items
        lefts += 1
    if block:
        yield block


def row_texts(node: Semantic, rows: Rows) -> list[str]:
    """For each left row the values that the prompt's item reads, one per line; "" if all are NULL."""
    names = [prompt.item_fields for prompt in node.prompt.all]
    columns = {name: python_values(rows.left.column(name)) for fields in names for name in fields}
    return [
        "\n".join(filter(None, (show(columns[f][i]) for f in names[p])))
        for i, p in enumerate(rows.prompt)
    ]


def column_texts(table: pa.Table, column: str) -> list[str]:
    """The values of a column as text; "" for NULL."""
    return [show(value) for value in python_values(table.column(column))]


def question_text(prompt: Prompt) -> str:
    """The question of a prompt without the rows: the words of its item, or else its rules."""
    words = " ".join(" ".join(text for text, _ in prompt.item.parts).split())
    return words if any(c.isalnum() for c in words) else prompt.rules.strip() or prompt.name


def queries(node: Semantic, rows: Rows) -> list[str]:
    """The query of each left row: its context if the prompt has one, otherwise the question."""
    keys = Keys(node, rows)
    own = [question_text(prompt) for prompt in node.prompt.all]
    return [keys.context(i) or own[p] for i, p in enumerate(rows.prompt)]


def cosines(vectors: Vectors, other: Vectors) -> list[float]:
    """The cosine of each vector, shape (n, dimensions), with `other`. It is 0 for zero vectors and
    NaN for NaN vectors, which stand for texts that the embedder rejected.
    """
    lengths, zeros = np.linalg.norm(vectors, axis=1) * np.linalg.norm(other), np.zeros(len(vectors))
    found = np.divide(vectors @ other, lengths, out=zeros, where=lengths != 0)
    return found.tolist()  # type: ignore[no-any-return]
