"""The page in a real browser: widths, dark mode, keyboard, print."""

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from scripts.report import command, reading
from scripts.report.html import page
from tests.scripts.report.browser import CHROMIUM, Browser, browser
from tests.scripts.report.planted import HOSTILE, plant

pytestmark = pytest.mark.skipif(
    not CHROMIUM and not os.environ.get("CI"), reason="no Chromium: apt-get install chromium"
)
WIDTHS = (390, 1280)
MINIMUM = 4.5
"""Contrast of text, WCAG 2.2 level AA; lines of figures need 3."""


Show = Callable[..., Browser]


@pytest.fixture(scope="module")
def show(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Show]:
    """Open the page of one run, of two, or of one whose text is hostile."""
    folder = tmp_path_factory.mktemp("pages")
    one = reading.read(plant(folder / "one"))
    other = reading.read(plant(folder / "other", "dpo-with-a-much-longer-name-than-most-43"))
    hostile = reading.read(plant(folder / "hostile", text=HOSTILE))
    for name, runs in {"one": [one], "two": [one, other], "hostile": [hostile]}.items():
        (folder / f"{name}.html").write_text(command.render(runs), encoding="utf-8")
    with browser(tmp_path_factory.mktemp("profile")) as found:

        def opened(name: str, **how: Any) -> Browser:
            found.open(folder / f"{name}.html", **how)
            return found

        yield opened


def all_of(selector: str) -> str:
    return f"[...document.querySelectorAll('{selector}')]"


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", ["one", "two", "hostile"])
def test_the_page_fits_its_width_and_logs_no_error(
    show: Show, tmp_path: Path, name: str, width: int, dark: bool
) -> None:
    shown = show(name, width=width, dark=dark)
    assert shown.run("document.documentElement.scrollWidth") <= width
    assert shown.run("document.querySelectorAll('.plot svg').length") >= 11
    assert shown.run("typeof hacked") == "undefined"
    assert shown.complaints == []
    shown.picture(tmp_path / "page.png")
    assert (tmp_path / "page.png").stat().st_size > 50_000
    # All details open, too.
    shown.run("document.querySelectorAll('details').forEach(each => each.open = true)")
    assert shown.run("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("name", ["one", "two"])
def test_the_plots_of_a_row_stand_on_one_line(show: Show, name: str) -> None:
    """Some figures of a row have a legend or a note, others have none."""
    shown = show(name, width=1240)
    parts = f"{all_of('figure')}.map(each => [each, each.querySelector('.plot')]"
    places = shown.run(f"{parts}.map(part => Math.round(part.getBoundingClientRect().top)))")
    rows: dict[int, set[int]] = {}
    for figure, plot in places:
        rows.setdefault(figure, set()).add(plot)
    assert len(places) > len(rows) > 2
    assert all(len(plots) == 1 for plots in rows.values()), rows
    legends = shown.run("document.querySelectorAll('figure .keys').length")
    assert 0 < legends < len(places)


def test_a_figure_is_read_by_keyboard(show: Show) -> None:
    shown = show("one")
    for _ in range(40):
        shown.press("Tab")
        if shown.run("document.activeElement.className") == "plot":
            break
    assert shown.run("document.activeElement.id") == "loss"
    assert shown.run("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    text = "document.getElementById('loss-readout').textContent"
    assert shown.run(text).startswith("step 20 · training batches 0.2 ")
    shown.press("ArrowLeft")
    assert shown.run(text).startswith("step 19 · training batches 0.225 ")
    shown.press("Home")
    assert shown.run(text).startswith("step 1 · ")
    # The same step in every figure, and for a screen reader.
    assert shown.run("document.getElementById('mfu-readout').textContent") == "step 1 · MFU 0.25"
    assert shown.run("document.activeElement.getAttribute('aria-valuetext')") == shown.run(text)


def test_every_figure_has_a_name_and_a_table(show: Show) -> None:
    shown, images = show("one"), all_of("svg[role=img]")
    named = "svg => svg.ariaLabel || svg.querySelector('title')"
    assert shown.run(f"{images}.length") == shown.run(f"{images}.filter({named}).length")
    count = shown.run(f"{all_of('figure')}.length")
    assert count == shown.run(f"{all_of('figure table')}.length")
    ids = shown.run(f"{all_of('[id]')}.map(each => each.id)")
    assert len(ids) == len(set(ids))


def test_it_prints(show: Show, tmp_path: Path) -> None:
    show("one", dark=True).print(tmp_path / "page.pdf")
    printed = (tmp_path / "page.pdf").read_bytes()
    assert printed.startswith(b"%PDF")
    assert 2 <= len(re.findall(rb"/Type\s*/Page\b", printed)) <= 8


def test_paper_has_what_is_folded_on_the_screen(show: Show) -> None:
    shown, folded = show("one"), all_of("details:not(figure details)")
    state = f"{folded}.map(each => each.open)"
    shown.run(f"{folded}[0].open = true")
    shown.run("dispatchEvent(new Event('beforeprint'))")
    assert shown.run(state) == [True] * 3
    shown.run("dispatchEvent(new Event('afterprint'))")
    assert shown.run(state) == [True, False, False]


LINES = (
    "lines = (each) => { const range = document.createRange(); range.selectNodeContents(each);"
    "return range.getClientRects().length; }"
)


@pytest.mark.parametrize("width", [900, 1280])
def test_names_of_pods_and_nodes_stand_on_one_line(show: Show, width: int) -> None:
    """Also where the last column is long."""
    shown = show("one", width=width)
    shown.run(LINES)
    texts = ("dpo-41-node-0-0-x7k2p", "node-1", "passed: all; " * 40)
    for column, text in enumerate(texts, start=2):
        cells = all_of(f".pods tbody tr > :nth-child({column})")
        shown.run(f"{cells}.forEach(each => each.textContent = {text!r})")
    cells = f"{all_of('.pods tbody tr')}.flatMap(row => [...row.cells])"
    assert set(shown.run(f"{cells}.filter(each => each.cellIndex < 3).map(lines)")) == {1}
    sums = f"{all_of('.sums tbody tr')}.map(row => row.cells[0])"
    heights = f"{sums}.map(each => Math.round(each.getBoundingClientRect().height))"
    assert len(set(shown.run(heights))) == 1


def test_titles_stand_under_each_other_whatever_their_number(show: Show) -> None:
    shown, numbers = show("one"), all_of("h2 .number")
    found = shown.run(f"{numbers}.map(each => Math.round(each.getBoundingClientRect().width))")
    assert len(found) >= 10 and len(set(found)) == 1
    needed = f"Math.max(...{numbers}.map(each => {{ "
    needed += "const range = document.createRange(); range.selectNodeContents(each); "
    needed += "return range.getBoundingClientRect().width; }))"
    assert found[0] - shown.run(needed) >= 8, "a gap before the title"


def test_a_row_is_named_by_whole_words_on_a_phone(show: Show) -> None:
    shown = show("two", width=390)
    shown.run(LINES)
    words = f"{all_of('#s6 tbody th')}.filter(each => !each.textContent.includes(' '))"
    assert set(shown.run(f"{words}.map(lines)")) == {1}
    heads = words.replace("#s6 tbody th", "thead th:first-child")
    assert set(shown.run(f"{heads}.map(lines)")) <= {0, 1}, "0: empty, or in a folded table"


def test_text_and_lines_stand_out_in_both_modes() -> None:
    style = (page.FOLDER / "page.css").read_text()
    light, dark = (
        dict(re.findall(r"--(\w+): (#[0-9a-f]{3,6});", block))
        for block in re.findall(r":root \{(.*?)\n *\}", style, re.DOTALL)[:2]
    )
    assert set(dark) == set(light)
    for colours in (light, dark):
        for text in ("ink", "muted", "link", "good", "bad", "busy"):
            assert contrast(colours[text], colours["paper"]) >= MINIMUM, text
        for line in ("c0", "c1", "c2", "c3", "c4", "c5"):
            assert contrast(colours[line], colours["paper"]) >= 3, line


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def luminance(colour: str) -> float:
    """Relative luminance of WCAG 2, of ``#rrggbb``."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
