"""Every page in a real headless browser: scripts, keys, light and dark, narrow windows."""

from urllib.parse import urlencode

import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.console import browser as chromium
from tests.console.walk import NARROW, WIDE, Walk
from wirekafka.client.admin.quotas import alter_quotas
from wirekafka.client.admin.users import ScramUser, set_password
from wirekafka.client.client import Client
from wirekafka.security.sasl.scram import ALGORITHMS

pytestmark = pytest.mark.skipif(
    chromium.executable() is None, reason=f"none of {', '.join(chromium.NAMES)} is installed"
)


ACL = {
    "principal": "User:a-service-with-a-long-name",
    "permission": "DENY",
    "operation": "DESCRIBE_CONFIGS",
    "type": "TRANSACTIONAL_ID",
    "name": "the-transactions-of-a-service-with-a-long-name",
    "pattern": "PREFIXED",
    "host": "*",
}


@pytest.fixture(scope="module")
def browser():
    with chromium.browser() as browser:
        yield browser


@pytest.fixture(scope="module")
def paths(broker) -> list[str]:
    """Every page, some of which need a topic and a group."""
    broker.create_topic("orders", partitions=3)
    broker.produce("orders", [("key", "value")] * 30)
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "billing"})
    offsets = [TopicPartition("orders", index, 0) for index in range(3)]
    consumer.commit(offsets=offsets, asynchronous=False)
    consumer.close()
    with Client(broker.bootstrap_servers) as client:
        user = "a-user-of-a-service-with-a-long-name"
        set_password(client, [ScramUser(user, each, 4096) for each in ALGORITHMS], "secret")
        alter_quotas(client, {"user": user, "client-id": ""}, {"producer_byte_rate": 1e12})
    return [
        "/",
        "/groups",
        "/queries",
        "/group?name=billing",
        "/group/reset?name=billing&topic=orders&to=latest",
        "/configs",
        "/config?kind=topic&name=orders&all=1",
        "/acls",
        f"/acls/add?{urlencode(ACL)}",
        "/users",
        "/user?name=a-user-of-a-service-with-a-long-name",
        "/quotas",
        "/topics/orders/produce",
        "/topics/orders/produce?partition=2&offset=10",
        "/brokers",
    ]


@pytest.mark.parametrize("width", [NARROW, WIDE])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page_works(browser, changing, paths, scheme, width):
    walk = Walk.open(browser, changing.base, width, scheme)
    walk.visit(paths)
    brightness = sum(map(int, walk.ground().removeprefix("rgb(").rstrip(")").split(",")))
    assert (brightness > 384) == (scheme == "light")
    walk.page.close()


def test_pages_are_reached_by_keys(browser, site):
    walk = Walk.open(browser, site.base)
    walk.go_by_keys()
    walk.page.goto(f"{site.base}/groups")
    walk.page.keyboard.press("/")
    assert walk.page.locator("input[type=search]").evaluate("e => e === document.activeElement")
    walk.page.keyboard.type("bill")
    walk.page.keyboard.press("Enter")
    walk.page.wait_for_url("**/groups?q=bill*")
    walk.page.keyboard.press("?")
    assert walk.page.locator("dialog#keys").is_visible()
    walk.page.close()


def test_offsets_are_reset_by_a_person(browser, broker, changing, paths):
    walk = Walk.open(browser, changing.base)
    page = walk.page
    page.goto(f"{changing.base}/group?name=billing")
    page.get_by_label("Topic, or topic:partition").fill("orders:0")
    page.get_by_label("To: earliest").fill("latest")
    page.get_by_role("button", name="Preview").click()
    page.get_by_role("button", name="Commit these offsets").click()
    page.wait_for_url("**/group?name=billing")
    stored = len(broker.records("orders", 0))
    assert broker.committed("billing")["orders", 0] == stored
    assert walk.problems == []
    page.close()


def test_charts_are_drawn_from_samples(browser, site):
    """By the vendored library, which nothing of the content security policy forbids."""
    walk = Walk.open(browser, site.base)
    walk.page.goto(site.base + "/")
    walk.page.evaluate(
        "document.querySelector('main').insertAdjacentHTML('beforeend', "
        """'<div class="spark" data-points="[[1,2,3],[5,6,7]]"></div>');"""
        "document.dispatchEvent(new Event('DOMContentLoaded'))"
    )
    assert walk.page.locator(".spark canvas").count() >= 1
    assert walk.problems == []
    walk.page.close()


def test_a_record_is_produced_by_the_keyboard_alone(browser, broker, changing):
    """The reason of a refusal has the focus: the next Tab leads into the form."""
    broker.create_topic("typed", partitions=2)
    walk = Walk.open(browser, changing.base, NARROW)
    page = walk.page
    page.goto(f"{changing.base}/topics/typed/produce")
    page.get_by_label("Entered as").nth(1).focus()
    page.keyboard.type("json")
    page.keyboard.press("Tab")
    page.keyboard.type('{"n": ')
    for _ in range(3):  # Headers, the partition, and the button.
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_selector("[role=alert]:focus")
    assert "not JSON" in page.locator("[role=alert]").inner_text()
    assert page.locator("[role=alert]").bounding_box()["y"] < 900, "it is in view"
    for _ in range(4):  # The form and text of the key, and those of the value.
        page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.name") == "value"
    page.keyboard.press("Control+End")
    page.keyboard.type("1}")
    for _ in range(3):
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_selector("[role=status]")
    assert [record.value for record in broker.records("typed")] == [b'{"n": 1}']
    assert all("400 (Bad Request)" in each for each in walk.problems), walk.problems
    page.close()
