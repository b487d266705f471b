"""The file of a choice: what is written, that `--preset tuned` does the same as the choices typed, and
that a choice says what has changed since it was made.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import semgraph as sg
from semgraph.errors import PlanError
from semgraph.folders import plans_folder
from semgraph.frontend.plan_files import listed
from semgraph.tune import tuned
from tests.cli.conftest import Project
from tests.llm.server import ModelServer
from tests.tune.conftest import JUDGE, NAME, PLAN, ROWS, choice, chosen, opened, sent

USE = {"good": "packed(rows=2) @ small", "who": "per_row"}
TICKETS = ("-i", "tickets=tickets.jsonl")


async def asked(session: sg.Session, model: ModelServer, folder: Path, **options: Any) -> list[str]:
    result = await session.arun(folder / "complaints.yaml", tickets=ROWS, **options)
    assert result.exit_code == 0
    return sent(model)


class TestTheFile:
    def test_has_the_choice_and_what_it_is_made_of(self, session, folder):
        path = chosen(
            session, folder, **USE, preset="lean", order="short, good", **{"rules.fuse_maps": "on"}
        )
        text = path.read_text()
        assert text.splitlines()[:7] == [
            "# made by `semgraph tune`, record 7ab2: run it again rather than edit",
            "plan: complaints",
            "preset: lean",
            'use: {good: "packed(rows=2) @ small", who: per_row}',
            "allow: [fuse_maps]",
            "order: [short, good]",
            *[line for line in text.splitlines() if line.startswith("made_of:")],
        ]
        read = tuned.read(path)
        assert read["made_of"]["models"] == {"default": "openai:gpt-4.1-mini", "small": "openai:gpt-4.1-nano"}  # fmt: skip
        assert list(read["made_of"]["prompts"]) == ["judge_fact"]
        assert set(read["made_of"]["implementations"]) == {
            "good",
            "short",
            "named/who",
            "named/place",
        }
        assert "127.0.0.1" not in text
        assert sorted(each.name for each in path.parent.iterdir()) == [path.name]

    def test_what_was_shown_and_what_it_costs_are_kept(self, session, folder):
        facts = {
            "shown": {"floor": 0.93},
            "costs": {"tuned": 0.04, "prices": {"small": [0.15, 0.6]}},
        }
        content = choice(session, folder / "complaints.yaml", {"good": "per_row"}, **facts)
        read = tuned.read(tuned.write(content, folder / "a.yaml"))
        assert (read["shown"], read["costs"]) == (facts["shown"], facts["costs"])

    def test_is_never_written_among_the_shipped_plans(self, session, folder):
        content = choice(session, folder / "complaints.yaml", {"good": "per_row"})
        path = plans_folder() / "complaints.tuned.yaml"
        with pytest.raises(PlanError, match="is in the folder of the shipped plans. Name another"):
            tuned.write(content, path)
        assert not path.exists()

    @pytest.mark.parametrize(
        "use", ["per_row @ openai:a@http://h/v1", "per_row @ openai:a?price=1/2"]
    )
    def test_never_names_an_address(self, session, folder, use):
        content = choice(session, folder / "complaints.yaml", {"good": "per_row"})
        with pytest.raises(PlanError, match="by its role or as PROVIDER:NAME"):
            tuned.write({**content, "use": {"good": use}}, folder / "a.yaml")
        with pytest.raises(PlanError, match="not by its address"):
            tuned.write(
                {**content, "costs": {"prices": {"http://h/v1": [1, 2]}}}, folder / "a.yaml"
            )
        assert not (folder / "a.yaml").exists()

    def test_has_a_place_for_every_change_or_says_that_it_has_none(self, session, folder):
        plan = session.prepare(folder / "complaints.yaml")
        for change in ({"params.least": "1"}, {"rules.filter_first": "off"}):
            with pytest.raises(PlanError, match=f"has no place for {next(iter(change))}="):
                tuned.choice_of(plan, change, str)

    def test_is_no_plan_in_lists(self, session, folder, monkeypatch):
        chosen(session, folder, **USE)
        monkeypatch.chdir(folder)
        (folder / "plans" / "mine.yaml").write_text(PLAN.replace("complaints", "mine"))
        own = [file.name for file in listed() if not file.shipped]
        assert own == ["mine"]

    @pytest.mark.parametrize(
        ("text", "says"),
        [
            ("plan: complaints\n", "a.yaml:1:1  a choice needs made_of: fingerprints of what it is for"),
            ("plan: complaints\nuses: {}\nmade_of: {}\n", 'a.yaml:2:1  .*"uses"'),
            ("plan: complaints\nallow: [1]\nmade_of: {}\n", "a.yaml:2:9  .*a text"),
            ("plan: others\nmade_of: {}\n", "a.yaml is a choice for the plan others, not for complaints"),
        ],
    )  # fmt: skip
    def test_which_is_wrong_is_refused_with_its_line(
        self, session, folder, text, says, monkeypatch
    ):
        monkeypatch.chdir(folder)
        (folder / "a.yaml").write_text(text)
        with pytest.raises(PlanError, match=says):
            session.prepare("complaints.yaml", preset="a.yaml")


class TestThePreset:
    @pytest.mark.parametrize(
        ("changes", "options"),
        [
            (USE, {"use": USE}),
            ({"good": "@ openai:gpt-5"}, {"use": {"good": "@ openai:gpt-5"}}),
            ({"preset": "lean", "short": "packed(rows=3)"}, {"preset": "lean", "use": {"short": "packed(rows=3)"}}),
            ({"named": "briefly", "who": "@ small"}, {"use": {"named": "briefly", "who": "@ small"}}),
        ],
    )  # fmt: skip
    async def test_sends_the_same_bytes_as_the_choices_typed(
        self, model, folder, monkeypatch, changes, options
    ):
        monkeypatch.setenv("OPENAI_BASE_URL", model.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        async with opened(model, folder) as session:
            chosen(session, folder, **changes)
            typed = await asked(session, model, folder, **options)
            assert await asked(session, model, folder, preset="tuned") == typed
            assert await asked(session, model, folder) != typed

    async def test_has_what_the_plan_was_tuned_with(self, session, model, folder):
        path = folder / "complaints.yaml"
        given = {
            "preset": "lean",
            "params": {"least": 2},
            "use": {"who": "per_row", "good": "@ small"},
        }
        variant = {**given["use"], "good": "packed(rows=2) @ small"}
        plan = session.prepare(path, **{**given, "use": variant})
        content = tuned.choice_of(plan, {"good": "packed(rows=2)"}, session._resources.name_of)
        tuned.write(content, folder / "plans" / "complaints.tuned.yaml")
        assert [content[key] for key in ("preset", "params", "use")] == [
            "lean",
            {"least": 2},
            variant,
        ]
        typed = await asked(session, model, folder, **{**given, "use": variant})
        assert await asked(session, model, folder, preset="tuned") == typed
        later = session.prepare(path, preset="tuned", params={"least": 3})
        assert (later.params, later.warnings) == ({"least": 3}, ())

    def test_is_kept_by_a_choice_that_is_made_with_it(self, session, folder):
        first = chosen(session, folder, order="short, good", **USE, **{"rules.fuse_maps": "on"})
        plan = session.prepare(
            folder / "complaints.yaml", preset="tuned", use={"who": "packed(rows=3)"}
        )
        second = tuned.choice_of(plan, {"who": "packed(rows=3)"}, session._resources.name_of)
        before = tuned.read(first)
        kept = {**before, "use": {**USE, "who": "packed(rows=3)"}, "made_of": second["made_of"]}
        assert second == kept
        assert second["made_of"]["implementations"] != before["made_of"]["implementations"]

    def test_on_the_command_line_too(self, project: Project, session, model, folder):
        chosen(session, folder, **USE)
        runs = [
            ("--use", "good=packed(rows=2) @ small", "--use", "who=per_row"),
            ("--preset", "tuned"),
            ("--tuned", "plans/complaints.tuned.yaml"),
            ("--preset", "tuned", "--tuned", "plans/complaints.tuned.yaml"),
            ("--preset", "plans/complaints.tuned.yaml", "--strict"),
        ]
        requests = []
        for typed in runs:
            done = project("run", "complaints.yaml", *TICKETS, "--no-cache", *typed)
            assert (done.code, "stale" in done.err) == (0, False), done.err
            requests.append(sent(model))
        assert requests == [requests[0]] * len(runs)

    @pytest.mark.parametrize("at", ["plans/complaints.tuned.yaml", "complaints.tuned.yaml"])
    async def test_is_found_in_the_folder_of_plans_then_beside_the_plan(
        self, session, model, folder, at
    ):
        chosen(session, folder, "complaints.tuned.yaml", good="packed(rows=6)")
        if at.startswith("plans"):
            chosen(session, folder, at, good="packed(rows=2)")
        await session.arun(folder / "complaints.yaml", tickets=ROWS, preset="tuned", until="good")
        assert len(sent(model)) == (3 if at.startswith("plans") else 1)

    def test_which_is_missing_says_where_it_was_looked_for(self, session, folder, monkeypatch):
        monkeypatch.chdir(folder)
        says = (
            "plan complaints is not tuned. Looked for plans/complaints.tuned.yaml and complaints.tuned.yaml. "
            "semgraph tune complaints"
        )
        with pytest.raises(PlanError) as raised:
            session.prepare("complaints.yaml", preset="tuned")
        assert str(raised.value) == says
        with pytest.raises(PlanError, match=r"is not tuned. Looked for mine\.yaml\. semgraph tune"):
            session.prepare("complaints.yaml", preset=Path("mine.yaml"))

    async def test_is_outranked_by_what_the_user_names(self, session, model, folder):
        chosen(session, folder, preset="lean", good="packed(rows=2) @ small")
        assert session.prepare(folder / "complaints.yaml", preset="tuned").params == {"least": 1}
        plan = session.prepare(folder / "complaints.yaml", preset="tuned", use={"good": "per_row"}, params={"least": 4})  # fmt: skip
        assert (str(plan.choice("good")), plan.params["least"], plan.warnings) == (
            "per_row @ small",
            4,
            (),
        )
        await session.arun(plan, tickets=ROWS, until="good")
        bodies = model.requests
        assert [body["model"] for body in bodies] == ["gpt-4.1-nano"] * 2

    async def test_outranks_the_models_and_choices_of_the_session(self, model, folder, session):
        chosen(session, folder, good="packed(rows=2) @ small")
        own = {"use": {"good": "per_row"}, "models": {"good": f"openai:gpt-5@{model.base_url}"}}
        async with opened(model, folder, **own) as other:
            await other.arun(folder / "complaints.yaml", tickets=ROWS, preset="tuned", until="good")
        assert [body["model"] for body in model.requests] == ["gpt-4.1-nano"] * 3

    def test_allows_the_rules_of_the_choice(self, session, folder):
        chosen(session, folder, **{"rules.fuse_maps": "on"}, named="briefly")
        plan = session.prepare(folder / "complaints.yaml", preset="tuned")
        again = session.prepare(plan)  # loads it again for the called plan
        assert (plan.allow, again.allow, again.warnings) == (("fuse_maps",), ("fuse_maps",), ())
        assert "fuse_maps (approximate)" in session.explain(plan, tickets=ROWS)

    async def test_of_a_run_is_that_of_the_run_that_resumes_it(self, model, folder):
        async with opened(model, folder, journal=None, store="sqlite:a.db") as session:
            chosen(session, folder, **USE, order="short, good", **{"rules.fuse_maps": "on"})
            first = await session.arun(folder / "complaints.yaml", tickets=ROWS, preset="tuned")
            resumed = session.prepare(folder / "complaints.yaml", resume=first.run)
            assert (resumed.allow, resumed.order) == (("fuse_maps",), ("short", "good"))
            assert str(resumed.choice("good")) == USE["good"]

    @pytest.mark.parametrize(
        "loads", [lambda s, p: s.prepare(p), lambda s, p: s.run(p, tickets=ROWS)]
    )
    def test_cannot_be_declared_by_a_plan(self, session, folder, loads, monkeypatch):
        monkeypatch.chdir(folder)
        Path("complaints.yaml").write_text(PLAN.replace("lean:", "tuned:"))
        with pytest.raises(PlanError) as raised:
            session.prepare("complaints.yaml")
        assert str(raised.value) == (
            'complaints.yaml:6:3  "tuned" is the preset that semgraph tune makes. Give yours another name'
        )

    async def test_is_a_variant_of_a_comparison(self, session, model, folder):
        chosen(session, folder, good="packed(rows=2)")
        (folder / "arms.yaml").write_text("plain: {good: per_row}\ntuned: {preset: tuned}\n")
        for variants in (
            {"plain": {"good": "per_row"}, "tuned": {"preset": "tuned"}},
            Path("arms.yaml"),
        ):
            found = await session.acompare(
                folder / "complaints.yaml", variants=variants, tickets=ROWS, say=None
            )
            assert found["tuned"].cold.calls == found["plain"].cold.calls - 3
            assert found["tuned"].changes == {"preset": "tuned"}


def byte(path: Path, old: str, new: str) -> None:
    assert path.read_text().count(old) == 1
    path.write_text(path.read_text().replace(old, new))


OWN = '''"""Answers as the reference does."""

from dataclasses import dataclass
from typing import ClassVar

from semgraph.logical.semantic import SemFilter
from semgraph.semantic.implementation import PerItem


@dataclass(frozen=True)
class Alone(PerItem[SemFilter]):
    version: ClassVar[str] = "1"
    times: int = 1
'''


class TestAStaleChoice:
    @pytest.mark.parametrize(
        ("change", "reason"),
        [
            (lambda at: byte(at / "prompts/judge_fact.md", "complain?", "complain!"), "prompt judge_fact has changed"),
            (lambda at: byte(at / "complaints.yaml", "id > $least", "id >= $least"), "the plan has changed"),
            (lambda at: byte(at / "name.yaml", "Who wrote", "Who said"), "the plan that step named calls has changed"),
            (lambda at: byte(at / "own/sem_filter/alone.py", '"1"', '"2"'), "the implementation of good has changed"),
            (lambda at: byte(at / "own/sem_filter/alone.py", "times: int = 1", "times: int = 2"), "the implementation of good has changed"),
            (lambda at: byte(at / "own/sem_filter/alone.py", "times: int = 1", "times: int = 1\n    more: int = 1"), "the implementation of good has changed"),
        ],
    )  # fmt: skip
    def test_says_which_part_has_changed(
        self, model, folder, change: Callable[[Path], object], reason
    ):
        (folder / "own" / "sem_filter").mkdir(parents=True)
        (folder / "own" / "sem_filter" / "alone.py").write_text(OWN)
        with opened(model, folder, operators=[folder / "own"]) as session:
            path = chosen(session, folder, good="alone")
        change(folder)
        with opened(model, folder, operators=[folder / "own"]) as session:
            result = session.run(
                folder / "complaints.yaml", tickets=ROWS, preset="tuned", progress=None
            )
        assert [note for note in result.notes if "stale" in note] == [
            f"{path} is stale: {reason}. semgraph tune complaints"
        ]

    @pytest.mark.parametrize(
        "change",
        [
            lambda at: byte(at / "complaints.yaml", "plan: complaints", "# more\nplan: complaints\ndoc: Complaints."),
            lambda at: byte(at / "own/sem_filter/alone.py", "Answers as", "It answers as"),
        ],
    )  # fmt: skip
    def test_is_no_choice_whose_requests_stay(self, model, folder, change):
        (folder / "own" / "sem_filter").mkdir(parents=True)
        (folder / "own" / "sem_filter" / "alone.py").write_text(OWN)
        with opened(model, folder, operators=[folder / "own"]) as session:
            chosen(session, folder, good="alone")
            change(folder)
            assert session.prepare(folder / "complaints.yaml", preset="tuned").warnings == ()

    def test_says_that_a_step_has_no_longer_the_model_that_it_had(self, model, folder, session):
        with opened(model, folder, models={"good": f"openai:gpt-5@{model.base_url}"}) as its_own:
            chosen(its_own, folder, short="packed(rows=2)")
        (warning,) = session.prepare(folder / "complaints.yaml", preset="tuned").warnings
        assert "the model of good has changed from openai:gpt-5 to another" in str(warning)
        plan = session.prepare(
            folder / "complaints.yaml", preset="tuned", use={"good": "per_row @ small"}
        )
        assert plan.warnings == ()

    def test_names_the_models_before_and_after(self, model, folder, session):
        chosen(session, folder, good="@ small")
        other = {"models": {"small": f"openai:gpt-5@{model.base_url}"}}
        with opened(model, folder, **other) as later:
            (warning,) = later.prepare(folder / "complaints.yaml", preset="tuned").warnings
        assert "the model of small has changed from openai:gpt-4.1-nano to openai:gpt-5" in str(
            warning
        )
        with opened(
            model, folder, models={"small": "openai:gpt-4.1-nano@http://localhost:1/v1"}
        ) as later:
            assert later.prepare(folder / "complaints.yaml", preset="tuned").warnings == ()

    def test_is_refused_by_strict_before_anything_is_sent(self, session, model, folder):
        chosen(session, folder, **USE)
        byte(folder / "prompts/judge_fact.md", "complain?", "complain!")
        with pytest.raises(
            PlanError, match="stale: prompt judge_fact has changed. semgraph tune complaints"
        ):
            session.prepare(folder / "complaints.yaml", preset="tuned", strict=True)
        variants = {"a": {"good": "per_row"}, "b": {"preset": "tuned"}}
        with pytest.raises(PlanError, match="variant b: .*stale: prompt judge_fact has changed"):
            session.compare(
                folder / "complaints.yaml", variants=variants, tickets=ROWS, strict=True
            )
        assert sent(model) == []

    @pytest.mark.parametrize(
        "command",
        [
            ("run", "complaints.yaml", *TICKETS),
            ("explain", "complaints.yaml", *TICKETS),
            ("compare", "complaints.yaml", *TICKETS, "--variant", "a:good=per_row", "--variant", "b:good=@ small"),
        ],
    )  # fmt: skip
    def test_warns_once_in_every_command_that_takes_presets(
        self, project, session, folder, model, command
    ):
        chosen(session, folder, **USE)
        byte(folder / "prompts/judge_fact.md", "complain?", "complain!")
        done = project(*command, "--preset", "tuned")
        line = "! plans/complaints.tuned.yaml is stale: prompt judge_fact has changed. semgraph tune complaints"
        assert (done.code, done.err.splitlines().count(line)) == (0, 1), done.err
        model.requests.clear()
        refused = project(*command, "--preset", "tuned", "--strict")
        assert (refused.code, refused.err.strip(), sent(model)) == (2, line.removeprefix("! "), [])

    def test_for_a_step_that_is_gone_names_the_file(self, session, folder):
        path = chosen(session, folder, good="per_row")
        (folder / "complaints.yaml").write_text(PLAN.replace("good", "fine"))
        with pytest.raises(PlanError, match='use names no step "good"') as raised:
            session.prepare(folder / "complaints.yaml", preset="tuned")
        assert raised.value.__notes__ == [f"{path} is in use: semgraph tune complaints"]


def test_two_presets_are_refused(project) -> None:
    done = project("run", "complaints.yaml", "--preset", "lean", "--tuned", "a.yaml")
    assert done.code == 2
    assert done.err.startswith("--preset lean and --preset a.yaml: a plan takes one preset")


def test_an_agent_names_no_file(session, folder) -> None:
    from semgraph.frontend.plan_files import plan_file
    from semgraph.serve.tools import PlanTool

    assert JUDGE
    assert NAME
    tool = PlanTool(plan_file(str(folder / "complaints.yaml")), None)
    with pytest.raises(PlanError, match="preset must be the name of a preset"):
        tool.call({"tickets": [], "preset": "/etc/a.yaml"})
