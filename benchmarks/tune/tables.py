"""Tables with true answers, models with prices and errors, and sessions with them."""

from __future__ import annotations

import contextlib
import random
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.frame.serving import Server
from benchmarks.world.names import misspelt, organisations, people, places
from semgraph.session import Session

PLANS = Path(__file__).parent / "plans"
NOISE = "drop=.02,verdict=.01,growth=.05,slip=.01,spurious=.005"
TWICE = "drop=.04,verdict=.02,growth=.05,slip=.02,spurious=.01"
SHARE = 3  # one row in so many is true
Row = Mapping[str, Any]


@dataclass(frozen=True)
class Model:
    """A simulated model: its price in dollars per million tokens in and out, its errors, and the name by
    which Palimpzest knows it.
    """

    name: str
    price: tuple[float, float]
    noise: str
    palimpzest: str = ""


LARGE = Model("gpt-4.1-mini", (0.4, 1.6), NOISE)
SMALL = Model("gpt-4.1-nano", (0.1, 0.4), TWICE)
PAIR: Mapping[str, Model] = {"default": LARGE, "small": SMALL}
"""The models of all cases but those beside Palimpzest, by role; `default` is the reference's."""
JOINERS: Mapping[str, Model] = {
    "default": replace(LARGE, noise="verdict=.0002,growth=.05"),
    "small": replace(SMALL, noise="verdict=.0004,growth=.05"),
}
"""Those of the join, where `verdict` is a rate for each pair, and most pairs are false."""
MANY: Mapping[str, Model] = {
    "default": Model("gpt-4.1", (2.0, 8.0), "verdict=.005", "openai/gpt-4.1-2025-04-14"),
    "mini": Model("gpt-4.1-mini", (0.4, 1.6), "verdict=.01", "openai/gpt-4.1-mini-2025-04-14"),
    "omini": Model("gpt-4o-mini", (0.15, 0.6), "verdict=.015", "openai/gpt-4o-mini-2024-07-18"),
    "nano": Model("gpt-4.1-nano", (0.1, 0.4), "verdict=.04", "openai/gpt-4.1-nano-2025-04-14"),
}
"""The models beside Palimpzest: the cheapest is just below a floor of 0.95."""


def noises(models: Mapping[str, Model], seed: int) -> str:
    """The errors of the models, as the server takes them; each model errs in rows of its own."""
    parts = (f"{m.name}:{m.noise},seed={100 * seed + n}" for n, m in enumerate(models.values(), 1))
    return ";".join(parts)


def messages(count: int, seed: int) -> list[Row]:
    """Messages; every third says that somebody moved (`keep`)."""
    draw = random.Random(seed)
    folk, towns, firms = people(draw, 400), places(draw, 60), organisations(draw, 60)
    pairs = draw.sample(range(len(folk) * len(towns)), count)

    def text(number: int, pair: int) -> str:
        person, place = folk[pair // len(towns)], pair % len(towns)
        if number % SHARE == 0:
            return f"{person} moved to {towns[place]}."
        return f"{person} works at {firms[place]}."

    rows = [(n % SHARE == 0, text(n, pair)) for n, pair in enumerate(pairs)]
    draw.shuffle(rows)
    return [{"id": n, "text": said, "keep": keep} for n, (keep, said) in enumerate(rows)]


def lists(count: int, size: int, seed: int) -> tuple[list[Row], list[Row]]:
    """Lists of names, and lists of the same ones with slips; equal people have equal numbers."""
    draw = random.Random(seed)
    folk = people(draw, 400)
    names: list[Row] = []
    others: list[Row] = []
    for number in range(count):
        chosen = draw.sample(folk, size)
        for place, name in enumerate(chosen):
            one = {"id": number * size + place, "list": number}
            names.append(one | {"name": name})
            others.append(one | {"name": misspelt(draw, name)})
    draw.shuffle(others)
    return names, others


@contextlib.asynccontextmanager
async def session_of(
    server: Server, models: Mapping[str, Model], **options: Any
) -> AsyncIterator[Session]:
    """A session with the simulated models, with their prices, without a record of runs."""
    named = {
        role: f"openai:{m.name}@{server.url}?price={m.price[0]}/{m.price[1]}"
        for role, m in models.items()
    }
    default = named.pop("default")
    options = {"journal": False, "runs": "", "store": "memory"} | options
    async with Session(llm=default, models=named, **options) as session:
        yield session
