"""Walks through the pages of a console in a headless Chromium, as a person would."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from playwright.sync_api import Browser, Page

from wirekafka.console.app import SECTIONS

NARROW, WIDE = 400, 1200
"""Widths of windows, in pixels."""


@dataclass
class Walk:
    """One window, and what its pages have complained of."""

    base: str
    page: Page
    problems: list[str] = field(default_factory=list)

    @classmethod
    def open(cls, browser: Browser, base: str, width: int = WIDE, scheme: str = "light") -> Walk:
        """A new window with cookies of its own."""
        page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
        walk = cls(base, page)
        page.on("console", lambda message: walk.problems.append(message.text))
        page.on("pageerror", lambda error: walk.problems.append(str(error)))
        page.on("requestfailed", lambda request: walk.problems.append(request.url))
        return walk

    def visit(self, paths: Sequence[str]) -> None:
        """Open each page: it fits the window, and it has no errors, nothing from elsewhere."""
        for path in paths:
            response = self.page.goto(self.base + path)
            assert response is not None and response.status == 200, path
            width = self.page.evaluate("document.documentElement.scrollWidth")
            assert width <= self.page.viewport_size["width"], f"{path} is {width} px wide"
            assert self.page.locator("h1").count() == 1
            unnamed = self.page.evaluate(
                "[...document.querySelectorAll('main input:not([type=hidden]), main select')]"
                ".filter(each => !each.labels.length).length"
            )
            assert unnamed == 0, f"{path} has {unnamed} fields without a label"
        assert self.problems == []

    def go_by_keys(self) -> None:
        """Go to each section by its keys."""
        self.page.goto(self.base + "/")
        for module in SECTIONS:
            title, path, key = module.LINK
            self.page.keyboard.press("g")
            with self.page.expect_navigation():
                self.page.keyboard.press(key)
            assert self.page.url == self.base + path
            current = self.page.locator("header nav a[aria-current=page]")
            assert title in current.all_inner_texts()

    def ground(self) -> str:
        """The color behind the text."""
        color: str = self.page.evaluate("getComputedStyle(document.body).backgroundColor")
        return color
