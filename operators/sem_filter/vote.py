"""Asks about each row several times at a temperature, and keeps it if most answers are yes.

On a tie the first answer decides. The score of a verdict is the share of yes. Further answers of
the prompt come from one sample with the winning verdict; only such samples vote, as in `vote` of
`sem_map`. A row with fewer than half of its samples valid is an error. Models that answer in one
word vote by the sampled words; their log-probabilities are not read.

Source: self-consistency (Wang et al., Self-Consistency Improves Chain of Thought Reasoning in
Language Models, 2022).
"""

from __future__ import annotations

from semgraph.operator import SemFilter, Vote, dataclass


@dataclass(frozen=True)
class VoteFilter(Vote[SemFilter]):
    """A call for each row and sample."""
