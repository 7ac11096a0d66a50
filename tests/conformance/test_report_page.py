"""The report's page in a real headless browser: narrow and wide, light and dark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.conformance.invented import HOSTILE, various
from tests.console import browser as chromium
from tests.console.walk import NARROW, WIDE
from wirekafka.conformance.reports.page import as_html

pytestmark = pytest.mark.skipif(
    chromium.executable() is None, reason=f"none of {', '.join(chromium.NAMES)} is installed"
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium.browser() as found:
        yield found


@pytest.mark.parametrize("width", [NARROW, WIDE])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_fits_the_window(
    browser: Browser, tmp_path: Path, scheme: str, width: int
) -> None:
    path = tmp_path / "report.html"
    path.write_text(as_html(various(HOSTILE)))
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    problems: list[str] = []
    page.on("console", lambda message: problems.append(message.text))
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("dialog", lambda dialog: problems.append(dialog.message))
    page.goto(path.as_uri())
    closed = page.get_by_text("UNKNOWN_SERVER_ERROR").first
    assert not closed.is_visible()
    for each in page.locator("summary").all():
        each.click()
    assert closed.is_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    brightness = sum(map(int, ground.removeprefix("rgb(").rstrip(")").split(",")))
    assert (brightness > 384) == (scheme == "light")
    assert problems == []
    page.close()
