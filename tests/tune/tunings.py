"""Tunings with numbers that can be told apart, one for each status."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from semgraph.compare.comparison import Arm, Comparison, Quality, Spent, Trial, save
from semgraph.execution.record import RunRecord
from semgraph.tune.tuning import Loss, Tried, Tuning, save_tuning

CHOSEN = "good=packed(rows=5) @ small"
REFERENCE = Tried(
    "reference",
    verdict="reference",
    cost=0.332,
    f1=0.981,
    at_least=0.962,
    units=400,
    spent=Spent(400, 90_000, 2_000, 0.133),
)
TRIED = (
    Tried("good=packed(rows=40) @ small", {"good": "packed(rows=40) @ small"}, "hopeless", "", 0.0181, 0.702, 0.611, 134, 0.0071, Spent(134, 1, 1, 0.02)),
    Tried("good=packed(rows=20) @ small", {"good": "packed(rows=20) @ small"}, "failed", "the model refused 3 answers", 0.0224),
    Tried("good=packed(rows=10) @ small", {"good": "packed(rows=10) @ small"}, "not shown", "", 0.0302, 0.941, 0.9079, 400, 0.0071, Spent(400, 1, 1, 0.11)),
    Tried(CHOSEN, {"good": "packed(rows=5) @ small"}, "shown", "", 0.0437, 0.965, 0.93679, 400, 0.0071, Spent(400, 1, 1, 0.087)),
    Tried("good=per_row @ small", {"good": "per_row @ small"}, "not tried", "a cheaper one is shown", 0.066),
    Tried("good=packed(rows=10)", {"good": "packed(rows=10)"}, "not tried", "a cheaper one is shown", 0.151),
    Tried("good=tree", {"good": "tree"}, "refused", "a tree answers no filter that keeps more than one row of a group", None),
)  # fmt: skip
PROMISE = (
    "With a probability of at least 95 % over the draw of these 400 rows, one of each call: F1 of good against the truth "
    "is at least 0.936 over rows like the input they were drawn from, with this model, these prompts and this implementation."
)
_NOT = "Not promised: other data, a changed model behind the same name, other trials of a model that answers differently"
CAVEATS = (f"{_NOT} each time (it agrees with itself 0.99).",)
BEFORE = (
    "power: 0.93 is shown by 71 true answers without an error (14 tests); 400 checked rows have 130",
    "gain: at most 94 %; 1,000 rows cost $0.332 by the reference, $0.018 by the cheapest candidate",
)


def tuning(**changes: Any) -> Tuning:
    """One that chose; without a record."""
    given: dict[str, Any] = {
        "id": "7ab2", "plan": "complaints", "steps": ("good",), "status": "shown", "reason": f"{CHOSEN} is the cheapest shown",
        "reference": REFERENCE, "tried": TRIED, "chosen": CHOSEN, "floor": 0.93, "measure": "F1 against the truth",
        "sampled": (400, 12_000), "sample": "9db2", "rule": "the cheapest first; it ends at the first that is shown",
        "before": BEFORE, "agrees": 0.99, "prices": {"small": (0.15, 0.6)}, "promise": PROMISE, "caveats": CAVEATS,
        "spent": Spent(1334, 1_200_000, 30_000, 0.42), "paid": Spent(900, 800_000, 20_000, 0.29), "seconds": 65.4,
        "pays_back": 1460, "choice": {"plan": "complaints", "use": {"good": "packed(rows=5) @ small"}},
        "file": Path("plans/complaints.tuned.yaml"), "comparison": comparison(),
    }  # fmt: skip
    return Tuning(**(given | changes))


def comparison(number: int = 12) -> Comparison:
    """The plan as it is and the chosen candidate over the same rows, of which they disagree on all."""
    tickets = [{"_m": i, "id": i, "text": f"Ticket {i}: it leaks."} for i in range(number)]

    def arm(name: str, says: list[bool]) -> Arm:
        kept = pa.Table.from_pylist(
            [row for row, keep in zip(tickets, says, strict=True) if keep], schema=every.schema
        )
        spent = Spent(number, 1000, 20, 0.01)
        return Arm(name, {"good": name}, (Trial(1, spent, spent, rows=kept),), Quality(f1=0.9))

    every = pa.Table.from_pylist(tickets)
    arms = (
        arm("reference", [n % 3 > 0 for n in range(number)]),
        arm(CHOSEN, [n % 3 == 0 for n in range(number)]),
    )
    return Comparison(
        "7ab2", "complaints", "good", "openai:gpt-4.1-nano", arms, reference="reference", key=("id",), truth=True,
        frozen={"rows": {"tickets": number}, "sha": "9db2"}, store="memory", rows=every,
    )  # fmt: skip


def found(**changes: Any) -> Tuning:
    """A candidate looks good enough, and is not shown."""
    tried = tuple(replace(t, verdict="not shown") if t.name == CHOSEN else t for t in TRIED)
    unshown = {
        "promise": "",
        "caveats": (),
        "choice": {},
        "file": None,
        "pays_back": None,
        "tried": tried,
    }
    why = "one world is one unit, and a floor of 0.9 needs at least 15 groups without an error"
    return tuning(**{"status": "found", "reason": why, **unshown, **changes})


def kept(**changes: Any) -> Tuning:
    """Nothing is to gain, which was known before anything was spent."""
    given = {
        "reason": "at most 3 % of its cost is to gain", "chosen": "", "agrees": None, "comparison": None, "sampled": (0, 0),
        "sample": "", "spent": Spent(), "paid": Spent(), "seconds": 0.4, "before": ("gain: at most 3 %; 1,000 rows cost $0.332 by the reference, $0.322 by the cheapest candidate",),
        "tried": tuple(Tried(t.name, t.changes, "not tried", "nothing is to gain", t.cost) for t in TRIED),
        "reference": replace(REFERENCE, f1=None, at_least=None, units=0),
    }  # fmt: skip
    return found(**{"status": "kept", **given, **changes})


def stopped(**changes: Any) -> Tuning:
    """A limit ended the search."""
    rest = tuple(
        Tried(t.name, t.changes, "not tried", "the limit was reached", t.cost) for t in TRIED[3:]
    )
    given = {
        "reason": "no candidate was shown before the limit",
        "chosen": "",
        "comparison": None,
        "tried": (*TRIED[:3], *rest),
    }
    return found(
        **{
            "status": "kept",
            "stopped": "before good=packed(rows=5) @ small, about $0.087, would pass max_usd 0.3. The answers are in the journal",
            **given,
            **changes,
        }
    )


def several(**changes: Any) -> Tuning:
    """Of two steps, found on half of the rows and shown on the others."""
    name = "good=packed(rows=5) @ small, who=packed(rows=20) @ openai:gpt-4.1-nano"
    tried = (
        replace(
            TRIED[3],
            name=name,
            changes={
                "good": "packed(rows=5) @ small",
                "who": "packed(rows=20) @ openai:gpt-4.1-nano",
            },
        ),
    )
    losses = (
        Loss("good", "good=packed(rows=5) @ small", 0.0437, 0.97, 200, True),
        Loss("good", "packed(rows=10) @ small", 0.0302, 0.94, 200),
        Loss("who", "packed(rows=20) @ openai:gpt-4.1-nano", 0.0112, 0.991, 180, True),
        Loss("who", "tree", None, None, 0),
    )
    return tuning(
        **{
            "steps": ("good", "who"),
            "tried": tried,
            "chosen": name,
            "losses": losses,
            "comparison": None,
            **changes,
        }
    )


def recorded(made: Tuning, runs: Path) -> Tuning:
    """The tuning, in a record such as the search leaves."""
    record = RunRecord(runs / made.id)
    record.describe(
        plan=made.plan, kind="tuning", file="complaints.yaml", started="2026-11-28 15:06:40+00:00", status="tuned", journal=None
    )  # fmt: skip
    made = replace(made, record=record.folder)
    if made.comparison is not None:
        save(made.comparison, record)
    save_tuning(made, record)
    return made
