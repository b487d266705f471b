"""LOTUS's operators as implementations: its prompts, algorithms and parsing of answers, over
semgraph's models.

LOTUS gets a model that sends each batch through the context of the step, so its calls are
journalled, limited, budgeted, counted and coalesced, too. A failed row does not affect the rest, and
an answer that LOTUS would replace by its default is an error of that row. LOTUS's code is
synchronous and runs in its own threads.
"""

from semgraph.lotus.bridge import INSTALL, Bridge, Parts, lacking, loaded
from semgraph.lotus.model import Answer, Model, Unanswered
from semgraph.lotus.sorting import Group, Sorter
from semgraph.lotus.texts import Question, Texts, by_prompt, claim, invalid_number, invalid_verdict

__all__ = [
    "INSTALL", "Answer", "Bridge", "Group", "Model", "Parts", "Question", "Sorter", "Texts", "Unanswered", "by_prompt",
    "claim", "invalid_number", "invalid_verdict", "lacking", "loaded",
]  # fmt: skip
