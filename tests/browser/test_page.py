"""The page in a real browser: it works with the keyboard, can be read in light and dark, and sends
nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

from tests.browser.conftest import CONTRAST, UNNAMED, Shown
from tests.render.test_diff import DIFF, refreshed
from tests.render.test_html import HOSTILE, TURN, labelled, line, recorded, texts
from tests.render.test_html_comparison import arm, compared

Show = Callable[..., Shown]


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


def test_names_of_steps_beside_the_timeline_break_between_their_parts(
    show: Show, tmp_path: Path
) -> None:
    """On a phone the column is narrower than the name of a step of a called plan."""
    lines = [line("c1", step="settle/ask/verdicts")]
    page = show(recorded(tmp_path, lines=lines), viewport={"width": 390, "height": 844}).page
    label = page.locator(".band .label").first
    assert label.evaluate("e => e.textContent") == "settle/ask/verdicts"
    rows = label.evaluate(
        """e => [...e.childNodes].filter((n) => n.nodeType === 3).map((n) => {
            const range = document.createRange();
            range.selectNodeContents(n);
            return new Set([...range.getClientRects()].map((r) => r.top)).size;
        })"""
    )
    assert set(rows) == {1}, "a part of the name is broken"
    assert label.evaluate("e => e.getClientRects()[0].height") > 20  # the whole name does not fit


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


def test_pointing_at_a_node_or_an_edge_tells_its_facts_and_times(
    show: Show, tmp_path: Path
) -> None:
    page = show(labelled(tmp_path)).page
    told = page.locator(".told")
    assert not told.is_visible()
    page.locator(".node", has_text="Ann").last.locator(".mark").hover()
    said = told.inner_text()
    assert "Ann Person" in said
    assert "→ KNOWS Bob: Ann knows Bob from Riga. · holds 2024-05 →" in said
    assert "← NAMES Ann has known Bob" in said
    assert page.locator(".node.dim").count() == 0, "all nodes are ends of its edges"
    page.locator(".edge", has_text="KNOWS").locator("text").hover()
    said = told.inner_text()
    assert said.splitlines()[0].startswith("Ann → KNOWS → Bob")
    assert "Ann knows Bob from Riga." in said
    assert "holds 2024-05 →" in said
    assert f"from: {TURN}" in said
    assert page.locator(".node.dim").count() == 1, "the note is no end of this edge"


def test_the_graph_can_be_read_by_keyboard_alone(show: Show, tmp_path: Path) -> None:
    shown = show(labelled(tmp_path))
    page, told = shown.page, shown.page.locator(".told")
    focused = "document.activeElement.getAttribute('aria-label')"
    page.locator("svg.graph").locator("xpath=..").focus()
    page.keyboard.press("Tab")
    assert shown.run(focused) == f"{TURN}, Note, 2 edges"
    assert "place\nRiga" in told.inner_text()
    page.keyboard.press("Tab")
    assert shown.run(focused) == "Ann, Person, 2 edges"
    page.keyboard.press("ArrowRight")
    assert shown.run(focused) == "Ann KNOWS Bob · Ann knows Bob from Riga. · 2024-05 →"
    assert "holds 2024-05 →" in told.inner_text()
    width = "getComputedStyle(document.activeElement.querySelector('.line')).strokeWidth"
    assert shown.run(width) == "4px", "the focus can be seen"
    page.keyboard.press("Escape")
    assert shown.run(focused) == "Ann, Person, 2 edges"
    page.keyboard.press("Enter")
    page.locator(".node").first.locator(".mark").hover()
    assert "Ann Person" in told.inner_text(), "Enter keeps what is told"
    page.keyboard.press("Escape")
    assert not told.is_visible()


def test_facts_can_be_read_in_light_and_dark(show: Show, tmp_path: Path) -> None:
    shown = show(labelled(tmp_path))
    shown.page.locator(".node").first.focus()
    for scheme in ("light", "dark"):
        shown.page.emulate_media(color_scheme=scheme)
        assert shown.run(CONTRAST) == []
    assert shown.run(UNNAMED) == []
    assert (shown.said, shown.asked) == ([], [])


def test_colours_of_the_legend_are_those_of_the_nodes(show: Show, tmp_path: Path) -> None:
    shown = show(labelled(tmp_path))
    colours = """(place) => [...document.querySelectorAll(`${place} path.mark`)]
      .map((e) => getComputedStyle(e).fill)"""
    for scheme in ("light", "dark"):
        shown.page.emulate_media(color_scheme=scheme)
        note, person = shown.run(colours, ".legend")
        assert note != person
        assert shown.run(colours, ".graph") == [note, person, person]


def test_a_box_that_scrolls_says_so_and_no_other_does(show: Show, tmp_path: Path) -> None:
    shown = show(recorded(tmp_path), viewport={"width": 390, "height": 800})
    table = shown.page.locator(".scroller", has=shown.page.locator("table.steps").first).first
    state = "e => [...e.classList].sort().join(' ')"
    hint = "e => getComputedStyle(e, '::before').content"
    shadow = "e => getComputedStyle(e.firstElementChild).boxShadow"
    assert table.evaluate(state) == "more-right scroller scrolls"
    assert "more to the right" in table.evaluate(hint)
    assert table.evaluate(shadow) != "none"
    table.locator(".scroll").evaluate("e => e.scrollTo(e.scrollWidth, 0)")
    shown.page.locator(".scroller.more-left table.steps").wait_for()
    assert table.evaluate(state) == "more-left scroller scrolls"
    shown.page.set_viewport_size({"width": 1900, "height": 800})
    shown.page.locator(".scroller:not(.scrolls) table.steps").first.wait_for()
    assert table.evaluate(state) == "scroller"
    assert (table.evaluate(hint), table.evaluate(shadow)) == ("none", "none")


def test_the_plan_has_a_box_for_each_step_and_called_plans_open_in_place(
    show: Show, tmp_path: Path
) -> None:
    shown = show(labelled(tmp_path))
    page = shown.page
    steps = shown.run("[...document.querySelectorAll('.plan .box')].map((e) => e.dataset.path)")
    assert sorted(steps) == ["merge Note", "merge Person", "notes", "part/", "part/told"]
    inner = page.locator("[data-path='part/told']")
    assert not inner.is_visible()
    ends = """() => [...document.querySelectorAll('.plan .reads')].map((e) => {
      const to = e.getPointAtLength(e.getTotalLength()), at = e.ownerSVGElement.getBoundingClientRect();
      const hit = document.elementFromPoint(at.left + to.x, at.top + to.y + 4).closest('.box');
      return hit && hit.dataset.path;
    }).sort()"""
    page.locator(".plan").scroll_into_view_if_needed()
    assert shown.run(ends) == ["merge Note", "merge Person", "part/"]
    page.locator(".plan summary").focus()
    page.keyboard.press("Enter")
    assert inner.is_visible()
    page.wait_for_timeout(50)
    assert shown.run(ends) == ["merge Note", "merge Person", "part/told"]
    overlaps = """() => {
      const boxes = [...document.querySelectorAll('.plan .box')].filter((e) => e.offsetParent), at = (e) => e.getBoundingClientRect();
      return boxes.flatMap((a, i) => boxes.slice(i + 1).filter((b) => !a.contains(b) && at(a).left < at(b).right
        && at(b).left < at(a).right && at(a).top < at(b).bottom && at(b).top < at(a).bottom)).length;
    }"""
    assert shown.run(overlaps) == 0


def test_names_in_a_chart_of_many_variants_cover_nothing(show: Show, tmp_path: Path) -> None:
    arms = [
        arm(f"cascade(rows={i}, delta=0.0{i})", [1], 0.001 * 2**i, 0.5 + 0.04 * i, "c1")
        for i in range(10)
    ]
    shown = show(compared(tmp_path, *arms))
    covered = """() => {
      const box = (e) => e.getBoundingClientRect();
      const names = [...document.querySelectorAll('.point-name')].map(box);
      const marks = [...document.querySelectorAll('.point, .interval, .tick')].map(box);
      const cut = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
      return [names.length, names.flatMap((a, i) => [...names.slice(i + 1), ...marks].filter((b) => cut(a, b))).length];
    }"""
    assert shown.run(covered) == [20, 0], "in the charts of quality and of time"
    across = "[...document.querySelector('svg.chart').querySelectorAll('.across')]"
    ticks = shown.run(f"{across}.map((e) => e.textContent)")
    assert ticks[0] == "$0.001"
    assert ticks[-1] == "dollars of one trial, from $0.001, logarithmic"
    places = shown.run(
        "[...document.querySelectorAll('path.point')].map((e) => Number(e.getAttribute('transform').match(/[\\d.]+/)[0]))"
    )
    assert max(places) - min(places) > 400, "the points fill the width"


def test_what_changed_can_be_read_in_light_and_dark_and_gone_rows_are_dashed(
    show: Show, tmp_path: Path
) -> None:
    shown = show(refreshed(tmp_path, DIFF))
    for scheme in ("light", "dark"):
        shown.page.emulate_media(color_scheme=scheme)
        assert shown.run(CONTRAST) == []
        dashes = """(of) => getComputedStyle(document.querySelector(`.graph .edge.kind-${of} .line`)).strokeDasharray"""
        assert (shown.run(dashes, "gone"), shown.run(dashes, "new")) == ("5px, 4px", "none")
    shown.page.locator(".node", has_text="Ada").last.locator(".mark").hover()
    told = shown.page.locator(".told").first.inner_text()
    assert "Ada works at Luma. Ada lives in Riga. → Ada works at Luma. Ada lives in Oslo." in told
    assert shown.run(UNNAMED) == []
    assert (shown.said, shown.asked) == ([], [])
