"""Before a long run calls a slow model, it says how long that takes: from the seconds of earlier calls
of the model, else as measured.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import semgraph as sg
from semgraph.frontend.frame import Frame
from semgraph.llm.base import Limits, Reply, Request
from semgraph.llm.dummy import Dummy

MakeSession = Callable[..., sg.Session]
REPLAYED = "less what is in the journal"


class Slow(Dummy):
    """A model whose calls take some seconds, as it says."""

    def __init__(
        self, name: str, *, measured: float = 0.0, took: float = 3.0, **limits: int
    ) -> None:
        self.name, self.took = name, took
        self.limits = Limits(**{"in_flight": 1, **limits}, seconds=measured)

    async def complete(self, request: Request) -> Reply:
        return replace(await super().complete(request), seconds=self.took)


@pytest.fixture
def session(tmp_path: Path) -> MakeSession:
    return lambda llm: sg.Session(llm=llm, embedder="dummy", store="memory", folder=tmp_path)


def notes(first: int, last: int) -> Frame:
    rows = [{"id": n, "text": f"{n} people came."} for n in range(first, last)]
    return sg.table(rows, key="id").sem_filter("Is “{text}” a meeting?").step("met")


def test_before_the_first_run_of_a_local_model_its_measured_pace_counts(
    session: MakeSession, capsys: pytest.CaptureFixture[str]
) -> None:
    with session(Slow("local:A", measured=4.5)) as own:
        own.run(notes(0, 200))
    assert (
        capsys.readouterr().err == f"  200 rows × ≤ 4.5 s by the local model ≤ 15 min, {REPLAYED}\n"
    )


def test_later_the_pace_of_the_runs_on_this_machine_counts(
    session: MakeSession, capsys: pytest.CaptureFixture[str]
) -> None:
    slow = Slow("local:A", measured=4.5, took=9.0)
    with session(slow) as own:
        own.run(notes(0, 4))
        own.run(notes(100, 200))
    with session(Slow("B", took=0.1)) as own:
        own.run(notes(200, 300))
    assert (
        capsys.readouterr().err == f"  100 rows × ≈ 9 s by the local model ≈ 15 min, {REPLAYED}\n"
    )


def test_without_answers_to_replay_it_is_the_whole_time(
    session: MakeSession, capsys: pytest.CaptureFixture[str]
) -> None:
    with session(Slow("local:A", measured=4.5)) as own:
        own.run(notes(0, 200), fresh=True)
    assert capsys.readouterr().err == "  200 rows × ≤ 4.5 s by the local model ≤ 15 min\n"


def test_of_a_model_with_concurrent_calls_it_is_the_least(
    session: MakeSession, capsys: pytest.CaptureFixture[str]
) -> None:
    with session(Slow("far", took=8.0, in_flight=4)) as own:
        own.run(notes(0, 4))
        own.run(notes(100, 200))
    assert capsys.readouterr().err == f"  100 rows × ≥ 2 s by far ≥ 3 min, {REPLAYED}\n"


def test_a_bound_on_the_calls_is_no_least_time(
    session: MakeSession, capsys: pytest.CaptureFixture[str]
) -> None:
    with session(Slow("far", took=8.0, in_flight=4)) as own:
        own.run(notes(0, 4).sem_filter("Is “{text}” long?").step("long"))
        own.run(notes(100, 200).sem_filter("Is “{text}” true?").step("true"))
    assert capsys.readouterr().err == f"  100 rows × ≈ 3 s by far ≈ 5 min, {REPLAYED}\n"


def test_nothing_is_said_of_a_short_run_and_of_one_that_is_not_shown(
    session: MakeSession, capsys: pytest.CaptureFixture[str]
) -> None:
    with session(Slow("local:A", measured=4.5)) as own:
        own.run(notes(0, 10))
        own.run(notes(0, 200), progress=None)
    assert capsys.readouterr().err == ""


def test_rows_that_the_graph_has_are_not_counted(
    session: MakeSession, capsys: pytest.CaptureFixture[str]
) -> None:
    at = "2025-01-01T00:00:00Z"
    episodes = [{"content": f"Ann is {n}.", "uuid": f"e{n}", "valid_at": at} for n in range(9)]
    with session(Slow("local:A", took=60.0)) as own:
        own.run("add_episode", episodes=episodes[:8], progress=None)
        own.run("add_episode", episodes=episodes)
    assert capsys.readouterr().err.startswith("  1 row × ")


def test_a_refresh_says_it(session: MakeSession, capsys: pytest.CaptureFixture[str]) -> None:
    at = "2025-01-01T00:00:00Z"
    episodes = [{"content": f"Ann is {n}.", "uuid": f"e{n}", "valid_at": at} for n in range(9)]
    with session(Slow("local:A", took=60.0)) as own:
        own.run("add_episode", episodes=episodes, progress=None)
        own.refresh("add_episode", episodes=episodes, progress=None)
        assert capsys.readouterr().err == ""
        own.refresh("add_episode", episodes=episodes, fresh=True)
    assert capsys.readouterr().err.startswith("  9 rows × ")


def test_a_comparison_says_it_beside_its_cost(session: MakeSession) -> None:
    lines: list[str] = []
    with session(Slow("local:A", measured=4.5)) as own:
        own.compare(
            notes(0, 20),
            step="met",
            variants=["per_row", "packed(rows=10)"],
            trials=2,
            say=lines.append,
        )
    assert lines[3:5] == [
        "  2 trials of each: 44 calls, $0",
        "  answers in the journal cost nothing; invalid answers are requested again",
    ]
    assert lines[5] == "  44 calls × ≈ 4.5 s by the local model ≈ 3 min"
