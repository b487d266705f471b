"""The notebooks as exported pages: nothing is cut or misaligned, in both themes."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from tools.notebooks import exported, notebooks, read

BOOKS = pytest.mark.parametrize("path", notebooks(), ids=lambda path: path.stem)
_FLAG = re.compile(r"(?<![\w-])--[a-z][a-z-]+")

CUT = """() => [...document.querySelectorAll(".jp-OutputArea-output *, .jp-MarkdownOutput *")].filter((each) => {
  const own = each.getBoundingClientRect();
  for (let box = each.parentElement; box && own.width; box = box.parentElement) {
    const { overflowX } = getComputedStyle(box);
    if (overflowX === "auto" || overflowX === "scroll") return false;
    if (overflowX !== "visible" && own.right > box.getBoundingClientRect().right + 1) return true;
  }
  return own.right > innerWidth + 1;
}).map((each) => each.outerHTML.slice(0, 200))"""
RAGGED = """() => [...document.querySelectorAll(".semgraph td")].filter((cell) =>
  getComputedStyle(cell).textAlign !== (cell.classList.contains("number") ? "right" : "left")).map((cell) => cell.textContent)"""
UNEVEN = """() => [...document.querySelectorAll(".jp-OutputArea-output pre")].filter((pre) => {
  const context = document.createElement("canvas").getContext("2d");
  context.font = getComputedStyle(pre).font;
  return new Set(["i", "W", "─", "│", "├", "└", "≤", "8"].map((letter) => context.measureText(letter).width)).size > 1;
}).map((pre) => pre.textContent.slice(0, 80))"""
FAINT = """() => {
  const light = (colour) => {
    const [r, g, b] = colour.match(/[\\d.]+/g).slice(0, 3).map((each) => each / 255).map((each) =>
      each <= 0.04045 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const page = light(getComputedStyle(document.body).backgroundColor);
  return [...document.querySelectorAll(".semgraph, .semgraph th, .semgraph figcaption, .semgraph svg text")].filter((each) => {
    const style = getComputedStyle(each), own = light(each.closest("svg") ? style.fill : style.color);
    return (Math.max(own, page) + 0.05) / (Math.min(own, page) + 0.05) < 4.5;
  }).map((each) => each.textContent.slice(0, 80));
}"""


@cache
def page_of(path: Path, theme: str) -> str:
    """A notebook as a page."""
    return exported(read(path), theme)


@pytest.fixture
def opened(browser: Browser, tmp_path: Path) -> Any:
    """Opens a notebook as a page without a network, all its details open."""
    contexts = []

    def of(path: Path, theme: str, width: int) -> Page:
        file = tmp_path / "page.html"
        file.write_text(page_of(path, theme), encoding="utf-8")
        other = "dark" if theme == "light" else "light"  # the page decides, not the system
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=other)
        contexts.append(context)
        context.route("http**", lambda route: route.abort())
        page = context.new_page()
        page.goto(file.as_uri())
        page.evaluate(
            "document.querySelectorAll('details').forEach((each) => { each.open = true; })"
        )
        return page

    yield of
    for context in contexts:
        context.close()


@BOOKS
@pytest.mark.parametrize(
    ("theme", "width"),
    [
        ("light", 1280),
        ("dark", 800),
        pytest.param("light", 800, marks=pytest.mark.nightly),
        pytest.param("dark", 1280, marks=pytest.mark.nightly),
    ],
)
def test_nothing_is_cut_and_columns_are_aligned(
    opened: Callable[..., Page], path: Path, theme: str, width: int
) -> None:
    page = opened(path, theme, width)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(CUT) == []
    assert page.evaluate(RAGGED) == []
    assert page.evaluate(UNEVEN) == []
    assert page.evaluate(FAINT) == []


@BOOKS
def test_python_is_told_in_python(opened: Callable[..., Page], path: Path) -> None:
    assert _FLAG.findall(opened(path, "light", 1280).inner_text("body")) == []
