"""Metrics of the controller and of the metadata quorum."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

from wirekafka.clock import Clock
from wirekafka.controller import ControllerRole
from wirekafka.metadata.image.image import BrokerImage, MetadataImage
from wirekafka.metadata.image.partition_change import RECOVERING
from wirekafka.metrics.exposition import COUNTER, GAUGE, INFO, Column, Table, single
from wirekafka.metrics.histogram import Histogram
from wirekafka.protocol.records import metadata as r
from wirekafka.replication.partition.replica import NO_LEADER
from wirekafka.replication.raft.quorum_log import QuorumLog
from wirekafka.runtime.observation import Committed
from wirekafka.server.peers.peer import PeerTraffic

_TOPICS_PER_STEP = 200
_FENCED, _SHUTTING_DOWN, _ACTIVE = 10, 20, 30
"""Kafka's numbers of the states of a registration (KIP-1131)."""
_WINDOW_S = 30.0
"""Kafka computes rates over this time."""


class ControllerCollector:
    """The controller in this process: the active one, or a standby."""

    def __init__(self, controller: ControllerRole, failed: Callable[[Exception], None]):
        """`failed` is called when the metadata can no longer be followed."""
        self._controller = controller
        self._has_static_voters = bool(controller.parts.config.controller_quorum_voters)
        self._unclean = self._elected_eligible = 0
        self._eligible: dict[tuple[bytes, int], list[int]] = {}
        """The eligible leader replicas of partitions that have any (KIP-966)."""
        self._generation = -1
        prefix = "kafka_controller_kafkacontroller"
        self._table = Table(
            [],
            [
                *_election_columns(),
                *(
                    Column(f"{prefix}_{name}", GAUGE, text)
                    for name, text in (
                        ("activecontrollercount", "1 on the active controller."),
                        ("lastcommittedrecordoffset", "The last committed metadata offset."),
                        ("lastappliedrecordoffset", "The last metadata offset that was applied."),
                        (
                            "ignoredstaticvoters",
                            "1 if controller.quorum.voters is set, but the log has the voters.",
                        ),
                        ("metadataerrorcount", "Always 0: an error stops the controller."),
                    )
                ),
            ],
        )
        self._counts = Table(
            [],
            [
                Column(f"{prefix}_{name}", GAUGE, text)
                for name, text in (
                    ("activebrokercount", "Brokers in service."),
                    ("fencedbrokercount", "Brokers that are registered but fenced."),
                    ("controlledshutdownbrokercount", "Brokers that hand over before they stop."),
                    ("globaltopiccount", "Topics of the cluster."),
                    ("globalpartitioncount", "Partitions of the cluster."),
                    ("offlinepartitionscount", "Partitions without a leader."),
                    (
                        "preferredreplicaimbalancecount",
                        "Partitions whose leader is not the first of their replicas.",
                    ),
                )
            ],
        )
        self._registrations = single(
            f"{prefix}_brokerregistrationstate",
            GAUGE,
            "10 for a fenced broker, 20 for one in controlled shutdown, 30 for one in service.",
            "broker",
        )
        self.tables = (self._table, self._counts, self._registrations)
        controller.quorum.observe(self._follow, failed)

    def collect(self) -> Iterator[None]:
        quorum, image = self._controller.quorum, self._controller.committed_image
        committed = quorum.committed_offset - 1
        is_active = int(self._controller.is_active)
        elections = (self._unclean, self._elected_eligible)
        ignored = int(quorum.voters_offset is not None and self._has_static_voters)
        self._table.fill([((), (*elections, is_active, committed, committed, ignored, 0))])
        if image.generation != self._generation:
            generation = image.generation
            self._counts.begin()
            yield from self._count(image)
            self._generation = generation

    def _count(self, image: MetadataImage) -> Iterator[None]:
        topics = list(image.topics.values())
        partitions = offline = imbalanced = 0
        for number, topic in enumerate(topics):
            for partition in list(topic.partitions.values()):
                partitions += 1
                offline += partition.leader == NO_LEADER
                imbalanced += partition.leader != partition.replicas[0]
            if number % _TOPICS_PER_STEP == _TOPICS_PER_STEP - 1:
                yield
        states = {broker.id: _registration_state(broker) for broker in image.brokers.values()}
        self._registrations.fill(((str(id),), (state,)) for id, state in sorted(states.items()))
        live = len(image.live_brokers())
        fenced = len(image.brokers) - live
        stopping = sum(state == _SHUTTING_DOWN for state in states.values())
        counted = (live, fenced, stopping, len(topics), partitions, offline, imbalanced)
        self._counts.put((), counted)

    def _follow(self, committed: Committed) -> None:
        if committed.is_snapshot:
            self._eligible.clear()
        for record in committed.records:
            match record:
                case r.PartitionChangeRecord():
                    if not committed.is_snapshot:
                        self._count_election(record)
                    self._note_eligible(record)
                case r.PartitionRecord():
                    self._note_eligible(record)
                case r.RemoveTopicRecord():
                    self._forget_eligible(record.topic_id)
                case r.ClearElrRecord(topic_name=name) if name:
                    topic = self._controller.committed_image.topics.get(name)
                    if topic is not None:
                        self._forget_eligible(topic.id)
                case r.ClearElrRecord():
                    self._eligible.clear()

    def _count_election(self, record: r.PartitionChangeRecord) -> None:
        self._unclean += record.leader_recovery_state == RECOVERING
        eligible = self._eligible.get((record.topic_id, record.partition_id), ())
        self._elected_eligible += record.leader in eligible

    def _forget_eligible(self, topic_id: bytes) -> None:
        for key in [key for key in self._eligible if key[0] == topic_id]:
            del self._eligible[key]

    def _note_eligible(self, record: r.PartitionRecord | r.PartitionChangeRecord) -> None:
        key = (record.topic_id, record.partition_id)
        eligible = record.eligible_leader_replicas
        if eligible:
            self._eligible[key] = eligible
        elif eligible is not None:
            self._eligible.pop(key, None)


def _election_columns() -> list[Column]:
    return [
        Column(
            "kafka_controller_controllerstats_uncleanleaderelections_total",
            COUNTER,
            "Unclean elections since the start of this controller.",
        ),
        Column(
            "kafka_controller_controllerstats_electionfromeligibleleaderreplicas_total",
            COUNTER,
            "Elections of a replica that had left the ISR with all committed records.",
        ),
    ]


def _registration_state(broker: BrokerImage) -> int:
    if broker.fenced:
        return _FENCED
    return _SHUTTING_DOWN if broker.registration.in_controlled_shutdown else _ACTIVE


class QuorumCollector:
    """The metadata log and its quorum, as this node knows them."""

    def __init__(
        self,
        log: QuorumLog,
        controller: ControllerRole | None,
        clock: Clock,
        flushes: Histogram,
        image: Callable[[], MetadataImage],
        *,
        traffic: PeerTraffic,
    ):
        """Observe the quorum, and the controller in this process, if any.

        `flushes` are the flushes of the controller's log. `traffic` counts this node's requests, as
        a client, to other nodes of the quorum.
        """
        self._traffic = traffic
        self._image = image
        self._log = log
        self._controller = controller
        self._clock = clock
        self._flushes = flushes
        self._appended: deque[tuple[float, int]] = deque()
        prefix = "kafka_server_raftmetrics"
        self._state = single(
            f"{prefix}_current_state",
            INFO,
            "1 for the state that this node has in the quorum.",
            "current_state",
        )
        self._table = Table([], _raft_columns(prefix))
        channel = "kafka_server_raftchannelmetrics"
        self._channel = Table(
            [],
            [
                Column(f"{channel}_{name}_total", COUNTER, text)
                for name, text in (
                    ("incoming_byte", "Bytes of responses of the quorum."),
                    ("outgoing_byte", "Bytes of requests to the quorum."),
                    ("request", "Requests to other nodes of the quorum."),
                    ("response", "Responses of other nodes of the quorum."),
                )
            ],
        )
        loader = "kafka_server_metadataloader"
        self._loader = Table(
            [],
            [
                Column(f"{loader}_currentcontrollerid", GAUGE, "The active controller, or -1."),
                Column(f"{loader}_currentmetadataversion", GAUGE, "The level of metadata.version."),
            ],
        )
        self.tables = (self._state, self._table, self._channel, self._loader)

    def collect(self) -> Iterator[None]:
        log, controller = self._log, self._controller
        leads = controller is not None and controller.raft.is_leader
        rate = self._rate(log.end_offset, self._clock.work_ns() / 1e9)
        self._state.fill([((controller.raft.role if controller else "observer",), (1,))])
        latency_ms = self._flushes.recent_mean() / 1000
        values = (
            log.leader_id,
            self._vote(),
            log.epoch,
            log.committed_offset,
            log.end_offset,
            rate if leads else 0.0,
            0.0 if leads else rate,
            log.last_epoch,
            len(log.voters),
            self._observers() if leads else None,
            self._has_uncommitted_voters() if leads else None,
            latency_ms if leads else None,
        )
        self._table.fill([((), values)])
        self._loader.fill([((), (log.leader_id, self._image().metadata_version))])
        # As in Kafka, what others request of this node is not counted here.
        sent = self._traffic
        exchanged = (sent.response_bytes, sent.request_bytes, sent.requests, sent.responses)
        self._channel.fill([((), exchanged)])
        yield

    def _observers(self) -> int:
        assert self._controller is not None
        return len(self._controller.raft.describe(self._clock.now_ms()).observers)

    def _has_uncommitted_voters(self) -> int:
        offset = self._log.voters_offset
        return int(offset is not None and offset >= self._log.committed_offset)

    def _vote(self) -> int:
        controller = self._controller
        if controller is None:
            return NO_LEADER
        # As in Kafka, a leader is its own vote, also where it had to ask nobody.
        return controller.node_id if controller.raft.is_leader else controller.raft.voted_id

    def _rate(self, end_offset: int, now_s: float) -> float:
        """Records per second over the last 30 s of scrapes."""
        seen = self._appended
        seen.append((now_s, end_offset))
        while len(seen) > 2 and seen[0][0] < now_s - _WINDOW_S:
            seen.popleft()
        (first_s, first), (last_s, last) = seen[0], seen[-1]
        return (last - first) / (last_s - first_s) if last_s > first_s else 0.0


def _raft_columns(prefix: str) -> list[Column]:
    return [
        Column(f"{prefix}_{name}", GAUGE, text)
        for name, text in (
            ("current_leader", "The id of the leader; -1 if it is unknown."),
            (
                "current_vote",
                "The id that this node has voted for, or its own if it leads; -1 for none.",
            ),
            ("current_epoch", "The epoch of the quorum."),
            ("high_watermark", "The offset up to which metadata is committed."),
            ("log_end_offset", "The end of the metadata log here."),
            ("append_records_rate", "Records that the leader appended, per second."),
            ("fetch_records_rate", "Records that an observer fetched, per second."),
            ("log_end_epoch", "The epoch of the last record here."),
            ("number_of_voters", "The voters of the quorum."),
            ("number_of_observers", "Observers that fetch, on the leader."),
            (
                "uncommitted_voter_change",
                "1 while a change of the voters is not committed, on the leader.",
            ),
            ("commit_latency_avg", "The mean time of a commit in ms, of the last minutes."),
        )
    ]
