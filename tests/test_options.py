"""Options of a run and settings have one description; what repeats their names agrees with it."""

from __future__ import annotations

import inspect
import re
from dataclasses import fields
from pathlib import Path

import griffe

from semgraph import Session
from semgraph.cli import compare, diff, plans, refresh, run, serve, tune
from semgraph.options import ARGUMENTS, SETTINGS, Flag, RefreshOptions, RunLimits, RunOptions

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
COMMANDS = {
    each.__name__
    for each in (run.run, run.explain, refresh, diff, compare, tune, plans.check_operators, serve)
}


def test_every_option_of_a_run_is_an_argument_with_the_same_default() -> None:
    taken = inspect.signature(Session.arun).parameters
    options = RunOptions()
    assert {each.name: taken[each.name].default for each in fields(options)} == vars(options)


def test_every_option_of_a_refresh_is_an_argument_with_the_same_default() -> None:
    taken = inspect.signature(Session.arefresh).parameters
    options = RefreshOptions()
    assert {each.name: taken[each.name].default for each in fields(options)} == vars(options)


def test_a_call_that_waits_has_the_arguments_of_the_one_that_does_not() -> None:
    site = griffe.load(
        "semgraph.session.session",
        search_paths=[ROOT],
        extensions=griffe.load_extensions(ROOT / "tools" / "doctests.py"),
    )
    for name in ("run", "refresh", "compare", "tune"):
        waits, awaited = getattr(Session, name), getattr(Session, f"a{name}")
        assert inspect.signature(waits) == inspect.signature(awaited)
        described, whole = inspect.getdoc(waits), inspect.getdoc(awaited)
        assert described != whole
        assert described.endswith(whole[whole.index("Args:") :])
        listed = [each.name for each in site["Session"][name].parameters]
        assert listed == list(inspect.signature(awaited).parameters)


def test_every_setting_with_a_flag_is_an_argument_of_a_session() -> None:
    assert set(ARGUMENTS) <= set(inspect.signature(Session).parameters)


def test_flags_name_commands_that_exist() -> None:
    flags = [spec.flag for spec in SETTINGS.values()]
    described = (*fields(RunOptions), *fields(RefreshOptions))
    flags += [each.metadata.get("flag") for each in described]
    assert {name for flag in flags if flag is not None for name in flag.commands} == COMMANDS


def test_a_flag_without_a_value_changes_the_default() -> None:
    assert RunOptions.flagged(write=True, again=True, rows=3) == RunOptions(
        write=False, again=True, rows=3
    )
    assert Flag("--max-usd N", "").argument == "max_usd"


def test_only_limits_that_are_set_limit_a_run() -> None:
    assert RunLimits(rpm=3, max_calls=5, max_usd=0.5).of_run == {"max_usd": 0.5, "max_calls": 5}


def test_the_page_of_settings_has_every_key_with_its_default() -> None:
    rows = {
        key: cells[1].strip().strip("`")
        for cells in (line.strip("|").split("|") for line in PAGE.splitlines() if line[:3] == "| `")
        for key in re.findall(r"`([^`]+)`", cells[0])
    }
    for key, spec in SETTINGS.items():
        if key in {"llm", "models"}:
            continue
        shown = rows.get(key) or rows[key.removeprefix("limits.")]
        if spec.default:
            number = spec.type in (int, float)
            assert shown == (f"{spec.default:g}" if number else str(spec.default)), key
        assert not spec.variable or f"`{spec.variable}`" in PAGE
