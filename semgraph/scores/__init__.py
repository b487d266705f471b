"""Scores with intervals: rows against true rows, graphs against true graphs.

Rows: `answers` and `tally` count hits for each unit (such as a row), which the bootstrap resamples;
`score` computes precision, recall and F1 of a tally, `difference` compares two tallies of the same
units, `agreement` is the share of units with the same answers. Graphs: `score_graph` compares a
`ScoredGraph` with the true one.
"""

from __future__ import annotations

from semgraph.scores.bootstrap import Interval, IntervalEstimate
from semgraph.scores.graphs import (
    Edge,
    GraphScore,
    ScoredGraph,
    ScoredNode,
    align,
    moments,
    score_graph,
)
from semgraph.scores.rows import Score, Tally, agreement, answers, difference, pooled, score, tally

__all__ = [
    "Edge",
    "GraphScore",
    "Interval",
    "IntervalEstimate",
    "Score",
    "ScoredGraph",
    "ScoredNode",
    "Tally",
    "agreement",
    "align",
    "answers",
    "difference",
    "moments",
    "pooled",
    "score",
    "score_graph",
    "tally",
]
