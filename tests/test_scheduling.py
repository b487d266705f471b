"""What the test processes are given, and in which order."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from tests.scheduling import CACHED, InTurn, unit_of


class Kept(dict[str, Any]):
    """pytest's cache, for a test."""

    set = dict.__setitem__


class Process:
    """A test process that runs what it is given when it is told to."""

    def __init__(self, name: str) -> None:
        self.gateway = SimpleNamespace(id=name, spec=name)
        self.given: list[int] = []
        self.shutting_down = False

    def send_runtest_some(self, numbers: list[int]) -> None:
        self.given += numbers

    def shutdown(self) -> None:
        self.shutting_down = True


def scheduled(tests: list[str], cache: Kept) -> tuple[InTurn, Process, Process]:
    config = SimpleNamespace(
        getvalue=lambda _: ["popen", "popen"],
        option=SimpleNamespace(loadscopereorder=True),
        cache=cache,
    )
    made, one, other = InTurn(config), Process("one"), Process("other")
    for process in (one, other):
        made.add_node(process)
        made.add_node_collection(process, tests)
    made.schedule()
    return made, one, other


def run(
    made: InTurn, process: Process, tests: list[str], number: int, seconds: float = 1.0
) -> list[str]:
    """A process runs the next tests of its own; which they were."""
    ran = process.given[:number]
    del process.given[:number]
    for index in ran:
        made.mark_test_complete(process, index, seconds)
    return [tests[index] for index in ran]


TESTS = [
    *(f"tests/a.py::test_{n}[{store}]" for n in range(4) for store in ("memory", "neo4j")),
    *(f"tests/b.py::test_{n}[neo4j]" for n in range(3)),
    *(f"tests/c.py::test_{n}" for n in range(6)),
    "tests/d.py::test_slow",
]


def test_what_a_file_runs_on_the_shared_neo4j_is_a_unit_of_its_own() -> None:
    assert (
        unit_of("tests/a.py::test_0[neo4j]")
        == unit_of("tests/a.py::test_1[neo4j-x]")
        == "tests/a.py on neo4j"
    )
    assert unit_of("tests/a.py::test_0[memory]") == "tests/a.py"
    assert (
        unit_of("tests/stores/test_neo4j.py::test_it[x]") == "tests/stores/test_neo4j.py on neo4j"
    )
    assert (
        unit_of("tests/stores/test_neo4j_local.py::test_it") == "tests/stores/test_neo4j_local.py"
    )


def test_one_process_at_a_time_has_what_runs_on_neo4j() -> None:
    made, one, other = scheduled(TESTS, Kept())
    assert {unit_of(TESTS[i]) for i in one.given} == {"tests/a.py on neo4j"}
    assert {unit_of(TESTS[i]) for i in other.given} == {"tests/c.py"}
    run(made, other, TESTS, 6)
    assert {unit_of(TESTS[i]) for i in other.given} == {"tests/a.py"}
    run(made, one, TESTS, 4)
    assert {unit_of(TESTS[i]) for i in one.given} == {"tests/b.py on neo4j"}


def test_all_tests_run_once() -> None:
    made, one, other = scheduled(TESTS, Kept())
    ran = []
    while one.given or other.given:
        ran += run(made, one, TESTS, 2) + run(made, other, TESTS, 3)
    assert sorted(ran) == sorted(TESTS)
    assert made.tests_finished
    assert (one.shutting_down, other.shutting_down) == (True, True)


def test_what_took_long_comes_first_the_next_time() -> None:
    cache = Kept()
    made, one, other = scheduled(TESTS, cache)
    while one.given or other.given:
        for process in (one, other):
            if process.given:
                slow = "slow" in TESTS[process.given[0]]
                run(made, process, TESTS, 1, 60.0 if slow else 0.1)
    made.remember()
    assert cache[CACHED]["tests/d.py"] == 60.0
    assert cache[CACHED]["tests/a.py on neo4j"] == 0.1
    _, _, other = scheduled(TESTS, cache)
    assert TESTS[other.given[0]] == "tests/d.py::test_slow"
