"""Every page of the console about Apache Kafka in a real browser, while records are written."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from playwright.sync_api import Browser

from compat_tests.apache_kafka import SMALL_CLEANER, SMALL_JVM, prepare, running
from tests.console import browser as chromium
from tests.console.site import Site, console
from tests.console.walk import NARROW, WIDE, Walk
from tests.eventually import eventually
from wirekafka.client.admin.quotas import alter_quotas
from wirekafka.client.admin.users import ScramUser, set_password
from wirekafka.client.client import Client
from wirekafka.security.sasl.scram import ALGORITHMS

pytestmark = pytest.mark.skipif(
    chromium.executable() is None, reason=f"none of {', '.join(chromium.NAMES)} is installed"
)

PATHS = (
    "/",
    "/topics",
    "/topics/orders",
    "/topics/orders/messages",
    "/topics/orders/search",
    "/topics/orders/groups",
    "/topics/orders/producers",
    "/topics/orders/produce",
    "/groups",
    "/group?name=billing",
    "/group/reset?name=billing&topic=orders&to=latest",
    "/queries",
    "/transactions",
    "/configs",
    "/config?kind=topic&name=orders&all=1",
    "/config?kind=broker&name=1&all=1",
    "/acls",
    "/acls/add",
    "/users",
    "/user?name=ann",
    "/quotas",
    "/brokers",
)
_AUTHORIZER = (
    "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer\n"
    "super.users=User:ANONYMOUS\n"
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium.browser() as found:
        yield found


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """The console of a broker of Apache Kafka with a topic, a group, a user, and a writer."""
    directory = tmp_path_factory.mktemp("kafka")
    port, command = prepare(directory, SMALL_JVM, SMALL_CLEANER + _AUTHORIZER)
    with running(command, directory, port) as bootstrap:
        with Client(bootstrap) as client:
            set_password(client, [ScramUser("ann", each, 4096) for each in ALGORITHMS], "secret")
            alter_quotas(client, {"user": "ann"}, {"producer_byte_rate": 1e12})
        with writing(bootstrap, "orders"), console(bootstrap, allow_changes=True) as found:
            commit(bootstrap, "billing", TopicPartition("orders", 0, 1))
            yield found


def commit(bootstrap: str, group: str, position: TopicPartition) -> None:
    """Commit an offset, once the coordinator has been found."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    eventually(lambda: consumer.commit(offsets=[position], asynchronous=False))
    consumer.close()


@contextmanager
def writing(bootstrap: str, topic: str) -> Iterator[None]:
    """Write records to a topic, which the first one creates, until the end."""
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(topic, b"first", partition=0)
    assert producer.flush(30) == 0
    is_over = threading.Event()

    def write() -> None:
        number = 0
        while not is_over.wait(0.02):
            producer.produce(topic, b'{"n": %d}' % number, b"a")
            producer.poll(0)
            number += 1

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


@pytest.mark.parametrize("scheme, width", [("light", WIDE), ("dark", NARROW)])
def test_every_page_works(browser: Browser, site: Site, scheme: str, width: int) -> None:
    walk = Walk.open(browser, site.base, width, scheme)
    walk.visit(PATHS)
    walk.page.close()


def test_pages_are_reached_by_keys(browser: Browser, site: Site) -> None:
    walk = Walk.open(browser, site.base)
    walk.go_by_keys()
    walk.page.close()


def test_new_records_appear_by_themselves(browser: Browser, site: Site) -> None:
    walk = Walk.open(browser, site.base)
    walk.page.goto(f"{site.base}/topics/orders/live")
    rows = walk.page.locator("main table tbody tr")
    eventually(lambda: rows.count() >= 3)
    before = rows.first.inner_text()
    eventually(lambda: rows.first.inner_text() != before)
    assert walk.problems == []
    walk.page.close()


def test_figures_of_an_open_page_are_refreshed(browser: Browser, site: Site) -> None:
    walk = Walk.open(browser, site.base)
    walk.page.goto(f"{site.base}/topics/orders")
    partitions = walk.page.locator("main table").first
    before = partitions.inner_text()
    eventually(lambda: partitions.inner_text() != before, timeout_s=40)
    assert walk.problems == []
    walk.page.close()
