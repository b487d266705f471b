"""docs/data-frames.md shows what its examples give: a model that reads simple sentences answers."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import semgraph.pandas
from semgraph.frontend.frame import SemanticMethods
from tests.llm.server import ModelServer
from tests.pages import ROOT, run_page
from tests.served import served

PAGE = (ROOT / "docs" / "data-frames.md").read_text(encoding="utf-8")


async def reads(body: dict[str, Any]) -> str:
    """Answers the questions of the page from the sentence that they are about."""
    text = body["messages"][-1]["content"]
    ((name, kind),) = body["response_format"]["json_schema"]["schema"]["properties"].items()
    words = re.findall(r"kettle|pan\b", text)
    if "Records" in text:
        records = [json.loads(line) for line in re.findall(r"\{.*\}", text)]
        return json.dumps({name: " ".join(record["body"] for record in records)})
    if name == "match":
        return json.dumps({name: words in (["kettle", "kettle"], ["pan", "pan"])})
    if kind.get("type") == "number":
        return json.dumps({name: 90 if words[:1] == ["kettle"] else 10})
    if "enum" in kind:
        return json.dumps({name: "yes" if "leaks" in text else "no"})
    return json.dumps({name: words[0] if words else None})


def test_the_page_shows_what_its_examples_give(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(semgraph.pandas, "_session", None)
    monkeypatch.setenv("OPENAI_API_KEY", "key")
    monkeypatch.setenv("SEMGRAPH_HOME", str(tmp_path / "home"))
    with served(model := ModelServer(reads)), pd.option_context("display.width", 120):
        monkeypatch.setenv("SEMGRAPH_LLM", f"openai:gpt-4.1-mini@{model.base_url}")
        assert run_page("data-frames.md") >= 20
        semgraph.pandas.session().close()


def test_the_page_names_every_method() -> None:
    methods = re.findall(r"^\| `(\w+)\(", PAGE, re.MULTILINE)
    own = [name for name in vars(semgraph.pandas.Semantics) if not name.startswith("_")]
    assert sorted(methods) == sorted(own)
    assert all(hasattr(SemanticMethods, f"sem_{name}") for name in methods)
