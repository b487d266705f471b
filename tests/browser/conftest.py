"""A real browser without a network, and pages of records in it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from semgraph.execution.record import Run
from semgraph.render.html import page as made_page

NAMES = ("chromium", "chromium-browser", "google-chrome")
CONTRAST = """() => {
  const read = (text) => { const [r, g, b, a = 1] = text.match(/[\\d.]+/g).map(Number); return { rgb: [r, g, b], a }; };
  const light = (rgb) => {
    const [r, g, b] = rgb.map((v) => v / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (e) => {
    for (let at = e; at; at = at.parentElement) {
      const { rgb, a } = read(getComputedStyle(at).backgroundColor);
      if (a === 1) return rgb;
    }
    return [255, 255, 255];
  };
  const bad = [];
  for (const e of document.querySelectorAll("body *")) {
    const own = [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
    if (!own || !e.getClientRects().length || ["SCRIPT", "STYLE", "title", "desc"].includes(e.tagName)) continue;
    const style = getComputedStyle(e);
    const ink = light(read(e.closest("svg") ? style.fill : style.color).rgb), paper = light(behind(e));
    const ratio = (Math.max(ink, paper) + 0.05) / (Math.min(ink, paper) + 0.05);
    if (ratio < 4.5) bad.push(`${e.tagName}.${e.getAttribute("class")} “${e.textContent.slice(0, 30)}” ${ratio.toFixed(2)}`);
  }
  return bad;
}"""
UNNAMED = """() => {
  const named = (e) => e.getAttribute("aria-label") || e.textContent.trim() ||
    (e.getAttribute("aria-labelledby") || "").split(" ").some((id) => document.getElementById(id)?.textContent);
  const wanted = document.querySelectorAll("button, a, [role=button], [role=group], [role=img], [role=region], svg, summary, section[aria-labelledby], nav");
  return [...wanted].filter((e) => !e.closest("[aria-hidden]") && !named(e)).map((e) => e.outerHTML.slice(0, 80));
}"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium, as the machine has it. It is gone before tests of other modules: its event loop
    would be in their way.
    """
    found = next((path for name in NAMES if (path := shutil.which(name))), None)
    assert found, "these tests need Chromium: apt-get install chromium"
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield launched
        launched.close()


@dataclass
class Shown:
    """A page in the browser: what it asked for, and what it complained about."""

    page: Page
    asked: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)

    def run(self, script: str, *given: Any) -> Any:
        """What a script finds in the page."""
        return self.page.evaluate(script, *given)


@pytest.fixture
def show(browser: Browser, tmp_path: Path) -> Iterator[Callable[..., Shown]]:
    """Opens the page of records; options are those of a browser's context."""
    contexts = []

    def opened(*records: Run, **options: Any) -> Shown:
        file = tmp_path / "page.html"
        file.write_text(made_page(records), encoding="utf-8")
        context = browser.new_context(**options)
        contexts.append(context)
        shown = Shown(context.new_page())
        shown.page.set_default_timeout(10_000)
        shown.page.on("request", lambda request: shown.asked.append(request.url))
        shown.page.on(
            "console", lambda message: shown.said.append(f"{message.type}: {message.text}")
        )
        shown.page.on("pageerror", lambda error: shown.said.append(f"error: {error}"))
        shown.page.on(
            "dialog",
            lambda dialog: (shown.said.append(f"dialog: {dialog.message}"), dialog.dismiss()),
        )
        shown.page.goto(file.as_uri())
        assert shown.asked.pop(0) == file.as_uri()
        return shown

    yield opened
    for context in contexts:
        context.close()
