"""Graphs of any size for pages: people in towns and firms, who mostly know others of their town, and
the messages that say so.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from semgraph.folders import plans_folder
from semgraph.frontend.graph_files import read_graph
from semgraph.render.html import graph_page
from semgraph.render.picture import pictures

START = datetime(2024, 1, 1, tzinfo=UTC)
TIME = pa.timestamp("us", tz="UTC")
_PERSON = ("Ada", "Bora", "Cleo", "Dina", "Hugo", "Iris", "Kira", "Mona", "Nora", "Olga")
_PLACE = ("Amber", "Birch", "Cedar", "Delta", "Ember", "Fjord", "Grove", "Haven", "Inlet", "Jade")


def rows(number: int, seed: int = 1) -> Iterator[tuple[str, dict[str, Any]]]:
    """So many entities, one and a half times as many facts, of which a quarter have ended, and a
    message for each third fact: each with its label.
    """
    draw, towns = random.Random(seed), max(1, number // 25)
    people = number - 2 * towns
    named = [f"{draw.choice(_PERSON)} {draw.choice(_PLACE)}son {i}" for i in range(people)]
    named += [
        f"{draw.choice(_PLACE)} {what} {i}" for what in ("Town", "Works") for i in range(towns)
    ]
    for i, name in enumerate(named):
        yield "Entity", {"uuid": f"n{i}", "name": name, "summary": f"{name} is known."}
    for k in range(number * 3 // 2):
        person = k % people
        town = person % towns
        near = draw.randrange(max(1, people // towns)) * towns + town
        others = [("LIVES_IN", people + town), ("WORKS_AT", people + towns + draw.randrange(towns)),
                  ("KNOWS", near if near < people and draw.random() < 0.9 else draw.randrange(people))]  # fmt: skip
        name, other = others[(k // people + k) % 3]
        at = START + timedelta(hours=k)
        fact = f"{named[person]} {name.lower().replace('_', ' ')} {named[other]}."
        ended = at + timedelta(days=9) if k % 4 == 0 else None
        yield "RELATES_TO", {
            "uuid": f"f{k}", "source": f"n{person}", "target": f"n{other}", "name": name, "fact": fact,
            "episodes": [f"e{k // 3}"], "valid_at": at, "invalid_at": ended,
        }  # fmt: skip
        if k % 3 == 0:
            yield "Episodic", {"uuid": f"e{k // 3}", "content": fact, "valid_at": at}
        for end in (person, other):
            yield "MENTIONS", {"uuid": f"m{k} {end}", "source": f"e{k // 3}", "target": f"n{end}"}


def page_of(number: int) -> str:
    """The page of such a graph."""
    labels: dict[str, list[dict[str, Any]]] = {}
    for label, row in rows(number):
        labels.setdefault(label, []).append(row | {"group_id": "towns"})
    graph = read_graph(plans_folder() / "graph.yaml")
    tables = [(label, pa.Table.from_pylist(each)) for label, each in labels.items()]
    return graph_page(pictures(tables, graph), "memory")
