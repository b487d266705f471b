"""What the shell completes, by the protocol that the scripts of `--show-completion` speak."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Project

COMMAND = Path(sys.executable).parent / "semgraph"


def completed(project: Project, line: str) -> list[str]:
    """What bash is given for the last word of a line."""
    words = line.split(" ")
    asked = {
        "_SEMGRAPH_COMPLETE": "complete_bash",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(words) - 1),
    }
    project.env |= asked
    done = project(prog_name="semgraph")
    assert done.err == ""
    return done.out.split()


@pytest.mark.parametrize(
    ("line", "proposed"),
    [
        ("semgraph op", ["operators"]),
        ("semgraph plans show peo", ["people"]),
        ("semgraph run memories/mem0/", ["memories/mem0/read", "memories/mem0/write"]),
        ("semgraph run lone", ["lone.yaml"]),
        ("semgraph run people --set ", ["least="]),
        ("semgraph run people -i ", ["notes="]),
        ("semgraph ref", ["refresh"]),
        ("semgraph diff people --preset s", ["short"]),
        ("semgraph refresh people --use told=refl", ["told=reflexion"]),
        ("semgraph refresh people --comp", ["--complete"]),
        ("semgraph run people --preset s", ["short"]),
        ("semgraph run people --until to", ["told"]),
        ("semgraph run people --use told=refl", ["told=reflexion"]),
        ("semgraph compare people --implementations per_row,pac", ["per_row,packed"]),
        ("semgraph operators new sem_t", ["sem_topk"]),
        ("semgraph model pull all-M", ["all-MiniLM-L6-v2"]),
        ("semgraph runs show ab", ["ab12"]),
        ("semgraph why l", ["last"]),
        ("semgraph run people --llm rec", ["recorded"]),
        ("semgraph run people --stor", ["--store"]),
        ("semgraph run broken --preset ", []),
        ("semgraph run missing --set ", []),
    ],
)
def test_a_word_is_completed(project: Project, line: str, proposed: list[str]) -> None:
    plan = (project.folder / "plans/people.yaml").read_text()
    project.write("plans/people.yaml", plan + "presets: {short: {params: {least: 1}}}\n")
    project.write("plans/broken.yaml", "plan: broken\npresets: {a: [\n")
    project.write("lone.yaml", "plan: lone\n")
    project.write(".semgraph/runs/ab12/run.json", "{}")
    assert completed(project, line) == proposed


def test_bash_completes_with_the_script_that_the_command_prints(project: Project) -> None:
    script = """
eval "$(semgraph --show-completion)"
COMP_WORDS=(semgraph plans show peo); COMP_CWORD=3
_semgraph_completion semgraph
echo "${COMPREPLY[@]}"
"""
    path = {"PATH": f"{COMMAND.parent}:{project.env['PATH']}"}
    done = subprocess.run(
        ["bash", "--norc", "-c", script],
        check=True, cwd=project.folder, env=project.env | path, capture_output=True, text=True,
    )  # fmt: skip
    assert (done.stdout.strip(), done.stderr) == ("people", "")
