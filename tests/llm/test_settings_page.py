"""docs/settings.md names every setting there is, and its file is one."""

from __future__ import annotations

import re
from pathlib import Path

from semgraph.llm import settings as sources
from semgraph.llm.base import ROLES
from semgraph.llm.providers import PROVIDERS
from semgraph.llm.settings import Settings

PAGE = (Path(__file__).parents[2] / "docs" / "settings.md").read_text(encoding="utf-8")


def test_the_file_of_the_page_sets_every_key(tmp_path: Path) -> None:
    text, own = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "config.toml").write_text(own, encoding="utf-8")
    (tmp_path / "semgraph.toml").write_text(text, encoding="utf-8")
    read = Settings.load({}, {"SEMGRAPH_HOME": str(tmp_path)}, tmp_path)
    from_the_file = {key for key, value in read.values.items() if value.origin == "./semgraph.toml"}
    models = {f"models.{role}" for role in (*ROLES, "judge")}
    prices = {f"prices.{model}" for model in read.prices}
    assert prices
    assert from_the_file == models | prices | (set(sources.KEYS) - set(sources.TABLES))


def test_the_page_names_every_variable_and_every_option_of_a_model() -> None:
    for name in (
        *sources.VARIABLES,
        *(name for each in PROVIDERS.values() for of in each.options.values() for name in of),
    ):
        assert f"`{name}`" in PAGE, name
