"""The pages of groups: the list, one group, and the change of its offsets."""

import uuid

import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.eventually import eventually
from tests.raw_client import RawClient
from wirekafka.protocol.share_group_heartbeat import ShareGroupHeartbeatRequest
from wirekafka.testing import Record


@pytest.fixture(scope="module")
def billing(broker) -> str:
    """A group that has read 30 of 90 records, 10 of each partition, and has left."""
    broker.create_topic("orders", partitions=3)
    broker.produce("orders", [Record(f"{n}", partition=n % 3) for n in range(90)])
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "billing",
            "enable.auto.commit": False,
        }
    )
    consumer.commit(
        offsets=[TopicPartition("orders", index, 10) for index in range(3)], asynchronous=False
    )
    consumer.close()
    return "billing"


def positions(site, group="billing"):
    return site.get("/group", name=group).rows("section[aria-labelledby=positions]")


def test_a_group_is_listed_with_its_lag(billing, changing):
    def row():
        [row] = changing.get("/groups", q="billing").rows("#groups")
        return row if row[3] != "–" else None

    name, kind, state, lag, *_ = eventually(row, timeout_s=20)
    assert (name, kind, state, lag) == ("billing", "classic", "Empty", "60")


def test_a_group_is_shown_with_its_positions(billing, site):
    assert [row[:5] for row in positions(site)] == [
        ["orders", str(index), "10", "30", "20"] for index in range(3)
    ]
    page = site.get("/group", name="billing")
    assert "The group has no members." in page.words("section[aria-labelledby=members]")


def test_a_group_that_does_not_exist_is_not_found(site):
    page = site.get("/group", name="no/such <group>")
    assert page.status == 404
    assert "no/such <group>" in page.words("[role=alert]")


def test_a_preview_shows_what_a_reset_would_do_and_changes_nothing(billing, changing):
    page = changing.get("/group/reset", name=billing, topic="orders:1", to="latest")
    [row] = page.rows("section[aria-labelledby=preview]")
    assert row == ["orders", "1", "10", "30", "20 skipped"]
    assert {row[2] for row in positions(changing)} == {"10"}


def test_a_preview_on_a_read_only_console_has_no_button(billing, site):
    page = site.get("/group/reset", name=billing, topic="orders", to="earliest")
    assert not page.soup.select("form[method=post]")
    assert "--allow-changes" in page.words("section[aria-labelledby=preview]")


@pytest.mark.parametrize("to", ["tomorrow", ""])
def test_a_reset_to_nowhere_is_a_page_that_says_so(billing, changing, to):
    page = changing.get("/group/reset", name=billing, topic="orders", to=to)
    assert page.status == 400
    assert "earliest, latest, an offset" in page.words("[role=alert]")


def test_the_offsets_of_a_preview_are_committed(broker, billing, changing):
    page = changing.get("/group/reset", name=billing, topic="orders:0,2", to="-4")
    form = page.soup.select_one("form[method=post]")
    fields = {each["name"]: each["value"] for each in form.select("input")}
    shown = changing.submit(form["action"], fields)
    assert shown.url.endswith("/group?name=billing")
    committed = broker.committed("billing")
    assert {index: committed["orders", index] for index in range(3)} == {0: 6, 1: 10, 2: 6}


def test_a_group_with_members_is_not_reset(broker, changing):
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap_servers, "group.id": "live", "client.id": "reader-7"}
    )
    consumer.subscribe(["orders"])
    try:
        eventually(lambda: consumer.poll(0.1) is None and consumer.assignment())
        page = changing.get("/group/reset", name="live", topic="orders", to="earliest")
        assert page.status == 400
        assert "group live is Stable" in page.words("[role=alert]")
        [member] = changing.get("/group", name="live").rows("section[aria-labelledby=members]")
        assert member[1] == "reader-7" and member[4] == "3"
    finally:
        consumer.close()


def test_a_share_group_has_its_type(broker, site):
    broker.create_topic("jobs")
    heartbeat = ShareGroupHeartbeatRequest(
        group_id="workers",
        member_id=str(uuid.uuid4()),
        member_epoch=0,
        subscribed_topic_names=["jobs"],
    )
    host, _, port = broker.bootstrap_servers.rpartition(":")
    with RawClient(int(port), host) as client:
        eventually(lambda: client.call(heartbeat, 1).error_code == 0)
        page = site.get("/group", name="workers")
    assert page.status == 200
    assert "share type" in page.words(".tiles")


def test_the_list_is_filtered_by_type(billing, site):
    names = {row[0] for row in site.get("/groups", type="classic").rows("#groups")}
    assert "billing" in names and "workers" not in names
