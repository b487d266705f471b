"""LOTUS's pairwise sorts (its sem_topk), with comparisons that may fail."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass, field
from typing import Any

from semgraph.lotus.bridge import Bridge, Parts
from semgraph.lotus.model import Answer, Model, Unanswered
from semgraph.semantic.contract import Outcome

_HEAP = threading.Lock()
"""LOTUS stores the model of its heap in a class variable: two concurrent heaps would share it."""


@dataclass
class Group:
    """The rows of a group: items in LOTUS's order, and the question.

    After `Sorter.sort`, `outcomes` has a score for each item by its rank, or its error.
    """

    items: list[int]
    documents: list[dict[str, Any]]
    instruction: str
    outcomes: dict[int, Outcome] = field(default_factory=dict)


class Sorter:
    """Sorts a group, in a job's thread.

    Args:
        bridge: Runs the job.
        parts: LOTUS.
        model: Answers the comparisons.
        method: `quick`, `quick-sem`, `heap` or `naive`.
        k: The number of best rows.
        reasoning: Whether the model reasons before it answers.
    """

    def __init__(
        self, bridge: Bridge, parts: Parts, model: Model, method: str, k: int, *, reasoning: bool
    ) -> None:
        self._bridge, self._parts, self._model = bridge, parts, model
        self._method, self._k = method, k
        self._strategy = parts.reasoning if reasoning else None

    def sort(self, group: Group) -> Group:
        """Sort until all comparisons are answered; rows that cannot be compared become errors."""
        rows = list(range(len(group.items)))
        while True:
            self._model.strict = True
            try:
                order = [
                    rows[i]
                    for i in self._order([group.documents[row] for row in rows], group.instruction)
                ]
            except Unanswered as error:
                faulty = self._faulty(error, group)
                for row in [row for row in rows if group.documents[row]["text"] in faulty]:
                    answer = faulty[group.documents[row]["text"]]
                    group.outcomes[group.items[row]] = Outcome(None, answer.error, answer.calls)
                rows = [row for row in rows if group.items[row] not in group.outcomes]
            else:
                break
        calls = tuple(dict.fromkeys(self._model.calls))
        place = {row: i for i, row in enumerate(order)}
        for row in rows:
            score = 100.0 * (1 - place[row] / len(rows)) if row in place else 0.0
            group.outcomes[group.items[row]] = Outcome({"score": score}, None, calls)
        return group

    def _order(self, documents: list[dict[str, Any]], instruction: str) -> Sequence[int]:
        """LOTUS's order of documents: best first, all of them or the k best."""
        if len(documents) < 2:
            return range(len(documents))
        if self._method == "naive":
            result = self._parts.naive_sort(
                documents, self._model, instruction, strategy=self._strategy
            )
        elif self._method == "heap":
            result = self._heap(documents, instruction)
        else:
            # In a random order of rows the k-th is a random pivot, the same in each run; LOTUS's own
            # pivots differ.
            result = self._parts.quicksort(
                documents,
                self._model,
                instruction,
                self._k,
                embedding=True,
                strategy=self._strategy,
            )
        order: list[int] = result.indexes
        return order

    def _heap(self, documents: list[dict[str, Any]], instruction: str) -> Any:
        while not _HEAP.acquire(timeout=0.1):
            if self._bridge.stopped:
                raise CancelledError
        try:
            return self._parts.heapsort(
                documents, self._model, instruction, self._k, strategy=self._strategy
            )
        finally:
            _HEAP.release()

    def _faulty(self, unanswered: Unanswered, group: Group) -> dict[str, Answer]:
        """The rows that make comparisons fail, by text: those that fail in a comparison with
        themselves.

        Rows of several comparisons are tried first, because a pivot is in all of them. If neither
        row of a comparison fails by itself, both are errors.
        """
        pairs = [
            (_document(chat, 1), _document(chat, 2), answer) for chat, answer in unanswered.faults
        ]
        counts = Counter(text for left, right, _ in pairs for text in {left, right})
        faulty: dict[str, Answer] = {}
        for repeated in (True, False):
            rest = [pair for pair in pairs if pair[0] not in faulty and pair[1] not in faulty]
            texts = dict.fromkeys(
                text for pair in rest for text in pair[:2] if (counts[text] > 1) == repeated
            )
            faulty |= self._alone(list(texts), group.instruction)
        for left, right, answer in pairs:
            if left not in faulty and right not in faulty:
                faulty |= {left: answer, right: answer}
        return faulty

    def _alone(self, texts: list[str], instruction: str) -> dict[str, Answer]:
        self._model.strict = False
        pairs = [({"text": text, "image": {}},) * 2 for text in texts]
        self._model(
            [
                self._parts.match_prompt(*pair, instruction, self._model, strategy=self._strategy)
                for pair in pairs
            ]
        )
        answers = self._model.answers if texts else []
        return {text: answer for text, answer in zip(texts, answers, strict=True) if answer.error}


def _document(chat: Any, number: int) -> str:
    """A document of one of LOTUS's comparisons."""
    text: str = chat[1]["content"][number]["text"]
    return text.removeprefix(f"\nDocument {number}:\n")
