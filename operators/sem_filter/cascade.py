"""Calls the model for a random sample, and decides the rest by similarity with statistical
guarantees.

Each row gets a score: the cosine of the embeddings of its text and of the question or, with
`proxy=logit`, the log-odds of yes from one token of the model of the role `role`. The model answers
a uniformly random sample of `sample` rows, from which two thresholds are learned: rows below the
lower one are dropped without a call, rows from the upper one on are kept without a call, and the
rows in between go to the model, packed. Sampled rows keep the model's answer.

The guarantee holds for each partition and prompt, against the answers that the model would give to
all rows (an error counts as no): with probability at least 1 - delta over the draw of the sample,
the kept rows include at least `recall` of the rows that the model would keep, and at least
`precision` of the kept rows are among them. Rows with equal prompts are sent once, and count as
often as they occur, in the sample too.

- Lower threshold, at delta / 2: a low order statistic of the scores of the kept rows of the sample.
  The number of sampled rows among the lowest is hypergeometric; its lower tail is bounded by the
  binomial's, because the number of rows to keep is not known. A single threshold needs no
  correction for multiple tests.
- Upper threshold, at delta / 2: ten candidates, at tenths of all rows by score, fixed before any
  answer is known. Each is tested with the exact hypergeometric tail at delta / 20 (Bonferroni), and
  the lowest that passes is used.

There are no assumptions about the scores: bad scores cost calls, not quality. If the sample shows
nothing (for example because too few rows are kept), all rows go to the model. A partition of at
most `sample` distinct rows goes to the model as a whole, and so do rows without text. The draw
depends on the step and the partition alone, so a run can be repeated; the guarantee is about the
draw, not about one run.

`proxy=logit` pays if the model of `role` is much cheaper than that of the prompt: bind one to the
role `small`. It is called for every row; without a model for `small`, the prompt's own model is. Its
endpoint must return log-probabilities.

Sources: Kang et al., SUPG (VLDB 2020), and Zeighami et al., BARGAIN (2025), for cascades with
guarantees; Uhlmann (1966) for the binomial bound of the hypergeometric tail.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import semgraph.operator as op

_CANDIDATES = 10
_NOTHING = -math.inf, math.inf


class _Sample(NamedTuple):
    """The readable rows of a partition and prompt, each as often as it occurs, and the indices of
    the sample among them.
    """

    partition: str
    prompt: int
    rows: list[int]
    places: list[int]

    @property
    def drawn(self) -> list[int]:
        """The rows of the sample."""
        return [self.rows[place] for place in self.places]


@dataclass(frozen=True)
class Cascade(op.Implementation[op.SemFilter]):
    """Recall and precision are relative to the model's own answers, with probability 1 - delta; see
    the module.
    """

    same = False
    learns = True
    recall: float = 0.9
    precision: float = 0.9
    delta: float = 0.1
    sample: int = 200
    rows: int = 20
    proxy: Literal["embeddings", "logit"] = "embeddings"
    role: str = "small"

    def __post_init__(self) -> None:
        for name in ("recall", "precision", "delta"):
            if not 0 < getattr(self, name) < 1:
                raise ValueError(f"{name} must be above 0 and below 1; packed sends every row")
        if self.rows < 1:
            raise ValueError("rows must be at least 1")
        if self.sample < self.least:
            raise ValueError(
                f"a sample of {self.sample} rows cannot show recall {self.recall} and precision {self.precision} "
                f"with delta {self.delta}: it needs at least {self.least}"
            )

    @property
    def least(self) -> int:
        """The smallest sample that can show recall and precision, if all its rows are kept."""
        for_recall = math.log(self.delta / 2) / math.log(self.recall)
        for_precision = math.log(self.delta / 2 / _CANDIDATES) / math.log(self.precision)
        return math.ceil(max(for_recall, for_precision))

    def refuses(self, node: op.SemFilter, limits: object) -> str | None:
        """Refuse a prompt with answers: rows that are not sent have none."""
        return op.refuse_answers(node, "it keeps rows without a call")

    def estimate(
        self, node: op.SemFilter, rows: op.RowEstimate, seen: op.Observed | None
    ) -> op.Cost:
        """The sample, packed, and in a second round at most all other rows; for `logit` a call for
        each row.
        """
        if rows.items <= self.sample:
            return op.Cost.of_items(math.ceil(rows.items / self.rows), rows.items, seen)
        sample, rest = (math.ceil(n / self.rows) for n in (self.sample, rows.items - self.sample))
        proxy = rows.items if self.proxy == "logit" else 0
        return op.Cost.of_items(sample + rest + proxy, rows.items, seen)._replace(
            rounds=2, least=sample + proxy
        )

    async def answer(self, node: op.SemFilter, rows: op.Rows, ctx: op.Context) -> list[op.Outcome]:
        """Answer the samples, learn the thresholds, answer the rows in between."""
        texts = op.row_texts(node, rows)
        samples = self._samples(rows, ctx, texts)
        drawn = {item for one in samples for item in one.drawn}
        unread = {item for one in samples for item in one.rows} - drawn
        verdicts = await self._ask(
            node, rows, ctx, [i for i in range(len(rows.items)) if i not in unread]
        )
        between: list[int] = []
        for one in samples:
            readable = list(dict.fromkeys(one.rows))
            if self.proxy == "logit":
                found = await ctx.ask_words(node, rows.only(readable), role=self.role)
                scores = [0.0 if each.values is None else op.log_odds(each) for each in found]
            else:
                question = op.question_text(node.prompt.all[one.prompt])
                own = [question, *(texts[item] for item in readable)]
                vectors = await ctx.embed(own, one.partition)
                scores = op.cosines(vectors[1:], vectors[0])
            between += self._decide(one, dict(zip(readable, scores, strict=True)), verdicts)
        verdicts |= await self._ask(node, rows, ctx, sorted(between))
        return [verdicts[item] for item in range(len(rows.items))]

    def _samples(self, rows: op.Rows, ctx: op.Context, texts: Sequence[str]) -> list[_Sample]:
        """A sample of each partition and prompt with more readable rows than a sample has."""
        groups: dict[tuple[str, int], list[int]] = {}
        for item in range(len(rows.items)):
            if texts[item]:
                groups.setdefault((rows.partition[item], rows.prompt[item]), []).append(item)
        samples = []
        for (partition, prompt), readable in groups.items():
            if len(readable) > self.sample:
                times = rows.times or [1] * len(rows.items)
                repeated = [item for item in readable for _ in range(times[item])]
                draws = ctx.random(partition, "sample", str(prompt))
                places = draws.sample(range(len(repeated)), self.sample)
                samples.append(_Sample(partition, prompt, repeated, places))
        return samples

    def _decide(
        self, one: _Sample, score_of: dict[int, float], verdicts: dict[int, op.Outcome]
    ) -> list[int]:
        """Decide rows by their scores, which are NaN for a text without a vector. Returns the rows
        for the model.
        """
        scores = {place: score_of[item] for place, item in enumerate(one.rows)}
        scores = {place: score for place, score in scores.items() if not math.isnan(score)}
        known = {place: verdicts[one.rows[place]].values or {} for place in one.places}
        kept = {p: bool(values.get("keep")) for p, values in known.items() if p in scores}
        low, high = self.thresholds(scores, kept) if scores else _NOTHING
        between = []
        for item, score in score_of.items():
            if item not in verdicts and (math.isnan(score) or low <= score < high):
                between.append(item)
            elif item not in verdicts:
                verdicts[item] = op.Outcome({"keep": score >= high})
        return between

    async def _ask(
        self, node: op.SemFilter, rows: op.Rows, ctx: op.Context, items: list[int]
    ) -> dict[int, op.Outcome]:
        part = rows.only(items)
        answers = await ctx.ask_packed(node, part, part.blocks(node, left=self.rows))
        return dict(zip(items, answers, strict=True))

    def thresholds(self, scores: dict[int, float], kept: dict[int, bool]) -> tuple[float, float]:
        """The thresholds from a labelled sample: scores below the first are dropped, scores from the
        second on are kept.

        `scores` are the scores of all rows by number, with duplicates; `kept` are the model's
        verdicts about the sampled rows.
        """
        low = low_threshold(
            [scores[item] for item, keep in kept.items() if keep], self.recall, self.delta / 2
        )
        sampled = [(scores[item], keep) for item, keep in kept.items()]
        high = high_threshold(list(scores.values()), sampled, self.precision, self.delta / 2)
        return min(low, high), high  # rows that satisfy both are kept


def low_threshold(kept: Sequence[float], recall: float, delta: float) -> float:
    """A score below which there are at most 1 - recall of the rows to keep, with probability 1 -
    delta.

    Args:
        kept: Scores of sampled rows that the model keeps.
        recall: The share that must not be lost.
        delta: The probability of an error.
    """
    n, k = len(kept), 0
    # The k-th lowest is too high only if fewer than k sampled rows are in the lowest 1 - recall of
    # all rows to keep.
    while (
        k < n and (k == 0 or k <= n * (1 - recall) - 1) and binomial_tail(k, n, 1 - recall) <= delta
    ):
        k += 1
    return sorted(kept)[k - 1] if k else _NOTHING[0]


def high_threshold(
    scores: Sequence[float], sampled: Sequence[tuple[float, bool]], precision: float, delta: float
) -> float:
    """A score from which on the model would keep at least `precision` of the rows, with probability
    1 - delta.

    Args:
        scores: Scores of all rows.
        sampled: The score of each sampled row, and whether the model keeps it.
        precision: The share that must be correct.
        delta: The probability of an error.
    """
    falling = sorted(scores, reverse=True)
    best = _NOTHING[1]
    for i in range(1, _CANDIDATES + 1):
        threshold = falling[math.ceil(len(falling) * i / _CANDIDATES) - 1]
        size = sum(score >= threshold for score in scores)
        labels = [keep for score, keep in sampled if score >= threshold]
        too_many = math.floor((1 - precision) * size) + 1
        if (
            hypergeometric_tail(labels.count(False), size, too_many, len(labels))
            <= delta / _CANDIDATES
        ):
            best = threshold
    return best


def binomial_tail(most: int, n: int, p: float) -> float:
    """The probability of at most `most` successes in n draws."""
    return math.fsum(
        math.exp(_log_choose(n, x) + x * math.log(p) + (n - x) * math.log1p(-p))
        for x in range(most + 1)
    )


def hypergeometric_tail(most: int, size: int, marked: int, n: int) -> float:
    """The probability of at most `most` marked ones in n draws without replacement from `size`, of
    which `marked` are marked.
    """
    draws = _log_choose(size, n)
    possible = range(max(0, n - (size - marked)), min(most, n, marked) + 1)
    return math.fsum(
        math.exp(_log_choose(marked, x) + _log_choose(size - marked, n - x) - draws)
        for x in possible
    )


def _log_choose(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
