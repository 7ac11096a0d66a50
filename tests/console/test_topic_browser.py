"""The pages of topics, searches and the wire in a real browser, with hostile records."""

from collections.abc import Iterator

import confluent_kafka
import pytest
from playwright.sync_api import Browser, Page

from tests.console.browser import browser, executable
from tests.console.site import Site
from tests.console.test_wire_pages import inside
from wirekafka import Broker
from wirekafka.testing import Record

pytestmark = pytest.mark.skipif(executable() is None, reason="no Chromium is installed")

TOPIC = "orders." + "long-name-" * 12
HOSTILE = '<img src=x onerror="document.title=1"><script>document.title=2</script>'


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser() as chromium:
        yield chromium


@pytest.fixture(scope="module")
def filled(broker: Broker) -> Iterator[Site]:
    broker.create_topic(TOPIC, partitions=3)
    values = [f'{{"number": {n}, "html": "<b>{n}</b>"}}' for n in range(60)]
    broker.produce(TOPIC, [Record(each, key="key" * 20) for each in [*values, HOSTILE]])
    broker.produce(
        TOPIC,
        [Record(HOSTILE * 40, key=HOSTILE, headers=((HOSTILE, HOSTILE.encode()),), partition=0)],
    )
    with inside(broker) as site:
        yield site


@pytest.fixture(params=["light", "dark"])
def page(chromium: Browser, request: pytest.FixtureRequest) -> Iterator[Page]:
    context = chromium.new_context(
        viewport={"width": 400, "height": 800}, color_scheme=request.param
    )
    page = context.new_page()
    page.errors = []
    page.on("pageerror", lambda error: page.errors.append(str(error)))
    page.on("console", lambda said: page.errors.append(said.text) if said.type == "error" else None)
    yield page
    assert page.errors == []
    context.close()


def last_offset(site: Site) -> str:
    rows = site.get(f"/topics/{TOPIC}/messages", partition=0).rows("#messages")
    return rows[0][1]


def test_pages_fit_into_400_pixels(filled, page):
    paths = (
        "/topics",
        f"/topics/{TOPIC}",
        f"/topics/{TOPIC}/messages",
        f"/topics/{TOPIC}/messages/0/{last_offset(filled)}",
        f"/topics/{TOPIC}/search?text=html",
        f"/topics/{TOPIC}/groups",
        f"/topics/{TOPIC}/producers",
        "/transactions",
        "/wire",
        "/wire/watch?client=x",
    )
    for path in paths:
        page.goto(filled.base + path)
        width = page.evaluate("document.documentElement.scrollWidth")
        assert width <= 400, f"{path} is {width} pixels wide"
        assert "console" in page.title(), path
        assert page.locator("main img, main script").count() == 0, path


def test_a_search_shows_rows_as_they_are_found_and_can_be_cancelled(filled, page, broker):
    page.goto(filled.base + f"/topics/{TOPIC}/search")
    page.keyboard.press("/")
    page.keyboard.type("onerror")
    page.keyboard.press("Enter")
    page.wait_for_selector("[data-live][data-state=ended]")
    assert page.locator("#found tbody tr").count() == 2
    assert "Complete" in page.locator("[role=status]").inner_text()
    assert "console" in page.title()


def test_requests_are_shown_while_they_are_exchanged(filled, page, broker):
    page.goto(filled.base + "/wire/watch?client=browsed")
    page.wait_for_selector("[role=status]:has-text('Nothing')")
    settings = {"bootstrap.servers": broker.bootstrap_servers, "client.id": "browsed"}
    made = confluent_kafka.Producer(settings)
    made.produce(TOPIC, HOSTILE, key=HOSTILE)
    assert made.flush(10) == 0
    page.wait_for_selector("#exchanges summary:has-text('Produce v')")
    page.locator("#exchanges summary:has-text('Produce v')").first.click()
    assert page.locator("#exchanges pre:visible").first.inner_text().startswith("{")
    page.get_by_role("button", name="Stop").click()
    page.wait_for_selector("[data-live][data-state=ended]")


def test_letters_lead_to_the_pages(filled, page):
    page.goto(filled.base + "/")
    for letter, heading in (("t", "Topics"), ("x", "Transactions"), ("w", "Wire")):
        page.keyboard.press("g")
        page.keyboard.press(letter)
        page.wait_for_selector(f"h1:has-text('{heading}')")
