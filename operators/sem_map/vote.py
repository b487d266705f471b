"""Asks about each row several times at a temperature, and takes the answer that agrees most with
all of them.

With one field this is the answer of the majority. With several fields the winner is one of the
samples, not a mixture, so that its fields fit each other (a quote and the verdict based on it): the
sample whose fields have the most votes in total. Texts are equal if they differ only in case and
white space; for lists the share of common entries counts. On a tie the first sample wins. A row
with fewer than half of its samples valid is an error.

Source: self-consistency (Wang et al., Self-Consistency Improves Chain of Thought Reasoning in
Language Models, 2022); for answers of several fields the consensus by similarity of minimum Bayes
risk decoding (Kumar, Byrne, 2004).
"""

from __future__ import annotations

from semgraph.operator import SemMap, Vote, dataclass


@dataclass(frozen=True)
class VoteMap(Vote[SemMap]):
    """A call for each row and sample."""
