"""The benchmark of scale: its sizes, what it counts as different, and what it measures from outside."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import psutil
import pytest

from benchmarks.scale import equal, processes, vectors
from benchmarks.scale.bench import BENCHMARK, EQUAL
from benchmarks.scale.equal import LIMIT, WAYS, Way
from benchmarks.scale.graphs import wire
from benchmarks.scale.inputs import laid_out
from benchmarks.scale.processes import OWN, RAY, Usage
from benchmarks.suite import Line, Unmeasured, peers
from semgraph.stores.sqlite.vectors import EXACT_UP_TO
from tests.partial import maybe_partial

CASES = list(BENCHMARK.cases())


def _cases_of(where: object) -> int:
    return sum(Line("scale", case.key, 0, {}).is_of(where) for case in CASES)  # type: ignore[arg-type]


def test_every_case_is_of_one_row_of_one_table() -> None:
    assert len({str(case.key) for case in CASES}) == len(CASES)
    for case in CASES:
        line = Line("scale", case.key, 0, {})
        tables = [table for table in BENCHMARK.tables if line.is_of(table.where)]
        assert len(tables) == 1
        assert set(tables[0].rows) <= set(case.key)


@pytest.mark.parametrize("target", BENCHMARK.targets, ids=lambda target: target.what)
def test_every_target_is_measured_by_one_case(target: object) -> None:
    for name in ("where", "of"):
        if (where := getattr(target, name)) is not None:
            assert _cases_of(where) == 1, (name, where)


def test_the_large_size_is_held_in_int8() -> None:
    sizes = {case.key["facts"] for case in CASES if case.key["what"] == "vectors"}
    assert max(sizes) > EXACT_UP_TO


def test_a_small_run_has_a_case_of_each_part() -> None:
    quick = {case.key["what"] for case in CASES if case.quick}
    assert quick == {case.key["what"] for case in CASES} - {"two workers"}


def test_runs_in_shards_of_this_process_are_the_run_in_one_process() -> None:
    figures = asyncio.run(equal._compared(Way("local", ((3, 2),)), None))
    assert figures["requests"] > equal.PART
    assert figures["in_flight"] <= equal.IN_FLIGHT
    assert [figures[name] for name in ("different", "beyond", "lacking")] == [0, 0, 0]


def test_a_run_that_ends_early_differs_in_its_graph_and_lacks_requests() -> None:
    async def early(attempt: equal.Attempt) -> None:
        await maybe_partial(attempt.runs.run({**attempt.settings, "max_calls": LIMIT}))

    figures = asyncio.run(equal._compared(Way("local", ((3, 2),), early), None))
    assert (figures["different"], figures["graphs"]) == (1, 1)
    assert figures["lacking"] > 0


@pytest.mark.parametrize(
    ("way", "sent", "different"),
    [
        (Way("ray"), "aab", False),
        (Way("ray"), "aabb", True),
        (Way("ray"), "aa", True),
        (Way("ray"), "aabc", True),
        (Way("ray", lost=1), "aabb", False),
        (Way("ray", lost=1), "aabbb", True),
        (Way("ray", lost=1), "bb", True),
        (Way("ray", max_calls=2), "ab", False),
        (Way("ray", max_calls=2), "aab", True),
        (Way("ray", max_calls=2), "ac", True),
    ],
)
def test_requests_beyond_those_in_flight_are_different(way: Way, sent: str, different: bool):
    assert way._different(Counter("aab"), Counter(sent)) is different


def test_every_way_names_what_it_does() -> None:
    assert {case.key["way"] for case in CASES if case.key["what"] == EQUAL} == set(WAYS)
    assert wire([{"b": 1, "a": 2}, {"a": 2, "b": 1}]) == {json.dumps({"a": 2, "b": 1}): 2}


def test_cpu_is_that_of_the_process_and_its_workers_and_of_rays_own_apart(monkeypatch) -> None:
    spends = "import os; x = [i * i for i in range(3_000_000)]; print(os.times().user, flush=True); input()"
    child = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {spends!r}])"
    root = psutil.Process()
    monkeypatch.setattr(
        Usage, "_of", lambda _, process: OWN if process in (root, *workers) else RAY
    )
    workers: list[psutil.Process] = []
    usage = Usage(root.pid)
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", child], **pipes) as process:
        spent = float(process.stdout.readline())
        usage.look()
        assert usage.seconds[RAY] >= spent > 0
        workers += root.children(recursive=True)
        before = usage.seconds[RAY]
        usage.look()
        assert usage.seconds[RAY] == before
        process.stdin.write("\n")
        process.stdin.flush()
    usage.look()
    assert usage.seconds[RAY] == before


def test_a_worker_that_waits_is_rays_own(monkeypatch) -> None:
    usage = Usage(psutil.Process().pid)
    names = {"ray::IDLE": RAY, "ray::run_task": OWN, "ray::LedgerActor": OWN, "raylet": RAY}
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        other = psutil.Process(process.pid)
        for name, of in names.items():
            monkeypatch.setattr(processes.psutil.Process, "cmdline", lambda _, name=name: [name])
            assert usage._of(other) == of
        assert process.stdin is not None
        process.stdin.close()


def test_rows_are_laid_out_without_a_request_of_theirs() -> None:
    figures = laid_out(300, 0)
    assert figures["peak_mib"] > 0
    assert figures["cpu_s"] > 0


def test_recall_is_the_share_of_the_exact_hits_that_were_found() -> None:
    stored, asked = vectors.vectors(vectors.AROUND, 50, 1), vectors.vectors(vectors.UNIFORM, 2, 2)
    assert np.allclose(np.linalg.norm(stored, axis=1), 1, atol=1e-5)
    exact = vectors._nearest(stored, asked)
    assert exact.shape == (2, 10)
    assert exact[0][0] == int(np.argmax(stored @ asked[0]))
    hits = [{"_q": q, "uuid": f"f{row:08}"} for q, rows in enumerate(exact) for row in rows]
    assert vectors._recall(hits, exact) == 1
    assert vectors._recall(hits[:5], exact) == 0.25


def test_parts_without_their_extra_name_the_command_that_installs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peers, "find_spec", lambda _: None)
    monkeypatch.setattr(peers, "ROOT", tmp_path)
    with pytest.raises(Unmeasured, match=r"needs the extra ray.*Run: make bench-scale"):
        equal.compared(equal.WORKER, 0)
    monkeypatch.setattr(peers, "find_spec", lambda _: object())
    assert peers.interpreter_with("ray") == Path(sys.executable)
