"""A Neo4j server that is killed while a run reads: the run says how it can be resumed."""

from __future__ import annotations

import os
from pathlib import Path

import neo4j
import pytest

from tests.bad_input import conftest as bad_input
from tests.bad_input.conftest import Serving, episode, quiet, told
from tests.bad_input.test_stores import LUMA, OSLO, at
from tests.cli.conftest import Project
from tests.conftest import Server
from tests.patience import HANGS

project, serving = bad_input.project, bad_input.serving  # fixtures


def test_a_run_can_be_resumed_after_the_server_was_killed(
    project: Project, serving: Serving, tmp_path: Path
) -> None:
    """Two messages are remembered; the server dies while the third is read; it comes back, and the
    run goes on.
    """
    from semgraph.stores.neo4j.local.server import start, stop

    project.write("semgraph.toml", "[limits]\nin_flight = 1\n")
    folder = tmp_path / "server"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1")
        server = start(folder)
        try:
            at(project, Server(server.uri, server.user, server.password))
            quiet(project(*told(project, [OSLO, LUMA], "first.jsonl"), "--store", "neo4j"), 0)
            serving.hold()
            asked = told(
                project,
                [episode("Ann(user): I know Bob.", 2), episode("Ann(user): I own Kite.", 3)],
            )
            process = project.start(*asked, "--store", "neo4j")
            serving.until_held()
            os.kill(server.pid, 9)
            serving.release()
            out, err = process.communicate(timeout=HANGS)
            assert process.returncode == 5, err
            assert out == ""
            assert server.uri.split("//")[1] in err
            assert "--resume " in err, err
            assert not [
                word for word in ("Traceback", "Unclosed", "asyncio", "nanobind") if word in err
            ], err
            back = start(folder)
            at(project, Server(back.uri, back.user, back.password))
            resumed = project(
                "run",
                "add_episode",
                "--resume",
                err.split("--resume ")[1].split()[0],
                "--store",
                "neo4j",
            )
            quiet(resumed, 0)
            assert "Ann ─ KNOWS ─▶ Bob" in resumed.out
            assert "─▶ Kite" in resumed.out
            with neo4j.GraphDatabase.driver(back.uri, auth=(back.user, back.password)) as driver:
                (names,) = driver.execute_query("MATCH (n:Entity) RETURN collect(n.name)").records
            assert sorted(names[0]) == ["Ann", "Bob", "Kite", "Luma", "Oslo"]
        finally:
            stop(folder)
