"""Pages that stay open, in a real browser: refreshed figures, new records, remembered columns."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, TopicPartition
from playwright.sync_api import Browser, Route, expect

from tests.console.browser import browser, executable
from tests.console.site import Site
from tests.console.test_wire_pages import inside
from tests.console.walk import NARROW, Walk
from wirekafka import Broker
from wirekafka.testing import Record

pytestmark = pytest.mark.skipif(executable() is None, reason="no Chromium is installed")

MOVING = (
    "/",
    "/topics",
    "/topics/moving",
    "/topics/moving/groups",
    "/topics/moving/producers",
    "/groups",
    "/group?name=readers",
    "/queries",
    "/transactions",
    "/brokers",
    "/wire",
)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser() as chromium:
        yield chromium


@pytest.fixture(scope="module")
def moving(broker: Broker) -> Iterator[Site]:
    broker.create_topic("moving", partitions=2)
    broker.produce("moving", [Record("x", partition=0)])
    for group in ("readers", "others"):
        consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": group})
        consumer.commit(offsets=[TopicPartition("moving", 0, 0)], asynchronous=False)
        consumer.close()
    with inside(broker) as site:
        yield site


@pytest.fixture
def walk(chromium: Browser, moving: Site) -> Iterator[Walk]:
    walk = Walk.open(chromium, moving.base)
    yield walk
    walk.page.close()


def test_every_page_of_moving_things_is_refreshed(moving):
    for path in MOVING:
        page = moving.get(path)
        assert page.soup.select_one("#page")["data-refresh"] == "10", path
    for path in ("/configs", "/acls", "/topics/moving/messages", "/topics/moving/search"):
        assert not moving.get(path).soup.select("[data-refresh]"), path
    preview = moving.get("/group/reset", name="readers", topic="moving", to="latest")
    assert not preview.soup.select("[data-refresh]")


def test_a_page_with_a_refused_form_is_not_refreshed(changing):
    """What was refused, and why, would be gone."""
    assert changing.get("/topics").soup.select("[data-refresh]")
    refused = changing.post("/topics", name="")
    assert refused.status == 400 and not refused.soup.select("[data-refresh]")


def test_a_refresh_keeps_the_focus_and_what_was_entered(walk, broker):
    page = walk.page
    page.clock.install()
    page.goto(walk.base + "/group?name=readers")
    said = page.locator("#refreshed")
    expect(said).to_contain_text("every 10 s")
    page.get_by_label("Filter by topic").fill("mov")
    page.get_by_label("Topic, or topic:partition").fill("moving:0")
    link = page.locator("main tbody a", has_text="moving").first
    link.focus()
    row = page.locator("section[aria-labelledby=positions] tbody tr").first
    before = row.inner_text()
    broker.produce("moving", [Record("x", partition=0)])
    page.clock.fast_forward(11_000)
    expect(row).not_to_have_text(before)
    assert link.evaluate("each => each === document.activeElement")
    assert page.get_by_label("Filter by topic").input_value() == "mov"
    assert page.get_by_label("Topic, or topic:partition").input_value() == "moving:0"
    assert walk.problems == []


def test_a_refresh_keeps_what_is_expanded_and_where_it_is_scrolled_to(walk):
    page = walk.page
    page.clock.install()
    shown = itertools.count(1)

    def with_details(route: Route) -> None:
        text = (
            f"<details><summary>more</summary><pre>{'line<br>' * 400}{next(shown)}</pre></details>"
        )
        body = route.fetch().text().replace('<div class="scroll"><table', text + "<table", 1)
        route.fulfill(body=body, content_type="text/html")

    page.route("**/topics", with_details)
    page.goto(walk.base + "/topics")
    page.locator("main summary").focus()
    page.keyboard.press("Enter")
    content = page.locator("main pre")
    expect(content).to_be_visible()
    page.evaluate("scrollTo(0, 500)")
    page.clock.fast_forward(11_000)
    expect(content).to_contain_text("2")
    expect(content).to_be_visible()
    assert page.evaluate("scrollY") == 500


def test_rows_that_change_places_keep_their_focus(walk):
    page = walk.page
    page.clock.install()
    page.goto(walk.base + "/groups?sort=name")
    link = page.locator("#groups a", has_text="readers")
    link.focus()
    rows = page.locator("#groups tbody tr")
    assert [each.split()[0] for each in rows.all_inner_texts()] == ["others", "readers"]
    page.evaluate("history.replaceState(null, '', '/groups?sort=-name')")
    page.clock.fast_forward(11_000)
    expect(rows.first).to_contain_text("readers")
    assert link.evaluate("each => each === document.activeElement")


def test_a_page_pauses_and_resumes_by_its_button(walk, broker):
    page = walk.page
    page.clock.install()
    page.goto(walk.base + "/topics/moving")
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    button = page.locator("#refreshed button")
    button.focus()
    page.keyboard.press("Enter")
    expect(page.locator("#refreshed")).to_contain_text("Paused")
    page.clock.fast_forward(30_000)
    assert asked == []
    page.keyboard.press("Enter")
    expect(page.locator("#refreshed")).to_contain_text("Refreshed")
    expect(button).to_have_text("Pause")
    assert asked == [f"{walk.base}/topics/moving"]


def test_a_hidden_page_asks_nothing(walk):
    page = walk.page
    page.clock.install()
    page.goto(walk.base + "/topics")
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    shows = "document.dispatchEvent(new Event('visibilitychange'))"
    page.evaluate(
        f"Object.defineProperty(document, 'hidden', {{value: true, configurable: true}}); {shows}"
    )
    page.clock.fast_forward(60_000)
    assert asked == []
    with page.expect_response("**/topics"):
        page.evaluate(f"delete document.hidden; {shows}")


def test_a_page_says_that_it_could_not_be_refreshed(walk):
    page = walk.page
    page.clock.install()
    page.goto(walk.base + "/topics")
    page.route("**/topics", lambda route: route.abort())
    page.clock.fast_forward(11_000)
    said = page.locator("#refreshed")
    expect(said).to_contain_text("Not refreshed since")
    expect(said).to_contain_text("does not answer")
    assert page.locator("#topics tbody tr").count() >= 1
    page.unroute("**/topics")
    page.clock.fast_forward(21_000)
    expect(said).to_contain_text("Refreshed at")


def test_charts_have_units_and_are_described_in_words(walk):
    page = walk.page
    page.goto(walk.base + "/")
    page.evaluate(
        "document.querySelector('main').insertAdjacentHTML('beforeend', "
        """'<div class="chart" data-unit="B/s" data-label="In" """
        """data-points="[[1,2,3],[0,2048,4096]]"></div>');"""
        "document.dispatchEvent(new Event('refreshed'))"
    )
    chart = page.locator(".chart")
    expect(chart.locator("canvas")).to_have_count(1)
    expect(chart.locator(".u-legend")).to_contain_text("In")
    box = chart.locator(".u-over").bounding_box()
    page.mouse.move(box["x"] + box["width"] - 2, box["y"] + 5)
    expect(chart.locator(".u-legend")).to_contain_text("4 KiB/s")
    assert walk.problems == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_new_records_appear_by_themselves_until_the_page_is_paused(
    chromium, moving, broker, scheme
):
    walk = Walk.open(chromium, moving.base, NARROW, scheme)
    page = walk.page
    walk.visit(["/topics/moving/live?text=live"])
    expect(page.locator("[data-live-status]")).to_contain_text("0 new")
    broker.produce("moving", [Record('{"live": "<i>1</i>"}', partition=1), Record("other")])
    rows = page.locator("#new tbody tr")
    expect(rows).to_have_count(1)
    rows.locator("summary").focus()
    page.keyboard.press("Enter")
    expect(rows.locator("pre")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= NARROW
    page.get_by_role("button", name="Pause").click()
    broker.produce("moving", [Record("live 2", partition=1)])
    expect(page.get_by_role("button", name="Resume")).to_be_visible()
    expect(rows).to_have_count(1)
    page.get_by_role("button", name="Resume").click()
    expect(rows).to_have_count(2)
    expect(rows.first).to_contain_text("live 2")
    expect(rows.nth(1).locator("pre")).to_be_visible()
    page.get_by_role("button", name="Clear").click()
    expect(rows).to_have_count(0)
    # To pause, the page has ended the first request.
    assert walk.problems == [f"{walk.base}/topics/moving/live/events?text=live"]
    page.close()


def test_chosen_columns_are_remembered_by_the_browser(walk):
    page = walk.page
    heads = page.locator("#messages thead th")
    page.goto(walk.base + "/topics/moving/messages")
    expect(heads).to_have_count(6)
    page.locator(".columns summary").click()
    for name in ("Partition", "Time", "Key"):
        page.get_by_label(name, exact=True).uncheck()
    page.get_by_label("Size", exact=True).check()
    page.get_by_role("button", name="Show").click()
    chosen = ["Offset", "Value", "Transaction, headers", "Size"]
    expect(heads).to_have_text(chosen)
    page.goto(walk.base + "/topics/moving/messages?order=oldest")
    expect(heads).to_have_text(chosen)
    assert "order=oldest" in page.url
    page.goto(walk.base + "/topics/moving/messages?columns=key")
    expect(heads).to_have_text(["Key"])
    assert walk.problems == []
