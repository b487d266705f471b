"""Searches for the cheapest configuration that is shown to be good enough: what they find, how often the
choice is below the floor, and what they take; the choice by point estimates and Palimpzest beside them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, get_args

from benchmarks.frame import Benchmark, Case, Table, Target
from benchmarks.frame.cases import Figures
from benchmarks.tune import beside, live
from benchmarks.tune.offline import Rule, filtered, joined, searches
from benchmarks.tune.tables import JOINERS, MANY, PAIR

KNOWN, SERVER, MODELS = "known answers", "at the server", "models only"
FILTERS = ((0.9, 400), (0.95, 800))
USD = (0.07, 0.2)  # of a search of Palimpzest's
ROWS = 4000


def _known(floor: float, labels: int, unit: str, rule: Rule, join: bool, trial: int) -> Figures:
    known = joined(trial + 1) if join else filtered(trial + 1)
    return searches(known, floor, labels, unit, rule, trial + 1)


def cases() -> Sequence[Case]:
    """Searches over known answers, beside Palimpzest, and at the model server."""
    return [*_over_known(), *_beside(), *_live()]


def _over_known() -> Iterator[Case]:
    settings = {"models": {role: model.noise for role, model in PAIR.items()}}
    joining = {"models": {role: model.noise for role, model in JOINERS.items()}}
    for task, floor, labels in (
        *(("filter", *each) for each in FILTERS),
        ("join 20 x 20", 0.95, 80),
        ("join 20 x 20", 0.95, 240),
    ):
        join = task != "filter"
        for rule in get_args(Rule):
            for unit in ("row",) if join or rule != "walk" else ("row", "call"):
                key = {
                    "what": KNOWN,
                    "task": task,
                    "floor": floor,
                    "labels": labels,
                    "unit": unit,
                    "way": rule,
                }
                run = partial(_known, floor, labels, unit, rule, join)
                yield Case(key, run, joining if join else settings, trials=1)  # fmt: skip


def _beside() -> Iterator[Case]:
    settings = {"models": {model.name: (model.price, model.noise) for model in MANY.values()}}
    ways: dict[str, Callable[[int], Figures]] = {
        "walk": lambda trial: beside.ours(trial + 1),
        **{f"Palimpzest, ${usd:g}": partial(_palimpzest, usd) for usd in USD},
    }
    for way, run in ways.items():
        key = {"what": MODELS, "floor": beside.FLOOR, "labels": beside.LABELS, "way": way}
        longest = way.endswith(f"${max(USD):g}")
        yield Case(key, run, settings, full=longest, trials=1, seconds=1800)


def _palimpzest(usd: float, trial: int) -> Figures:
    return beside.palimpzest(usd, trial + 1)


def _live() -> Iterator[Case]:
    ways: list[tuple[str, float, int, str, Any]] = [
        ("filter", floor, labels, unit, partial(live.filter_tuned, floor, labels, ROWS, unit))
        for floor, labels in FILTERS
        for unit in ("row", "call")
    ]
    one_line = partial(live.pipeline_tuned, "one_line", ["default"], ROWS)
    ways += [
        ("join 20 x 20", 0.95, 80, "row", partial(live.join_tuned, 0.95, 4)),
        ("pipeline", 0.95, 0, "row", partial(live.pipeline_tuned, "pipeline", list(PAIR), ROWS)),
        ("pipeline, one line", 0.95, 0, "row", one_line),
        ("add_episode, 10 worlds", 0.9, 10, "group", partial(live.episodes_tuned, 10, 3)),
    ]
    for task, floor, labels, unit, run in ways:
        key = {"what": SERVER, "task": task, "floor": floor, "labels": labels, "unit": unit}
        quick, episodes = "one line" in task or labels in {80, 400}, labels == 10
        trials, seconds = (1, 1800) if episodes else (3, 600)
        yield Case(key, run, quick=quick and unit == "row", trials=trials, seconds=seconds)


_WALK: dict[str, Any] = {"what": KNOWN, "unit": "row", "way": "walk"}
_LIVE: dict[str, Any] = {"what": SERVER}
TARGETS = (
    *(
        Target(f"{task} {floor}, {labels} labels: {title}", _WALK | {"task": task, "labels": labels}, figure, most)
        for task, floor, labels, cost, rows in (
            ("filter", 0.9, 400, 1.5, 300), ("filter", 0.95, 800, 2.2, 800), ("join 20 x 20", 0.95, 80, 1.0, 16)
        )
        for title, figure, most in (
            ("share of searches below the floor", "below", 0.05), ("mean cost / optimal", "cost", cost),
            ("search in reference rows", "rows", rows),
        )
    ),
    *(
        Target(f"four models, 40 searches: {title}", {"what": MODELS, "way": "walk"}, figure, most)
        for title, figure, most in (("wrong", "wrong", 2), ("cost / optimal", "cost", 1.5), ("$ of a search", "usd", 0.07))
    ),
    Target("join at the server: search in reference rows", _LIVE | {"task": "join 20 x 20"}, "rows", 16),
    Target("pipeline at the server: cost / optimal", _LIVE | {"task": "pipeline"}, "cost", 1.2),
    Target("pipeline at the server: search in reference rows", _LIVE | {"task": "pipeline"}, "rows", 20_000),
)  # fmt: skip
"""What a search should find, and take."""
BENCHMARK = Benchmark(
    "tune",
    "Is the cheapest configuration found, and does it keep the floor?",
    cases,
    (
        Table(
            "Of 200 searches over known answers: what is found, and how often is it below the floor?",
            "task, floor, labels, unit, way",
            """below the floor=below:.1%; cost / optimal, median=typical:.2f; mean=cost:.2f; kept the reference=kept:.1%;
            search in reference rows=rows""",
            {"what": KNOWN},
            note="A search draws its labelled rows. `walk` is the search of `semgraph tune`; the point estimate takes the "
            "cheapest candidate whose measured F1 is at least the floor. Unit `call`: one row of each call is checked, and "
            "the rows beside it are paid for. The reference is one row (pair) a call on the larger model.",
        ),
        Table(
            "A choice among four models beside Palimpzest: of 40 searches, how many are wrong?",
            "floor, labels, way",
            "searches; wrong; cost / optimal=cost:.2f; kept the reference=kept:.1%; $ of a search=usd:.4f",
            {"what": MODELS},
            note="The cheapest model has an F1 of 0.941. Palimpzest scores rows, so its floor is the share of right rows "
            "that equals the F1 here, and its sample the same labelled rows.",
        ),
        Table(
            "What does `session.tune` find at the model server?",
            "task, floor, labels, unit",
            """status; times cheaper=cheaper:.1f; bound=at_least:.3f; true F1=true_f1:.3f; below the floor=below;
            cost / optimal=cost:.2f; search in reference rows=rows; calls; s=seconds:.1f; tried; choice""",
            {"what": SERVER},
            note="True F1: of the choice on 2,000 fresh rows (20 fresh lists), against the truth, of pipelines against the "
            "reference. Below: 1 if a shown choice is below the floor there. Status and choice are those of the first "
            "trial. A pipeline has no labels. What is to be reached: [targets.csv](targets.csv).",
        ),
    ),
    targets=TARGETS,
)  # fmt: skip
