"""Yes-or-no questions: labelled rows and pairs in several framings, each task in several wordings.

The framings were chosen on the tasks and wordings of `development`; those of `test` had no
influence.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean
from typing import Any, Literal

import pyarrow as pa

from benchmarks.real.asking import Asking, Figures
from semgraph.llm.base import Limits, Wrapper
from semgraph.logical.prompt import Prompt, PromptSet, Template
from semgraph.logical.relational import Input
from semgraph.logical.semantic import SemFilter, SemJoin
from semgraph.scores.bootstrap import estimate
from semgraph.semantic.context import NodeContext
from semgraph.semantic.contract import Rows, log_odds
from semgraph.semantic.prompt.answers import YES_NO
from semgraph.semantic.verdicts import cut, fitted

DATA = Path(__file__).parent / "data"
Units = dict[tuple[str, str], tuple[int, int]]
Kind = Literal["filters", "pairs"]
SPLITS = ("test", "development")
JSON = "JSON"
CHOSEN = "one word after four examples"
FRAMINGS = {JSON: None, "one word": YES_NO._replace(examples=()), CHOSEN: YES_NO}
_LABELLED = 20
_DRAWS = 40
_LEAST = 4


@dataclass(frozen=True)
class Questions:
    """One task: its wordings, its rows, and the right answers."""

    kind: Kind
    name: str
    split: str
    wordings: Sequence[dict[str, str]]
    rows: Sequence[dict[str, Any]]

    @property
    def labels(self) -> list[bool]:
        """The right answers."""
        return [row["answer"] for row in self.rows]

    def node(self, wording: dict[str, str]) -> Any:
        """The operator, in one of the wordings."""
        item, rules = Template.parse(wording["item"]), wording.get("rules", "")
        prompts = PromptSet((("", Prompt(self.name, (), rules=rules, item=item)),))
        source = Input(name="rows", columns=pa.schema({"text": pa.string()}), step="rows")
        given: dict[str, Any] = {"prompt": prompts, "input": source, "step": self.name}
        if self.kind == "filters":
            return SemFilter(**given)
        other = Input(name="others", columns=pa.schema({"other": pa.string()}), step="others")
        return SemJoin(other=other, alias="c", **given)

    def asked(self) -> Rows:
        """The rows, or for a join the labelled pairs, as an implementation gets them."""
        numbers = pa.array(range(len(self.rows)), pa.int64())
        left = pa.table({"text": [row["text"] for row in self.rows]})
        right = (
            pa.table({"other": [row["other"] for row in self.rows]})
            if self.kind == "pairs"
            else None
        )
        items = pa.table(
            {"left": numbers} if right is None else {"left": numbers, "right": numbers}
        )
        return Rows(left, right, items, [""] * len(self.rows), [0] * len(self.rows))


def questions(kind: Kind, split: str) -> list[Questions]:
    """The tasks of one split."""
    lines = [
        json.loads(line)
        for line in (DATA / f"{kind}.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    rows = [line for line in lines if "answer" in line]
    return [
        Questions(
            kind,
            line["task"],
            split,
            line["wordings"],
            [row for row in rows if row["task"] == line["task"]],
        )
        for line in lines
        if line.get("split") == split
    ]


class _InJson(Wrapper):
    """A model with requests for JSON, whatever its preference."""

    @property
    def limits(self) -> Limits:
        """Those of the inner model."""
        return replace(self.inner.limits, yes_no="json")


async def judged(own: Asking, kind: Kind, split: str, framing: str) -> Figures:
    """The share of right answers, the mean over all tasks and wordings: by default, calibrated, and
    by division.
    """
    found: list[dict[str, float]] = []
    by_task: dict[str, list[float]] = {}
    units: dict[str, Units] = {"right": {}, "calibrated": {}}
    asked = 0
    for whole in questions(kind, split):
        for wording, task in _shares(whole, framing):
            asked += len(task.rows)
            async with own.context(task.node(wording), _InJson) as ctx:
                scores = await _scores(ctx, task, wording, framing)
            yes_from = 0.0 if framing == JSON else own.llm.limits.yes_from
            found.append(measures(scores, task.labels, yes_from, graded=framing != JSON))
            by_task.setdefault(task.name, []).append(found[-1]["right"])
            _count(
                units["right"],
                task,
                [[(s > yes_from) == y] for s, y in zip(scores, task.labels, strict=True)],
            )
            if "calibrated" in found[-1]:
                _count(units["calibrated"], task, calibrated(scores, task.labels))
    return {
        "asked": asked,
        **{name: round(mean(one[name] for one in found), 4) for name in found[0]},
        "least": round(min(one["right"] for one in found), 4),
        **{f"{name} between": _interval(some) for name, some in units.items() if some},
        "by task": ", ".join(f"{name} {mean(shares):.2f}" for name, shares in by_task.items()),
    }


def _count(units: Units, task: Questions, verdicts: Sequence[Sequence[bool]]) -> None:
    """Add the number of right verdicts, and of all, to each row of a task."""
    for row, some in zip(task.rows, verdicts, strict=True):
        right, count = units.get((task.name, str(row)), (0, 0))
        units[task.name, str(row)] = (right + sum(some), count + len(some))


def _interval(units: Units) -> str | None:
    """The 95 % interval of the share of right verdicts, by the bootstrap over rows; a row is drawn
    with all its wordings.
    """
    found = estimate(list(units.values()), lambda sums: sums[:, 0] / sums[:, 1]).interval
    return found and f"{found.low:.3f}–{found.high:.3f}"


def _shares(task: Questions, framing: str) -> list[tuple[dict[str, str], Questions]]:
    """Each wording with all rows where that is to be calibrated; else the rows are shared out over
    the wordings.
    """
    count = len(task.wordings)
    if framing == CHOSEN:
        return [(wording, task) for wording in task.wordings]
    return [
        (wording, replace(task, rows=task.rows[i::count]))
        for i, wording in enumerate(task.wordings)
    ]


async def _scores(
    ctx: NodeContext, task: Questions, wording: dict[str, str], framing: str
) -> list[float]:
    """The log-odds of yes for each row; of JSON 1 for yes and -1 for no."""
    words, node, rows = FRAMINGS[framing], task.node(wording), task.asked()
    if words is None:
        table = await ctx.ask_packed(node, rows, ([item] for item in range(len(task.rows))))
        verdicts = table.column("keep" if task.kind == "filters" else "match").to_pylist()
        return [1.0 if verdict else -1.0 for verdict in verdicts]
    outcomes = await ctx.ask_words(node, rows, words)
    return [log_odds(outcome) if outcome.values else 0.0 for outcome in outcomes]


def measures(
    scores: Sequence[float], labels: Sequence[bool], yes_from: float, *, graded: bool
) -> dict[str, float]:
    """Shares of right answers of one task in one wording, and the area under the curve of its
    scores.
    """

    def right(least: float) -> float:
        return mean((score > least) == label for score, label in zip(scores, labels, strict=True))

    if not graded:
        return {"right": right(yes_from)}
    found = {"right": right(yes_from), "even": right(0.0), "auc": _area(scores, labels)}
    if len(scores) < _LABELLED:
        return found
    shares = [share for verdicts in calibrated(scores, labels) for share in verdicts]
    return found | {"calibrated": mean(shares), "split": right(cut(scores))}


def _area(scores: Sequence[float], labels: Sequence[bool]) -> float:
    pairs = [
        (yes > no) + 0.5 * (yes == no)
        for yes, up in zip(scores, labels, strict=True) if up
        for no, other in zip(scores, labels, strict=True) if not other
    ]  # fmt: skip
    return mean(pairs)


def calibrated(scores: Sequence[float], labels: Sequence[bool]) -> list[list[bool]]:
    """For each row, whether its verdict is right, by each of many curves through random labelled
    rows without it.
    """
    draw, verdicts, draws = random.Random(7), [list[bool]() for _ in scores], 0
    everyone = range(len(scores))
    while draws < _DRAWS:
        known = draw.sample(everyone, min(_LABELLED, len(scores) - _LEAST))
        if min(sum(labels[i] for i in known), sum(not labels[i] for i in known)) < _LEAST:
            continue
        curve = fitted([scores[i] for i in known], [labels[i] for i in known])
        for i in set(everyone) - set(known):
            verdicts[i].append((curve.log_odds(scores[i]) > 0) == labels[i])
        draws += 1
    return verdicts
