"""Random histories ("lives") of streams groups, played step by step on two brokers at once."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any, Protocol

from compat_tests.classic_requests import beat, join, leave, sync
from compat_tests.consumer_members import kafka_id
from compat_tests.lives import COMMIT, DESCRIBE, FETCH, HEARTBEAT, Action, OwnersLife, Pair
from compat_tests.streams_members import NOTHING, Member, Requests
from wirekafka.protocol.delete_groups import DeleteGroupsRequest
from wirekafka.protocol.describe_groups import DescribeGroupsRequest
from wirekafka.protocol.records.streams_groups import StreamsGroupTopologyValue, TopicInfo
from wirekafka.protocol.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from wirekafka.protocol.streams_group_topology_description_update import (
    StreamsGroupTopologyDescriptionUpdateRequest,
)
from wirekafka.protocol.txn_offset_commit import TxnOffsetCommitRequest

Topology = StreamsGroupHeartbeatRequest.Topology
Subtopology = StreamsGroupTopologyValue.Subtopology
INITIAL_DELAY_MS = 3000
"""The initial rebalance delay of some groups: longer than what happens between two pauses."""


class TransactionalPair(Pair, Protocol):
    """Commits offsets in transactions as well."""

    def commit_in_transaction(
        self, request: TxnOffsetCommitRequest, version: int, *, commits: bool
    ) -> None: ...


def topology_of(source: random.Random, group_id: str) -> Topology:
    """A random topology over the topics a (3 partitions), b (1), c (17) and d (later 6)."""

    def topic(name: str) -> str:
        return f"{group_id}-{name}"

    def internal(name: str, partitions: int = 0) -> TopicInfo:
        config = TopicInfo.TopicConfig
        return TopicInfo(
            name=topic(name),
            partitions=partitions,
            replication_factor=source.choice((0, 1)),
            topic_configs=[
                config(key="cleanup.policy", value="compact"),
                config(key="segment.bytes", value="2000000"),
            ][: source.randint(0, 2)],
        )

    def changelogs(name: str) -> list[TopicInfo]:
        return [internal(f"{name}-{i}-changelog") for i in range(source.choice((0, 1, 1, 2)))]

    kind = source.choice(("plain", "plain", "repartition", "repartition", "join", "late", "many"))
    first = Subtopology(
        subtopology_id="0",
        source_topics=[topic(name) for name in source.choice(("a", "ab", "c"))],
        state_changelog_topics=changelogs("zero"),
    )
    if kind == "plain":
        return Topology(epoch=0, subtopologies=[first])
    if kind == "late":
        first.source_topics = [topic("d")]
        return Topology(epoch=0, subtopologies=[first])
    if kind == "many":
        rest = [
            Subtopology(
                subtopology_id=str(number),
                source_topics=[topic(source.choice("abc"))],
                state_changelog_topics=changelogs(f"n{number}"),
            )
            for number in range(1, source.randint(2, 6))
        ]
        return Topology(epoch=0, subtopologies=[first, *rest])
    through = internal("through-repartition", source.choice((0, 0, 0, 2, 5)))
    first.repartition_sink_topics = [through.name]
    group = Subtopology.CopartitionGroup
    second = Subtopology(
        subtopology_id="1",
        source_topics=[] if kind == "repartition" else [topic(source.choice("abc"))],
        repartition_source_topics=[through],
        state_changelog_topics=changelogs("one"),
    )
    if kind == "join" or source.random() < 0.5:
        second.copartition_groups = [
            group(
                source_topics=list(range(len(second.source_topics))), repartition_source_topics=[0]
            )
        ]
    if kind == "join" and source.random() < 0.3:
        second.source_topics = [topic("a"), topic("b")]
        second.copartition_groups = [group(source_topics=[0, 1], repartition_source_topics=[0])]
    return Topology(epoch=0, subtopologies=[first, second])


class Life(OwnersLife):
    """The random history of one streams group; the same for the same seed."""

    nothing = NOTHING

    def __init__(
        self, seed: int, group_id: str, topics: Mapping[str, int], pair: TransactionalPair
    ):
        super().__init__(seed, group_id, topics, pair)
        self.requests = Requests(group_id, pair.topic_ids())
        self.topology = topology_of(self.random, group_id)
        self.topology.epoch = self.random.choice((0, 0, 3))
        self.has_statics = self.random.random() < 0.5
        self.has_endpoints = (
            self.random.random() < 0.5 and f"{group_id}-d" not in self._source_topics()
        )
        self.is_delayed = self.random.random() < 0.25
        self.processes = [f"{group_id}-process-{i}" for i in range(self.random.choice((1, 2, 3)))]
        self.classic: tuple[str, int] | None = None
        """The member id and generation of a member of the classic protocol."""

    def options(self) -> dict[str, str]:
        """The options of the group that differ from the broker's."""
        chance = random.Random(f"options of {self.topology.epoch} {len(self.processes)}")
        options = {"streams.num.standby.replicas": str(len(self.processes) - 1)}
        if chance.random() < 0.5:
            options["streams.rack.aware.assignment.tags"] = "zone,cluster"
        if self.is_delayed:
            options["streams.initial.rebalance.delay.ms"] = str(INITIAL_DELAY_MS)
        return options

    def _source_topics(self) -> list[str]:
        return [topic for each in self.topology.subtopologies for topic in each.source_topics]

    # What happens

    def actions(self) -> list[Action]:
        actions: list[Action] = [
            (6 if len(self.members) < 2 else 2, self.join),
            (1, self.send_invalid_request),
            (1, self.look),
            (1, self.be_classic),
            (1, self.join_with_another_topology),
            (1, self.commit_in_transaction),
        ]
        if self.classic is not None:
            actions += [(3, self.leave_as_classic)]
        if self.present():
            actions += [
                (6, self.acknowledge),
                (2, self.beat_quietly),
                (1, self.beat_fully),
                (2, self.beat_out_of_turn),
                (2, self.change),
                (2, self.report),
                (2, self.leave),
                (2, self.commit),
                (1, self.fetch),
            ]
        if any(member.instance_id for member in self.members):
            # No member joins with the instance id of a present static member: Kafka 4.4 refuses
            # that, but forgets the target assignment of the present member, which loses its tasks.
            actions += [(4, self.step_out_or_back)]
        return actions

    # Heartbeats

    def join(self) -> None:
        member = Member(
            kafka_id(self.random),
            self.random.choice(self.processes),
            self.topology,
            instance_id=self.instance(),
            rack=self.random.choice((None, None, "rack-1")),
            endpoint=self._endpoint(),
            tags=self.random.choice(({}, {}, {"zone": "z1"}, {"zone": "z", "cluster": "c"})),
        )
        if self.beat(
            member, self.requests.join(member), self.random.choice((0, HEARTBEAT, HEARTBEAT))
        ):
            self.members.append(member)

    def beat_fully(self) -> None:
        """Rejoin with epoch 0 under the same id, as a fenced member does."""
        member = self.somebody()
        if member.instance_id is None:
            self.beat(member, self.requests.join(member))

    def change(self) -> None:
        member = self.somebody()
        match self.random.choice(("process", "rack", "tags", "endpoint", "timeout")):
            case "process":
                member.process_id = self.random.choice(self.processes)
                changes: dict[str, Any] = {"process_id": member.process_id}
            case "rack":
                member.rack = self.random.choice(("rack-1", "rack-2"))
                changes = {"rack_id": member.rack}
            case "tags":
                member.tags = {"zone": self.random.choice("xyz"), "cluster": "c"}
                changes = {"tags": member.tags}
            case "endpoint":
                member.endpoint = self._endpoint()
                changes = {"endpoint": member.endpoint}
            case _:
                changes = {"rebalance_timeout_ms": self.random.choice((300_000, 400_000))}
        owned = self.random.choice((None, member.owned))
        self.beat(member, self.requests.beat(member, owned=owned, **changes))

    def report(self) -> None:
        """Report changelog offsets, or ask for a shutdown."""
        member = self.somebody()
        if self.random.random() < 0.2:
            self.beat(member, self.requests.beat(member, shutdown_application=True))
            return
        offsets = {
            (each.subtopology_id, partition): self.random.choice((0, 10, 1000))
            for each in self.topology.subtopologies
            for partition in self.random.sample(range(4), 2)
        }
        self.beat(member, self.requests.beat(member, offsets=offsets))

    def leave(self) -> None:
        member = self.somebody()
        request = self.requests.beat(
            member, epoch=-1, shutdown_application=self.random.random() < 0.1
        )
        if self.beat(member, request):
            self.members.remove(member)

    def step_out_or_back(self) -> None:
        member = self.random.choice([each for each in self.members if each.instance_id])
        if not member.is_away:
            if self.beat(member, self.requests.beat(member, epoch=-2)):
                member.is_away = True
            return
        if self.random.random() < 0.6:
            member.member_id = kafka_id(self.random)
        if self.random.random() < 0.3:
            member.process_id = self.random.choice(self.processes)
        if self.beat(member, self.requests.join(member)):
            member.is_away, member.owned = False, NOTHING

    def join_with_another_topology(self) -> None:
        """An older epoch is reported as stale; anything else is refused."""
        epoch = self.topology.epoch + self.random.choice((-1, 0, 1))
        if epoch < 0:
            return
        member = Member(
            kafka_id(self.random),
            self.random.choice(self.processes),
            Topology(
                epoch=epoch,
                subtopologies=[
                    Subtopology(subtopology_id="0", source_topics=[f"{self.group_id}-a"])
                ],
            ),
        )
        if self.beat(member, self.requests.join(member)):
            self.members.append(member)

    def send_invalid_request(self) -> None:
        somebody = self.random.choice(
            self.present() or [Member(kafka_id(self.random), "p", self.topology, epoch=3)]
        )
        stranger = Member(kafka_id(self.random), "p", self.topology, epoch=2)
        nobody = Member("", "p", self.topology, epoch=1)
        beat_of, join_of = self.requests.beat, self.requests.join
        self.pair.ask(
            self.random.choice(
                (
                    beat_of(stranger),
                    beat_of(stranger, epoch=-1),
                    beat_of(stranger, epoch=-1, shutdown_application=True),
                    beat_of(nobody),
                    beat_of(stranger, epoch=0),
                    beat_of(stranger, epoch=-7),
                    beat_of(stranger, epoch=-2),
                    beat_of(somebody, instance_id=" "),
                    beat_of(somebody, rack_id=""),
                    beat_of(somebody, topology=self.topology),
                    beat_of(somebody, active_tasks=[]),
                    beat_of(somebody, owned=({"9": [0]}, {}, {})),
                    beat_of(somebody, owned=({}, {"0": [99]}, {})),
                    beat_of(stranger, instance_id="not-there"),
                    beat_of(stranger, epoch=-1, instance_id="not-there"),
                    join_of(stranger, owned=({"0": [0]}, {}, {})),
                    join_of(stranger, rebalance_timeout_ms=-1),
                    join_of(stranger, topology=None),
                    *(join_of(stranger, topology=each) for each in _bad_topologies()),
                )
            ),
            self.random.choice((0, HEARTBEAT)),
        )

    # Offsets, descriptions and other protocols

    def commit_in_transaction(self) -> None:
        """Commit as exactly-once processing does, or as a producer that names no member."""
        member = self.somebody() if self.present() and self.random.random() < 0.8 else None
        epoch = -1 if member is None else member.epoch + self.random.choice((0, 0, 0, -1, 1, -99))
        request = self.requests.commit_in_transaction(
            member, epoch, self.random.choice(self.topics), self.random.choice((0, 1))
        )
        self.pair.commit_in_transaction(
            request, self.random.choice((4, 5, 6)), commits=self.random.random() < 0.7
        )

    def look(self) -> None:
        """Describe the group, in two ways; a topology description is refused."""
        version = self.random.choice((0, DESCRIBE))
        self.pair.ask(self.requests.describe(version), version)
        self.pair.ask(DescribeGroupsRequest(groups=[self.group_id]), self.random.choice((5, 6)))
        self.pair.ask(self.requests.fetch_all(), FETCH)
        self.pair.ask(
            StreamsGroupTopologyDescriptionUpdateRequest(group_id=self.group_id, member_id="m"), 0
        )

    def be_classic(self) -> None:
        """Use the group as if it were a classic one; delete or convert it if it is empty."""
        if not self.members:
            self.random.choice((self._delete, self._commit_from_outside, self._join_as_classic))()
            return
        if not self._has_a_member():
            # Kafka 4.4 refuses a JoinGroup with an unknown member id, but forgets the empty group
            # then, without tombstones: it is back after a restart.
            return
        member = self.random.choice(self.members).member_id
        name = self.group_id
        self.pair.ask(
            self.random.choice((join(name, member), join(name), join(name, "", "static"))), 9
        )
        self.pair.ask(beat(name, 1, member), 4)
        self.pair.ask(leave(name, member), 5)

    def _has_a_member(self) -> bool:
        """Whether the group is known not to be empty: a session may have ended unnoticed."""
        if not self.present():
            return False
        member = self.somebody()
        return self.beat(member, self.requests.beat(member))

    def leave_as_classic(self) -> None:
        """Leave an empty classic group behind, which the next member converts."""
        assert self.classic is not None
        self.pair.ask(beat(self.group_id, self.classic[1], self.classic[0]), 4)
        self.pair.ask(leave(self.group_id, self.classic[0]), 5)
        self.classic = None

    def _delete(self) -> None:
        self.pair.ask(DeleteGroupsRequest(groups_names=[self.group_id]), 2)

    def _commit_from_outside(self) -> None:
        nobody = Member("", "", self.topology)
        topic = self.random.choice(self.topics)
        self.pair.ask(self.requests.commit(nobody, -1, topic, 1), COMMIT)

    def _join_as_classic(self) -> None:
        """Have one member of the classic protocol convert an empty group."""
        if self.classic is not None:
            return
        name, session_ms = self.group_id, 600_000
        member_id = self.pair.ask(join(name, session_ms=session_ms), 9).member_id
        joined = self.pair.ask(join(name, member_id, session_ms=session_ms), 9)
        self.classic = member_id, joined.generation_id
        self.pair.ask(sync(name, joined.generation_id, member_id, (member_id, b"all")), 5)

    # Helpers

    def _endpoint(self) -> tuple[str, int] | None:
        if not self.has_endpoints or self.random.random() < 0.3:
            return None
        return self.random.choice((("host-1", 8080), ("host-2", 65535)))


def _bad_topologies() -> list[Topology]:
    topic = TopicInfo(name="x-changelog", partitions=3)
    part = Subtopology
    return [
        Topology(
            subtopologies=[part(subtopology_id="0", source_topics=["x"], source_topic_regex=["y"])]
        ),
        Topology(
            subtopologies=[
                part(subtopology_id="0", source_topics=["x"], state_changelog_topics=[topic])
            ]
        ),
        Topology(
            subtopologies=[part(subtopology_id="0", source_topics=["__consumer_offsets", "x"])]
        ),
        Topology(subtopologies=[part(subtopology_id="0", source_topics=["a b", "x", "ü"])]),
    ]
