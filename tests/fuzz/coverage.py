"""Which clauses of which operators met NULL, NaN, ties, several partitions and failed rows, in how
many plans.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

FEATURES = ("NULL", "NaN", "ties", "partitions", "failures")
LEAST = 20  # plans of 3,000 in which each cell is hit
_BY_ROW = "each row is computed by itself: no two rows meet"
_NUMBER = "a number, which is not NULL, is not NaN and orders nothing"
_ROWS = "which rows meet is what using and where say"
_OF_LEFT = "each row keeps its other columns, equal or not"
_TRUTH = "a condition gives TRUE, FALSE or NULL"

CLAUSES: dict[tuple[str, str], dict[str, str]] = {
    ("filter", "where"): {"ties": _BY_ROW},
    ("project", "columns"): {"ties": _BY_ROW},
    ("add", "columns"): {"ties": _BY_ROW},
    ("require", "where"): {"ties": _BY_ROW},
    ("union", "relations"): {"ties": "all rows stay, equal or not"},
    ("intersect", "relations"): {},
    ("except", "relations"): {},
    ("unnest", "column"): {"ties": "all items stay, equal or not"},
    ("limit", "n"): {"NULL": _NUMBER, "NaN": _NUMBER, "ties": _NUMBER},
    ("limit", "by"): {},
    ("limit", "order"): {},
    ("sort", "by"): {},
    ("distinct", "by"): {},
    ("aggregate", "by"): {},
    ("aggregate", "add"): {},
    ("aggregate", "having"): {"ties": _BY_ROW},
    ("join", "using"): {},
    ("join", "where"): {"ties": _ROWS},
    ("group_join", "using"): {},
    ("group_join", "where"): {"ties": _ROWS},
    ("group_join", "order"): {},
    ("group_join", "limit"): {"NULL": _NUMBER, "NaN": _NUMBER, "ties": _NUMBER},
    ("group_join", "add"): {},
    ("iterate", "until"): {"ties": "one value of all rows of a group"},
    ("sem_filter", "prompt"): {},
    ("sem_filter", "check"): {"ties": _BY_ROW},
    ("sem_filter", "when"): {"ties": _BY_ROW},
    ("sem_filter", "otherwise"): {"ties": _BY_ROW},
    ("sem_map", "prompt"): {},
    ("sem_map", "check"): {"ties": _BY_ROW},
    ("sem_map", "when"): {"ties": _BY_ROW},
    ("sem_map", "otherwise"): {"ties": _OF_LEFT},
    ("sem_join", "prompt"): {},
    ("sem_join", "check"): {"ties": _BY_ROW},
    ("sem_join", "using"): {},
    ("sem_join", "where"): {"ties": _ROWS},
    ("sem_join", "order"): {},
    ("sem_agg", "prompt"): {},
    ("sem_agg", "check"): {"ties": _BY_ROW},
    ("sem_agg", "by"): {},
    ("sem_agg", "order"): {},
    ("sem_agg", "when"): {"NULL": _NUMBER, "NaN": _NUMBER, "ties": _NUMBER},
    ("sem_agg", "otherwise"): {"ties": _OF_LEFT},
    ("sem_agg", "add"): {},
    ("sem_topk", "prompt"): {},
    ("sem_topk", "by"): {},
    ("sem_topk", "k"): {"NULL": _NUMBER, "NaN": _NUMBER, "ties": _NUMBER},
}
"""The clauses of operators; for each, the features that cannot occur there, and why."""


class Coverage:
    """Counts plans by cell: operator, clause, feature."""

    def __init__(self) -> None:
        self.plans: Counter[tuple[str, str, str]] = Counter()
        self._seen: set[tuple[str, str, str]] = set()

    def note(self, operator: str, clause: str, feature: str) -> None:
        """A clause met a feature in the plan at hand."""
        self._seen.add((operator, clause, feature))

    def plan_ends(self, *, compared: bool) -> None:
        """Count the plan at hand, if its evaluations were compared."""
        if compared:
            self.plans.update(self._seen)
        self._seen.clear()

    def rare(self, least: int = LEAST) -> list[tuple[str, str, str, int]]:
        """The cells that were hit in fewer plans."""
        counts = (
            ((*clause, feature), self.plans[(*clause, feature)]) for clause, feature in _cells()
        )
        return [(*cell, count) for cell, count in counts if count < least]

    def table(self) -> str:
        """Counts by clause and feature; a dash where a feature cannot occur."""
        lines = [f"{'operator.clause':24}" + "".join(f"{feature:>11}" for feature in FEATURES)]
        for (operator, clause), never in CLAUSES.items():
            counts = (
                "—" if feature in never else str(self.plans[operator, clause, feature])
                for feature in FEATURES
            )
            lines.append(
                f"{operator + '.' + clause:24}" + "".join(f"{count:>11}" for count in counts)
            )
        reasons = dict.fromkeys(
            f"— {o}.{c} {feature}: {why}"
            for (o, c), never in CLAUSES.items()
            for feature, why in never.items()
        )
        return "\n".join([*lines, *reasons])


def _cells() -> Iterable[tuple[tuple[str, str], str]]:
    return (
        (clause, feature)
        for clause, never in CLAUSES.items()
        for feature in FEATURES
        if feature not in never
    )
