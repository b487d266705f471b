"""Names for people, organisations, places and projects: as many as needed, none a part or a slip of
another.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cache
from itertools import product

_FIRST = (
    "Ada", "Bruno", "Clara", "Dario", "Elena", "Felix", "Greta", "Hassan", "Ingrid", "Jonas", "Katya", "Luis",
    "Marta", "Nadia", "Oscar", "Priya", "Quentin", "Rosa", "Stefan", "Tamara", "Umberto", "Vera", "Wanda", "Xavier",
    "Yusuf", "Zelda",
)  # fmt: skip
_LAST = (
    "Abel", "Brandt", "Costa", "Duval", "Eriksen", "Ferrari", "Gomez", "Haddad", "Ivanov", "Jansen", "Keller",
    "Lindholm", "Moreau", "Novak", "Okafor", "Petrov", "Quist", "Rossi", "Sandoval", "Tanaka", "Ulrich", "Vargas",
    "Weber", "Yilmaz", "Zhang",
)  # fmt: skip
_PLACES = (
    "Accra", "Bergen", "Cusco", "Dakar", "Esbjerg", "Fukuoka", "Gdansk", "Hobart", "Izmir", "Jaipur", "Kyoto",
    "Lisbon", "Malmo", "Nairobi", "Oslo", "Porto", "Quito", "Riga", "Sofia", "Tallinn", "Utrecht", "Vilnius",
    "Warsaw", "Zagreb",
)  # fmt: skip
_PROJECTS = (
    "Atlas", "Basalt", "Comet", "Dune", "Ember", "Fjord", "Glacier", "Harvest", "Indigo", "Juniper", "Kite",
    "Lantern", "Meadow", "Nectar", "Orchid", "Phoenix", "Quartz", "Raven", "Saffron", "Tundra",
)  # fmt: skip
_FIRM = (
    ("Amber", "Blue", "Copper", "Delta", "Eastern", "Falcon", "Golden", "Harbour", "Iron", "Jade", "Kestrel", "Lunar"),
    ("Bridge", "Canyon", "Forest", "Garden", "Hill", "Island", "Lake", "Mountain", "Nova", "Oak", "River", "Stone"),
    ("Bank", "Clinic", "Design", "Energy", "Foods", "Group", "Labs", "Motors", "Press", "Radio", "Systems", "Works"),
)  # fmt: skip
_ENDINGS = ("", "berg", "stad", "haven", "ville")
ROLES = ("pilot", "baker", "nurse", "judge", "welder", "painter")
"""The roles of people with equal names."""


def people(draw: random.Random, count: int) -> list[str]:
    """Full names; the first 26 have first names of their own."""
    firsts = draw.sample(_FIRST, len(_FIRST))
    lasts = [
        last + end for end in ("", "son", "idis", "escu") for last in draw.sample(_LAST, len(_LAST))
    ]
    pairs = (
        (firsts[i % len(firsts)], lasts[(i + i // len(firsts)) % len(lasts)]) for i in range(count)
    )
    return _enough([f"{first} {last}" for first, last in pairs], count, "people")


def places(draw: random.Random, count: int) -> list[str]:
    """Names of one word."""
    return _enough(_with_endings(draw, _PLACES), count, "places")


def projects(draw: random.Random, count: int) -> list[str]:
    """`Project ...`."""
    return _enough(
        [f"Project {name}" for name in _with_endings(draw, _PROJECTS)], count, "projects"
    )


def organisations(draw: random.Random, count: int) -> list[str]:
    """Names of three words, all with other initials."""
    names = list(_firms())
    draw.shuffle(names)
    return _enough(names, count, "organisations")


@cache
def _firms() -> tuple[str, ...]:
    """Of names with the same initials, the last one."""
    names = (" ".join(words) for words in product(*_FIRM))
    return tuple(sorted({initials(name): name for name in names}.values()))


def initials(name: str) -> str:
    """The first letters of its words.

    >>> initials("Amber Bridge Bank")
    'ABB'
    """
    return "".join(word[0] for word in name.split())


def misspelt(draw: random.Random, name: str) -> str:
    """The name with two neighbouring letters of its last word exchanged, or one left out."""
    rest, _, last = name.rpartition(" ")
    spots = [i for i in range(1, len(last) - 1) if last[i] != last[i + 1]]
    i = draw.choice(spots)
    exchanged = last[i + 1] + last[i] if draw.random() < 0.5 else last[i + 1]
    return f"{rest} {last[:i]}{exchanged}{last[i + 2 :]}"


def _with_endings(draw: random.Random, names: Sequence[str]) -> list[str]:
    return [name + end for end in _ENDINGS for name in draw.sample(names, len(names))]


def _enough(names: list[str], count: int, what: str) -> list[str]:
    if len(set(names)) < count:
        raise ValueError(f"the world has names for {len(set(names))} {what}, not for {count}")
    return names[:count]
