"""Whether LOTUS is here, and its functions. Importing it takes many seconds, so it is done in a thread, and once."""

from __future__ import annotations

import asyncio
import logging
import os
import warnings
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from threading import Lock
from typing import Any, NamedTuple

INSTALL = 'pip install "semgraph[lotus]"'
VERSION = "1.2.4"
_LOCK = Lock()
_LOADED: list[Parts] = []


class Parts(NamedTuple):
    """What is called of LOTUS."""

    sem_map: Any
    sem_filter: Any
    sem_join: Any
    sem_agg: Any
    quicksort: Any
    heapsort: Any
    naive_sort: Any
    match_prompt: Any
    documents: Any
    output: Any
    reasoning: Any


def lacking() -> str | None:
    """Why LOTUS cannot be used here, or None. Imports nothing."""
    brings = f"{INSTALL}, in an environment of its own (it brings torch, and numpy below 2)"
    try:
        found = version("lotus-ai")
    except PackageNotFoundError:
        return f"it needs LOTUS (lotus-ai {VERSION}): {brings}"
    if found != VERSION:
        return f"it calls functions of lotus-ai {VERSION}, and {found} is installed: {brings}"
    return None


async def loaded() -> Parts:
    """LOTUS, imported in a thread: all else goes on meanwhile."""
    return _LOADED[0] if _LOADED else await asyncio.to_thread(_load)


def _load() -> Parts:
    with _LOCK:
        if not _LOADED:
            # litellm, which LOTUS imports, would fetch a list of prices from the net when it is imported.
            os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
            root = logging.getLogger()
            level, handlers = root.level, list(root.handlers)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                _LOADED.append(_imported())
            # LOTUS sets the root logger up when it is imported: each request of each library would be a line on stderr.
            root.setLevel(level)
            root.handlers[:] = handlers
        return _LOADED[0]


def _imported() -> Parts:
    from lotus.sem_ops import sem_agg, sem_filter, sem_join, sem_map, sem_topk
    from lotus.templates import task_instructions
    from lotus.types import LMOutput, ReasoningStrategy
    from tqdm import tqdm

    sem_topk.tqdm = partial(tqdm, disable=True)  # its bars cannot be switched off otherwise
    return Parts(
        sem_map.sem_map,
        sem_filter.sem_filter,
        sem_join.sem_join,
        sem_agg.sem_agg,
        sem_topk.llm_quicksort,
        sem_topk.llm_heapsort,
        sem_topk.llm_naive_sort,
        sem_topk.get_match_prompt_binary,
        task_instructions.df2multimodal_info,
        LMOutput,
        ReasoningStrategy.ZS_COT,
    )
