"""Asks about each row several times at a temperature, and takes the answer that agrees most with
all of them.

With one field this is the majority's answer. With several, the winner is one of the answers that
were drawn, not a mixture of them, so its fields fit each other (a quote and the verdict that rests
on it): the one whose fields have the most votes in sum. Texts count as equal if they differ only in
case and white space; of lists the share of common entries counts. On a tie the first one wins. A row
of which fewer than half of the draws are valid is an error.

Source: self-consistency (Wang et al., Self-Consistency Improves Chain of Thought Reasoning in
Language Models, 2022); for answers of several fields the consensus by similarity of minimum Bayes
risk decoding (Kumar, Byrne, 2004).
"""

from __future__ import annotations

from semgraph.operator import SemMap, Vote, dataclass


@dataclass(frozen=True)
class VoteMap(Vote[SemMap]):
    """A call for each row and sample."""
