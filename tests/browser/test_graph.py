"""The drawing of a graph in a real browser: labels never overlap, large graphs are folded and drawn in
time, and what is drawn can be chosen by label, text, time and neighbourhood.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from tests.browser.conftest import CONTRAST, UNNAMED
from tests.browser.graphs import page_of, rows

Open = Callable[..., Page]
OVERLAPS = """() => {
  const boxes = [...document.querySelectorAll("svg.graph text")].map((e) => [e.textContent, e.getBoundingClientRect()]);
  return boxes.flatMap(([text, a], i) => boxes.slice(i + 1).filter(([, b]) => a.left < b.right - 0.5 &&
    b.left < a.right - 0.5 && a.top < b.bottom - 0.5 && b.top < a.bottom - 0.5).map(([other]) => [text, other]));
}"""
DRAWN = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now()))))"
NUMBER = "document.querySelectorAll('svg.graph {}').length"
page_of = cache(page_of)


@pytest.fixture
def opened(browser: Browser, tmp_path: Path) -> Iterator[Open]:
    """Opens the page of a graph of so many entities; a script error fails the test."""
    contexts, errors = [], list[str]()

    def of(number: int, width: int = 1280, scheme: str = "light") -> Page:
        file = tmp_path / "graph.html"
        file.write_text(page_of(number), encoding="utf-8")
        context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, reduced_motion="reduce"
        )
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(10_000)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(file.as_uri())
        return page

    yield of
    for context in contexts:
        context.close()
    assert errors == []


def status(page: Page) -> str:
    return page.locator(".status").inner_text()


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("messages", [3, 20, 200])
def test_no_label_lies_upon_another_in_any_view(opened: Open, messages: int, width: int) -> None:
    page = opened(2 * messages, width)
    assert page.evaluate(NUMBER.format(".label")) > 3
    assert page.evaluate(OVERLAPS) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.get_by_role("button", name="Episodic").click()
    assert page.evaluate(OVERLAPS) == []
    page.locator(".node").first.focus()
    page.keyboard.press("Enter")
    assert page.evaluate(OVERLAPS) == []


@pytest.mark.parametrize(("number", "seconds"), [(2000, 2), (10_000, 5)])
def test_a_large_graph_is_folded_and_soon_painted(
    opened: Open, number: int, seconds: float
) -> None:
    page = opened(number)
    assert page.evaluate(DRAWN) <= seconds * 1000
    assert status(page).startswith(f"{number:,} nodes, ")
    assert "folded" in status(page)
    assert page.evaluate(NUMBER.format(".node")) <= 80
    assert page.evaluate(OVERLAPS) == []


def test_a_cluster_opens_and_closes_by_keyboard(opened: Open) -> None:
    page = opened(400)
    before = page.evaluate(NUMBER.format(".fold"))
    page.locator(".node:has(.fold)").first.focus()
    page.keyboard.press("Enter")
    assert page.evaluate(NUMBER.format(".node:not(:has(.fold))")) > 0
    page.get_by_role("button", name="← everything").focus()
    page.keyboard.press("Enter")
    assert page.evaluate(NUMBER.format(".fold")) == before


def test_messages_are_behind_the_facts_until_asked(opened: Open) -> None:
    page = opened(40)
    assert page.evaluate(NUMBER.format(".dot")) == 0
    assert status(page) == "40 nodes, 60 edges."
    page.get_by_role("button", name="Episodic, MENTIONS").click()
    assert page.evaluate(NUMBER.format(".dot")) == 20
    page.get_by_role("button", name="Episodic, MENTIONS").click()
    assert status(page) == "40 nodes, 60 edges."


def test_labels_switch_off(opened: Open) -> None:
    page = opened(40)
    page.locator(".legend button", has_text="RELATES_TO").click()
    assert status(page) == "40 nodes, 0 edges."
    page.locator(".legend button", has_text="Entity").click()
    assert status(page) == "0 nodes, 0 edges: nothing to draw."


def test_a_text_finds_nodes_and_facts_in_folded_clusters(opened: Open) -> None:
    facts = [row for label, row in rows(400) if label == "RELATES_TO" and row["name"] == "LIVES_IN"]
    town = facts[0]["target"]
    name = next(row["name"] for _, row in rows(400) if row["uuid"] == town)
    inhabitants = {row["source"] for row in facts if row["target"] == town}
    page = opened(400)
    page.locator(".find").fill(f"lives in {name}.")
    assert page.evaluate(NUMBER.format(".fold")) == 0
    assert page.evaluate(NUMBER.format(".node")) == len(inhabitants) + 1
    assert name in page.locator(".graph .label").all_text_contents()
    page.locator(".find").press("Enter")
    assert page.locator(".told").is_visible()
    page.locator(".find").fill("no such thing")
    assert status(page) == "0 nodes, 0 edges: nothing to draw."


def test_a_time_shows_what_held_and_fades_what_had_ended(opened: Open) -> None:
    page = opened(40)
    ended = page.evaluate(NUMBER.format(".ended"))
    assert ended == 15, "each fourth fact has an end"
    page.locator(".when").fill("0")
    assert "as of 2024-01-01" in status(page)
    assert page.evaluate(NUMBER.format(".edge")) == 1, "the others have not begun"
    assert page.evaluate(NUMBER.format(".ended")) == 0
    last = page.locator(".when").get_attribute("max")
    page.locator(".when").fill(str(int(last or 0) - 1))
    assert page.evaluate(NUMBER.format(".ended")) == ended
    page.locator(".when").fill(last or "")
    assert status(page) == "40 nodes, 60 edges."


def test_a_neighbourhood_has_a_node_and_what_it_is_tied_to(opened: Open) -> None:
    page = opened(40)
    node = page.locator(".node", has_text="Town").first
    name = str(node.get_attribute("aria-label")).split(",")[0]
    node.locator(".mark").click()
    facts = page.locator(".told li").count()
    assert facts > 1
    page.get_by_role("button", name="Only what is around it").click()
    assert f"around {name}" in page.locator(".trail").inner_text()
    assert page.evaluate(NUMBER.format(".edge")) == facts
    other = page.locator(".told .go").first
    wanted = other.inner_text()
    other.click()
    assert f"around {wanted}" in page.locator(".trail").inner_text(), "a name leads to its node"
    page.keyboard.press("Escape")
    assert status(page) == "40 nodes, 60 edges."


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_folded_graphs_can_be_read_and_are_named(opened: Open, scheme: str) -> None:
    page = opened(400, scheme=scheme)
    page.locator(".node").first.focus()
    assert page.evaluate(CONTRAST) == []
    assert page.evaluate(UNNAMED) == []
