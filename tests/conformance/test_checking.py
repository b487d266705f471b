"""`semgraph operators new` and `check`: what authors of implementations are told."""

from __future__ import annotations

import json
import re
import signal
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from semgraph.cli import app
from semgraph.conformance import check_folder, report_lines, skeleton
from semgraph.errors import PlanError
from semgraph.folders import operators_folder
from semgraph.semantic.contract import OPERATORS

HEAD = '''"""One that does wrong."""
import asyncio
import time

from semgraph.operator import *

@dataclass(frozen=True)
class Mine(Implementation[{node}]):
    same = {same}
    def estimate(self, node, rows, seen):
        return Cost({calls})
    async def answer(self, node, rows, ctx):
        {body}
'''
ASK = "return await ctx.ask_packed(node, rows, rows.blocks(node, left=4))"


def semgraph(*args: str) -> Result:
    return CliRunner().invoke(app, ["operators", *args])


def write(
    folder: Path,
    name: str,
    body: str,
    *,
    node: str = "SemFilter",
    same: bool = True,
    calls: str = "1",
) -> Path:
    operator = {"SemFilter": "sem_filter", "SemJoin": "sem_join", "SemTopk": "sem_topk"}[node]
    file = folder / operator / f"{name}.py"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(HEAD.format(node=node, same=same, body=body, calls=calls))
    return file


# ------------------------------------------------------------------------------------------- a
# first file


@pytest.mark.parametrize("operator", OPERATORS)
def test_the_first_file_passes_the_check_as_it_is_written(tmp_path: Path, operator: str) -> None:
    done = semgraph("new", operator, "my_way", str(tmp_path / "mine"))
    file = tmp_path / "mine" / operator / "my_way.py"
    assert done.exit_code == 0
    assert done.stdout.strip() == str(file)
    assert f"semgraph operators check {tmp_path / 'mine'}" in done.stderr
    lines = [line for line in file.read_text().splitlines() if line.strip()]
    assert len(lines) <= 15
    assert max(map(len, lines)) <= 100
    checked = semgraph("check", str(tmp_path / "mine"))
    assert checked.exit_code == 0
    assert checked.stdout == f"{operator}/my_way  17 passed\n"


def test_a_file_is_never_overwritten(tmp_path: Path) -> None:
    file = skeleton("sem_map", "mine", tmp_path)
    before = file.read_text()
    done = semgraph("new", "sem_map", "mine", str(tmp_path))
    assert done.exit_code == 2
    assert done.stderr == f"{file} exists already. Use a different name; nothing was written\n"
    assert file.read_text() == before


@pytest.mark.parametrize(
    ("operator", "name", "said"),
    [
        (
            "sem_joint",
            "mine",
            'unknown operator "sem_joint". Operators: sem_map, sem_filter, sem_join, sem_agg, sem_topk, cluster. Did you mean "sem_join"?',
        ),
        (
            "sem_join",
            "block",
            '"block" is a shipped implementation of sem_join. Use a different name',
        ),
        (
            "sem_join",
            "My Candidate",
            '"My Candidate"',
        ),
        (
            "sem_join",
            "_mine",
            '"_mine"',
        ),
        (
            "sem_join",
            "../mine",
            '"../mine"',
        ),
    ],
)
def test_what_cannot_be_written_is_said(
    tmp_path: Path, operator: str, name: str, said: str
) -> None:
    done = semgraph("new", operator, name, str(tmp_path))
    assert done.exit_code == 2
    assert said in done.stderr
    assert list(tmp_path.iterdir()) == []


# ------------------------------------------------------------------------------------------- what
# is found


def test_what_is_passed_and_failed_is_told_in_a_line_each(tmp_path: Path) -> None:
    write(tmp_path, "good", ASK)
    file = write(
        tmp_path,
        "bad",
        "return rows.left if not rows.items else await ctx.ask_packed(node, rows, rows.blocks(node))",
    )
    done = semgraph("check", str(tmp_path))
    assert done.exit_code == 1
    assert done.stdout.splitlines() == [
        (
            f"sem_filter/bad   16 passed · 1 failed: no rows: Mine in {file} broke its contract: it returned a Table, "
            "not a list of Outcome. Correct its `answer`"
        ),
        "sem_filter/good  17 passed",
    ]
    found = json.loads(semgraph("check", str(tmp_path), "--format", "json").stdout)
    assert [(one["name"], one["passed"], list(one["failed"])) for one in found] == [
        ("sem_filter/bad", 16, ["no rows"]),
        ("sem_filter/good", 17, []),
    ]


def test_requests_about_refused_answers_say_why_or_a_check_is_refused(tmp_path: Path) -> None:
    silent = "return await ctx.ask_packed(node, rows._replace(reasons=()), rows.blocks(node))"
    file = write(tmp_path, "mine", silent, node="SemJoin")
    done = semgraph("check", str(tmp_path))
    assert "refused answers: no request says why the last answer was refused" in done.stdout
    with file.open("a") as lines:
        lines.write("    def refuses(self, node, limits):\n")
        lines.write("        return refuse_check(node, 'it asks once')\n")
    assert semgraph("check", str(tmp_path)).stdout == "sem_join/mine  17 passed\n"


BLOCKS = "rows.blocks(node)"
WRONG = {
    "returned nothing": ("return None", "it returned a NoneType, not a list of Outcome"),
    "too few": (
        "return [Outcome({'keep': True})] * (len(rows.items) - 1)",
        "it returned 0 outcomes for 1 items",
    ),
    "twice": (
        f"t = await ctx.ask_packed(node, rows, {BLOCKS}); return [*t, *t]",
        "it returned 2 outcomes for 1 items",
    ),
    "left out of its blocks": (
        f"return await ctx.ask_packed(node, rows, {BLOCKS}[:-1])",
        "bad.py:13: item 0 is in no block: put each item in one",
    ),
    "no verdict": (
        "return [Outcome({})] * len(rows.items)",
        'item 0 has neither "keep" nor an error',
    ),
    "raises": ("return rows.left.column('gone')", ":13 raised KeyError: 'Field \"gone\" does not exist in schema'"),
    "no such column": (
        "return await ctx.ask_packed(node, rows, rows.blocks(node, order='age'))",
        ':13 raised ValueError: order="age" is no column that the prompts name; they name name',
    ),
    "always yes": ("return [Outcome({'keep': True})] * len(rows.items)", "the reference answers False"),
    "blind to errors": (
        ("return [o if o.values else Outcome({'keep': False}) for o in "
        f"await ctx.ask_packed(node, rows, {BLOCKS})]"),
        "a row too long, one failing row: a row that cannot be sent has an answer",
    ),
    "errors of others": (
        (f"t = await ctx.ask_packed(node, rows, {BLOCKS}); e = [o.error for o in t if o.error]; "
        "return [Outcome(None, e[0])] * len(t) if e else t"),
        "has the error of a different row",
    ),
    "swallows the budget": (
        f"""
        try:
            return await ctx.ask_packed(node, rows, {BLOCKS})
        except Exception:
            return [Outcome(None, "failed: oh")] * len(rows.items)""",
        "budget reached: continued after the budget was reached",
    ),
    "goes on": (
        f"asyncio.create_task(asyncio.sleep(60)); return await ctx.ask_packed(node, rows, {BLOCKS})",
        "run after it was cancelled",
    ),
    "sleeps": (f"time.sleep(3); return await ctx.ask_packed(node, rows, {BLOCKS})", "blocked the event loop for "),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_found(tmp_path: Path, name: str) -> None:
    body, said = WRONG[name]
    write(tmp_path, "bad", body)
    (checked,) = check_folder(tmp_path)
    text = "\n".join(report_lines(checked, every=True))
    assert said in text
    assert semgraph("check", str(tmp_path)).exit_code == 1


def test_a_cause_is_said_once(tmp_path: Path) -> None:
    write(
        tmp_path,
        "bad",
        "return await ctx.ask_packed(node, rows, [[0]] if len(rows.items) else [])",
    )
    (checked,) = check_folder(tmp_path)
    text = "\n".join(report_lines(checked, every=True))
    assert "wrong ids" in text
    assert text.count("item 1 is in no block") == 1


def test_an_estimate_that_is_none_is_found(tmp_path: Path) -> None:
    write(tmp_path, "bad", ASK, calls="1 / rows.left")
    (checked,) = check_folder(tmp_path)
    said = "sem_filter/bad  16 passed · 1 failed: estimate: ZeroDivisionError: division by zero, for 0 rows"
    assert list(report_lines(checked)) == [said]


@pytest.mark.parametrize(
    ("body", "line"), [("while True: pass", ":13"), ("await asyncio.Event().wait()", "")]
)
def test_what_does_not_end_is_stopped(tmp_path: Path, body: str, line: str) -> None:
    file = write(tmp_path, "bad", body)
    write(tmp_path, "good", ASK)
    bad, good = check_folder(tmp_path, patience=0.5)
    assert list(report_lines(bad)) == [
        f"sem_filter/bad  0 passed · 1 failed: an end: Mine in {file}{line} was stopped after 0.5 s"
    ]
    assert next(report_lines(good)).startswith("sem_filter/good  ")


def test_what_does_not_end_is_stopped_in_the_background_too(tmp_path: Path) -> None:
    write(tmp_path, "bad", "while True: pass")
    before = signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # as a shell leaves it to what runs in the background
    try:
        (bad,) = check_folder(tmp_path, patience=0.5)
        assert "stopped after 0.5 s" in next(report_lines(bad))
        assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_many_failures_are_cut_short_unless_all_are_asked_for(tmp_path: Path) -> None:
    write(
        tmp_path,
        "bad",
        "return [Outcome({'keep': True})] * (len(rows.items) - 1)",
    )
    short, long = semgraph("check", str(tmp_path)), semgraph("check", str(tmp_path), "-v")
    assert len(short.stdout.splitlines()) == 5
    assert short.stdout.splitlines()[-1].endswith("more: -v shows them")
    assert len(long.stdout.splitlines()) > 6


def test_one_that_may_differ_is_measured(tmp_path: Path) -> None:
    write(tmp_path, "near", ASK, same=False)
    write(
        tmp_path,
        "far",
        "return [Outcome({'keep': True})] * len(rows.items)",
        same=False,
    )
    far, near = check_folder(tmp_path)
    assert next(report_lines(near)).endswith(
        "· recall 1.00, precision 1.00 against the reference, 150 calls for its 600"
    )
    assert {failed.check: failed.broken for failed in far.failed}["quality"] == (
        "recall 1.00 and precision 0.40 against the reference, at least 0.9 expected"
    )


# ------------------------------------------------------------------------------------------- what
# cannot be checked


def test_a_file_that_cannot_be_loaded_stops_no_other(tmp_path: Path) -> None:
    write(tmp_path, "good", ASK)
    bad = tmp_path / "sem_filter" / "bad.py"
    bad.write_text('"""No."""\nimport nothing_of_this_name\n')
    done = semgraph("check", str(tmp_path))
    assert done.exit_code == 2
    assert done.stdout.splitlines() == [
        f"sem_filter/bad   not checked: {bad}:2: ModuleNotFoundError: No module named 'nothing_of_this_name'. Correct the file",
        "sem_filter/good  17 passed",
    ]


def test_one_that_refuses_the_nodes_of_the_checks_is_not_checked(tmp_path: Path) -> None:
    file = write(tmp_path, "bad", ASK)
    file.write_text(
        file.read_text() + "    def refuses(self, node, limits): return 'it is Monday'\n"
    )
    done = semgraph("check", str(tmp_path))
    assert done.exit_code == 2
    assert (
        done.stdout
        == "sem_filter/bad  not checked: it refuses the node of the checks: it is Monday\n"
    )


def test_a_folder_without_implementations_is_none(tmp_path: Path) -> None:
    (tmp_path / "sem_fliter").mkdir()
    done = semgraph("check", str(tmp_path))
    assert done.exit_code == 2
    assert done.stderr == (
        f'"{tmp_path}" holds no implementation. In it: sem_fliter. Files are found as {tmp_path}/<operator>/<name>.py, of the '
        "operators sem_map, sem_filter, sem_join, sem_agg, sem_topk, cluster\n"
    )
    assert semgraph("check", str(tmp_path / "gone")).exit_code == 2
    with pytest.raises(PlanError, match="no folder"):
        list(check_folder(tmp_path / "gone"))


def test_the_checks_need_no_test_framework() -> None:
    import subprocess

    code = "import sys, semgraph.conformance; print(sorted({'pytest', 'hypothesis'} & set(sys.modules)))"
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout
        == "[]\n"
    )


def test_the_implementation_in_the_documentation_is_whole_and_passes(tmp_path: Path) -> None:
    (code,) = re.findall(
        r"```python\n(.*?)```",
        (operators_folder().parent / "docs" / "your-own-operator.md").read_text(),
        re.DOTALL,
    )
    assert len([line for line in code.splitlines() if line.strip()]) <= 20
    file = tmp_path / "sem_join" / "sorted_block.py"
    file.parent.mkdir()
    file.write_text(code)
    assert semgraph("check", str(tmp_path)).stdout == "sem_join/sorted_block  17 passed\n"
    file.write_text(code.replace("order=self.order)", "order=self.order)[:3]"))
    said = "sem_join/sorted_block  16 passed · 1 failed: kept apart: SortedBlock in "
    line = 1 + code[: code.index("order=self.order)")].count("\n")
    assert semgraph("check", str(tmp_path)).stdout == (
        f"{said}{file}:{line}: item 6 is in no block: put each item in one\n"
    )


async def test_a_notebook_with_its_running_loop_can_check(tmp_path: Path) -> None:
    write(tmp_path, "good", ASK)
    (checked,) = check_folder(tmp_path)
    assert checked.failed == []
    assert len(checked.outcomes) == 17
