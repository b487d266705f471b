"""`semgraph tune`, as it is typed: what it asks the session for, and what it does with the result."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import typer
import yaml

from semgraph.errors import PlanError
from semgraph.session import Session
from semgraph.tune.tuning import Tuning
from tests.cli.conftest import Project, Serving
from tests.tune.tunings import found, kept, recorded, stopped, tuning

CHOICE = {"plan": "people", "use": {"told": "packed(rows=2)"}, "made_of": {"plan": "51c0"}}
DEFAULTS = {
    "params": {}, "preset": None, "use": {}, "prompts": {}, "floor": 0.95, "per_1000": None, "confidence": 0.95,
    "sample": 400, "seed": 0, "truth": None, "models": None, "steps": None, "units": "call", "rows": None, "fresh": False,
    "ask": None, "inputs": {},
}  # fmt: skip


@pytest.fixture
def asked() -> dict[str, Any]:
    """The arguments of the search."""
    return {}


@pytest.fixture
def search(asked: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Searches end like this."""

    def ends(made: Callable[..., Tuning], **changes: Any) -> None:
        async def atune(session: Session, plan: str, **given: Any) -> Tuning:
            say = given.pop("say")
            say("gain: at most 94 %")
            asked.update(given, plan=plan, limits=session.settings.limits.max_usd)
            if given["ask"] is not None and not given["ask"](["gain: at most 94 %"]):
                return recorded(kept(reason="the search was not begun"), session.runs)
            return recorded(made(plan="people", file=None, **changes), session.runs)

        monkeypatch.setattr(Session, "atune", atune, raising=False)

    return ends


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The command is at a terminal; the questions that it asks there, which are confirmed unless one
    of them is in the list before.
    """
    questions: list[str] = []

    class Terminal:
        @staticmethod
        def isatty() -> bool:
            return True

    def confirm(question: str, *, err: bool) -> bool:
        assert err
        questions.append(question)
        return "no" not in questions

    monkeypatch.setattr(
        sys.modules["semgraph.cli.tune"], "sys", SimpleNamespace(stdin=Terminal, stdout=Terminal)
    )
    monkeypatch.setattr(typer, "confirm", confirm)
    return questions


def test_without_options_the_floor_is_95_percent_of_all_steps(
    project: Project, search: Any, asked: dict[str, Any]
) -> None:
    search(found)
    assert project("tune", "people").code == 0
    assert asked == DEFAULTS | {"plan": "people", "limits": None}


def test_every_option_reaches_the_search(
    project: Project, search: Any, asked: dict[str, Any]
) -> None:
    search(found)
    project.write("true.csv", "id\n1\n")
    options = (
        "--floor 0.9 --confidence 0.99 --budget 2 --sample 60 --seed 3 --truth true.csv --models default,small,openai:x "
        "--step told --step ends --units row --for 5000 --set least=1 --no-cache"
    )  # fmt: skip
    assert project("tune", "people", *options.split()).code == 0
    assert asked == DEFAULTS | {
        "plan": "people", "floor": 0.9, "confidence": 0.99, "limits": 2.0, "sample": 60, "seed": 3, "truth": "true.csv",
        "models": ["default", "small", "openai:x"], "steps": ["told", "ends"], "units": "row", "rows": 5000,
        "params": {"least": 1}, "fresh": True,
    }  # fmt: skip


def test_a_price_takes_the_place_of_the_floor(
    project: Project, search: Any, asked: dict[str, Any]
) -> None:
    search(found)
    project("tune", "people", "--per-1000", "0.1")
    assert (asked["floor"], asked["per_1000"]) == (None, 0.1)


def test_two_budgets_are_refused(project: Project, search: Any, asked: dict[str, Any]) -> None:
    search(found)
    done = project("tune", "people", "--budget", "1", "--max-usd", "2")
    assert (done.code, asked) == (2, {})
    assert "--budget and --max-usd differ" in done.err
    assert project("tune", "people", "--budget", "1", "--max-usd", "1").code == 0


def test_a_choice_is_written_for_the_preset_tuned(project: Project, search: Any) -> None:
    search(tuning, choice=CHOICE)
    done = project("tune", "people")
    assert done.code == 0
    assert done.out.startswith("Chosen for people: ")
    assert (
        done.out.splitlines()[-1]
        == "Written: plans/people.tuned.yaml · run it: semgraph run people --preset tuned"
    )
    assert "gain: at most 94 %" in done.err
    written = (project.folder / "plans/people.tuned.yaml").read_text()
    assert written.startswith("# made by `semgraph tune`")
    assert yaml.safe_load(written) == CHOICE


def test_the_file_can_be_named(project: Project, search: Any) -> None:
    search(tuning, choice=CHOICE)
    done = project("tune", "people", "-o", "chosen.yaml")
    assert (
        done.out.splitlines()[-1]
        == "Written: chosen.yaml · run it: semgraph run people --preset chosen.yaml"
    )
    assert (project.folder / "chosen.yaml").exists()


@pytest.mark.parametrize("made", [found, kept, stopped])
def test_without_a_choice_nothing_is_written(
    project: Project, search: Any, made: Callable[..., Tuning]
) -> None:
    search(made)
    done = project("tune", "people")
    assert done.code == (4 if made is stopped else 0)
    assert done.out.startswith("Nothing is chosen for people, which stays as it is")
    assert not list(project.folder.rglob("*.tuned.yaml"))


def test_a_recorded_tuning_is_shown_as_it_was_printed(project: Project, search: Any) -> None:
    search(tuning, choice=CHOICE)
    printed = project("tune", "people").out
    assert project("tune", "--show", "last").out == printed
    assert project("tune", "--show", "7a").out == printed
    assert "tuning" in project("runs", "list").out.splitlines()[1]
    assert project("run", "people").code == 0  # a later record, of another kind
    assert project("tune", "--show", "last").out == printed
    assert (
        project("runs", "show", "7ab2").out.splitlines()[-1]
        == "Its table: semgraph tune --show 7ab2"
    )


def test_as_json(project: Project, search: Any) -> None:
    search(tuning, choice=CHOICE)
    data = json.loads(project("tune", "people", "--format", "json").out)
    assert (data["kind"], data["file"], data["choice"]) == (
        "tuning",
        "plans/people.tuned.yaml",
        CHOICE,
    )
    assert json.loads(project("tune", "--show", "last", "--format", "json").out) == data


def test_a_report_of_it_is_a_page(project: Project, search: Any) -> None:
    search(tuning, choice=CHOICE)
    project("tune", "people")
    assert project("report", "last", "-o", "tuning.html").code == 0
    assert "people · tuning 7ab2" in (project.folder / "tuning.html").read_text(encoding="utf-8")


def test_a_terminal_is_asked_once(project: Project, search: Any, terminal: list[str]) -> None:
    search(tuning, choice=CHOICE)
    assert "Chosen" in project("tune", "people").out
    assert terminal == ["Begin the search?"]
    terminal[:] = ["no"]
    done = project("tune", "people")
    assert "which stays as it is: the search was not begun." in " ".join(done.out.split())
    assert done.code == 0


@pytest.mark.parametrize("option", ["--yes", "--format=json"])
def test_it_is_not_asked_with_yes_or_for_data(
    project: Project, search: Any, terminal: list[str], option: str
) -> None:
    search(found)
    assert project("tune", "people", option).code == 0
    assert terminal == []


def test_an_interrupted_question_is_an_interrupt(
    project: Project, search: Any, terminal: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def abort(*_: Any, **__: Any) -> bool:
        raise typer.Abort

    search(found)
    monkeypatch.setattr(typer, "confirm", abort)
    done = project("tune", "people")
    assert (done.code, terminal) == (130, [])
    assert "Paid answers are in the journal" in done.err


def test_an_error_of_the_search_is_its_exit_code(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def atune(*_: Any, **__: Any) -> Tuning:
        raise PlanError(
            "these rows cannot show an F1 of 0.95", hint="check more rows: --sample 900"
        )

    monkeypatch.setattr(Session, "atune", atune, raising=False)
    done = project("tune", "people")
    assert (done.code, done.out) == (2, "")
    assert "--sample 900" in done.err


def test_without_a_plan_the_command_says_what_it_takes(project: Project, serving: Serving) -> None:
    done = project("tune")
    assert done.code == 2
    assert "there is no plan to tune" in done.err
    assert serving.calls == 0


def test_the_help_names_the_promise_and_the_limits(project: Project) -> None:
    project.env["COLUMNS"] = "120"
    shown = " ".join(project("tune", "--help").out.split())
    assert "an exact test shows that its F1 is at least the floor" in shown
    for option in (
        "--floor",
        "--per-1000",
        "--budget",
        "--max-usd",
        "--units",
        "--for",
        "--show",
        "--yes",
        "--no-cache",
    ):
        assert option in shown
    assert "best" not in shown.lower()
