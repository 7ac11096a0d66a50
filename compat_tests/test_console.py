"""The console's pages about Apache Kafka and about wirekafka: the same, in a headless browser."""

import secrets
from collections.abc import Iterator
from contextlib import suppress

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.console import browser as chromium
from tests.console.site import Site, console
from tests.console.walk import NARROW, WIDE, Walk
from tests.eventually import eventually


class Stage:
    """A cluster with a topic and a group, and a console of it."""

    def __init__(self, bootstrap: str, site: Site):
        self.site = site
        name = secrets.token_hex(4)
        self.topic, self.group = f"orders-{name}", f"billing-{name}"
        admin = AdminClient({"bootstrap.servers": bootstrap})
        admin.create_topics([NewTopic(self.topic, 3)])[self.topic].result()
        producer = Producer({"bootstrap.servers": bootstrap})
        for number in range(30):
            producer.produce(self.topic, b"a book", partition=number % 3)
        producer.flush()
        settings = {"bootstrap.servers": bootstrap, "group.id": self.group}
        consumer = Consumer({**settings, "enable.auto.commit": False})
        offsets = [TopicPartition(self.topic, index, 4) for index in range(3)]

        def commit() -> bool:
            with suppress(Exception):
                consumer.commit(offsets=offsets, asynchronous=False)
                return True
            return False

        eventually(commit)
        consumer.close()

    @property
    def pages(self) -> list[str]:
        """Every page."""
        return [
            "/",
            "/groups",
            f"/group?name={self.group}",
            f"/group/reset?name={self.group}&topic={self.topic}&to=latest",
            "/configs",
            f"/config?kind=topic&name={self.topic}&all=1",
            "/config?kind=broker&name=1&all=1",
            "/acls",
            "/brokers",
        ]


@pytest.fixture(scope="module", params=["broker", "apache_kafka"])
def stage(request: pytest.FixtureRequest) -> Iterator[Stage]:
    bootstrap = request.getfixturevalue(request.param).bootstrap
    with console(bootstrap, allow_changes=True) as site:
        yield Stage(bootstrap, site)


def test_a_group_is_shown_with_its_lag_and_reset(stage: Stage) -> None:
    def row() -> list[str] | None:
        [found] = stage.site.get("/groups", q=stage.group).rows("#groups")
        return found if found[3] == "18" else None

    found = eventually(row)
    assert found is not None and found[:4] == [stage.group, "classic", "Empty", "18"]
    query = {"name": stage.group, "topic": f"{stage.topic}:1", "to": "latest"}
    form = stage.site.get("/group/reset", **query).soup.select_one("form[method=post]")
    assert form is not None
    fields = {str(each["name"]): each["value"] for each in form.select("input")}
    shown = stage.site.submit(str(form["action"]), fields)
    rows = shown.rows("section[aria-labelledby=positions]")
    assert [row[2:5] for row in rows] == [["4", "10", "6"], ["10", "10", "0"], ["4", "10", "6"]]


def test_an_option_is_changed(stage: Stage) -> None:
    fields = {"kind": "topic", "name": stage.topic, "option": "retention.ms"}
    shown = stage.site.post("/config", **fields, action="set", value="1234567")
    rows = {row[0].split()[0]: row[1:3] for row in shown.rows("#options")}
    assert rows["retention.ms"] == ["1234567", "topic"]


def test_the_quorum_and_the_disks_are_shown(stage: Stage) -> None:
    page = stage.site.get("/brokers")
    [voter] = page.rows("section[aria-labelledby=quorum]")
    assert voter[:2] == ["1", "leader"]
    assert all(row[-1].endswith("%") for row in page.rows("section[aria-labelledby=disks]"))


@pytest.mark.skipif(chromium.executable() is None, reason="no Chromium is installed")
def test_every_page_works_in_a_browser(stage: Stage) -> None:
    with chromium.browser() as browser:
        for width, scheme in ((WIDE, "light"), (NARROW, "dark")):
            walk = Walk.open(browser, stage.site.base, width, scheme)
            walk.visit(stage.pages)
            walk.page.close()
        Walk.open(browser, stage.site.base).go_by_keys()
