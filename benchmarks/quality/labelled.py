"""A few hundred labelled rows to filter, to join and to rank, and how right the answers are."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa

from benchmarks.quality.asking import Asking, Figures, rounded
from semgraph.logical.prompt import Prompt, PromptSet, Template
from semgraph.logical.relational import Input
from semgraph.logical.semantic import SemFilter, SemJoin, SemTopk
from semgraph.scores.bootstrap import estimate
from semgraph.scores.rows import score
from semgraph.semantic.contract import Rows

FILTER, JOIN, RANKING = "sem_filter, 400 texts", "sem_join, 200 pairs", "sem_topk, 20 rankings"
CALIBRATED = "logit, 32 labels"
WAYS = {
    FILTER: (
        "per_row",
        "packed(rows=10)",
        "logit",
        CALIBRATED,
        "cascade(sample=100, rows=10, proxy=logit)",
    ),
    JOIN: ("nested_loop", "block", "logit", "cascade", "cascade(proxy=logit)"),
    RANKING: ("pointwise", "logit", "listwise", "quickselect(batch=3)", "tournament"),
}
"""Implementations by task."""
_LABELS = 32
"""The number of texts that calibrate `logit`; the others are asked about."""
_BEST = 3
DATA = Path(__file__).parent / "data"


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

    def figures(self, answers: pa.Table) -> Figures:
        """Precision, recall and F1 with its 95 % interval, and the share of right answers."""
        verdict = "match" if isinstance(self.node, SemJoin) else "keep"
        given = dict(zip(answers["item"].to_pylist(), answers[verdict].to_pylist(), strict=True))
        units = {
            item: (int(bool(given[item]) and true), int(bool(given[item])), int(true))
            for item, true in enumerate(self.truth)
        }
        own = score(units)
        found: Figures = {
            "rows": len(units),
            "yes": sum(self.truth),
            "precision": rounded(own.precision),
            "recall": rounded(own.recall),
            "f1": rounded(own.f1),
            "f1 between": _between(own.interval),
            "right": rounded(sum(given[i] is t for i, t in enumerate(self.truth)) / len(units)),
        }
        if self.test is not None:
            own = score({item: units[item] for item in self.test})
            found |= {"test f1": rounded(own.f1), "test f1 between": _between(own.interval)}
        return found


@dataclass(frozen=True)
class Rankings:
    """Groups of rows with a known order.

    Args:
        node: The operator.
        rows: Its rows.
        places: The place of each item in its group, from 0.
    """

    node: SemTopk
    rows: Rows
    places: Sequence[int]

    def figures(self, answers: pa.Table) -> Figures:
        """The share of the best three that are among the first three, and NDCG of these, means over
        the rankings with their 95 % intervals.
        """
        scores = dict(zip(answers["item"].to_pylist(), answers["score"].to_pylist(), strict=True))
        firsts = [
            [self.places[item] for item in _first(group, scores)] for group in self.rows.groups()
        ]
        size = max(self.places) + 1
        ideal = _gain(range(_BEST), size)
        measures = {
            "precision": [sum(place < _BEST for place in first) / _BEST for first in firsts],
            "ndcg": [_gain(first, size) / ideal for first in firsts],
        }
        found: Figures = {"rankings": len(firsts)}
        for name, values in measures.items():
            own = estimate([(value, 1.0) for value in values], lambda sums: sums[:, 0] / sums[:, 1])
            found |= {name: rounded(own.value), f"{name} between": _between(own.interval)}
        return found


def _first(group: Sequence[int], scores: Mapping[int, float | None]) -> list[int]:
    """The first three of a group; ties are in row order, as sem_topk has them."""
    scored = [(score, item) for item in group if (score := scores[item]) is not None]
    return [item for _, item in sorted(scored, key=lambda one: (-one[0], one[1]))[:_BEST]]


def _gain(places: Iterable[int], size: int) -> float:
    """The discounted gain of rows in this order: the best of n rows counts n, the last 1."""
    return math.fsum((size - place) / math.log2(rank) for rank, place in enumerate(places, start=2))


def _between(interval: tuple[float, float] | None) -> str | None:
    return interval and f"{interval[0]:.3f}–{interval[1]:.3f}"


Labelled = Verdicts | Rankings


def _prompts(items: Iterable[tuple[str, str]], on: str = "") -> PromptSet:
    """A prompt for each name, in the words of its item."""
    named = ((name, Prompt(name, item=Template.parse(item))) for name, item in items)
    return PromptSet(tuple(named), on=on)


def _read(name: str) -> list[dict[str, Any]]:
    """The lines of a file in `data`."""
    text = (DATA / f"{name}.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


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
    """The tasks of texts: those of the test, then those of development; each with its first
    wording.
    """
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


def _filter(prompts: PromptSet, texts: Sequence[Text]) -> Verdicts:
    columns = pa.table(
        {name: [getattr(text, name) for text in texts] for name in ("task", "text", "asked")}
    )
    source = Input(name="rows", columns=columns.schema, step="rows")
    names = [name for name, _ in prompts.prompts]
    rows = Rows(
        columns,
        None,
        pa.table({"left": pa.array(range(len(texts)), pa.int64())}),
        [""] * len(texts),
        [names.index(text.task) if prompts.on else 0 for text in texts],
    )
    test = [item for item, text in enumerate(texts) if text.test]
    node = SemFilter(prompt=prompts, input=source, step="labelled")
    return Verdicts(node, rows, [text.keep for text in texts], test)


def filtered() -> Verdicts:
    """400 texts, each with the question of its task."""
    items = ((name, task["wordings"][0]["item"]) for name, task in _questions().items())
    return _filter(_prompts(items, on="task"), texts()[0])


def filtered_by_column() -> Verdicts:
    """The same with the question in a column: a cascade learns its thresholds for each prompt, from
    more rows than one task has.
    """
    return _filter(_prompts([("", "{asked}")]), texts()[0])


def joined() -> Verdicts:
    """Ten joins of four and five rows: 200 pairs."""
    joins = _read("joins")
    prompts = _prompts(((one["join"], one["item"]) for one in joins), on="join")
    left: dict[str, list[Any]] = {"join": [], "text": []}
    right: list[str] = []
    pairs: list[tuple[int, int]] = []
    truth: list[bool] = []
    for one in joins:
        for text, matches in one["left"].items():
            others = range(len(right), len(right) + len(one["right"]))
            pairs += [(len(left["text"]), other) for other in others]
            truth += [other in matches for other in one["right"]]
            left["join"].append(one["join"])
            left["text"].append(text)
        right += one["right"]
    tables = pa.table(left), pa.table({"other": right})
    sources = [
        Input(name=name, columns=table.schema, step=name)
        for name, table in zip(("rows", "others"), tables, strict=True)
    ]
    numbers = {
        side: pa.array([pair[i] for pair in pairs], pa.int64())
        for i, side in enumerate(("left", "right"))
    }
    chosen = [[one["join"] for one in joins].index(name) for name in left["join"]]
    rows = Rows(*tables, pa.table(numbers), [""] * len(chosen), chosen)
    node = SemJoin(prompt=prompts, input=sources[0], other=sources[1], alias="c", step="labelled")
    return Verdicts(node, rows, truth)


def ranked() -> Rankings:
    """Twenty rankings of eight rows, shuffled."""
    rankings, draw = _read("rankings"), random.Random(7)
    prompts = _prompts(((one["ranking"], one["item"]) for one in rankings), on="ranking")
    shuffled = [
        (number, text, place)
        for number, one in enumerate(rankings)
        for place, text in draw.sample([*enumerate(one["best first"])], len(one["best first"]))
    ]
    columns = pa.table(
        {
            "ranking": [rankings[number]["ranking"] for number, _, _ in shuffled],
            "text": [text for _, text, _ in shuffled],
        }
    )
    numbers = [number for number, _, _ in shuffled]
    items = {"group": numbers, "left": list(range(len(numbers)))}
    rows = Rows(
        columns,
        None,
        pa.table({name: pa.array(values, pa.int64()) for name, values in items.items()}),
        [""] * len(numbers),
        numbers,
    )
    source = Input(name="rows", columns=columns.schema, step="rows")
    node = SemTopk(prompt=prompts, input=source, step="labelled", k=_BEST, by=("ranking",))
    return Rankings(node, rows, [place for _, _, place in shuffled])


def labelled(name: str, way: str) -> Labelled:
    """The rows of a task, as an implementation is asked about them."""
    if name == FILTER:
        return filtered_by_column() if way.startswith("cascade") else filtered()
    return joined() if name == JOIN else ranked()


async def answered(own: Asking, name: str, way: str) -> Figures:
    """How right the answers of one implementation are."""
    task = labelled(name, way)
    own.afford(task.rows.left["text"].to_pylist(), 1, f"{name} by {way}")
    with TemporaryDirectory() as folder:
        if way == CALIBRATED:
            labels = Path(folder) / "labels.jsonl"
            labels.write_text("".join(map(_label, texts()[1])), encoding="utf-8")
            way = f'logit(labels="{labels}")'
        answers = await own.answer(task.node, task.rows, way)
    return task.figures(answers)


def _label(text: Text) -> str:
    return json.dumps({"task": text.task, "text": text.text, "keep": text.keep}) + "\n"
