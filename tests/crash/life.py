"""A short workload that makes a broker write every kind of file, on a simulated disk."""

from __future__ import annotations

from random import Random
from typing import Any

from tests import share_state_topic
from tests.crash import streams
from tests.crash.disk import SitedDisk
from tests.crash.observed import Observed, ObservedTransaction, Place, Sent
from tests.in_process import InProcessBroker, now
from tests.log.cleaning import clean
from tests.manual_clock import ManualClock
from wirekafka.codec.record import BatchOptions, Record, encode_batch
from wirekafka.coordinator.groups.commands import AssignorChoice, Join, Sync
from wirekafka.coordinator.share_state.states import (
    DeliveryState,
    ShareKey,
    StateBatch,
    StateInitialization,
    StateWrite,
    coordinator_key,
)
from wirekafka.log.files import Disk
from wirekafka.metadata.image.framing import MetadataCodec
from wirekafka.protocol.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from wirekafka.protocol.create_topics import CreateTopicsRequest
from wirekafka.protocol.delete_records import DeleteRecordsRequest
from wirekafka.protocol.delete_topics import DeleteTopicsRequest
from wirekafka.protocol.end_txn import EndTxnRequest
from wirekafka.protocol.find_coordinator import FindCoordinatorRequest
from wirekafka.protocol.incremental_alter_configs import IncrementalAlterConfigsRequest
from wirekafka.protocol.init_producer_id import InitProducerIdRequest
from wirekafka.protocol.offset_commit import OffsetCommitRequest
from wirekafka.protocol.produce import ProduceRequest
from wirekafka.protocol.txn_offset_commit import TxnOffsetCommitRequest

SETTINGS = {
    **share_state_topic.settings(),
    "share.coordinator.snapshot.update.records.per.snapshot": "2",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.max.session.timeout.ms": "2000000",
    "group.consumer.session.timeout.ms": "1000000",
    **streams.SETTINGS,
}
SYNCED = {"log.flush.interval.messages": "1"}
_SMALL_SEGMENTS = {"segment.index.bytes": "60", "index.interval.bytes": "150"}
TOPICS: dict[str, tuple[int, dict[str, str]]] = {
    "orders": (2, {**_SMALL_SEGMENTS, "retention.bytes": "1500"}),
    "ledger": (2, _SMALL_SEGMENTS),
    "facts": (1, {**_SMALL_SEGMENTS, "cleanup.policy": "compact"}),
}
DOOMED = "doomed"
TIMEOUT_MS = 20_000
MEMBERS, COPIES, WORKERS, ASSIGNED = "members", "copies", "workers", "assigned"
ASSIGNED_TOPIC = "orders"
SHARERS = "sharers"
_SHARE_KEY = coordinator_key(ShareKey(SHARERS, bytes(16), 0))


class Node(InProcessBroker):
    """A node on a simulated disk."""

    def __init__(self, disk: Disk, clock: ManualClock, seed: int, *, syncs: bool):
        ids = Random(f"ids {seed} {clock.now_ms()}")
        super().__init__(
            "/data",
            clock,
            disk=disk,
            new_id=lambda: ids.randbytes(16),
            **SETTINGS | (SYNCED if syncs else {}),
        )
        clock.advance(1)  # Run the tasks that loading has scheduled.

    def ask(self, request: Any, version: int) -> Any:
        return self.call(request, version, "life")

    def produce(self, batch: bytes, place: Place, transactional_id: str | None = None) -> Any:
        """The response for one batch."""
        kind = ProduceRequest.TopicProduceData
        data = kind.PartitionProduceData(index=place[1], records=batch)
        answer = self.ask(
            ProduceRequest(
                transactional_id=transactional_id,
                acks=-1,
                timeout_ms=1000,
                topic_data=[kind(name=place[0], partition_data=[data])],
            ),
            12,
        )
        return answer.responses[0].partition_responses[0]


class Life:
    """A workload; `observed` has what clients observed, and `run` may end with a Crash."""

    def __init__(self, disk: SitedDisk, seed: int, *, syncs: bool):
        self.observed = Observed()
        self._disk = disk
        self._seed = seed
        self._syncs = syncs
        self._random = Random(f"life {seed}")
        self._clock = ManualClock()
        self._producer = (-1, -1)
        self._transactional = (-1, -1)
        self._member_id = ""
        self._joined = 0
        self._application = streams.StreamsApplication(self.observed, self._random)
        self._sequences: dict[tuple[tuple[int, int], Place], int] = {}

    def run(self) -> None:
        """Run the workload: a start on an empty disk, a stop, and a second start."""
        self._start()
        for name, (partitions, configs) in TOPICS.items():
            self._create(name, partitions, configs)
        self._create(DOOMED, 1, {})
        self._find_coordinators()
        self._begin_producers()
        for round_ in range(3):
            self._work(3)
            if round_ == 1:
                self._sync()
        self._age()
        self._delete_doomed()
        self._work(2)
        self._stop()
        self._start()
        self._work(3)
        self._sync()
        self._work(2)

    # Steps

    def _start(self) -> None:
        with self._disk.step("start"):
            self.node = Node(self._disk, self._clock, self._seed, syncs=self._syncs)

    def _stop(self) -> None:
        with self._disk.step("stop"):
            self.node.stop()
            self._note_synced()

    def _create(self, name: str, partitions: int, configs: dict[str, str]) -> None:
        kind = CreateTopicsRequest.CreatableTopic
        self.observed.topics[name].request(True)
        with self._disk.step("create topic"):
            answer = self.node.ask(
                CreateTopicsRequest(
                    topics=[
                        kind(
                            name=name,
                            num_partitions=partitions,
                            replication_factor=1,
                            configs=[
                                kind.CreatableTopicConfig(name=key, value=value)
                                for key, value in configs.items()
                            ],
                        )
                    ]
                ),
                7,
            )
            assert answer.topics[0].error_code == 0, answer
            self.observed.topics[name].confirm()

    def _find_coordinators(self) -> None:
        with self._disk.step("create internal topics"):
            for key_type in (0, 1):
                self.node.ask(FindCoordinatorRequest(key_type=key_type, coordinator_keys=["x"]), 4)
            self.node.ask(FindCoordinatorRequest(key_type=2, coordinator_keys=[_SHARE_KEY]), 6)
            self.share_key = ShareKey(SHARERS, self.node.broker.image.topics["orders"].id, 0)
            state = StateInitialization(self.share_key, 0, 0)
            assert now(self.node.broker.share_coordinator.submit_all([state])) == [None]
            self.observed.share_start.request(0)
            self.observed.share_start.confirm()

    def _begin_producers(self) -> None:
        with self._disk.step("producer id"):
            self._producer = self._new_producer(None)
        with self._disk.step("begin transactional"):
            self._transactional = self._new_producer("tx")

    def _new_producer(self, transactional_id: str | None) -> tuple[int, int]:
        answer = self.node.ask(
            InitProducerIdRequest(
                transactional_id=transactional_id, transaction_timeout_ms=TIMEOUT_MS
            ),
            5,
        )
        assert answer.error_code == 0, answer
        self.observed.producer_ids.add(answer.producer_id)
        return answer.producer_id, answer.producer_epoch

    def _work(self, times: int) -> None:
        for _ in range(times):
            for _ in range(4):
                self._write(("orders", self._random.randint(0, 1)))
                self._write(("facts", 0))
            self._transaction()
            self._commit_offset()
            self._configure()
            self._join()
            self._join_assigned()
            self._run_application()
            self._share()

    def _write(self, place: Place, transaction: int = -1) -> None:
        producer = self._producer if transaction < 0 else self._transactional
        sent = self._new_batch(place, producer, transaction)
        with self._disk.step("produce in transaction" if transaction >= 0 else "produce"):
            answer = self.node.produce(sent.batch, place, None if transaction < 0 else "tx")
            assert (answer.error_code, answer.base_offset) == (0, sent.offset), answer
            self.observed.acknowledged_end[place] = sent.offset + 1

    def _new_batch(self, place: Place, producer: tuple[int, int], transaction: int) -> Sent:
        random, sent = self._random, self.observed.sent[place]
        key = b"%d" % random.randint(0, 4)
        value = (
            None
            if random.random() < 0.1
            else b"%s %d" % (random.randbytes(random.randint(1, 20)).hex().encode(), len(sent))
        )
        sequence = self._sequences.get((producer, place), 0)
        self._sequences[producer, place] = sequence + 1
        batch = encode_batch(
            [Record(0, self._clock.now_ms(), key, value, ())],
            options=BatchOptions(
                producer_id=producer[0],
                producer_epoch=producer[1],
                base_sequence=sequence,
                is_transactional=transaction >= 0,
            ),
        )
        offset = self.node.broker.partitions[place].log.end_offset
        sent.append(Sent(offset, bytes(batch), key, value, transaction, producer))
        return sent[-1]

    def _transaction(self) -> None:
        transaction = ObservedTransaction(len(self.observed.transactions) + 1)
        number = len(self.observed.transactions)
        self.observed.transactions.append(transaction)
        for index in (0, 1):
            self._write(("ledger", index), number)
        kind = TxnOffsetCommitRequest.Topic
        identity = {"producer_id": self._transactional[0], "producer_epoch": self._transactional[1]}
        with self._disk.step("commit offsets in transaction"):
            answer = self.node.ask(
                TxnOffsetCommitRequest(
                    transactional_id="tx",
                    group_id=COPIES,
                    **identity,
                    topics=[
                        kind(
                            name="orders",
                            partitions=[
                                kind.Partition(
                                    partition_index=0, committed_offset=transaction.offset
                                )
                            ],
                        )
                    ],
                ),
                5,
            )
            assert answer.topics[0].partitions[0].error_code == 0, answer
        transaction.commits = self._random.random() < 0.6
        with self._disk.step("end transaction"):
            answer = self.node.ask(
                EndTxnRequest(transactional_id="tx", committed=transaction.commits, **identity), 5
            )
            assert answer.error_code == 0, answer
            transaction.is_confirmed = True
        self._transactional = answer.producer_id, answer.producer_epoch
        for index in (0, 1):
            place = "ledger", index
            # The response also confirms that the markers are written.
            self.observed.acknowledged_end[place] = self.node.broker.partitions[
                place
            ].log.end_offset

    def _commit_offset(self) -> None:
        kind = OffsetCommitRequest.Topic
        offset = self._random.randint(1, 1 << 30)
        self.observed.group_offset.request(offset)
        with self._disk.step("commit offsets"):
            answer = self.node.ask(
                OffsetCommitRequest(
                    group_id=WORKERS,
                    generation_id_or_member_epoch=-1,
                    member_id="",
                    topics=[
                        kind(
                            name="orders",
                            partitions=[kind.Partition(partition_index=1, committed_offset=offset)],
                        )
                    ],
                ),
                8,
            )
            assert answer.topics[0].partitions[0].error_code == 0, answer
            self.observed.group_offset.confirm()

    def _join(self) -> None:
        shard = self.node.broker.groups.shard_for(MEMBERS)
        with self._disk.step("join group"):
            ticket = shard.post(
                Join(
                    group_id=MEMBERS,
                    member_id=self._member_id,
                    protocol_type="consumer",
                    protocols=(AssignorChoice("even", self._random.randbytes(4)),),
                    session_timeout_ms=1_000_000,
                    rebalance_timeout_ms=5_000,
                    fresh_id="id",
                )
            )
            self._clock.advance(1)
            joined = ticket.result()
            self._member_id = joined.member_id
            self.observed.generation.request(joined.generation_id)
            ticket = shard.post(
                Sync(
                    group_id=MEMBERS,
                    generation_id=joined.generation_id,
                    member_id=joined.member_id,
                    assignments={joined.member_id: b"all"},
                )
            )
            ticket.result()
            self.observed.generation.confirm()

    def _join_assigned(self) -> None:
        """Let one more member into a group whose partitions the broker assigns, or one fewer."""
        members = self.observed.assigned_members
        joins = len(members) < 2 or self._random.random() < 0.5
        member_id = f"member-{self._joined}" if joins else self._random.choice(sorted(members))
        self._joined += joins
        self.observed.assigned.request(members | {member_id} if joins else members - {member_id})
        with self._disk.step("heartbeat of consumer group"):
            answer = self.node.ask(
                ConsumerGroupHeartbeatRequest(
                    group_id=ASSIGNED,
                    member_id=member_id,
                    member_epoch=0 if joins else -1,
                    rebalance_timeout_ms=1_000_000,
                    subscribed_topic_names=[ASSIGNED_TOPIC],
                    topic_partitions=[],
                ),
                1,
            )
            assert answer.error_code == 0, answer
            self.observed.assigned.confirm()

    def _run_application(self) -> None:
        with self._disk.step("heartbeats of streams group"):
            self._application.step(self.node)

    def _share(self) -> None:
        start_offset = self.observed.share_start.confirmed + 1
        self.observed.share_start.request(start_offset)
        batch = StateBatch(start_offset, start_offset + 5, DeliveryState.ACKNOWLEDGED, 1)
        write = StateWrite(self.share_key, 0, 0, start_offset, batches=(batch,))
        with self._disk.step("share state"):
            assert now(self.node.broker.share_coordinator.submit_all([write])) == [None]
            self.observed.share_start.confirm()

    def _configure(self) -> None:
        kind = IncrementalAlterConfigsRequest.AlterConfigsResource
        value = str(self._random.randint(1400, 1600))
        self.observed.retention.request(value)
        with self._disk.step("configure"):
            answer = self.node.ask(
                IncrementalAlterConfigsRequest(
                    resources=[
                        kind(
                            resource_type=2,
                            resource_name="orders",
                            configs=[
                                kind.AlterableConfig(
                                    name="retention.bytes", config_operation=0, value=value
                                )
                            ],
                        )
                    ]
                ),
                1,
            )
            assert answer.responses[0].error_code == 0, answer
            self.observed.retention.confirm()

    def _sync(self) -> None:
        broker = self.node.broker
        with self._disk.step("sync"):
            for directory in broker.directories:
                directory.flush()
            self._note_synced()
            for directory in broker.directories:
                directory.checkpoint(broker.high_watermarks())

    def _note_synced(self) -> None:
        for place, partition in self.node.broker.partitions.items():
            self.observed.synced_end[place] = partition.log.end_offset

    def _age(self) -> None:
        """Compaction, deletion of records, retention, and a snapshot of the metadata."""
        self._clean()
        self._delete_records()
        self._retain()
        broker = self.node.broker
        with self._disk.step("snapshot"):
            broker.quorum.write_snapshot(broker.image.snapshot(), MetadataCodec())

    def _clean(self) -> None:
        broker, place = self.node.broker, ("facts", 0)
        log, directory = broker.partitions[place].log, broker.directory_of(*place)
        with self._disk.step("clean"):
            log.roll(self._clock.now_ms())
            log.flush()
            cleaned = clean(self._disk, log, None, self._clock.now_ms())
            assert cleaned is not None
            directory.cleaner_offsets[place] = cleaned
            directory.write_cleaner_offsets()
            log.delete_retired(self._clock.now_ms() + 60_000)

    def _delete_records(self) -> None:
        place = "ledger", 0
        middle = self.observed.started[place] = self.observed.sent[place][5].offset
        kind = DeleteRecordsRequest.Topic
        with self._disk.step("delete records"):
            self.node.ask(
                DeleteRecordsRequest(
                    topics=[
                        kind(
                            name="ledger",
                            partitions=[kind.Partition(partition_index=0, offset=middle)],
                        )
                    ]
                ),
                2,
            )
            directory = self.node.broker.directories[0]
            directory.checkpoint(self.node.broker.high_watermarks())

    def _retain(self) -> None:
        broker, now_ms = self.node.broker, self._clock.now_ms()
        for place, partition in broker.partitions.items():
            if place[0] in ("orders", "ledger"):
                log = partition.log
                with self._disk.step("retain"):
                    if place[0] == "orders":
                        self.observed.started[place] = log.segments.active.base_offset
                    log.delete_old_segments(now_ms, partition.high_watermark)
                    log.delete_retired(now_ms + 60_000)

    def _delete_doomed(self) -> None:
        self.observed.topics[DOOMED].request(False)
        kind = DeleteTopicsRequest.DeleteTopicState
        with self._disk.step("delete topic"):
            answer = self.node.ask(
                DeleteTopicsRequest(topics=[kind(name=DOOMED)], timeout_ms=1000), 6
            )
            assert answer.responses[0].error_code == 0, answer
            self.observed.topics[DOOMED].confirm()
            self._clock.advance(60_001)
            for directory in self.node.broker.directories:
                directory.remove_deleted(self._clock.now_ms())
