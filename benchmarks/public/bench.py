"""Public data sets, downloaded by the user, with the scores of their communities."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any

from benchmarks.memories.memories import MEMORIES
from benchmarks.public import locomo, longmemeval, movies, musique
from benchmarks.public.files import Source
from benchmarks.public.sets import LOCOMO, LONGMEMEVAL, MOVIES, MUSIQUE, TABLES
from benchmarks.real.asking import Asking, Figures, asking
from benchmarks.suite import Benchmark, Case, Unmeasured
from benchmarks.suite.inputs import INPUTS

SOURCES = {
    LOCOMO: (locomo.SOURCE,),
    LONGMEMEVAL: tuple(longmemeval.SOURCES.values()),
    MOVIES: (movies.REVIEWS, movies.MOVIES),
    MUSIQUE: (musique.QUESTIONS, musique.CORPUS, *musique.OPENIE),
}
Measure = Callable[[Asking], Awaitable[Figures]]


def _run(key: Mapping[str, Any], prepare: Callable[[], Measure], data: str, trial: int) -> Figures:
    """One trial: the files are read first, so that an invalid file costs no call."""

    async def run() -> Figures:
        measure = prepare()
        async with asking(key, trial) as own:
            found = await measure(own)
            return {**found, **own.figures(), "data": data}

    return asyncio.run(run())


def _case(
    name: str,
    part: str,
    way: str,
    prepare: Callable[[], Measure],
    sources: Sequence[Source],
    **more: Any,
) -> Case:
    key = {"set": name, "part": part, "way": way, "model": INPUTS.name}
    known = [found for source in sources for found in _known(source)]
    data = "; ".join(
        f"{one['file']}, sha256 {one['sha256'][:12]}… ({one['checksum']}), {one['licence']}"
        for one in known
    )
    settings: dict[str, Any] = {"data": known}
    if INPUTS.model is not None:
        settings["provider"] = INPUTS.provider
    return Case(key, partial(_run, key, prepare, data), settings, **{"seconds": 7200, **more})


def _known(source: Source) -> list[dict[str, str]]:
    """The origin of a file, if it exists; if it is missing, the case fails with the remedy."""
    try:
        return [source.settings(source.within(INPUTS.data))]
    except Unmeasured:
        return []


DEFAULT = ("turns by both", "graphiti", "graphiti, lean")
"""Memories that are measured without `--full`."""


def cases() -> list[Case]:
    """A small part of each data set three times; with --full all of it, once."""
    return [*_locomo(), *_longmemeval(), *_movies(), *_musique()]


def _locomo() -> list[Case]:
    def prepare(count: int | None, way: str) -> Measure:
        part = locomo.load(INPUTS.data, count)
        return lambda own: locomo.measured(own, part, MEMORIES[way])

    return [
        _case(LOCOMO, part, way, partial(prepare, count, way), SOURCES[LOCOMO], **_more(way, more))
        for part, count, more in (("1 conversation", 1, {}), ("all", None, _WHOLE))
        for way in MEMORIES
    ]


def _longmemeval() -> list[Case]:
    def prepare(name: str, each: int | None, way: str) -> Measure:
        part = longmemeval.load(name, INPUTS.data, each)
        return lambda own: longmemeval.measured(own, part, MEMORIES[way])

    parts: list[tuple[str, str, int | None, dict[str, Any]]] = [
        ("oracle, 2 of each type", "oracle", 2, {}),
        ("oracle", "oracle", None, _WHOLE),
        ("S", "S", None, _WHOLE),
    ]
    return [
        _case(
            LONGMEMEVAL,
            part,
            way,
            partial(prepare, name, each, way),
            (longmemeval.SOURCES[name],),
            **_more(way, more),
        )
        for part, name, each, more in parts
        for way in MEMORIES
    ]


def _movies() -> list[Case]:
    def prepare(name: str, way: str) -> Measure:
        data = movies.load(INPUTS.data)
        return lambda own: movies.measured(own, data, name, way)

    return [
        _case(MOVIES, name, way, partial(prepare, name, way), SOURCES[MOVIES], full=query.whole)
        for name, query in movies.QUERIES.items()
        for way in query.ways
    ]


def _musique() -> list[Case]:
    def prepare(count: int | None, way: str) -> Measure:
        part = musique.load(INPUTS.data, count)
        return lambda own: musique.measured(own, part, way, INPUTS.data)

    return [
        _case(MUSIQUE, part, way, partial(prepare, count, way), SOURCES[MUSIQUE], **more)
        for part, count, more in (("20 questions, their passages", 20, {}), ("all", None, _WHOLE))
        for way in musique.WAYS
    ]


_WHOLE = {"full": True, "trials": 1, "seconds": 86_400}


def _more(way: str, more: dict[str, Any]) -> dict[str, Any]:
    """All memories with --full, a few by default."""
    return {"full": way not in DEFAULT} | more


def lacks() -> str:
    """The missing inputs of the user: a model, its limit of dollars, or data; then the origin of
    each data set.
    """
    if said := INPUTS.lacks_model():
        return said
    if INPUTS.data is not None and INPUTS.data.is_dir():
        return ""
    given = f"{INPUTS.data} is no folder" if INPUTS.data else "data sets are not shipped"
    lines = [
        f"  {name}: {source.name} from {source.url}{source.needs}; licence {source.licence}"
        + (f"; sha256 {source.sha256}" if source.sha256 else "")
        for name, sources in SOURCES.items()
        for source in sources
    ]
    return "\n".join([f"{given}. Download what you want and say where: --data FOLDER", *lines])


BENCHMARK = Benchmark(
    name="public",
    question="How good are answers on public data sets, by the scores of their communities?",
    kind="real",
    cases=cases,
    tables=TABLES,
    loses="A model reads every turn of a conversation: systems that read whole sessions at once send a fraction of the "
    "tokens. Passages are ranked without a walk over the graph.",
    sources=("semgraph", "operators", "plans", "benchmarks/real/asking.py"),
    lacks=lacks,
    options="--model MODEL --max-usd N --data FOLDER",
)
