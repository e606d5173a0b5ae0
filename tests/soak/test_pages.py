"""Every page that the program writes, opened by a browser on a wide and on a narrow screen, light and dark: nothing on the console,
nothing wider than the screen, no text too small to read. The pictures stay under BUILD/pages for a person to look at."""
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support/pages"))
from chromium import chromium
from gallery import PAGES, Gallery

SCREENS = [(width, dark) for width in (1400, 420) for dark in (False, True)]


@pytest.fixture(scope="module")
def browser():
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def gallery(wmtp, tmp_path_factory):
    return Gallery(wmtp.binary, tmp_path_factory.mktemp("gallery"))


@pytest.fixture(scope="module")
def pictures(wmtp):
    folder = wmtp.binary.parents[1] / "pages"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_whole_on_every_screen(browser, gallery, pictures, name):
    page, faults = gallery.page(name), []
    for width, dark in SCREENS:
        scheme = "dark" if dark else "light"
        shown = browser.show(page, width, dark)
        (pictures / f"{name}-{width}-{scheme}.png").write_bytes(shown.picture)
        faults += [f"{width} px, {scheme}: {fault}" for fault in shown.faults]
    print(f"{name}: {page.stat().st_size} bytes, {len(SCREENS)} pictures, {len(faults)} faults")
    assert not faults, "\n".join(faults)


FIRST_TARGET = "document.querySelector('.tokens .w:not(.p)')"


def test_colour_and_order_of_the_scored_rows_are_chosen_without_scripts(browser, gallery):
    browser.show(gallery.page("score-verifiable"), 1400, dark=False)
    shades = []
    for view in ("nll-1", "nll-2", "weight", "value"):
        browser.check(f"label[for={view}]")
        written = browser.value(f"{FIRST_TARGET}.style.getPropertyValue('--{view}')")
        assert browser.value(f"getComputedStyle({FIRST_TARGET}).getPropertyValue('--w')") == written
        shades.append(browser.value(f"getComputedStyle({FIRST_TARGET}).backgroundColor"))
    assert len(set(shades)) >= 3, shades  # losses, weights and values have colours of their own
    tops = "[...document.querySelectorAll('.sample')].map(row => [row.getBoundingClientRect().top, row.getBoundingClientRect().left])"
    orders = "[...document.querySelectorAll('.sample')].map(row => +row.style.getPropertyValue('--file'))"
    browser.check("label[for=by-file]")
    placed = sorted(zip(browser.value(tops), browser.value(orders)))
    assert [order for _, order in placed] == sorted(order for _, order in placed)


def test_a_fault_is_seen(browser, tmp_path):
    """The control: a page that has everything wrong."""
    (tmp_path / "bad.html").write_text("<!DOCTYPE html><title>x</title><script>console.error('no')</script>"
                                       "<p style='font-size:9px;width:2000px'>small and wide</p><img src='http://127.0.0.1:9/x.png'>")
    told = "\n".join(browser.show(tmp_path / "bad.html", 420, dark=False).faults)
    for part in ("console.error", "px wide on a screen of 420", "text of 9.0 px", "1 scripts", "asks for http://127.0.0.1:9"):
        assert part in told, told
