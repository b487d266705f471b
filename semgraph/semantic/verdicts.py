"""Verdicts by log-odds (the implementations `logit`) and by votes (`vote`), and rankings by windows."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

import pyarrow as pa

from semgraph.errors import PlanError, did_you_mean
from semgraph.expr.functions import key
from semgraph.llm.base import Limits
from semgraph.logical.semantic import VERDICTS, Semantic, SemJoin, SemTopk
from semgraph.semantic.context import Context
from semgraph.semantic.contract import (
    REFERENCES,
    SCORE,
    Cost,
    Item,
    Observed,
    Outcome,
    Ranking,
    RowEstimate,
    Rows,
    by_key,
    log_odds,
    prompt_numbers,
    refuse_answers,
    verdict_field,
)
from semgraph.semantic.implementation import Implementation, N, PerItem, tried


def read_labels(node: Semantic, rows: Rows, path: str) -> tuple[Rows, list[bool]]:
    """The labelled rows of a CSV, JSON lines or Parquet file, and for each whether the answer is
    yes.

    The file has the columns that the prompt reads, with the types of `rows` (right columns of a
    join with the alias as prefix, such as `c.name`), the column that selects one of several
    prompts, and the label: `keep` for a sem_filter, `match` for a sem_join. Raises PlanError.
    """
    file = _File(node, path)
    verdict = verdict_field(node)
    assert verdict is not None
    labels: list[Any] = file.column(verdict.name, verdict).to_pylist()
    if not labels:
        raise file.wrong("it has no rows")
    if None in labels:
        raise file.wrong(f'a row has no "{verdict.name}"')
    right = None
    if rows.right is not None:
        assert isinstance(node, SemJoin)
        right = file.side(rows.right, node.prompt.other_fields, f"{node.alias}.")
    items = [Item(number, number) for number in range(len(labels))]
    left = file.side(rows.left, node.prompt.fields)
    return Rows(left, right, items, [""] * len(labels), file.prompts()), labels


class _File:
    """A file of labels; errors name the file and the step."""

    def __init__(self, node: Semantic, path: str) -> None:
        self._node, self.wrong = node, partial(_wrong_labels, node, path)
        try:
            self._table = _read(Path(path).expanduser())
        except (OSError, pa.ArrowException) as error:
            first = (str(error).splitlines() or [type(error).__name__])[0]
            raise self.wrong(f"it cannot be read: {first}") from error

    def side(self, like: pa.Table, names: Sequence[str], prefix: str = "") -> pa.Table:
        """The columns of one side that the prompts read, with the types of `like`."""
        columns = (self.column(prefix + name, like.schema.field(name)) for name in names)
        return pa.table(dict(zip(names, columns, strict=True)))

    def column(self, name: str, field: pa.Field[Any]) -> pa.ChunkedArray[Any]:
        """A column with the type of a field."""
        names = self._table.column_names
        if name not in names:
            hint = did_you_mean(name, names) or f'add the column "{name}"'
            raise self.wrong(f'it has no column "{name}" (it has: {", ".join(names)})', hint)
        try:
            return self._table.column(name).cast(field.type)
        except pa.ArrowException as error:
            raise self.wrong(f'column "{name}": {str(error).splitlines()[0]}') from error

    def prompts(self) -> list[int]:
        """For each row the index of its prompt."""
        prompts = self._node.prompt
        if not prompts.on:
            return [0] * self._table.num_rows
        picked = self.column(prompts.on, pa.field(prompts.on, pa.string())).to_pylist()
        numbers = prompt_numbers(prompts, picked)
        if None in numbers:
            value = picked[numbers.index(None)]
            raise self.wrong(f'there is no prompt for {prompts.on} "{value}"')
        return [number or 0 for number in numbers]


def _wrong_labels(node: Semantic, path: str, what: str, hint: str | None = None) -> PlanError:
    return PlanError(
        f"the labels {path}: {what}", step=node.step or None, position=node.origin, hint=hint
    )


def _read(file: Path) -> pa.Table:
    from pyarrow import csv, json, parquet

    readers: dict[str, Callable[[Path], pa.Table]] = {
        ".csv": csv.read_csv,
        ".parquet": parquet.read_table,
        **dict.fromkeys((".jsonl", ".ndjson"), json.read_json),
    }
    if reader := readers.get(file.suffix.lower()):
        return reader(file).flatten()
    raise pa.ArrowInvalid("it must be a .csv, .jsonl or .parquet file")


# Pseudo-labels per answer: few labels are weak evidence for the share of each answer.
_PRIOR = 5
# The minimum spread within an answer, relative to the distance between the answers: a clean
# separation of few labels does not prove certainty.
_SPREAD = 1 / 6


class Curve(NamedTuple):
    """The probability of yes at a score: `1 / (1 + exp(-(slope * score + offset)))`."""

    slope: float
    offset: float

    def log_odds(self, score: float) -> float:
        """The calibrated log-odds of yes at a score."""
        return self.slope * score + self.offset


def fitted(scores: Sequence[float], labels: Sequence[bool]) -> Curve:
    """The curve that separates the scores of both answers, modelled as two normal distributions of
    equal variance (Fisher, 1936). Both answers must occur in `labels`.

    With about twenty labels it is closer to the best curve than logistic regression, which does not
    assume normal distributions.

    >>> curve = fitted([-1.0, 0.5, 1.0, 4.0, 5.0, 6.0], [False, False, False, True, True, True])
    >>> curve.log_odds(2.0) < 0 < curve.log_odds(3.0)
    True
    """
    pairs = list(zip(scores, labels, strict=True))
    yes, no = [s for s, label in pairs if label], [s for s, label in pairs if not label]
    high, low = mean(yes), mean(no)
    squares = math.fsum((s - high) ** 2 for s in yes) + math.fsum((s - low) ** 2 for s in no)
    variance = max(squares / max(len(pairs) - 2, 1), ((high - low) * _SPREAD) ** 2) or 1.0
    slope = (high - low) / variance
    prior = math.log((len(yes) + _PRIOR) / (len(no) + _PRIOR))
    return Curve(slope, prior - slope * (high + low) / 2)


def left_out_correct(scores: Sequence[float], labels: Sequence[bool]) -> int:
    """How many labels are predicted correctly in leave-one-out cross-validation."""
    correct = 0
    for i, (score, label) in enumerate(zip(scores, labels, strict=True)):
        curve = fitted([*scores[:i], *scores[i + 1 :]], [*labels[:i], *labels[i + 1 :]])
        correct += (curve.log_odds(score) > 0) == label
    return correct


def cut(scores: Sequence[float]) -> float:
    """The threshold that splits scores into two groups with the least variance within (Otsu,
    1979).

    >>> cut([1.0, 1.5, 2.0, 7.0, 8.0])
    4.5
    """
    rising = sorted(scores)
    total, below, best = math.fsum(rising), 0.0, (-1.0, rising[0])
    for count, (low, high) in enumerate(pairwise(rising), 1):
        below += low
        rest = len(rising) - count
        between = count * rest * (below / count - (total - below) / rest) ** 2
        if low < high:
            best = max(best, (between, (low + high) / 2))
    return best[1]


_LEAST = 4  # the minimum number of labelled rows of each answer for a curve


@dataclass(frozen=True)
class ByLogOdds(PerItem[N]):
    """An implementation with verdicts by log-odds.

    Args:
        threshold: The minimum probability of yes for the answer yes.
        labels: A file of labelled rows to calibrate the log-odds on. Empty: no calibration.
        split: Whether the log-odds of each partition and prompt are split into two groups instead.

    Raises:
        ValueError: The threshold is not a probability, or both `labels` and `split` are set.
    """

    same = False
    threshold: float = 0.5
    labels: str = ""
    split: bool = False
    curves: dict[Any, Curve] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not 0 < self.threshold < 1:
            raise ValueError("threshold must be above 0 and below 1")
        if self.labels and self.split:
            raise ValueError("labels and split exclude each other: split needs no labels")

    def refuses(self, node: N, limits: Limits) -> str | None:
        """Refuse a filter with answers, and a model that is known to return no log-probabilities."""
        if node.keyword == "sem_filter" and node.answers:
            return refuse_answers(node, "it asks for one word")
        if limits.logprobs is not False:
            return None
        return f"the model returns no log-probabilities; use {REFERENCES[node.keyword]}"

    async def answer(self, node: N, rows: Rows, ctx: Context) -> list[Outcome]:
        """Ask for one word about each item."""
        return await self.verdicts(node, rows, ctx)

    async def verdicts(self, node: N, rows: Rows, ctx: Context) -> list[Outcome]:
        """The outcome of each item: the verdict and, under `score`, the calibrated log-odds of yes.
        Raises PlanError if the labels cannot be used, and ModelUnavailable if the endpoint returns
        no log-probabilities.
        """
        key = (node.fingerprint, self._stamp())
        if self.labels and rows.items and key not in self.curves:
            self.curves[key] = await self._calibrated(node, rows, ctx)
        answers = await ctx.ask_words(node, rows)
        curve = self.curves.get(key) or Curve(1.0, -ctx.limits.yes_from)
        answered = {i: own for i, own in enumerate(answers) if own.values is not None}
        scores = {item: curve.log_odds(log_odds(own)) for item, own in answered.items()}
        if self.split:
            scores = _centred(rows, scores)
        least = math.log(self.threshold / (1 - self.threshold))
        for item, score in scores.items():
            values = {VERDICTS[node.keyword]: score > least, SCORE: score}
            answers[item] = answers[item]._replace(values=values)
        return answers

    def _stamp(self) -> tuple[int, int] | None:
        """The modification time and size of the file of labels, which invalidate a cached curve."""
        file = Path(self.labels).expanduser()
        status = file.stat() if file.is_file() else None
        return status and (status.st_mtime_ns, status.st_size)

    async def _calibrated(self, node: Semantic, rows: Rows, ctx: Context) -> Curve:
        labelled, right = read_labels(node, rows, self.labels)
        pairs = zip(await ctx.ask_words(node, labelled), right, strict=True)
        answered = [(outcome, label) for outcome, label in pairs if outcome.values is not None]
        scores, labels = [log_odds(own) for own, _ in answered], [label for _, label in answered]
        if min(sum(labels), len(labels) - sum(labels)) < _LEAST:
            what = (
                f"{sum(labels)} of the {len(labels)} rows that the model answered are labelled yes"
            )
            need = f"calibration needs at least {_LEAST} of yes and of no"
            raise _wrong_labels(node, self.labels, f"{what}: {need}")
        curve = fitted(scores, labels)
        if curve.slope <= 0:
            what = "the model's answers do not follow them"
            why = "rows labelled no have the higher log-odds"
            raise _wrong_labels(node, self.labels, f"{what}: {why}")
        ctx.note(
            f"step {node.step}: calibrated on {len(labels)} labelled rows of {self.labels}: yes from log-odds "
            f"{-curve.offset / curve.slope:.2f} on; {left_out_correct(scores, labels)} of {len(labels)} are right "
            "when each is left out"
        )
        return curve


def _centred(rows: Rows, scores: dict[int, float]) -> dict[int, float]:
    """Log-odds relative to the cut of their partition and prompt."""
    lefts, centred = rows.lefts, dict[int, float]()
    for items in by_key(scores, lambda i: (rows.partition[lefts[i]], rows.prompt[lefts[i]])):
        middle = cut([scores[item] for item in items])
        centred |= {item: scores[item] - middle for item in items}
    return centred


_MOST = 100


@dataclass(frozen=True)
class Vote(Implementation[N]):
    """Asks about each row several times, and takes the answer that agrees most with all answers.

    Args:
        samples: The number of requests per row.
        temperature: The temperature of the requests.

    Raises:
        ValueError: A parameter is out of range.
    """

    same = False
    samples: int = tried(3, 5, 9, default=5, risk="down")
    temperature: float = 0.7

    def __post_init__(self) -> None:
        if not 2 <= self.samples <= _MOST:
            raise ValueError(f"samples must be from 2 to {_MOST}")
        if not 0 < self.temperature <= 2:
            raise ValueError("temperature must be above 0, and at most 2")

    def estimate(self, node: N, rows: RowEstimate, seen: Observed | None) -> Cost:  # noqa: ARG002
        """A call for each row and sample, in one round."""
        calls = rows.items * self.samples
        return Cost.of_items(calls, calls, seen)

    async def answer(self, node: N, rows: Rows, ctx: Context) -> list[Outcome]:
        """Send each row alone, several times."""
        drawn = await ctx.ask_samples(node, rows, self.samples, self.temperature)
        return [elected(node, each) for each in drawn]


def elected(node: Semantic, samples: Sequence[Outcome]) -> Outcome:
    """The outcome of a vote: one of the sampled answers, with the share of yes as its `score`.

    The most frequent verdict wins; on a tie the first one. Among the answers with that verdict, the
    one wins that agrees most with all of them, field by field; on a tie the first one. Outvoted
    answers do not influence the fields. If fewer than half of the samples are valid, the row has
    the error of the first failed sample.
    """
    answers = [each.values for each in samples if each.values is not None]
    calls = tuple(call for each in samples for call in each.calls)
    if 2 * len(answers) < len(samples):
        return Outcome(None, next(each.error for each in samples if each.error), calls)
    verdict = VERDICTS.get(node.keyword)
    candidates, values = answers, dict[str, Any]()
    if verdict is not None:
        votes = [bool(each[verdict]) for each in answers]
        yes = sum(votes)
        winner = votes[0] if 2 * yes == len(votes) else 2 * yes > len(votes)
        candidates = [each for each, vote in zip(answers, votes, strict=True) if vote == winner]
        values[SCORE] = yes / len(votes)
    names = [name for name, _ in node.answers]
    best = max(candidates, key=lambda each: _agreement(each, candidates, names))
    return Outcome({**best, **values}, None, calls)


def _agreement(
    answer: Mapping[str, Any], answers: Sequence[Mapping[str, Any]], names: Sequence[str]
) -> float:
    """How far an answer agrees with all answers, including itself."""
    return math.fsum(
        similarity(answer[name], other[name]) for other in answers for name in names
    )  # the exact sum, so that equal answers have equal sums


def similarity(one: Any, other: Any) -> float:
    """How far two values agree, from 0 to 1.

    For lists it is the share of common entries, for structs the mean of their fields. Other values
    give 1 if they are equal and 0 otherwise; texts are compared without case and white space.

    >>> similarity(" Rome", "rome"), similarity(["a", "b"], ["b", "c"])
    (1.0, 0.3333333333333333)
    """
    if isinstance(one, Mapping) and isinstance(other, Mapping) and one.keys() == other.keys():
        return math.fsum(similarity(one[name], other[name]) for name in one) / max(len(one), 1)
    if isinstance(one, list) and isinstance(other, list):
        entries, others = set(map(normal, one)), set(map(normal, other))
        either = entries | others
        return len(entries & others) / len(either) if either else 1.0
    return float(normal(one) == normal(other))


def normal(value: Any) -> Any:
    """A hashable value, equal for texts that differ only in case and white space."""
    if isinstance(value, str):
        return key(value)
    if isinstance(value, Mapping):
        return tuple((name, normal(inner)) for name, inner in value.items())
    return tuple(map(normal, value)) if isinstance(value, list) else value


class RankedGroup(ABC):
    """A group that is ranked by windows of its items, in rounds; `errors` are its failed items."""

    def __init__(self, items: Sequence[int], k: int) -> None:
        self.k, self.size = k, len(items)
        self.errors: dict[int, Outcome] = {}
        self.calls: dict[int, tuple[str, ...]] = dict.fromkeys(items, ())

    @abstractmethod
    def windows(self) -> Sequence[Sequence[int]]:
        """The windows of the next round; none after the last."""

    @abstractmethod
    def take(self, window: Sequence[int], ranking: Ranking) -> None:
        """Use the ranking of a window of this round."""

    @abstractmethod
    def places(self) -> Iterable[int]:
        """The items, best first."""

    def fail(self, window: Sequence[int], ranking: Ranking) -> None:
        """Items that failed alone are errors; if none did, all items of the window are."""
        for item in ranking.faulty or window:
            own = ranking.faulty.get(item) or Outcome(None, ranking.error)
            self.errors[item] = own._replace(calls=(*self.calls[item], *own.calls))


async def ranked(
    node: SemTopk, rows: Rows, ctx: Context, groups: Sequence[RankedGroup]
) -> list[Outcome]:
    """Rank groups round by round, all together. The score of an item is by its rank."""
    while windows := [(group, window) for group in groups for window in group.windows()]:
        rankings = await ctx.ask_rankings(node, rows, [window for _, window in windows])
        for (group, window), ranking in zip(windows, rankings, strict=True):
            for item in window:
                group.calls[item] += ranking.calls
            group.take(window, ranking)
    outcomes = dict[int, Outcome]()
    for group in groups:
        outcomes |= group.errors
        for place, item in enumerate(i for i in group.places() if i not in group.errors):
            values = {"score": 100.0 * (1 - place / group.size)}
            outcomes[item] = Outcome(values, None, group.calls[item])
    return [outcomes[item] for item in range(len(rows.items))]
