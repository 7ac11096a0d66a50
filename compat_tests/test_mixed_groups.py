"""Consumers of four libraries in one group: they join, leave and crash while records flow."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from compat_tests.committed import committed_offsets
from compat_tests.conftest import NewTopicName
from compat_tests.group_member import LIBRARIES, SESSION_MS
from compat_tests.java_tools import JavaTools
from compat_tests.mortal_broker import MortalBroker
from tests.eventually import eventually

PARTITIONS = 8
RECORDS_PER_SECOND = 400
JAVA, JAVA_ASSIGNED = "java", "java_assigned"
Place = tuple[int, int]


class Member:
    """One consumer process and the records that it has reported."""

    def __init__(self, process: subprocess.Popen[str], library: str, seen: dict[Place, str]):
        self.process = process
        self.library = library
        self.count = 0
        self._seen = seen
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def leave(self) -> None:
        self._end(signal.SIGTERM)

    def crash(self) -> None:
        self._end(signal.SIGKILL)

    def _end(self, how: signal.Signals) -> None:
        self.process.send_signal(how)
        self.process.wait(30)
        self._reader.join(10)
        assert self.process.stdout is not None
        self.process.stdout.close()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            try:
                reported = json.loads(line)
            except ValueError:
                continue  # cut short by a crash
            for partition, offset, value in _records(reported):
                known = self._seen.setdefault((partition, offset), value)
                assert known == value, "one offset, two records"
                self.count += 1


def _records(reported: object) -> list[tuple[int, int, str]]:
    if isinstance(reported, list):
        return [(partition, offset, value) for partition, offset, value in reported]
    if isinstance(reported, dict) and reported.get("name") == "record_data":
        return [(reported["partition"], reported["offset"], reported["value"])]
    return []


@dataclass
class Crowd:
    """The members of one group, by the library they use."""

    bootstrap: str
    topic: str
    group: str
    java_tools: JavaTools
    seen: dict[Place, str] = field(default_factory=dict)
    members: list[Member] = field(default_factory=list)

    def join(self, library: str) -> Member:
        if library == JAVA_ASSIGNED:
            process = self.java_tools.start(
                "kafka-verifiable-consumer",
                "--bootstrap-server",
                self.bootstrap,
                "--topic",
                self.topic,
                "--group-id",
                self.group,
                "--verbose",
                "--reset-policy",
                "earliest",
                "--group-protocol",
                "consumer",
            )
        elif library == JAVA:
            process = self.java_tools.start(
                "kafka-verifiable-consumer",
                "--bootstrap-server",
                self.bootstrap,
                "--topic",
                self.topic,
                "--group-id",
                self.group,
                "--verbose",
                "--session-timeout",
                str(SESSION_MS),
                "--reset-policy",
                "earliest",
                "--assignment-strategy",
                "org.apache.kafka.clients.consumer.RangeAssignor",
            )
        else:
            process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "compat_tests.group_member",
                    library,
                    self.bootstrap,
                    self.topic,
                    self.group,
                ],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                text=True,
            )
        member = Member(process, library, self.seen)
        self.members.append(member)
        return member

    def lose(self, member: Member, crash: bool) -> None:
        self.members.remove(member)
        member.crash() if crash else member.leave()

    def disperse(self) -> None:
        for member in self.members:
            member.crash()


class Flow:
    """Records, numbered, to every partition in turn, until stopped."""

    def __init__(self, bootstrap: str, topic: str):
        self.written: dict[Place, str] = {}
        self.failures: list[object] = []
        self._topic = topic
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "linger.ms": 5, "enable.idempotence": True}
        )
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> dict[Place, str]:
        self._stopped.set()
        self._thread.join(30)
        assert self._producer.flush(30) == 0
        assert not self.failures
        return self.written

    def _run(self) -> None:
        number = 0
        while not self._stopped.wait(0.05):
            for _ in range(RECORDS_PER_SECOND // 20):
                self._producer.produce(
                    self._topic,
                    value=str(number),
                    partition=number % PARTITIONS,
                    on_delivery=self._delivered,
                )
                number += 1
            self._producer.poll(0)

    def _delivered(self, error: object, message: object) -> None:
        if error is not None:
            self.failures.append(error)
            return
        place = message.partition(), message.offset()  # type: ignore[attr-defined]
        self.written[place] = message.value().decode()  # type: ignore[attr-defined]


class Watch:
    """Polls the group's committed offsets in the background, also while the broker restarts."""

    def __init__(self, bootstrap: str, group: str):
        self.steps_back: list[tuple[int, int, int]] = []
        self.committed: dict[int, int] = defaultdict(int)
        self._bootstrap = bootstrap
        self._group = group
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join(30)

    def look(self) -> None:
        for partition, offset in committed(self._bootstrap, self._group).items():
            known = self.committed[partition]
            if offset < known:
                self.steps_back.append((partition, known, offset))
            self.committed[partition] = offset

    def _run(self) -> None:
        while not self._stopped.wait(0.1):
            self.look()


@contextmanager
def crowd_of(bootstrap: str, topic: str, group: str, java_tools: JavaTools) -> Iterator[Crowd]:
    crowd = Crowd(bootstrap, topic, group, java_tools)
    try:
        yield crowd
    finally:
        crowd.disperse()


def test_eight_consumers_of_four_libraries_read_every_record_and_never_commit_backwards(
    bootstrap: str, admin: AdminClient, new_topic: NewTopicName, unique: str, java_tools: JavaTools
) -> None:
    topic = new_topic(PARTITIONS)
    with crowd_of(bootstrap, topic, unique, java_tools) as crowd:
        flow, watch = Flow(bootstrap, topic), Watch(bootstrap, unique)
        libraries = [*LIBRARIES, JAVA]
        for library in libraries:
            crowd.join(library)
            member = crowd.members[-1]
            eventually(lambda member=member: member.count, 60)
        for library in libraries:
            crowd.join(library)
        eventually(lambda: _assigned(admin, unique) == PARTITIONS, 60)

        # One of each library crashes, another one leaves, and new ones come.
        for library in libraries:
            old = next(each for each in crowd.members if each.library == library)
            crowd.lose(old, crash=library in ("confluent", JAVA))
            seen = len(crowd.seen)
            eventually(lambda seen=seen: len(crowd.seen) > seen + RECORDS_PER_SECOND, 60)
            crowd.join(library)
        eventually(lambda: _assigned(admin, unique) == PARTITIONS, 60)

        written = flow.stop()
        eventually(lambda: written.items() <= crowd.seen.items(), 60)
        assert crowd.seen == written, "a record that nobody wrote"
        ends = {partition: offset + 1 for partition, offset in sorted(written)}
        eventually(lambda: watch.committed == ends, 30)
        watch.stop()
        assert watch.steps_back == []
        assert all(member.process.poll() is None for member in crowd.members)


def _assigned(admin: AdminClient, group: str) -> int:
    """How many members have partitions."""
    (future,) = admin.describe_consumer_groups([group]).values()
    described = future.result(10)
    if described.state.name != "STABLE":
        return 0
    return sum(bool(each.assignment.topic_partitions) for each in described.members)


def test_a_group_survives_kill_9_of_its_coordinator(
    mortal: MortalBroker, unique: str, java_tools: JavaTools
) -> None:
    broker = mortal
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(unique, PARTITIONS)])[unique].result(30)
    with crowd_of(broker.bootstrap, unique, unique, java_tools) as crowd:
        flow = Flow(broker.bootstrap, unique)
        for library in LIBRARIES:
            crowd.join(library)
        eventually(lambda: all(member.count for member in crowd.members), 60)
        for _ in range(2):
            before = committed(broker.bootstrap, unique)
            broker.kill()
            broker.start()
            after = committed(broker.bootstrap, unique)
            assert all(after[partition] >= offset for partition, offset in before.items())
            seen = len(crowd.seen)
            eventually(lambda seen=seen: len(crowd.seen) > seen + 2 * RECORDS_PER_SECOND, 60)
        written = flow.stop()
        eventually(lambda: written.items() <= crowd.seen.items(), 60)
        assert crowd.seen == written
        assert all(member.process.poll() is None for member in crowd.members)


def committed(bootstrap: str, group: str) -> dict[int, int]:
    """The committed offsets of the group's only topic, by partition."""
    offsets = committed_offsets(bootstrap, group)
    return {partition: offset for (_, partition), (offset, _) in offsets.items()}
