"""Consumer groups with server-side assignment, as tests inspect and disturb them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import Consumer

from tests.testing.clients import broker_assigned_consumer, confluent_consumer, until
from wirekafka import Broker
from wirekafka.testing import Group


@contextmanager
def member(broker: Broker, client_id: str, **options: Any) -> Iterator[Consumer]:
    """A consumer in the group "g" that subscribes to "t" by the new protocol."""
    consumer = broker_assigned_consumer(broker, "g", **{"client.id": client_id}, **options)
    consumer.subscribe(["t"])
    try:
        yield consumer
    finally:
        consumer.close()


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(topics={"t": 4}) as broker:
        yield broker


def owned(group: Group) -> dict[str, int]:
    """How many partitions each member owns, by client id."""
    return {each.client_id: sum(map(len, each.assignment.values())) for each in group.members}


def test_a_group_shows_epochs_assignments_and_targets(broker: Broker) -> None:
    with member(broker, "a") as consumer:
        until(consumer, lambda: len(consumer.assignment()) == 4)
        group = broker.group("g")
        assert (group.type, group.state, group.protocol) == ("consumer", "Stable", "uniform")
        (each,) = group.members
        assert each.epoch == group.epoch == group.assignment_epoch == 2
        assert each.assignment == each.target == {"t": (0, 1, 2, 3)}
    assert broker.group("g").members == ()
    assert [each.id for each in broker.groups()] == ["g"]


def test_a_classic_group_shows_its_assignments_too(broker: Broker) -> None:
    consumer = confluent_consumer(broker, "old")
    consumer.subscribe(["t"])
    until(consumer, lambda: len(consumer.assignment()) == 4)
    group = broker.group("old")
    assert (group.type, group.epoch, group.state) == ("classic", None, "Stable")
    assert group.members[0].assignment == {"t": (0, 1, 2, 3)}
    consumer.close()


def test_an_unknown_group_is_reported_with_the_existing_ones(broker: Broker) -> None:
    with pytest.raises(LookupError, match="no group 'nobody'; there are: none"):
        broker.group("nobody")


def test_a_held_assignment_stays_until_it_is_released(broker: Broker) -> None:
    with member(broker, "a") as one:
        until(one, lambda: len(one.assignment()) == 4)
        held = broker.hold_assignment("g")
        with member(broker, "b") as other:
            until(other, lambda: owned(broker.group("g")) == {"a": 4, "b": 0})
            assert broker.group("g").state == "Assigning"
            broker.restart()
            until(one, lambda: other.poll(0.01) or broker.group("g").epoch == 3)
            broker.clock.advance(seconds=2)
            until(other, lambda: one.poll(0.01) or owned(broker.group("g")) == {"a": 4, "b": 0})
            held.remove()
            until(other, lambda: one.poll(0.01) or owned(broker.group("g")) == {"a": 2, "b": 2})


def test_an_assignment_is_held_before_the_first_member_joins(broker: Broker) -> None:
    held = broker.hold_assignment("g")
    with member(broker, "a") as consumer:
        until(consumer, lambda: broker.groups() != [])
        assert owned(broker.group("g")) == {"a": 0}
        held.remove()
        until(consumer, lambda: len(consumer.assignment()) == 4)


def test_a_reset_ends_a_hold(broker: Broker) -> None:
    broker.hold_assignment("g")
    broker.reset()
    with member(broker, "a") as consumer:
        until(consumer, lambda: len(consumer.assignment()) == 4)


@pytest.mark.parametrize("options", [{}, {"group.instance.id": "i"}], ids=["dynamic", "static"])
def test_an_expired_member_loses_its_partitions_and_joins_again(
    broker: Broker, options: dict[str, str]
) -> None:
    with member(broker, "a", **options) as consumer:
        until(consumer, lambda: len(consumer.assignment()) == 4)
        epoch = broker.group("g").epoch
        assert epoch is not None
        broker.expire_member("g", client_id="a")
        until(consumer, lambda: (broker.group("g").epoch or 0) >= epoch + 2)
        until(consumer, lambda: owned(broker.group("g")) == {"a": 4})


def test_members_find_a_moved_coordinator_again(broker: Broker) -> None:
    with member(broker, "a") as one, member(broker, "b") as other:
        until(one, lambda: other.poll(0.01) or owned(broker.group("g")) == {"a": 2, "b": 2})
        before = broker.group("g")
        broker.requests.clear()
        broker.move_coordinator(group="g", seconds=0.3)
        until(
            one,
            lambda: (
                other.poll(0.01)
                or {each.client_id for each in broker.requests.of("FindCoordinator")} >= {"a", "b"}
            ),
        )
        assert broker.group("g") == before
