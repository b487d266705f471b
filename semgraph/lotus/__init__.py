"""LOTUS's own operators as ways of semgraph's: its prompts, its algorithms and its reading of
answers, over semgraph's models.

LOTUS is given a model whose every batch goes through the context of the step. So its calls are
journalled, limited, budgeted, counted and coalesced as all others are, one row that fails costs the
others nothing, and an answer that LOTUS would read as its default is that row's error. LOTUS's code
is synchronous: it runs in threads of its own.
"""

from semgraph.lotus.bridge import INSTALL, Bridge, Parts, lacking, loaded
from semgraph.lotus.model import Answer, Model, Unanswered
from semgraph.lotus.sorting import Group, Sorter
from semgraph.lotus.texts import Question, Texts, by_prompt, claim, said_twice, unnumbered

__all__ = [
    "INSTALL", "Answer", "Bridge", "Group", "Model", "Parts", "Question", "Sorter", "Texts", "Unanswered", "by_prompt",
    "claim", "lacking", "loaded", "said_twice", "unnumbered",
]  # fmt: skip
