"""The same topics, records, transactions and groups on any broker, for programs that watch them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from uuid import uuid4

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from compat_tests.wire import Wire
from tests.eventually import eventually
from wirekafka.protocol.find_coordinator import FindCoordinatorRequest
from wirekafka.protocol.share_group_heartbeat import ShareGroupHeartbeatRequest

Places = dict[tuple[str, int], int]

PARTITIONS = {"orders": 3, "facts": 1, "empty": 1}
RECORDS: Places = {("orders", 0): 20, ("orders", 1): 13, ("orders", 2): 7, ("facts", 0): 5}
_COMMITTED_RECORDS = 3
"""Records of a transaction in the second partition of orders; its marker follows them."""
_OPEN_RECORDS = 4
"""Records of a transaction in facts that stays open."""
ENDS: Places = {
    ("orders", 0): 20,
    ("orders", 1): 13 + _COMMITTED_RECORDS + 1,
    ("orders", 2): 7,
    ("facts", 0): 5 + _OPEN_RECORDS,
    ("empty", 0): 0,
}
COMMITTED: dict[str, Places] = {
    "classic": {("orders", 0): 5, ("orders", 1): 17, ("orders", 2): 6},
    "modern": {("orders", 0): 20, ("orders", 1): 1},
    "stopped": {("orders", 2): 2, ("facts", 0): 0},
}
PROTOCOLS = {"classic": "classic", "modern": "consumer"}
"""The protocols of the groups that have a member."""
SHARING = "sharing"
"""A share group with one member, which must not have to send heartbeats."""
SETTINGS = {
    "group.share.session.timeout.ms": "3600000",
    "group.share.max.session.timeout.ms": "3600000",
}
"""What a broker needs for that."""


def lags(group: str) -> Places:
    """The records that a group has not committed, by partition."""
    return {place: ENDS[place] - offset for place, offset in COMMITTED[group].items()}


@contextmanager
def filled(bootstrap: str, replicas: int = 1, **client: Any) -> Iterator[None]:
    """Lay everything out; the members and the open transaction stay until the end.

    `client` is for the settings of clients, with underscores in place of dots.
    """
    settings = {name.replace("_", "."): value for name, value in client.items()}
    base = {"bootstrap.servers": bootstrap, "log_level": 0, **settings}
    configs = {"facts": {"cleanup.policy": "compact"}}
    topics = [
        NewTopic(name, count, replicas, config=configs.get(name, {}))
        for name, count in PARTITIONS.items()
    ]
    admin = AdminClient(base)
    for created in admin.create_topics(topics).values():
        created.result(30)
    _produce(base)
    with ExitStack() as stack:
        _begin_transaction(base)
        for group, offsets in COMMITTED.items():
            consumer = _consumer(base, group)
            stack.callback(consumer.close)
            places = [TopicPartition(*place, offset) for place, offset in offsets.items()]
            consumer.commit(offsets=places, asynchronous=False)
        if not settings:
            stack.enter_context(_sharing(bootstrap))
        yield


def _produce(base: dict[str, Any]) -> None:
    producer = Producer(base)
    for (topic, partition), count in RECORDS.items():
        for number in range(count):
            producer.produce(topic, str(number), key=str(number), partition=partition)
    assert producer.flush(30) == 0
    writer = _transactional(base, "committed")
    for number in range(_COMMITTED_RECORDS):
        writer.produce("orders", str(number), partition=1)
    writer.commit_transaction(30)


def _begin_transaction(base: dict[str, Any]) -> None:
    writer = _transactional(base, "open")
    for number in range(_OPEN_RECORDS):
        writer.produce("facts", str(number), key=str(number), partition=0)
    assert writer.flush(30) == 0


def _transactional(base: dict[str, Any], transactional_id: str) -> Producer:
    given = {"transactional.id": transactional_id, "transaction.timeout.ms": 900_000}
    writer = Producer({**base, **given})
    writer.init_transactions(60)
    writer.begin_transaction()
    return writer


def _consumer(base: dict[str, Any], group: str) -> Consumer:
    """A member of the group, if it has any, that has been assigned its partitions."""
    protocol = PROTOCOLS.get(group, "classic")
    given = {
        **base,
        "group.id": group,
        "client.id": f"{group}-client",
        "group.protocol": protocol,
        "enable.auto.commit": False,
    }
    consumer = Consumer(given)
    if group in PROTOCOLS:
        consumer.subscribe(["orders"])
        eventually(lambda: consumer.poll(0.1) or consumer.assignment(), timeout_s=60)
    return consumer


@contextmanager
def _sharing(bootstrap: str) -> Iterator[None]:
    """A member of the share group, known to its coordinator."""
    first = Wire.to(bootstrap)
    asked = FindCoordinatorRequest(coordinator_keys=[SHARING])
    [found] = eventually(
        lambda: [each for each in first.ask(asked, 4).coordinators if not each.error_code],
        timeout_s=60,
    )
    first.close()
    wire = Wire((found.host, found.port))
    request = ShareGroupHeartbeatRequest(
        group_id=SHARING, member_id=str(uuid4()), member_epoch=0, subscribed_topic_names=["orders"]
    )
    eventually(lambda: wire.ask(request, 1).error_code == 0, timeout_s=60)
    wire.close()
    yield
