"""Labelled data: a few hundred rows to filter, to join and to rank, and stories of which some end a
fact; and how right the answers are.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa

from benchmarks.frame.cases import rounded
from benchmarks.quality.asking import Asking, Figures
from semgraph.logical.prompt import Prompt, PromptSet, Template
from semgraph.logical.relational import Input
from semgraph.logical.semantic import SemFilter, SemJoin, SemTopk
from semgraph.scores import estimate, score
from semgraph.semantic.contract import Item, Outcome, Rows

DATA = Path(__file__).parent / "data"
FILTER, JOIN, RANKING = "sem_filter, 400 texts", "sem_join, 200 pairs", "sem_topk, 20 rankings"
CALIBRATED = "logit, 32 labels"
WAYS = {
    FILTER: ("per_row", "packed(rows=10)", "logit", CALIBRATED, "cascade(sample=100, rows=10, proxy=logit)"),
    JOIN: ("nested_loop", "block", "logit", "cascade", "cascade(proxy=logit)"),
    RANKING: ("pointwise", "logit", "listwise", "quickselect(batch=3)", "tournament"),
}  # fmt: skip
"""Implementations by task."""
SPLITS = ("test", "development")
_LABELS = 32
"""The number of texts that calibrate `logit`; the others are asked about."""
_BEST = 3


@dataclass(frozen=True)
class Verdicts:
    """Rows or pairs with the answer yes or no.

    Args:
        node: The operator.
        rows: Its rows.
        truth: The right answer to each item.
        test: The items that nothing was chosen by; None: all.
    """

    node: Any
    rows: Rows
    truth: Sequence[bool]
    test: Sequence[int] | None = None

    def figures(self, answers: Sequence[Outcome]) -> Figures:
        """Precision, recall and F1 with its 95 % interval, and the share of right answers."""
        verdict = "match" if isinstance(self.node, SemJoin) else "keep"
        given = [(answer.values or {}).get(verdict) for answer in answers]
        units = {
            item: (int(bool(given[item]) and true), int(bool(given[item])), int(true))
            for item, true in enumerate(self.truth)
        }
        own, right = score(units), sum(given[i] is t for i, t in enumerate(self.truth))
        found: Figures = {
            "rows": len(units),
            "yes": sum(self.truth),
            "precision": rounded(own.precision),
            "recall": rounded(own.recall),
            "f1": rounded(own.f1),
            "f1 between": _between(own.interval),
            "right": rounded(right / len(units)),
        }
        if self.test is not None:
            own = score({item: units[item] for item in self.test})
            found |= {"test f1": rounded(own.f1), "test f1 between": _between(own.interval)}
        return found


@dataclass(frozen=True)
class Rankings:
    """Groups of rows with a known order; `places` has the place of each item in its group, from 0."""

    node: SemTopk
    rows: Rows
    places: Sequence[int]

    def figures(self, answers: Sequence[Outcome]) -> Figures:
        """The share of the best three that are among the first three, and NDCG of these, means over
        the rankings with their 95 % intervals. Ties are in row order, as sem_topk has them.
        """
        scores: list[Any] = [(answer.values or {}).get("score") for answer in answers]
        size, firsts = max(self.places) + 1, list[list[int]]()
        for group in self.rows.groups():
            scored = sorted((-scores[item], item) for item in group if scores[item] is not None)
            firsts.append([self.places[item] for _, item in scored[:_BEST]])

        def gain(places: Iterable[int]) -> float:
            """The discounted gain: the best of n rows counts n, the last 1."""
            return math.fsum((size - place) / math.log2(n) for n, place in enumerate(places, 2))

        measures = {
            "precision": [sum(place < _BEST for place in first) / _BEST for first in firsts],
            "ndcg": [gain(first) / gain(range(_BEST)) for first in firsts],
        }
        found: Figures = {"rankings": len(firsts)}
        for name, values in measures.items():
            own = estimate([(value, 1.0) for value in values], lambda sums: sums[:, 0] / sums[:, 1])
            found |= {name: rounded(own.value), f"{name} between": _between(own.interval)}
        return found


def _between(interval: tuple[float, float] | None) -> str | None:
    return interval and f"{interval[0]:.3f}–{interval[1]:.3f}"


def _read(name: str) -> list[dict[str, Any]]:
    """The lines of a file in `data`."""
    text = (DATA / f"{name}.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def _prompts(items: Mapping[str, str], on: str = "") -> PromptSet:
    """A prompt for each name, in the words of its item."""
    named = ((name, Prompt(name, item=Template.parse(item))) for name, item in items.items())
    return PromptSet(tuple(named), on=on)


def one_prompt(item: str) -> PromptSet:
    """A prompt with this item."""
    return _prompts({"": item})


def as_input(name: str, columns: pa.Table) -> Input:
    """Rows as an input of an operator."""
    return Input(name=name, columns=columns.schema, step=name)


@dataclass(frozen=True)
class Text:
    """A labelled text: its task, its text, its answer, whether it belongs to the test, and the
    question about it as it is sent.
    """

    task: str
    text: str
    keep: bool
    test: bool
    asked: str


def _questions() -> dict[str, dict[str, Any]]:
    """The tasks of texts, those of the test first; each with its first wording."""
    tasks = [line for line in _read("filters") if "split" in line]
    return {line["task"]: line for line in sorted(tasks, key=lambda line: line["split"] != "test")}


def texts() -> tuple[list[Text], list[Text]]:
    """The texts that are asked about, and those that calibrate: drawn by chance from all tasks."""
    rows = [line for line in _read("filters") if "answer" in line]
    every = []
    for name, task in _questions().items():
        item, test = Template.parse(task["wordings"][0]["item"]), task["split"] == "test"
        own = (row for row in rows if row["task"] == name)
        every += [Text(name, row["text"], row["answer"], test, item.render(row)) for row in own]
    labels = set(random.Random(7).sample(range(len(every)), _LABELS))
    asked = [text for i, text in enumerate(every) if i not in labels]
    return asked, [every[i] for i in sorted(labels)]


def filtered(*, by_column: bool) -> Verdicts:
    """400 texts, each with the question of its task; or with the question in a column: a cascade
    learns its thresholds for each prompt, from more rows than one task has.
    """
    items = {name: task["wordings"][0]["item"] for name, task in _questions().items()}
    prompts = _prompts({"": "{asked}"}) if by_column else _prompts(items, on="task")
    chosen, names = texts()[0], list(items)
    shown = ("task", "text", "asked")
    columns = pa.table({name: [getattr(text, name) for text in chosen] for name in shown})
    which = [0 if by_column else names.index(text.task) for text in chosen]
    rows = Rows(
        columns, None, [Item(item) for item in range(len(chosen))], [""] * len(chosen), which
    )
    test = [item for item, text in enumerate(chosen) if text.test]
    node = SemFilter(prompt=prompts, input=as_input("rows", columns), step="labelled")
    return Verdicts(node, rows, [text.keep for text in chosen], test)


def joined() -> Verdicts:
    """Ten joins of four and five rows: 200 pairs."""
    joins = _read("joins")
    prompts = _prompts({one["join"]: one["item"] for one in joins}, on="join")
    left: dict[str, list[str]] = {"join": [], "text": []}
    right, pairs, truth = list[str](), list[tuple[int, int]](), list[bool]()
    for one in joins:
        for text, matches in one["left"].items():
            pairs += [(len(left["text"]), len(right) + n) for n in range(len(one["right"]))]
            truth += [other in matches for other in one["right"]]
            left["join"].append(one["join"])
            left["text"].append(text)
        right += one["right"]
    sides = pa.table(left), pa.table({"other": right})
    numbers = [Item(*pair) for pair in pairs]
    names = [one["join"] for one in joins]
    which = [names.index(name) for name in left["join"]]
    rows = Rows(*sides, numbers, [""] * len(which), which)
    inputs: Any = {"input": as_input("rows", sides[0]), "other": as_input("others", sides[1])}
    return Verdicts(SemJoin(prompt=prompts, alias="c", step="labelled", **inputs), rows, truth)


def ranked() -> Rankings:
    """Twenty rankings of eight rows, shuffled."""
    rankings, draw = _read("rankings"), random.Random(7)
    prompts = _prompts({one["ranking"]: one["item"] for one in rankings}, on="ranking")
    shuffled = [
        (number, text, place)
        for number, one in enumerate(rankings)
        for place, text in draw.sample([*enumerate(one["best first"])], len(one["best first"]))
    ]
    numbers = [number for number, _, _ in shuffled]
    names = [rankings[number]["ranking"] for number in numbers]
    columns = pa.table({"ranking": names, "text": [text for _, text, _ in shuffled]})
    items = [Item(row, group=number) for row, number in enumerate(numbers)]
    rows = Rows(columns, None, items, [""] * len(numbers), numbers)
    given: Any = {"prompt": prompts, "input": as_input("rows", columns), "by": ("ranking",)}
    node = SemTopk(step="labelled", k=_BEST, **given)
    return Rankings(node, rows, [place for _, _, place in shuffled])


async def answered(name: str, way: str, own: Asking, _: int) -> Figures:
    """How right the answers of one implementation are."""
    task: Verdicts | Rankings = joined() if name == JOIN else ranked()
    if name == FILTER:
        task = filtered(by_column=way.startswith("cascade"))
    own.afford(task.rows.left["text"].to_pylist(), 1, f"{name} by {way}")
    with TemporaryDirectory() as folder:
        if way == CALIBRATED:
            labels = Path(folder) / "labels.jsonl"
            lines = ({"task": t.task, "text": t.text, "keep": t.keep} for t in texts()[1])
            labels.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
            way = f'logit(labels="{labels}")'
        return task.figures(await own.answer(task.node, task.rows, way))


async def contradicted(split: str, own: Asking, _: int) -> Figures:
    """Stories of which some end a fact: whether those facts end, and no others, by the step of
    add_episode that compares a new fact with the known ones.
    """
    right, wrong, missed = list[str](), list[str](), list[str]()
    for story in (line for line in _read("contradictions") if line["split"] == split):
        name, at = story["name"], datetime(2025, 3, 3, 9, tzinfo=UTC)
        times = {"said_at": at, "valid_at": at, "invalid_at": None}
        fact = {"uuid": "new", "group_id": name, "fact": story["new"], **times}
        pair = {"uuid": "new", "pool": "rival"}
        pairs = [
            {**pair, "known": str(n), "old": {"fact": known["fact"]}, "rank": n + 1}
            for n, known in enumerate(story["known"])
        ]
        result = await own.run("ask_apart", facts=[fact], pairs=pairs)
        verdicts = result.tables["verdicts"].to_pylist()
        ended = {int(row["known"]) for row in verdicts if row["verdict"] == "contradicts"}
        due = {n for n, known in enumerate(story["known"]) if known["is"] == "contradicts"}
        right += [name] * len(ended & due)
        wrong += [name] * len(ended - due)
        missed += [name] * len(due - ended)
    ends, found = len(right) + len(missed), len(right) + len(wrong)
    return {
        "to end": ends, "ended": len(right), "ended wrongly": len(wrong), "missed": ", ".join(missed),
        "wrong": ", ".join(wrong), "recall": rounded(len(right) / ends if ends else None),
        "precision": rounded(len(right) / found if found else None),
    }  # fmt: skip
