"""The page in a real browser: it works with the keyboard, can be read in light and dark, and sends
nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

from tests.browser.conftest import Shown
from tests.render.test_html import HOSTILE, line, recorded, texts
from tests.render.test_html_comparison import arm, compared

Show = Callable[..., Shown]

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
  const wanted = document.querySelectorAll("button, a, [role=img], [role=region], svg, summary, section[aria-labelledby], nav");
  return [...wanted].filter((e) => !named(e)).map((e) => e.outerHTML.slice(0, 80));
}"""


def test_it_opens_without_an_error_and_without_a_request(show: Show, tmp_path: Path) -> None:
    shown = show(recorded(tmp_path), recorded(tmp_path / "other"))
    shown.page.get_by_role("button", name="Open all").first.click()
    shown.page.wait_for_timeout(50)
    assert (shown.said, shown.asked) == ([], [])


def test_hostile_text_is_text(show: Show, tmp_path: Path) -> None:
    """Were any of it HTML, an image would be asked for or a dialog would open."""
    shown = show(recorded(tmp_path, HOSTILE))
    shown.page.get_by_role("button", name="Call 1 of told").click()
    assert (
        "<script>alert(1)</script><img src=x"
        in shown.page.locator("tr.inside pre").nth(1).inner_text()
    )
    assert shown.page.locator("img").count() == 0
    shown.page.wait_for_timeout(50)
    assert (shown.said, shown.asked) == ([], [])


def test_a_call_opens_and_closes_by_keyboard(show: Show, tmp_path: Path) -> None:
    page = show(recorded(tmp_path)).page
    button = page.get_by_role("button", name="Call 1 of told")
    for _ in range(60):
        page.keyboard.press("Tab")
        if button.evaluate("e => e === document.activeElement"):
            break
    assert button.evaluate("e => e === document.activeElement")
    assert button.evaluate("e => getComputedStyle(e).outlineStyle") == "solid"
    page.keyboard.press("Enter")
    assert button.get_attribute("aria-expanded") == "true"
    opened = page.locator(f"#{button.get_attribute('aria-controls')}")
    said = opened.inner_text()
    for text in (
        "Prompt: system",
        "Prompt: user",
        "Ann knows Bob.",
        "Answer",
        "Rows that were read from it",
    ):
        assert text in said
    page.keyboard.press("Space")
    assert button.get_attribute("aria-expanded") == "false"
    assert opened.count() == 0


def test_the_first_tab_skips_to_the_content(show: Show, tmp_path: Path) -> None:
    shown = show(recorded(tmp_path))
    shown.page.keyboard.press("Tab")
    assert shown.run("document.activeElement.textContent") == "Skip to the content"
    shown.page.keyboard.press("Enter")
    assert shown.run("document.activeElement.id") == "main"


def test_a_bar_of_the_timeline_leads_to_its_call(show: Show, tmp_path: Path) -> None:
    lines = [line("c1"), line("c2", at=1_750_000_001.5, **texts("second", "{}"))]
    page = show(recorded(tmp_path, lines=lines)).page
    page.locator(".bar[data-call='1']").click()
    assert "second" in page.locator("#call-1").inner_text()
    assert page.evaluate("document.activeElement.dataset.call") == "1"


def test_what_a_call_lacks_is_said(show: Show, tmp_path: Path) -> None:
    lines = [line("c1"), line("", origin=None, error="refused: I would rather not say")]
    page = show(recorded(tmp_path, lines=lines)).page
    page.get_by_role("button", name="Open all").click()
    assert "The journal does not have it" in page.locator("#call-0").inner_text()
    assert "No answer: refused: I would rather not say" in page.locator("#call-1").inner_text()
    page.get_by_role("button", name="Close all").click()
    assert page.locator("tr.inside").count() == 0


def test_every_text_can_be_read_in_light_and_dark(show: Show, tmp_path: Path) -> None:
    shown = show(recorded(tmp_path))
    shown.page.get_by_role("button", name="Open all").click()
    shown.run("document.querySelectorAll('details').forEach((e) => (e.open = true))")
    papers = {}
    for scheme in ("light", "dark"):
        shown.page.emulate_media(color_scheme=scheme)
        papers[scheme] = shown.run("getComputedStyle(document.body).backgroundColor")
        assert shown.run(CONTRAST) == []
    assert papers["light"] != papers["dark"]


def test_everything_has_a_name_and_headings_are_in_order(show: Show, tmp_path: Path) -> None:
    shown = show(recorded(tmp_path), recorded(tmp_path / "other"))
    shown.page.get_by_role("button", name="Open all").first.click()
    assert shown.run(UNNAMED) == []
    levels = shown.run(
        "[...document.querySelectorAll('h1,h2,h3,h4,h5')].map((e) => Number(e.tagName[1]))"
    )
    assert levels[0] == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    assert shown.run(
        "document.querySelectorAll('table').length === document.querySelectorAll('caption').length"
    )


def test_no_width_makes_the_page_scroll_sideways(show: Show, tmp_path: Path) -> None:
    shown = show(recorded(tmp_path, "a-very-long-word" * 20))
    shown.page.get_by_role("button", name="Open all").click()
    for width in (320, 400, 1400):
        shown.page.set_viewport_size({"width": width, "height": 800})
        assert shown.run("document.documentElement.scrollWidth - innerWidth") <= 0


def test_who_wants_no_motion_gets_none(show: Show, tmp_path: Path) -> None:
    shown = show(recorded(tmp_path), reduced_motion="reduce")
    assert shown.run("getComputedStyle(document.documentElement).scrollBehavior") == "auto"


def test_a_comparison_can_be_read_in_light_and_dark_at_every_width(
    show: Show, tmp_path: Path
) -> None:
    run = compared(
        tmp_path,
        arm("per_row", [1], 0.02, 0.9, "c1"),
        arm("packed(rows=2)", [1, 2], 0.01, 0.8, "c2"),
    )
    shown = show(run)
    shown.page.get_by_role("button", name="Open all").click()
    for scheme in ("light", "dark"):
        shown.page.emulate_media(color_scheme=scheme)
        assert shown.run(CONTRAST) == []
    for width in (320, 1400):
        shown.page.set_viewport_size({"width": width, "height": 800})
        assert shown.run("document.documentElement.scrollWidth - innerWidth") <= 0
    assert shown.run(UNNAMED) == []
    assert (shown.said, shown.asked) == ([], [])
