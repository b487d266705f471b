"""Asks about each row several times at a temperature, and keeps it if most answers are yes.

On a tie the first answer decides. The score of a verdict is the share of yes. Further answers of
the prompt are those of one draw with the winning verdict, by the votes of these alone, as in `vote`
of `sem_map`. A row of which
fewer than half of the draws are valid is an error. Models that answer in one word vote by the words
that were drawn; their log-probabilities are not read.

Source: self-consistency (Wang et al., Self-Consistency Improves Chain of Thought Reasoning in
Language Models, 2022).
"""

from __future__ import annotations

from semgraph.operator import SemFilter, Vote, dataclass


@dataclass(frozen=True)
class VoteFilter(Vote[SemFilter]):
    """A call for each row and sample."""
