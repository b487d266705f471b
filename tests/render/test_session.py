"""How a notebook shows a session and a drawing: nothing is opened, everything is escaped."""

from __future__ import annotations

from pathlib import Path

import semgraph as sg
from semgraph.display import Drawing
from semgraph.llm.base import Usage, Wrapper


def test_a_session_shows_what_it_would_use_and_opens_nothing(tmp_path: Path) -> None:
    session = sg.Session(
        llm="openai:gpt-4.1-mini",
        embedder="local",
        store="sqlite:town.db",
        max_usd=4,
        folder=tmp_path,
    )
    shown = session._repr_html_()
    for said in (
        "openai:gpt-4.1-mini",
        "$0.40 / $1.60",
        "local",
        "town.db",
        "at most usd",
        ">4.0<",
        "argument",
    ):
        assert said in shown
    assert list(tmp_path.iterdir()) == []


def test_a_price_that_is_not_known_is_a_dash(tmp_path: Path) -> None:
    shown = sg.Session(
        llm="openai:own@http://gpu:8000/v1", store="memory", folder=tmp_path
    )._repr_html_()
    assert "openai:own@http://gpu:8000/v1" in shown
    assert "—" in shown
    assert "none: max_usd=" in shown


def test_a_price_of_ones_own_is_shown_and_a_wrong_one_is_a_dash(tmp_path: Path) -> None:
    for price, said in (('"2/8"', "$2.00 / $8.00"), ("2", "—")):
        (tmp_path / "semgraph.toml").write_text(f'[prices]\n"vllm:own" = {price}\n')
        shown = sg.Session(llm="vllm:own", store="memory", folder=tmp_path)._repr_html_()
        assert said in shown


def test_what_was_given_as_an_object_is_named(tmp_path: Path) -> None:
    class Own(Wrapper):
        name = "<own>"  # type: ignore[assignment]

        def __init__(self) -> None: ...

        def dollars(self, usage: Usage) -> float | None:
            return usage.prompt * 2e-6 + usage.completion * 8e-6

    shown = sg.Session(llm=Own(), store="memory", folder=tmp_path)._repr_html_()
    assert "&lt;own&gt;" in shown
    assert "$2.00 / $8.00" in shown


def test_a_drawing_stands_as_it_is() -> None:
    html = Drawing("a < b\n  └ c")._repr_html_()
    assert html.startswith("<pre ")
    assert html.endswith(">a &lt; b\n  └ c</pre>")
    assert "monospace" in html
