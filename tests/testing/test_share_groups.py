"""Share groups as tests inspect and disturb them."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import AcknowledgeType, Message, ShareConsumer

from tests.testing.clients import TIMEOUT_S
from wirekafka import Broker


@pytest.fixture(params=[False, True], ids=["thread", "process"])
def broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    with Broker(topics={"t": 1}, process=request.param) as broker:
        yield broker


@contextmanager
def member(broker: Broker, client_id: str = "a") -> Iterator[ShareConsumer]:
    """A member of the share group "g" that acknowledges each record itself."""
    consumer = ShareConsumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "g",
            "client.id": client_id,
            "share.acknowledgement.mode": "explicit",
            "log_level": 0,
        }
    )
    consumer.subscribe(["t"])
    try:
        yield consumer
    finally:
        consumer.close()


def until(broker: Broker, consumer: ShareConsumer, condition: Callable[[], object]) -> None:
    """Poll until the condition holds; no record may arrive before that."""

    def polled() -> object:
        assert not consumer.poll(0.05)
        return condition()

    broker.wait_for(polled, TIMEOUT_S)


def is_ready(broker: Broker) -> bool:
    """Whether records produced from now on will be delivered."""
    return any(each.is_done for each in broker.requests.of("ShareFetch")) and any(
        each.assignment for each in broker.group("g").members
    )


def received(broker: Broker, consumer: ShareConsumer) -> list[Message]:
    return list(broker.wait_for(lambda: consumer.poll(0.1), TIMEOUT_S))


def test_a_share_group_shows_its_members_and_their_partitions(broker: Broker) -> None:
    with member(broker) as consumer:
        until(broker, consumer, lambda: broker.groups() and is_ready(broker))
        group = broker.group("g")
        assert (group.type, group.state, group.protocol) == ("share", "Stable", "simple")
        (each,) = group.members
        assert (each.client_id, each.epoch) == ("a", group.epoch)
        assert each.assignment == each.target == {"t": (0,)}
    assert broker.group("g").state == "Empty"


def test_records_in_flight_are_shown_until_they_are_acknowledged(broker: Broker) -> None:
    with member(broker) as consumer:
        until(broker, consumer, lambda: broker.groups() and is_ready(broker))
        assert broker.in_flight("g") == []
        broker.produce("t", [b"1"])
        (message,) = received(broker, consumer)
        (record,) = broker.in_flight("g")
        assert (record.topic, record.partition) == ("t", message.partition())
        assert (record.state, record.deliveries) == ("ACQUIRED", 1)
        assert record.member_id == broker.group("g").members[0].id
        assert record.locked_until_ms is not None
        assert record.locked_until_ms > broker.clock.now_ms
        consumer.acknowledge(message, AcknowledgeType.ACCEPT)
        consumer.commit_sync(10)
        assert broker.in_flight("g") == []
    assert broker.in_flight("nobody") == []


def test_records_with_expired_locks_are_delivered_again(broker: Broker) -> None:
    with member(broker) as consumer:
        until(broker, consumer, lambda: broker.groups() and is_ready(broker))
        broker.produce("t", [b"1"])
        (first,) = received(broker, consumer)
        broker.expire_locks("g", topic="t", partition=first.partition())
        (record,) = broker.in_flight("g")
        assert (record.state, record.member_id) == ("AVAILABLE", None)
        with pytest.raises(LookupError, match="'g' has no such record locked"):
            broker.expire_locks("g")
        with member(broker, "b") as other:
            (again,) = received(broker, other)
            assert (again.value(), again.delivery_count()) == (b"1", 2)
            other.acknowledge(again)
            other.commit_sync(10)


def test_the_control_port_shows_records_in_flight_and_expires_their_locks() -> None:
    with Broker(topics={"t": 1}) as broker, member(broker) as consumer:
        url = broker.serve_control()
        in_flight = f"{url}/in-flight?group=g"
        until(broker, consumer, lambda: broker.groups() and is_ready(broker))
        assert ask(in_flight) == (200, [])
        broker.produce("t", [b"1"])
        received(broker, consumer)
        status, (record,) = ask(in_flight)
        deadline_ms = record.pop("locked_until_ms")
        assert (status, record) == (
            200,
            {
                "topic": "t",
                "partition": 0,
                "offset": 0,
                "state": "ACQUIRED",
                "deliveries": 1,
                "member_id": broker.group("g").members[0].id,
            },
        )
        assert deadline_ms > broker.clock.now_ms
        expiry = {"group": "g", "topic": "t", "partition": 0}
        assert ask(f"{url}/expire-locks", expiry)[0] == 200
        status, (record,) = ask(in_flight)
        assert (record["state"], record["locked_until_ms"]) == ("AVAILABLE", None)
        status, refusal = ask(f"{url}/expire-locks", expiry)
        assert status == 404 and "no such record locked" in refusal["error"]
        with member(broker, "b") as other:
            (again,) = received(broker, other)
            assert again.delivery_count() == 2
            other.acknowledge(again)
            other.commit_sync(10)
            assert ask(in_flight) == (200, [])


def ask(url: str, body: object = None) -> tuple[int, Any]:
    """The status and the JSON of a response; a request with a body is a POST."""
    data = None if body is None else json.dumps(body).encode()
    try:
        with urllib.request.urlopen(url, data, timeout=TIMEOUT_S) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def test_an_expired_member_joins_again(broker: Broker) -> None:
    with member(broker) as consumer:
        until(broker, consumer, lambda: broker.groups() and is_ready(broker))
        epoch = broker.group("g").epoch
        assert epoch is not None
        broker.expire_member("g", client_id="a")
        assert broker.group("g").members == ()
        until(broker, consumer, lambda: broker.group("g").members)
        assert (broker.group("g").epoch or 0) >= epoch + 2


def test_a_held_assignment_leaves_a_new_member_without_partitions(broker: Broker) -> None:
    held = broker.hold_assignment("g")
    with member(broker) as consumer:
        until(broker, consumer, broker.groups)
        assert broker.group("g").members[0].assignment == {}
        held.remove()
        until(broker, consumer, lambda: broker.group("g").members[0].assignment)


def test_members_find_a_moved_coordinator_again(broker: Broker) -> None:
    with member(broker) as consumer:
        until(broker, consumer, lambda: broker.groups() and is_ready(broker))
        before = broker.group("g")
        broker.requests.clear()
        broker.move_coordinator(group="g", seconds=0.3)
        until(broker, consumer, lambda: broker.requests.of("FindCoordinator"))
        until(broker, consumer, lambda: broker.groups())
        assert broker.group("g") == before
