"""A refused form is shown again, with what was entered and the reason beside it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.console.forms import fields_of, fill, form_of
from tests.console.site import Shown, Site
from wirekafka import Broker

HOSTILE = '"><img src=x onerror="alert(1)">\u202e'


@pytest.fixture(scope="module")
def orders(broker: Broker) -> str:
    broker.create_topic("orders", partitions=2, retention_ms=5000)
    broker.produce("orders", ["x"] * 4)
    for group in ("billing", "ended"):
        consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": group})
        consumer.commit(offsets=[TopicPartition("orders", 0, 1)], asynchronous=False)
        consumer.close()
    return "orders"


@pytest.fixture(scope="module")
def member(broker: Broker, orders: str) -> Iterator[Consumer]:
    """A consumer that makes its group refuse changes of its offsets while it is open."""
    settings = {"bootstrap.servers": broker.bootstrap_servers, "group.id": "busy"}
    consumer = Consumer({**settings, "auto.offset.reset": "earliest"})
    consumer.subscribe([orders])
    assert consumer.consume(1, 20)
    yield consumer
    consumer.close()


def beside(page: Shown, action: str) -> str:
    """The reason within the form of an action, which gets the focus."""
    found = form_of(page, action).select_one("[role=alert][autofocus]")
    assert found is not None, page.words()
    return str(found.get_text())


def test_a_topic_that_is_not_created_is_entered_again(changing: Site) -> None:
    fields = {"name": "a b", "partitions": "3", "replicas": "1", "configs": f"x={HOSTILE}\ny=1"}
    page = fill(changing, changing.get("/topics"), "/topics", **fields)
    assert page.status == 400 and page.words("h1") == "Topics"
    assert "INVALID_TOPIC" in beside(page, "/topics")
    again = fields_of(form_of(page, "/topics"))
    assert {name: again[name] for name in fields} == fields
    assert not page.soup.select("main img")


@pytest.mark.parametrize(
    ("action", "fields", "reason"),
    [
        ("partitions", {"partitions": "1"}, "INVALID_PARTITIONS"),
        ("partitions", {"partitions": "many"}, "whole number"),
        ("delete", {"name": "order"}, "enter orders to delete"),
    ],
)
def test_a_topic_that_is_not_changed_is_shown_with_its_form(
    changing: Site, orders: str, action: str, fields: dict[str, str], reason: str
) -> None:
    path = f"/topics/{orders}/{action}"
    page = fill(changing, changing.get(f"/topics/{orders}"), path, **fields)
    assert page.status == 400 and reason in beside(page, path)
    assert page.words("h1") == f"Topic {orders}" and len(page.rows("#partitions")) == 2
    again = fields_of(form_of(page, path))
    assert {name: again[name] for name in fields} == fields
    assert len(page.soup.select("[role=alert]")) == 1, "the other form was not refused"
    sorted_by = page.soup.select_one("#partitions thead a")
    assert sorted_by is not None
    assert changing.get(path + str(sorted_by["href"])).status == 200


def test_an_option_that_is_not_set_is_entered_again(changing: Site, orders: str) -> None:
    form = changing.get("/config", kind="topic", name=orders, edit="retention.ms")
    page = fill(changing, form, "/config", action="set", value=HOSTILE)
    assert page.status == 400 and "INVALID_CONFIG" in beside(page, "/config")
    again = fields_of(form_of(page, "/config"))
    assert again["value"] == HOSTILE and again["option"] == "retention.ms"
    assert not page.soup.select("main img")
    shown = fill(changing, page, "/config", action="set", value="6000")
    assert shown.status == 200


def test_offsets_that_are_not_previewed_are_entered_again(changing: Site, orders: str) -> None:
    query = {"name": "billing", "topic": f"{orders}:0,9", "to": "earliest"}
    page = changing.get("/group/reset", **query)
    assert page.status == 400
    form = page.soup.select_one("form[action='/group/reset'][method=get]")
    assert form is not None and "has no partition 9" in form.get_text()
    assert {name: fields_of(form)[name] for name in query} == query


def test_offsets_that_are_not_committed_are_entered_again(
    changing: Site, orders: str, member: Consumer
) -> None:
    """The group has got a member since the preview."""
    fields = {"name": "busy", "topic": orders, "partitions": "0", "offsets": "1"}
    page = changing.post("/group/reset", **fields, wanted=f"{orders}:0", to="+1")
    assert page.status == 400 and "group busy is" in page.words("[role=alert]")
    form = page.soup.select_one("form[action='/group/reset'][method=get]")
    assert form is not None
    found = fields_of(form)
    assert (found["topic"], found["to"]) == (f"{orders}:0", "+1")


def test_a_page_that_is_gone_with_its_form_says_why_the_form_was_refused(changing: Site) -> None:
    page = changing.post("/topics/gone/delete", name="gone")
    assert page.status == 502 and "UNKNOWN_TOPIC_OR_PARTITION" in page.words("[role=alert]")
    assert changing.get("/topics/gone/delete").status == 404


def test_a_page_without_a_refused_form_has_no_reason(changing: Site, orders: str) -> None:
    for path in ("/topics", f"/topics/{orders}", "/acls", "/users", "/quotas"):
        assert not changing.get(path).soup.select("[role=alert]"), path


@pytest.mark.parametrize(
    ("page_of", "query", "reason"),
    [
        ("messages", {"offset": "x", "partition": "0", "count": "7"}, "offset must be a whole"),
        ("messages", {"time": HOSTILE, "order": "oldest"}, "is no time"),
        ("search", {"text": "a", "time": "noon", "field": HOSTILE, "plain": "yes"}, "noon"),
    ],
)
def test_a_view_that_is_refused_keeps_its_parameters(
    changing: Site, orders: str, page_of: str, query: dict[str, str], reason: str
) -> None:
    page = changing.get(f"/topics/{orders}/{page_of}", **query)
    assert page.status == 400 and reason in page.words("[role=alert]")
    form = page.soup.select_one("main form.filter")
    assert form is not None
    again = fields_of(form)
    for name in query.keys() - {"order", "plain"}:
        assert again[name] == query[name]
    assert not page.soup.select("main img")


def test_a_group_that_is_not_deleted_is_shown_with_the_reason(
    changing: Site, orders: str, member: Consumer
) -> None:
    """Its name is not confirmed, or it has members."""
    form = changing.get("/group", name="busy")
    page = fill(changing, form, "/group/delete", confirmed="bus")
    assert page.status == 400 and "enter busy to delete" in beside(page, "/group/delete")
    assert fields_of(form_of(page, "/group/delete"))["confirmed"] == "bus"
    page = fill(changing, form, "/group/delete", confirmed="busy")
    assert page.status == 400 and "NON_EMPTY_GROUP" in beside(page, "/group/delete")
    assert changing.get("/group", name="busy").status == 200


def test_a_group_is_deleted_once_its_name_is_confirmed(changing: Site, orders: str) -> None:
    form = changing.get("/group", name="ended")
    page = fill(changing, form, "/group/delete", confirmed="ended")
    assert page.status == 200 and page.url.endswith("/groups")
    assert changing.get("/group", name="ended").status == 404
