"""One token for each row: yes or no, and how sure the model is.

The score of a row is the log-odds of yes against no; the record of a run keeps it with the answers.
Without calibration a row is kept where the probability of yes is above `threshold`. The log-odds of
small models rank rows well, but yes begins elsewhere than at even odds. `labels` names a file with
some twenty labelled rows: they move and stretch the log-odds, and the run's notes say how many of
them come out right when each is left out. `split=true` needs no labels: the log-odds of each
partition are divided into two groups, which is right only where both answers are common.

The endpoint must give log-probabilities: llama.cpp, vLLM and OpenAI's models without reasoning do.
Where it is not known, one row is asked about first.

Sources: Fisher (1936) for the curve; Otsu (1979) for the division.
"""

from __future__ import annotations

from semgraph.operator import ByLogOdds, SemFilter, dataclass


@dataclass(frozen=True)
class Logit(ByLogOdds[SemFilter]):
    """Each row is asked about by itself, in the prompt's words, for one word; see the module."""
