"""How near a way that need not answer as the reference does comes to it, and what it asks for that."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import pyarrow as pa

from semgraph.checking.cases import LIBRARY, Case, mind, names, reference, run, some
from semgraph.checking.oracle import Mind, Oracle
from semgraph.checking.way import Way
from semgraph.expr.functions import alike, canonical_json
from semgraph.logical.plan import Choice
from semgraph.logical.prompt import plain
from semgraph.physical.contract import SCORE

LEAST = 0.9
_PEOPLE = ("Alice Chen", "Bob Marley", "Chloé Dubois", "Dmitri Ivanov", "Eva Green", "Farid Haddad", "Grace Hopper")


class Agreement(NamedTuple):
    """Answers of a way against the reference's, over the same rows.

    What is compared: answers of a row (sem_map), rows kept (sem_filter), pairs that match (sem_join), the answer of a group
    (sem_agg), the k best rows with their ranks (sem_topk).
    """

    recall: float
    precision: float
    items: int
    calls: int
    reference_calls: int


async def agreement(way: Way) -> Agreement:
    """Measure a way over rows of which a model's answers make a pattern, as those of a real one do."""
    right = mine = theirs = items = calls = reference_calls = 0
    basis = LIBRARY.get(way.operator, Choice.parse(reference(way.operator)))
    for case, thoughts in _worlds(way.operator):
        own, other = Oracle(thoughts), Oracle(thoughts)
        chosen = _chosen(case, await way.answers(case, own))
        wanted = _chosen(case, await run(case, basis, other))
        right, mine, theirs = right + len(chosen & wanted), mine + len(chosen), theirs + len(wanted)
        items += case.rows().items.num_rows
        calls, reference_calls = calls + len(own.requests), reference_calls + len(other.requests)
    return Agreement(_share(right, theirs), _share(right, mine), items, calls, reference_calls)


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 1.0


def _worlds(operator: str) -> Iterator[tuple[Case, Mind]]:
    if operator == "sem_filter":
        # One in nine says good of the cup: a similarity of texts takes some of these for rows about good tea.
        cups = ["good cup" if i % 9 == 0 else "cup" for i in range(600)]
        tea = ["good" if i % 5 < 2 else "poor" for i in range(600)]
        texts: list[str | None] = [f"{tea[i]} tea, {cups[i]} {i * 7919 % 1000}" for i in range(600)]
        yield Case(operator, texts), Mind(answer=lambda text: {"answer": "yes" if "“good" in text else "no"})
    elif operator == "sem_join":
        spelled: list[str | None] = [way for name in _PEOPLE for way in (name, name.upper(), name.replace("e", "é", 1))]
        for answers in (False, True):
            others = [*_PEOPLE, "Grace Kelly", None]
            yield Case(operator, spelled, others=others, answers=answers), Mind(match=_same_person(answers=answers))
    elif operator == "sem_topk":
        for n in (1, 2, 3, 7, 11, 20, 50):
            yield some(operator, n, group=[0] * n), mind(operator)
        yield some(operator, 40), mind(operator)
    else:
        for n in (1, 6, 13, 30):
            yield some(operator, n), mind(operator)
        yield some(operator, 100, group=[0] * 100), mind(operator)


def _same_person(*, answers: bool) -> Any:
    def match(left: str, right: str) -> dict[str, Any] | None:
        found = alike(*names(left, right)) >= 0.4
        return ({"verdict": "same", "note": None} if answers else {}) if found else None

    return match


def _chosen(case: Case, table: pa.Table) -> set[Any]:
    """What a consumer sees of the answers."""
    rows = [row for row in table.drop_columns("calls").to_pylist() if row.pop("error") is None]
    if case.operator == "sem_filter":
        return {row["item"] for row in rows if row["keep"]}
    if case.operator == "sem_join":
        rows = [{name: value for name, value in row.items() if name != SCORE} for row in rows]
        return {canonical_json(plain(row)) for row in rows if row["match"]}
    return _ranked(case, rows) if case.operator == "sem_topk" else {canonical_json(plain(row)) for row in rows}


def _ranked(case: Case, rows: list[dict[str, Any]]) -> set[tuple[int, int]]:
    """The k best rows of each group, with their ranks."""
    group = case.rows().items.column("group").to_pylist()
    ranks: dict[Any, int] = {}
    found = set()
    for row in sorted(rows, key=lambda row: (group[row["item"]], -row["score"], row["item"])):
        rank = ranks[group[row["item"]]] = ranks.get(group[row["item"]], -1) + 1
        if rank < case.node().k:
            found.add((row["item"], rank))
    return found
