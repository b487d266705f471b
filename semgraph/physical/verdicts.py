"""Verdicts by log-odds: what the implementations `logit` of sem_filter and sem_join share."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from semgraph.errors import PlanError, Problem
from semgraph.llm.base import Limits
from semgraph.logical.semantic import Semantic
from semgraph.physical.calibration import Curve, cut, fitted, right_when_left_out
from semgraph.physical.contract import REFERENCES, SCORE, Context, Implementation, N, Outcome, Rows, verdict_field
from semgraph.physical.labels import read_labels
from semgraph.physical.words import log_odds

_LEAST = 4
"""Labelled rows of each answer that a curve needs."""


@dataclass(frozen=True)
class Verdicts:
    """How log-odds become a verdict.

    Args:
        threshold: The probability of yes from which on the answer is yes.
        labels: A file of labelled rows: log-odds are calibrated on them first. Empty: they are taken as they are.
        split: Whether the log-odds are divided into two groups, for each partition and prompt by itself, instead.

    Raises:
        ValueError: The threshold is none, or both `labels` and `split` are given.
    """

    threshold: float = 0.5
    labels: str = ""
    split: bool = False
    _curves: dict[str, Curve] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not 0 < self.threshold < 1:
            raise ValueError("threshold must be above 0 and below 1")
        if self.labels and self.split:
            raise ValueError("labels and split exclude each other: split needs no labels")

    async def answer(self, node: Semantic, rows: Rows, ctx: Context) -> list[Outcome]:
        """Ask about each item; outcomes have the verdict and, under `score`, the log-odds of yes after calibration.

        Raises:
            PlanError: The labels cannot be used.
            ModelUnavailable: The endpoint gives no log-probabilities.
        """
        verdict = verdict_field(node)
        assert verdict is not None
        found = await ctx.ask_words(node, rows) if not self.labels else await self._after_labels(node, rows, ctx)
        scores = {item: log_odds(outcome) for item, outcome in enumerate(found) if outcome.values is not None}
        curve = self._curves.get(node.fingerprint) or Curve(1.0, -ctx.limits.yes_from)
        scores = {item: curve.log_odds(score) for item, score in scores.items()}
        if self.split:
            scores = _divided(rows, scores)
        least = math.log(self.threshold / (1 - self.threshold))
        for item, score in scores.items():
            found[item] = found[item]._replace(values={verdict.name: score > least, SCORE: score})
        return found

    async def _after_labels(self, node: Semantic, rows: Rows, ctx: Context) -> list[Outcome]:
        if rows.items.num_rows and node.fingerprint not in self._curves:
            self._curves[node.fingerprint] = await self._calibrated(node, rows, ctx)
        return await ctx.ask_words(node, rows)

    async def _calibrated(self, node: Semantic, rows: Rows, ctx: Context) -> Curve:
        labelled = read_labels(node, rows, self.labels)
        outcomes = await ctx.ask_words(node, labelled.rows)
        pairs = zip(outcomes, labelled.labels, strict=True)
        answered = [(log_odds(outcome), label) for outcome, label in pairs if outcome.values is not None]
        scores, labels = [score for score, _ in answered], [label for _, label in answered]
        if min(sum(labels), len(labels) - sum(labels)) < _LEAST:
            what = f"{sum(labels)} of the {len(labels)} rows that the model answered are labelled yes"
            raise self._wrong(node, f"{what}: calibration needs at least {_LEAST} of yes and of no")
        curve = fitted(scores, labels)
        if curve.slope <= 0:
            raise self._wrong(node, "the model's answers do not follow them: rows labelled no have the higher log-odds")
        right = right_when_left_out(scores, labels)
        ctx.note(
            f"step {node.step}: calibrated on {len(labels)} labelled rows of {self.labels}: yes from log-odds "
            f"{-curve.offset / curve.slope:.2f} on; {right} of {len(labels)} are right when each is left out"
        )
        return curve

    def _wrong(self, node: Semantic, what: str) -> PlanError:
        return PlanError(Problem(f"the labels {self.labels}: {what}", node.step or None, node.origin))


@dataclass(frozen=True)
class ByLogOdds(Implementation[N]):
    """An implementation whose verdicts rest on log-odds; the parameters are those of `Verdicts`, which gives them."""

    threshold: float = 0.5
    labels: str = ""
    split: bool = False
    verdicts: Verdicts = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "verdicts", Verdicts(self.threshold, self.labels, self.split))

    def refuses(self, node: N, limits: Limits) -> str | None:
        """The model must not be known to give no log-probabilities."""
        instead = REFERENCES[node.keyword]
        return f"the model gives no log-probabilities; use {instead}" if limits.logprobs is False else None


def _divided(rows: Rows, scores: dict[int, float]) -> dict[int, float]:
    """Log-odds, less what divides those of their partition and prompt into two groups."""
    lefts: Sequence[int] = rows.items.column("left").to_pylist()  # type: ignore[assignment]
    groups: dict[tuple[str, int], list[int]] = {}
    for item in scores:
        left = lefts[item]
        groups.setdefault((rows.partition[left], rows.prompt[left]), []).append(item)
    cuts = {whose: cut([scores[item] for item in items]) for whose, items in groups.items()}
    return {item: scores[item] - cuts[whose] for whose, items in groups.items() for item in items}
