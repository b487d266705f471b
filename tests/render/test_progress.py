"""What is said while a run goes on: on a terminal, without one, and while a model is fetched."""

from __future__ import annotations

import io
import sys
from contextvars import copy_context
from typing import Any

import pytest
from rich.console import Console

from semgraph.cli.options import CommonOptions
from semgraph.display import notice
from semgraph.execution.result import Progress
from semgraph.meter import Meter, StepMetrics
from semgraph.render.progress import Watch, downloading, said, shown, watched


def console(*, terminal: bool) -> tuple[Console, io.StringIO]:
    out = io.StringIO()
    return Console(file=out, force_terminal=terminal, width=80, color_system=None), out


@pytest.fixture
def meter() -> Meter:
    return Meter(
        {"read": StepMetrics("sem_map", "per_row", calls_issued=5, tokens_in=3900, tokens_out=200)}
    )


def test_without_a_terminal_the_last_commit_has_a_line(meter: Meter) -> None:
    to, out = console(terminal=False)
    with watched(to, "notes") as tell:
        assert tell is not None
        for step, done, total in [
            ("", 0, 2),
            ("read", 0, 2),
            ("read", 2, 2),
            ("", 1, 2),
            ("", 2, 2),
        ]:
            tell(Progress(step, done, total, meter))
    assert out.getvalue() == "  notes 2 of 2 · 5 calls · 4.1 k tokens · $0 · 0:00\n"


def test_without_a_terminal_a_long_run_has_a_line_now_and_then(meter: Meter) -> None:
    now = [100.0]
    to, out = console(terminal=False)
    with watched(to, "notes", clock=lambda: now[0]) as tell:
        assert tell is not None
        for step, done, total in [
            ("read", 1, 1),
            ("", 1, 9),
            ("read", 2, 2),
            ("", 2, 9),
            ("read", 3, 3),
        ]:
            now[0] += 6
            tell(Progress(step, done, total, meter))
    assert out.getvalue().splitlines() == [
        "  notes 1 of 9 · 5 calls · 4.1 k tokens · $0 · 0:12, about 1:36 left",
        "  notes 2 of 9 · 5 calls · 4.1 k tokens · $0 · 0:24, about 1:24 left",
    ]


def test_the_time_that_is_left_goes_down_between_commits(meter: Meter) -> None:
    now = [100.0]
    watch = Watch("notes", lambda: now[0])
    now[0] += 10
    watch.see(Progress("", 1, 3, meter))
    assert watch.summary().endswith("0:10, about 0:20 left")
    now[0] += 15
    assert watch.summary().endswith("0:25, about 0:05 left")
    now[0] += 15
    assert watch.summary().endswith("0:40")


def test_a_step_that_asked_nothing_is_not_shown(meter: Meter) -> None:
    to, out = console(terminal=True)
    with watched(to, "notes") as tell:
        assert tell is not None
        tell(Progress("looked_up", 3, 3, meter))
        tell(Progress("read", 3, 3, meter))
    assert "✓ read  3 of 3" in out.getvalue()
    assert "looked_up" not in out.getvalue()


def test_a_plan_without_windows_says_which_step_is_done(meter: Meter) -> None:
    now = [100.0]
    to, out = console(terminal=False)
    with watched(to, "", clock=lambda: now[0]) as tell:
        assert tell is not None
        tell(Progress("read", 0, 9, meter))
        now[0] += 20
        tell(Progress("read", 9, 9, meter))
    assert out.getvalue() == "  ✓ read 9 of 9 · 5 calls · 4.1 k tokens · $0 · 0:20\n"


def test_a_long_step_has_a_line_now_and_then_until_rows_are_committed(meter: Meter) -> None:
    now = [100.0]
    to, out = console(terminal=False)
    with watched(to, "", clock=lambda: now[0]) as tell:
        assert tell is not None
        for step, done in [("read", 0), ("read", 3), ("read", 5), ("", 2), ("read", 7), ("", 4)]:
            now[0] += 6
            tell(Progress(step, done, 9, meter))
    assert out.getvalue().splitlines() == [
        "  read 3 of 9 · 5 calls · 4.1 k tokens · $0 · 0:12",
        "  5 calls · 4.1 k tokens · $0 · 0:24, about 1:24 left",
        "  5 calls · 4.1 k tokens · $0 · 0:36, about 0:45 left",
    ]


def test_a_run_in_python_has_lines_once_it_takes_long(
    meter: Meter,
) -> None:
    now = [100.0]
    out = io.StringIO()
    with shown(out, lambda: now[0]) as tell, shown(out) as beside:
        assert tell is not None
        assert beside is None
        for seconds in (1, 10):
            now[0] += seconds
            tell(Progress("", 18, 18, meter))
    assert out.getvalue() == "  rows 18 of 18 · 5 calls · 4.1 k tokens · $0 · 0:11\n"


def test_where_nothing_can_be_written_progress_is_left_out(meter: Meter) -> None:
    now = [100.0]
    with shown(_Full(), lambda: now[0]) as tell:
        assert tell is not None
        now[0] += 20
        tell(Progress("", 18, 18, meter))
    with shown(None) as tell:
        assert tell is None


class _Full(io.StringIO):
    """A stream to a full disk."""

    def write(self, _text: str) -> int:
        raise OSError(28, "No space left on device")


class _Screen(io.StringIO):
    """A terminal."""

    def isatty(self) -> bool:
        return True


def test_a_terminal_shows_a_run_in_python_after_a_second_and_leaves_stdout_alone(
    meter: Meter, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [100.0]
    out = _Screen()
    with shown(out, lambda: now[0]) as tell:
        assert tell is not None
        tell(Progress("read", 1, 3, meter))
        assert out.getvalue() == ""
        now[0] += 2
        tell(Progress("read", 2, 3, meter))
        print("a result")
    assert "read  2 of 3" in out.getvalue()
    assert capsys.readouterr().out == "a result\n"


def test_quiet_says_nothing() -> None:
    to, out = console(terminal=True)
    with watched(to, "notes", quiet=True) as tell:
        assert tell is None
    assert out.getvalue() == ""


def test_on_a_terminal_steps_and_members_are_shown_and_vanish_afterwards(meter: Meter) -> None:
    to, out = console(terminal=True)
    with watched(to, "notes") as tell:
        assert tell is not None
        tell(Progress("read", 3, 3, meter))
        tell(Progress("judge", 1, 2, meter))
        tell(Progress("", 1, 3, meter))
    shown = out.getvalue()
    assert "✓ read  3 of 3" in shown
    assert "judge  1 of 2" in shown
    assert "notes 1 of 3 · 5 calls" in shown
    assert shown.endswith("\x1b[2K")


def test_dollars_that_are_not_known_are_a_dash(meter: Meter) -> None:
    meter.step("read").dollars = None
    watch = Watch("notes")
    watch.see(Progress("", 1, 3, meter))
    assert "· — ·" in watch.summary()


@pytest.mark.parametrize("terminal", [True, False])
def test_a_download_ends_with_a_line(terminal: bool) -> None:
    to, out = console(terminal=terminal)
    with downloading(to, "model") as told:
        told(10, 2_000_000, "there")
        told(2_000_000, 2_000_000, "package x")
    (*_, last) = out.getvalue().splitlines()
    assert "  ✓ model  2 MB, checked, " in last
    assert last.endswith(", from there and package x")


def test_a_download_that_was_not_needed_says_nothing() -> None:
    to, out = console(terminal=False)
    with downloading(to, "model"):
        pass
    assert out.getvalue() == ""


class TestNotices:
    def test_a_terminal_shows_a_notice_until_it_ends(self) -> None:
        to, out = console(terminal=True)
        with watched(to, "notes"):
            notice("load", "loading the model A (1 GB)…")
            notice("load", "")
        assert "  loading the model A (1 GB)…" in out.getvalue()
        assert out.getvalue().endswith("\x1b[2K")

    def test_without_a_terminal_a_notice_is_one_line_however_often_it_changes(self) -> None:
        to, out = console(terminal=False)
        with watched(to, "notes"):
            for share in (1, 2, 3):
                notice("download", f"downloading A: {share} %")
            notice("download", "")
        notice("load", "nobody watches")
        assert out.getvalue() == "  downloading A: 1 %\n"

    def test_what_goes_on_after_the_run_in_its_thread_is_not_shown(self) -> None:
        to, out = console(terminal=True)
        with watched(to, "notes"):
            notice("load", "loading the model A (1 GB)…")
            thread = copy_context()
        before = out.getvalue()
        thread.run(notice, "load", "")
        assert out.getvalue() == before

    def test_a_run_in_python_shows_notices_at_once(self) -> None:
        out = io.StringIO()
        with shown(out, lambda: 100.0):
            notice("estimate", "300 rows × ≈ 3 s by the local model ≈ 15 min")
        assert out.getvalue() == "  300 rows × ≈ 3 s by the local model ≈ 15 min\n"

    def test_a_command_that_prints_json_has_none(self) -> None:
        async def job() -> None:
            notice("load", "loading the model A (1 GB)…")

        for form, shown_lines in (("json", 0), ("text", 1)):
            to, out = console(terminal=False)
            with watched(to, "notes"):
                CommonOptions(format=form).wait(job())  # type: ignore[arg-type]
            assert len(out.getvalue().splitlines()) == shown_lines

    def test_a_comparison_says_them_to_its_function(self) -> None:
        lines: list[str] = []
        with said(lines.append) as say:
            assert say is not None
            say("one trial of each")
            notice("load", "loading the model A (1 GB)…")
            notice("load", "")
        assert lines == ["one trial of each", "loading the model A (1 GB)…"]


class Outputs:
    """The outputs of a notebook's cell, as its frontend keeps them."""

    def __init__(self) -> None:
        self.kept: dict[str, dict[str, str]] = {}
        self.texts: list[str] = []

    def publish(self, data: dict[str, str], _metadata: object = None, **more: Any) -> None:
        self.kept[more["transient"]["display_id"]] = data
        self.texts.append(data["text/plain"])


@pytest.fixture
def outputs(monkeypatch: pytest.MonkeyPatch) -> Outputs:
    from IPython.core.interactiveshell import InteractiveShell

    made = Outputs()

    class ZMQInteractiveShell:
        """The shell of a kernel."""

        display_pub = made

    monkeypatch.setattr("builtins.get_ipython", ZMQInteractiveShell, raising=False)
    monkeypatch.setattr(InteractiveShell, "initialized", lambda: True)
    monkeypatch.setattr(InteractiveShell, "instance", ZMQInteractiveShell)
    return made


class TestNotebooks:
    def test_a_long_run_is_one_line_that_ends_with_its_cost(
        self, meter: Meter, outputs: Outputs, capsys: pytest.CaptureFixture[str]
    ) -> None:
        now = [100.0]
        with shown(sys.stderr, lambda: now[0]) as tell:
            assert tell is not None
            notice("load", "loading the model A (1 GB)…")
            notice("load", "")
            for done in (1, 2, 3):
                now[0] += 6
                tell(Progress("", done, 3, meter))
        assert outputs.texts == [
            "loading the model A (1 GB)…",
            "",
            "rows 1 of 3 · 5 calls · 4.1 k tokens · $0 · 0:06, about 0:12 left",
            "rows 2 of 3 · 5 calls · 4.1 k tokens · $0 · 0:12, about 0:06 left",
            "rows 3 of 3 · 5 calls · 4.1 k tokens · $0 · 0:18",
            "rows 3 of 3 · 5 calls · 4.1 k tokens · $0 · 0:18",
        ]
        (kept,) = outputs.kept.values()
        assert "rows 3 of 3 · 5 calls" in kept["text/html"]
        assert capsys.readouterr().err == ""

    def test_a_short_run_leaves_nothing(self, meter: Meter, outputs: Outputs) -> None:
        now = [100.0]
        with shown(sys.stderr, lambda: now[0]) as tell:
            assert tell is not None
            tell(Progress("", 1, 2, meter))
            now[0] += 2
            tell(Progress("", 2, 2, meter))
        assert [*outputs.kept.values()] == [{"text/plain": "", "text/html": ""}]

    def test_a_comparison_is_one_line_that_unfolds_and_leaves_nothing(
        self, outputs: Outputs, capsys: pytest.CaptureFixture[str]
    ) -> None:
        with said(sys.stderr) as say:
            assert say is not None
            say("one trial of each: 8 calls")
            say("✓ <a>: 4 calls")
            (kept,) = outputs.kept.values()
            assert "<summary>✓ &lt;a&gt;: 4 calls</summary>" in kept["text/html"]
            assert "one trial of each: 8 calls" in kept["text/html"]
        assert [*outputs.kept.values()] == [{"text/plain": "", "text/html": ""}]
        assert capsys.readouterr().err == ""
