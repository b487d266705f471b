"""One token for each row, yes or no, with its probability.

The score of a row is the log-odds of yes against no; the run's record has it with the answers.
Without calibration a row is kept if the probability of yes is above `threshold`. The log-odds of
small models rank rows well, but are biased. `labels` names a file with about twenty labelled rows
to calibrate the log-odds; the run's notes have its leave-one-out accuracy. `split=true` needs no
labels: the log-odds of each partition are split into two groups, which is correct only if both
answers are common.

The endpoint must return log-probabilities: llama.cpp, vLLM and OpenAI's models without reasoning do.
If that is not known, one row is sent first.

Sources: Fisher (1936) for the calibration; Otsu (1979) for the split.
"""

from __future__ import annotations

from semgraph.operator import ByLogOdds, SemFilter, dataclass


@dataclass(frozen=True)
class Logit(ByLogOdds[SemFilter]):
    """Sends each row alone, in the prompt's words, and asks for one word; see the module."""
