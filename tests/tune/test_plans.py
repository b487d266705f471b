"""The tuning of whole plans: steps that lose a little, plans that are tested on rows that no step has seen."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import semgraph as sg
from semgraph.compare.plans import PlanArms
from semgraph.compare.trial import Attempt
from semgraph.tune.plans import cheapest, measure_of, paired
from semgraph.tune.step import StepTuning
from semgraph.tune.tuning import Loss, load_tuning
from semgraph.tune.walk import Measure
from tests.llm.server import ModelServer
from tests.tune.judges import notes, opened, share, tuned
from tests.tune.test_level import BELOW, MISSING, MOST, SPURIOUS, separate, wrong_choices

RULES = "Rules: " + "a pipe leaks if water comes out of it, however little. " * 12
PLAN = """
plan: pipes
inputs: {notes: {id: int64, text: string}}
steps:
  good:
    - from: notes
    - sem_filter: {prompt: "RULES Does “{text}” leak?"}
  who:
    - from: good
    - sem_map: {prompt: "RULES Which pipe is “{text}” about?", returns: {pipe: string}}
returns: [who]
"""
PARTS = PLAN.replace("{pipe: string}", '{pipes: "list<string>"}')
RECORD, QUOTED = re.compile(r"(\d+)\. (\{.*\})"), re.compile("“(.*?)”")


class Reader:
    """Says which pipes leak, and their names; `errs` by the text and the model."""

    def __init__(self) -> None:
        self.errs: Any = lambda _, __: False

    def said(self, name: str, text: str, model: str) -> Any:
        wrong, number = self.errs(text, model), text.split()[1]
        if name == "answer":
            return "yes" if "leaks" in text else "no"
        if name == "pipes":
            return ["main", "a", "b", "c", "d" if wrong else number]
        return "another" if wrong else number

    async def __call__(self, body: dict[str, Any]) -> str:
        question, model = body["messages"][-1]["content"], body["model"]
        if "response_format" not in body:
            return "no"
        schema = body["response_format"]["json_schema"]["schema"]
        names = list(schema["properties"])
        if names == ["answers"]:
            fields = [
                n for n in schema["properties"]["answers"]["items"]["properties"] if n != "id"
            ]
            found = [
                {"id": int(n), **{f: self.said(f, json.loads(r)["text"], model) for f in fields}}
                for n, r in RECORD.findall(question)
            ]
            return json.dumps({"answers": found})
        text = QUOTED.findall(question)[-1]
        return json.dumps({name: self.said(name, text, model) for name in names})


@pytest.fixture
def reader() -> Reader:
    return Reader()


@pytest.fixture
async def server(reader: Reader) -> AsyncIterator[ModelServer]:
    async with ModelServer(reader) as started:
        yield started


@pytest.fixture
async def session(server: ModelServer, tmp_path: Path) -> AsyncIterator[sg.Session]:
    async with opened(server, tmp_path, runs=tmp_path / "runs") as made:
        yield made


def written(folder: Path, text: str = PLAN, rules: str = RULES) -> Path:
    path = folder / "pipes.yaml"
    path.write_text(text.replace("RULES", rules.replace(": ", " ")))
    return path


class TestAPlanOfSteps:
    async def test_is_tested_on_rows_that_no_step_has_seen(self, session, tmp_path, monkeypatch):
        seen, tested = set[int](), set[int]()
        measured, attempt = StepTuning._answers, PlanArms.attempt

        async def noted(own: StepTuning, *args: Any) -> Any:
            seen.update(own.trials.arms.frozen.rows.column("id").to_pylist())
            return await measured(own, *args)

        async def run(own: PlanArms, name: str, *args: Any) -> Attempt:
            if own.bench.record.id and len(own.bench.arms[name].request.inputs["notes"]) > 20:
                tested.update(own.bench.arms[name].request.inputs["notes"].column("id").to_pylist())
            return await attempt(own, name, *args)

        monkeypatch.setattr(StepTuning, "_answers", noted)
        monkeypatch.setattr(PlanArms, "attempt", run)
        result = await tuned(session, written(tmp_path), notes=notes(300), floor=0.8,
                             use={"good": "per_row", "who": "per_row"})  # fmt: skip
        assert result.status == "shown"
        assert (len(seen), len(tested)) == (150, 50)  # a third of the other half shows it
        assert not seen & tested
        assert {loss.step for loss in result.losses} == {"good", "who"}

    async def test_is_loaded_again_as_it_was(self, session, tmp_path):
        result = await tuned(session, written(tmp_path), notes=notes(300), floor=0.8,
                             use={"good": "per_row", "who": "per_row"})  # fmt: skip
        again = session.load(result.id)
        assert again == load_tuning(result.id, tmp_path / "runs")
        assert again.to_json() == result.to_json()
        assert str(again) == str(result)

    async def test_that_is_chosen_sends_what_its_choices_send(self, session, server, tmp_path):
        path, rows = written(tmp_path), notes(60)
        result = await tuned(session, path, notes=notes(300), floor=0.8,
                             use={"good": "per_row", "who": "per_row"})  # fmt: skip
        assert result.status == "shown"
        file = result.save(tmp_path / "pipes.tuned.yaml")
        assert load_tuning(result.id, tmp_path / "runs").choice == result.choice
        steps = {k: v for k, v in result.choices.items() if k in {"good", "who"}}
        asked = []
        for options in ({"preset": file}, {"use": steps}, {}):
            server.requests.clear()
            await session.arun(path, notes=rows, fresh=True, **options)
            asked.append(sorted(json.dumps(body, sort_keys=True) for body in server.requests))
        assert asked[0] == asked[1] != asked[2]
        assert set(result.choices) == set(steps)

    async def test_of_short_prompts_is_left_after_the_pilot(self, session, server, tmp_path):
        result = await tuned(session, written(tmp_path, rules=""), notes=notes(300), floor=0.8)
        assert result.status == "kept"
        assert re.fullmatch(r"(at most|about) \d+ % to gain", result.reason)
        assert not any(each.units for each in result.tried)
        asked = Counter(model for model in (body["model"] for body in server.requests))
        assert asked.total() == result.paid.calls < 120
        texts = {text for body in server.requests for text in re.findall(r"Pipe \d+", str(body))}
        assert len(texts) <= 20

    async def test_that_errs_in_a_map_is_not_shown(self, session, reader, tmp_path):
        """Packed answers are wrong for one pipe in five: F1 0.8."""
        reader.errs = lambda text, model: "nano" in model and share(text) < 0.2
        result = await tuned(session, written(tmp_path), notes=notes(300), floor=0.9,
                             models=["default", "small"], steps=["who"], units="row")  # fmt: skip
        assert not any(t.verdict == "shown" and "small" in t.name for t in result.tried)


async def test_a_list_with_another_element_loses_that_element_and_is_not_shown(
    session, reader, tmp_path
):
    """One of five elements differs in each list: F1 0.8, where no two lists are equal."""
    reader.errs = lambda _, model: "nano" in model
    result = await tuned(
        session, written(tmp_path, PARTS), notes=notes(100), floor=0.75, steps=["who"],
        models=["default", "small"],
    )  # fmt: skip
    measured = [t for t in result.tried if t.f1 is not None and "small" in t.name]
    assert {round(t.f1, 3) for t in measured} == {0.8}
    assert {t.at_least for t in measured} == {None}
    assert result.status == "found"
    assert "which is not shown" in result.reason
    assert result.choices == {}


class TestRowsOfAPlan:
    """Which returned rows are independent errors."""

    def measured(self, session: sg.Session, folder: Path, steps: str, more: str = "") -> Any:
        text = f"plan: p\ninputs: {{notes: {{id: int64, text: string}}}}\nsteps:\n{steps}returns: [a{more}]\n"
        (folder / "p.yaml").write_text(text)
        return measure_of(session.prepare(folder / "p.yaml"))

    FILTER = '  a:\n    - from: notes\n    - sem_filter: {prompt: "Is “{text}” short?"}\n'
    MAP = '  a:\n    - from: notes\n    - sem_map: {prompt: "Who is “{text}”?", returns: {who: RETURNS}}\n'

    def test_are_those_of_filters(self, session, tmp_path):
        found = self.measured(session, tmp_path, self.FILTER)
        assert (found.exists, found.bernoulli) == (True, True)

    def test_of_a_map_are_wrong_and_missing_together(self, session, tmp_path):
        found = self.measured(session, tmp_path, self.MAP.replace("RETURNS", "string"))
        assert (found.exists, found.bernoulli) == (False, True)

    def test_are_not_several_rows_of_one(self, session, tmp_path):
        unnested = (
            self.MAP.replace("RETURNS", '"list<string>"')
            + "    - unnest: {column: who, alias: one}\n"
        )
        assert not self.measured(session, tmp_path, unnested).bernoulli

    def test_are_not_in_two_tables(self, session, tmp_path):
        both = self.FILTER + self.FILTER.replace("  a:", "  b:").replace("short", "long")
        assert not self.measured(session, tmp_path, both, ", b").bernoulli


def test_pairs_of_a_wrong_and_a_missing_row_keep_the_level():
    """Each wrong answer of a map is two errors at once; taken as two units they break the promise."""

    def twice(rng: np.random.Generator, units: int) -> Any:
        wrong = rng.binomial(units, 1 - BELOW)
        return [(1, 1, 1)] * (units - wrong) + [SPURIOUS, MISSING] * wrong

    def once(rng: np.random.Generator, units: int) -> Any:
        drawn = paired(twice(rng, units))
        return [drawn[i] for i in rng.permutation(len(drawn))]

    assert wrong_choices(once, Measure(exists=False), separate(3, 150), 150, trials=500) <= MOST


def test_pairs_have_the_same_f1():
    units = [(1, 1, 1)] * 9 + [SPURIOUS] * 4 + [MISSING] * 2 + [(0, 1, 1)]
    made = paired(units)
    assert Measure(exists=False).f1(made) == Measure(exists=True).f1(units)
    assert Counter(made) == {(1, 1, 1): 9, (0, 1, 1): 3, SPURIOUS: 2}


def test_losses_add_up_and_do_not_multiply():
    """Three steps that lose 0.05 each lose 0.15, not 1 - 0.95 ** 3 = 0.143."""

    def curve(step: str) -> list[Loss]:
        return [Loss(step, "reference", 9.0, 1.0, 50), Loss(step, f"{step}=packed", 1.0, 0.95, 50)]

    steps = [curve(step) for step in "abc"]
    assert cheapest(steps, 0.15)[0] == tuple(own[1] for own in steps)
    assert all(
        len([loss for loss in made if loss.f1 < 1]) == 2 for made in cheapest(steps, 0.146)[:1]
    )
    assert [[loss.name for loss in made] for made in cheapest(steps, 0.04)] == []
