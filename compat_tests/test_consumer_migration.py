"""Groups that move from the classic protocol to the consumer protocol and back, beside Kafka."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from compat_tests import apache_kafka
from compat_tests.classic_requests import beat, join, leave, sync
from compat_tests.consumer_members import Member, Requests
from compat_tests.consumer_pair import BothBrokers
from wirekafka.coordinator.groups.consumer.protocol import pack_assignment
from wirekafka.coordinator.groups.times import GroupTimes
from wirekafka.protocol.records.groups_and_transactions import ConsumerProtocolSubscription

_SETTINGS = """offsets.topic.num.partitions=1
group.consumer.assignment.interval.ms=0
"""
_TOPICS = {"t": 4, "u": 2}
_JOIN, _SYNC, _BEAT, _LEAVE, _CONSUMER = 9, 5, 4, 5, 1


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BothBrokers]:
    directory = tmp_path_factory.mktemp("kafka")
    port, command = apache_kafka.prepare(
        directory, apache_kafka.SMALL_JVM, apache_kafka.SMALL_CLEANER + _SETTINGS
    )
    with apache_kafka.running(command, directory, port):
        both = BothBrokers(("127.0.0.1", port), Path(directory) / "data")
        both.ours.consumer_options = GroupTimes(45_000, 5_000, 0)
        both.create_topics(_TOPICS)
        yield both


class Classic:
    """A member of the classic protocol."""

    def __init__(
        self, both: BothBrokers, group_id: str, *topics: str, instance_id: str | None = None
    ):
        self.both, self.group_id, self.instance_id = both, group_id, instance_id
        self.metadata = b"\x00\x01" + bytes(
            ConsumerProtocolSubscription(topics=list(topics)).encode(1)
        )
        self.member_id, self.generation_id = "", -1

    def join(self) -> Any:
        answer = self._join()
        if answer.error_code == 79:
            self.member_id = answer.member_id
            answer = self._join()
        if not answer.error_code:
            self.member_id, self.generation_id = answer.member_id, answer.generation_id
        return answer

    def _join(self) -> Any:
        return self.both.ask(
            join(
                self.group_id,
                self.member_id,
                self.instance_id,
                metadata=self.metadata,
                rebalance_ms=60_000,
            ),
            _JOIN,
        )

    def sync(self, **partitions: list[int]) -> Any:
        given = pack_assignment(list(partitions.items()), self.metadata)
        assign = [(self.member_id, given)] if partitions else []
        return self.both.ask(
            sync(
                self.group_id,
                self.generation_id,
                self.member_id,
                *assign,
                instance=self.instance_id,
            ),
            _SYNC,
        )

    def beat(self) -> int:
        code: int = self.both.ask(
            beat(self.group_id, self.generation_id, self.member_id, self.instance_id), _BEAT
        ).error_code
        return code

    def leave(self) -> None:
        self.both.ask(leave(self.group_id, self.member_id, self.instance_id), _LEAVE)


class Consumer:
    """A member of the consumer protocol."""

    def __init__(
        self,
        both: BothBrokers,
        group_id: str,
        member_id: str,
        *topics: str,
        instance_id: str | None = None,
    ):
        self.both = both
        self.requests = Requests(group_id, both.topic_ids())
        self.member = Member(member_id, topics=list(topics), instance_id=instance_id)

    def join(self) -> Any:
        return self._take(self.requests.join(self.member, _CONSUMER))

    def beat(self) -> Any:
        return self._take(self.requests.beat(self.member, owned=self.member.given))

    def leave(self) -> Any:
        return self._take(self.requests.beat(self.member, epoch=-1))

    def _take(self, request: Any) -> Any:
        answer = self.both.ask(request, _CONSUMER)
        self.member.take(answer)
        return answer

    def look(self) -> None:
        self.both.ask(self.requests.describe(), 1)
        self.both.ask(self.requests.describe_as_classic(), 6)


def test_classic_group_is_upgraded_and_downgraded_again(both: BothBrokers) -> None:
    old = Classic(both, "up-and-down", "t")
    assert old.join().error_code == 0
    old.sync(t=[0, 1, 2, 3])
    new = Consumer(both, "up-and-down", "new", "t")
    assert new.join().member_epoch > 1
    new.look()
    assert old.beat() == 27
    old.join()
    old.sync()
    new.beat()
    old.join()
    old.sync()
    assert old.beat() == 0
    new.beat()
    new.look()
    assert sum(map(len, new.member.given.values())) == 2
    new.leave()
    assert old.beat() == 27
    old.join()
    old.sync(t=[0, 1, 2, 3])
    assert old.beat() == 0
    new.look()
    both.compare_records(["up-and-down"])


def test_upgraded_group_goes_on_without_classic_members(both: BothBrokers) -> None:
    old = Classic(both, "up", "t", "u")
    old.join()
    old.sync(t=[0, 1, 2, 3], u=[0, 1])
    new = Consumer(both, "up", "new", "t", "u")
    new.join()
    old.leave()
    new.beat()
    new.look()
    assert sum(map(len, new.member.given.values())) == 6
    both.compare_records(["up"])


def test_static_member_moves_to_the_other_protocol_and_back(both: BothBrokers) -> None:
    old = Classic(both, "static", "t", instance_id="i")
    old.join()
    old.sync(t=[0, 1, 2, 3])
    new = Consumer(both, "static", "new", "t", instance_id="i")
    new.join()
    new.beat()
    new.look()
    again = Classic(both, "static", "t", instance_id="i")
    again.join()
    again.sync()
    again.beat()
    new.look()
    both.compare_records(["static"])


def test_classic_member_joins_a_consumer_group(both: BothBrokers) -> None:
    new = Consumer(both, "mixed", "new", "t")
    new.join()
    old = Classic(both, "mixed", "t")
    old.join()
    old.sync()
    new.beat()
    old.beat()
    new.beat()
    old.join()
    old.sync()
    old.beat()
    new.look()
    old.leave()
    new.beat()
    both.compare_records(["mixed"])


def test_empty_groups_change_their_kind(both: BothBrokers) -> None:
    old = Classic(both, "empty", "t")
    old.join()
    old.sync(t=[0])
    old.leave()
    new = Consumer(both, "empty", "new", "t")
    new.join()
    new.leave()
    new.look()
    old = Classic(both, "empty", "t")
    old.join()
    old.sync(t=[0])
    old.leave()
    new.look()
    both.compare_records(["empty"])
