"""A limit in dollars needs the prices of what a plan asks, and of nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

import semgraph
from semgraph.errors import PlanError
from tests.execution.conftest import Watched

READS = "plan: p\ninputs: {notes: {id: string, text: string}}\nsteps:\n  x: [{from: notes}, STEP]\nreturns: [x]\n"
NOTES = [{"id": "1", "text": "heron"}]
PRICED, UNPRICED = "openai:gpt-4.1-mini", "openai:nobody-knows-its-price"


def session(folder: Path, model: Watched, llm: str) -> semgraph.Session:
    embedder = f"openai:nobody-knows-its-price@{model.base_url}?dimensions=256"
    return semgraph.Session(
        llm=f"{llm}@{model.base_url}",
        embedder=embedder,
        store="memory",
        journal=False,
        runs="",
        folder=folder,
        max_usd=1.0,
    )


@pytest.mark.parametrize("step", ["{filter: length(text) > 1}", "{sort: [text]}"])
async def test_a_plan_that_asks_nothing_runs_without_prices(
    tmp_path: Path, model: Watched, step: str
) -> None:
    (tmp_path / "p.yaml").write_text(READS.replace("STEP", step))
    async with session(tmp_path, model, UNPRICED) as opened:
        assert (await opened.arun(tmp_path / "p.yaml", notes=NOTES)).tables["x"].num_rows == 1


@pytest.mark.parametrize(
    ("step", "llm"),
    [("{embed: {v: text}}", PRICED), ('{sem_filter: {prompt: "Is {text} a bird?"}}', UNPRICED)],
)
async def test_what_is_asked_needs_a_price_before_anything_is_sent(
    tmp_path: Path, model: Watched, step: str, llm: str
) -> None:
    (tmp_path / "p.yaml").write_text(READS.replace("STEP", step))
    async with session(tmp_path, model, llm) as opened:
        with pytest.raises(
            PlanError,
            match=r"max_usd 1\.00 cannot be enforced: no price is known for openai:nobody-knows",
        ):
            await opened.arun(tmp_path / "p.yaml", notes=NOTES)
    assert not model.arrived
    assert not model.counters.embedding_texts


PICKED = '{sem_filter: {prompt: {"on": id, "1": first, otherwise: rest}}}'
CASCADE = '{sem_filter: {prompt: "Is {text} a bird?"}}'


@pytest.mark.parametrize(
    ("step", "use"),
    [(PICKED, {}), (CASCADE, {"x": "cascade(proxy=logit, role=judge)"})],
    ids=["the second of two prompts", "an implementation"],
)
async def test_every_model_that_is_asked_needs_a_price_before_anything_is_sent(
    tmp_path: Path, model: Watched, step: str, use: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    settings = f'[models]\ndefault = "{PRICED}"\njudge = "{UNPRICED}@{model.base_url}"\n'
    (tmp_path / "semgraph.toml").write_text(settings)
    (tmp_path / "prompts").mkdir()
    (tmp_path / "prompts" / "first.md").write_text("# item\nIs {{text}} a bird?\n")
    (tmp_path / "prompts" / "rest.md").write_text(
        "---\nrole: judge\n---\n# item\nIs {{text}} a bird?\n"
    )
    (tmp_path / "p.yaml").write_text(READS.replace("STEP", step))
    opened = semgraph.Session(store="memory", journal=False, runs="", folder=tmp_path, max_usd=1.0)
    async with opened:
        with pytest.raises(PlanError, match="no price is known for openai:nobody-knows"):
            await opened.arun(tmp_path / "p.yaml", use=use, notes=NOTES)
    assert not model.arrived


@pytest.mark.parametrize("step", ["x", None], ids=["a step", "whole plans"])
async def test_each_arm_of_a_comparison_needs_its_prices_before_anything_is_sent(
    tmp_path: Path, model: Watched, step: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    models = f'[models]\ndefault = "{PRICED}"\njudge = "{UNPRICED}@{model.base_url}"\n'
    (tmp_path / "semgraph.toml").write_text(models)
    (tmp_path / "p.yaml").write_text(READS.replace("STEP", CASCADE))
    choices = {"one": "per_row", "two": "cascade(proxy=logit, role=judge)"}
    variants = choices if step else {name: {"x": choice} for name, choice in choices.items()}
    opened = semgraph.Session(store="memory", journal=False, runs="", folder=tmp_path, max_usd=1.0)
    async with opened:
        with pytest.raises(PlanError, match="no price is known for openai:nobody-knows"):
            await opened.acompare(
                tmp_path / "p.yaml", step=step, variants=variants, notes=NOTES, say=None
            )
    assert not model.arrived
