"""LOTUS by itself: its data frames, its model layer (litellm), as its users call it."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

from benchmarks.operators.cases import ASKED, RETURNS, RULES, Task
from benchmarks.operators.measure import MODEL
from semgraph.expr.types import object_schema, parse_type

Run = Callable[[], set[Any] | str]


def asking(url: str, task: Task, way: str) -> Run:
    """LOTUS's operator over a task; `way` is "LOTUS", or "LOTUS (heap)" for a method of sem_topk."""
    import lotus

    lotus.settings.configure(
        lm=lotus.models.LM(f"openai/{MODEL}", api_base=url, api_key="none", max_batch_size=64)
    )
    return partial(_run, task, way.partition("(")[2].rstrip(")"))


def _run(task: Task, method: str) -> set[Any] | str:
    try:
        return _answered(task, method)
    except Exception as error:  # noqa: BLE001 - that it fails is what is measured
        return type(error).__name__


def _answered(task: Task, method: str) -> set[Any]:
    import pandas as pd

    items = range(len(task.left))
    frame = pd.DataFrame({"text": task.left, "item": items, "group": task.group or 0})
    asked = "\n\n".join(filter(None, [RULES.get(task.operator, ""), ASKED[task.operator]]))
    if task.operator == "sem_filter":
        return set(frame.sem_filter(asked)["item"])
    if task.operator == "sem_topk":
        return set(frame.sem_topk(asked, K=task.k, method=method)["item"])
    if task.operator == "sem_join":
        left = pd.DataFrame({"name": task.left, "i": range(len(task.left))})
        right = pd.DataFrame({"name": task.right, "j": range(len(task.right))})
        found = left.sem_join(right, "Are “{name:left}” and “{name:right}” the same person?")
        return set(zip(found["i"], found["j"], strict=True))
    fields = {name: parse_type(kind).json_schema() for name, kind in RETURNS[task.operator]}
    schema = {"name": "a", "strict": True, "schema": object_schema(fields)}
    form = {"type": "json_schema", "json_schema": schema}
    if task.operator == "sem_map":
        answers = map(json.loads, frame.sem_map(asked, response_format=form)["_map"])
        return {(i, answer["person"], answer["place"]) for i, answer in enumerate(answers)}
    groups = frame.sem_agg(asked, group_by=["group"], response_format=form)
    return {(row["group"], name) for row in groups.to_dict("records") for name in row["people"]}
