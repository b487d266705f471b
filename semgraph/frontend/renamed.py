"""Words of the plan language before 0.2, each with the word that replaced it."""

from __future__ import annotations

from collections.abc import Mapping

RENAMED: Mapping[str, Mapping[str, str]] = {
    "a method": {"when": "if"},
    "a plan": {"order": "windows"},
    "a step as a mapping": {"when": "if"},
    "a write": {"when": "if"},
    "search": {"by": "methods"},
    "windows": {"by": "order", "window": "size"},
    "sem_map": {"add": "returns"},
    "sem_join": {"add": "returns"},
    "sem_agg": {"alone": "otherwise"},
    "sem_topk": {"per": "by"},
    "limit": {"per": "by"},
    "cluster": {"per": "by"},
    "prompt": {"by": "on"},
}
"""Renamed keys by place: an operator's keyword, or the place as messages name it."""

INSTEAD: Mapping[str, Mapping[str, str]] = {
    "sem_filter": {"add": "typed answers stand in returns"},
    "sem_join": {"when": "where says which pairs are asked about"},
    "sem_topk": {
        "when": "leave rows out in a step before: filter",
        "returns": "its answer is a score; sem_map gives typed answers",
    },
}
"""By place, keys that belong to other operators, and what to write instead."""


def new_word(place: str, key: object) -> str | None:
    """The key that replaced another at a place of a plan; None: it was not renamed.

    >>> new_word("limit", "per")
    'by'
    """
    return RENAMED.get(place, {}).get(str(key))
