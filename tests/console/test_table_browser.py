"""The pages of topic tables in a real browser: narrow and wide, with figures that refresh."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from tests.console.browser import browser, executable
from tests.console.site import console
from tests.console.test_table_pages import HOSTILE, Tables
from tests.console.walk import NARROW, WIDE, Walk
from wirekafka import Broker
from wirekafka.config.table_place import TablePlace
from wirekafka.metrics.table_status import TableState, TableStatus

pytestmark = pytest.mark.skipif(executable() is None, reason="no Chromium is installed")

LONG = "com.example.orders." + "long-name-" * 12


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser() as chromium:
        yield chromium


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tables]:
    place = TablePlace(str(tmp_path_factory.mktemp("tables")))
    with Broker() as broker, console(broker.bootstrap_servers, tables=place) as site:
        made = Tables(broker, place, site)
        for topic in ("orders", LONG):
            broker.produce(topic, [b"x"] * 5)
            made.append(topic, [HOSTILE.encode() * 9, b"x" * 5_000, b"\0" * 5_000, None])
            made.append(topic, [b"x" * 300], is_dead=True)
        made.report(
            *(
                TableStatus(
                    topic=topic,
                    topic_id=made.id_of(topic),
                    state=TableState.PAUSED,
                    error=f"{HOSTILE} " + "x" * 500,
                )
                for topic in ("orders", LONG)
            )
        )
        yield made


@pytest.mark.parametrize("width", [NARROW, WIDE])
def test_every_page_of_tables_works(chromium: Browser, tables: Tables, width: int) -> None:
    walk = Walk.open(chromium, tables.site.base, width)
    walk.visit(["/tables", "/tables?sort=-state", "/tables/orders", f"/tables/{LONG}"])
    walk.page.close()


def test_figures_of_an_open_page_are_read_anew(chromium: Browser, tables: Tables) -> None:
    walk = Walk.open(chromium, tables.site.base)
    walk.page.clock.install()
    pages = {"/tables?q=orders&sort=name": "#tables", "/tables/orders": "#partitions"}
    for count, (path, table) in enumerate(pages.items(), 5):
        walk.page.goto(tables.site.base + path)
        cells = walk.page.locator(f"{table} td", has_text=str(count))
        before = walk.page.locator("#figures").inner_text()
        tables.append("orders", [b"new"], start=count - 1)
        walk.page.clock.fast_forward(11_000)
        expect(walk.page.locator("#figures")).not_to_have_text(before)
        expect(cells.first).to_be_visible()
    assert walk.page.locator("section[aria-labelledby=newest] td").count() > 0
    assert walk.problems == []
    walk.page.close()
