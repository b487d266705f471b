"""Asks about a random sample, and decides the rest by similarity where that is shown to be safe.

Each row gets a score: the cosine of the embeddings of its text and of the question or, with
`proxy=logit`, the log-odds of yes that the model of the role `role` gives with one token. A
uniformly random sample of `sample` rows is answered by the model. From the sample two thresholds
are learned: rows below the lower one are dropped unasked, rows from the upper one on are kept
unasked, and those between go to the model, packed. Rows of the sample keep the model's answer.

What holds, for each partition and prompt by itself, against the answers that the model gives when
it is asked about every row in the same way (an error counts as no): over the draw of the sample,
with probability at least 1 - delta, the rows kept hold at least `recall` of those the model would
keep, and at least `precision` of them are ones that it would keep. Rows that the prompt cannot tell
apart are asked about once, and count as often as they are there, in the sample too.

- Lower threshold, at delta / 2: a low order statistic of the scores of the sampled rows that were
  kept. The count of sampled rows among the lowest is hypergeometric and its lower tail is bounded
  by the binomial's, as the size of the kept set is not known. One threshold is taken, so nothing is
  corrected for.
- Upper threshold, at delta / 2: ten candidates, at tenths of all rows by score, fixed before any
  answer is seen. Each is tested with the exact hypergeometric tail at delta / 20 (Bonferroni), and
  the lowest that passes is taken.

Nothing is assumed of the scores: bad ones cost calls, not quality. Where the sample shows nothing
(too few rows are kept, say) all rows go to the model. A partition of no more than `sample`
different rows is asked about whole, as are rows without text. The draw depends on the step and the
partition alone, so a run can be repeated; the statement is about the draw, not about one run.

A proxy with `logit` pays where the model of `role` costs little beside that of the prompt: bind one
to the role `small`. It is asked about every row; where none is bound to `small`, the prompt's own
model is. Its endpoint must give log-probabilities.

Sources: Kang et al., SUPG (VLDB 2020), and Zeighami et al., BARGAIN (2025), for cascades with
guarantees; Uhlmann (1966) for the binomial bound of the hypergeometric tail.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from semgraph.operator import (
    Context,
    Cost,
    Implementation,
    Observed,
    Outcome,
    RowEstimate,
    Rows,
    SemFilter,
    answer_table,
    cosines,
    dataclass,
    log_odds,
    outcomes,
    pa,
    question_text,
    row_texts,
)

_CANDIDATES = 10
_NOTHING = -math.inf, math.inf


@dataclass(frozen=True)
class Cascade(Implementation[SemFilter]):
    """Recall and precision are those against the model's own answers, with probability 1 - delta;
    see the module.
    """

    same = False
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
                raise ValueError(f"{name} must be above 0 and below 1; packed asks about every row")
        if self.rows < 1:
            raise ValueError("rows must be at least 1")
        if self.sample < self.least:
            raise ValueError(
                f"a sample of {self.sample} cannot show recall {self.recall} and precision {self.precision} "
                f"with delta {self.delta}: it must have at least {self.least} rows"
            )

    @property
    def least(self) -> int:
        """The smallest sample that can show what is asked for, if every row of it is kept."""
        for_recall = math.log(self.delta / 2) / math.log(self.recall)
        for_precision = math.log(self.delta / 2 / _CANDIDATES) / math.log(self.precision)
        return math.ceil(max(for_recall, for_precision))

    def estimate(self, node: SemFilter, rows: RowEstimate, seen: Observed | None) -> Cost:  # noqa: ARG002
        """The sample, packed; at most all rows: what is between the thresholds in a second round. A
        call a row for `logit`.
        """
        if rows.items <= self.sample:
            return Cost.of_items(math.ceil(rows.items / self.rows), rows.items, seen)
        sample, rest = (math.ceil(n / self.rows) for n in (self.sample, rows.items - self.sample))
        proxy = rows.items if self.proxy == "logit" else 0
        return Cost.of_items(sample + rest + proxy, rows.items, seen)._replace(
            rounds=2, least=sample + proxy
        )

    async def answer(self, node: SemFilter, rows: Rows, ctx: Context) -> pa.Table:
        """Ask about the samples, learn the thresholds, ask about what is between them."""
        texts = row_texts(node, rows)
        groups: dict[tuple[str, int], list[int]] = {}
        for item in range(rows.items.num_rows):
            groups.setdefault((rows.partition[item], rows.prompt[item]), []).append(item)
        large = {}
        for group, items in groups.items():
            readable = [item for item in items if texts[item]]
            if len(readable) > self.sample:
                everything = [
                    item for item in readable for _ in range(rows.times[item] if rows.times else 1)
                ]
                places = ctx.random(group[0], "sample", str(group[1])).sample(
                    range(len(everything)), self.sample
                )
                large[group] = everything, places
        drawn = {everything[place] for everything, places in large.values() for place in places}
        unread = {item for everything, _ in large.values() for item in everything} - drawn
        verdicts = await self._ask(
            node, rows, ctx, [i for i in range(rows.items.num_rows) if i not in unread]
        )
        between = []
        for group, (everything, places) in large.items():
            readable = list(dict.fromkeys(everything))
            if self.proxy == "logit":
                scores = await self._log_odds(node, rows.only(readable), ctx)
            else:
                scores = await self._cosines(node, ctx, group, [texts[item] for item in readable])
            by_item = dict(zip(readable, scores, strict=True))
            of_rows = {place: by_item[item] for place, item in enumerate(everything)}
            low, high = self.thresholds(
                of_rows, {place: _kept(verdicts[everything[place]]) for place in places}
            )
            for item in readable:
                if item not in verdicts and low <= by_item[item] < high:
                    between.append(item)
                elif item not in verdicts:
                    verdicts[item] = Outcome({"keep": by_item[item] >= high})
        verdicts |= await self._ask(node, rows, ctx, sorted(between))
        return answer_table(node, [verdicts[item] for item in range(rows.items.num_rows)])

    async def _ask(
        self, node: SemFilter, rows: Rows, ctx: Context, items: list[int]
    ) -> dict[int, Outcome]:
        part = rows.only(items)
        table = await ctx.ask_packed(node, part, part.blocks(node, left=self.rows))
        return dict(zip(items, outcomes(node, table), strict=True))

    async def _log_odds(self, node: SemFilter, rows: Rows, ctx: Context) -> list[float]:
        """Log-odds of yes; a row without an answer is as likely yes as no."""
        outcomes = await ctx.ask_words(node, rows, role=self.role)
        return [log_odds(outcome) if outcome.values is not None else 0.0 for outcome in outcomes]

    async def _cosines(
        self, node: SemFilter, ctx: Context, group: tuple[str, int], texts: list[str]
    ) -> list[float]:
        partition, prompt = group
        vectors = await ctx.embed([question_text(node.prompt.all[prompt]), *texts], partition)
        return cosines(vectors[1:], vectors[0])

    def thresholds(self, scores: dict[int, float], kept: dict[int, bool]) -> tuple[float, float]:
        """The thresholds that a labelled sample supports: dropped are scores below the first, kept
        from the second on.

        `scores` are of all rows, equal ones too, by their number; `kept` is what the model says of
        the sampled ones.
        """
        low = low_threshold(
            [scores[item] for item, keep in kept.items() if keep], self.recall, self.delta / 2
        )
        sampled = [(scores[item], keep) for item, keep in kept.items()]
        high = high_threshold(list(scores.values()), sampled, self.precision, self.delta / 2)
        return min(low, high), high  # what may be kept and may be dropped is kept


def _kept(outcome: Outcome) -> bool:
    return outcome.values is not None and bool(outcome.values["keep"])


def low_threshold(kept: Sequence[float], recall: float, delta: float) -> float:
    """A score below which at most 1 - recall of the rows that would be kept lie, but for `delta`.

    Args:
        kept: Scores of sampled rows that the model keeps.
        recall: The share that must not be lost.
        delta: The probability of being wrong.
    """
    n, k = len(kept), 0
    # The k-th lowest is too high only if fewer than k of the sample lie in the lowest 1 - recall of
    # all that would be kept.
    while (
        k < n and (k == 0 or k <= n * (1 - recall) - 1) and binomial_tail(k, n, 1 - recall) <= delta
    ):
        k += 1
    return sorted(kept)[k - 1] if k else _NOTHING[0]


def high_threshold(
    scores: Sequence[float], sampled: Sequence[tuple[float, bool]], precision: float, delta: float
) -> float:
    """A score from which on at least `precision` of the rows would be kept, but for `delta`.

    Args:
        scores: Scores of all rows.
        sampled: Score, and whether the model keeps it, of the sampled rows.
        precision: The share that must be right.
        delta: The probability of being wrong.
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
    """The probability of at most `most` marked ones among n drawn without replacement from `size`
    with so many `marked`.
    """
    everything = _log_choose(size, n)
    possible = range(max(0, n - (size - marked)), min(most, n, marked) + 1)
    return math.fsum(
        math.exp(_log_choose(marked, x) + _log_choose(size - marked, n - x) - everything)
        for x in possible
    )


def _log_choose(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
