"""Each operation of the disk fails for a while, with each errno, for each kind of file.

Afterwards all is served again without a restart, or the directory is out of service and the node
stops: it is never alive, ready and refusing.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from contextlib import suppress

import pytest

from tests.apis.group_requests import commit_request
from tests.apis.test_fetch import fetch_request, only
from tests.crash.failing_disk import OPERATIONS, FailingDisk, Failure
from tests.in_process import InProcessBroker, batch, now
from tests.manual_clock import ManualClock
from tests.repetitions import repetitions
from wirekafka.codec.message import Request
from wirekafka.errors import Error, KafkaError
from wirekafka.log.directories.log_directory import UnusableDirectory
from wirekafka.metadata.controller.topics import DeleteTopics, TopicReference
from wirekafka.protocol.delete_records import DeleteRecordsRequest
from wirekafka.protocol.init_producer_id import InitProducerIdRequest
from wirekafka.protocol.produce import ProduceRequest
from wirekafka.server.background.housekeeping import Housekeeping

PASSING = (
    errno.EMFILE,
    errno.ENFILE,
    errno.ENOMEM,
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EINTR,
    errno.EAGAIN,
)
FATAL = errno.EIO, errno.EROFS, errno.EACCES, errno.ESTALE
FILES = (
    "__cluster_metadata-0",
    "__cluster_metadata-0/0",
    "__consumer_offsets-0",
    "__transaction_state-0",
    "/t-0",
    "/t-0/0",
    "/new",
    "recovery-point-offset-checkpoint",
    "log-start-offset-checkpoint",
    "replication-offset-checkpoint",
    "leader-epoch-checkpoint",
    "partition.metadata",
    ".index",
    ".timeindex",
    ".snapshot",
    ".checkpoint",
)
"""Parts of paths: those of the logs, and of each kind of small file."""
SETTINGS = {
    "offsets_topic_num_partitions": "1",
    "offsets_topic_replication_factor": "1",
    "transaction_state_log_num_partitions": "1",
    "transaction_state_log_replication_factor": "1",
    "transaction_state_log_min_isr": "1",
    "metadata_log_max_record_bytes_between_snapshots": "1",
    "log_flush_interval_messages": "1",
}
STEP = repetitions("WIREKAFKA_ERRORS_STEP", usual=3, thorough=1)
"""Each operation fails in one case of so many, and another operation in the next case."""
CASES = [
    *(("", code) for code in (*PASSING, *FATAL)),
    *((where, code) for where in FILES for code in (errno.EMFILE, errno.EIO)),
]
"""A part of the paths that fail, and the errno."""
_SERVED_WITHIN_MS = 5_000


class Life:
    """A node, what its clients do, and what was acknowledged to them."""

    def __init__(self) -> None:
        self.disk = FailingDisk()
        self.clock = ManualClock()
        self.kafka = InProcessBroker("/data", self.clock, disk=self.disk, **SETTINGS)
        self.keeping = Housekeeping(self.kafka.broker, self.kafka.node.listeners)
        self.acknowledged = 0
        self.refusals: list[str] = []
        """What clients got, which must not have a path of this machine."""
        self._serial = 0
        for topic in ("t", "new0", "__consumer_offsets", "__transaction_state"):
            self.kafka.create(topic)
        self._topics = 0
        self.use()
        self.check_served()

    def use(self) -> None:
        """Do what clients do, and the periodic tasks; whatever is refused is left out."""
        self._topics += 1
        name = f"new{self._topics}"
        steps: list[Callable[[], object]] = [
            self.produce,
            lambda: self.kafka.create(name, 2),
            lambda: self.produce(name),
            self.commit,
            self.begin_transaction,
            self.delete_records,
            self.fetch,
            lambda: self.kafka.partition("t").log.roll(self.clock.now_ms()),
            self.produce,
            self.delete_topic,
            self.keep_house,
        ]
        for step in steps:
            with suppress(OSError, UnusableDirectory, AssertionError, KeyError):
                try:
                    step()
                except KafkaError as error:
                    self.refusals.append(str(error))
            self.clock.advance(10)

    def keep_house(self) -> None:
        keeping = self.keeping
        self.clock.advance(70_000)
        for task in (
            keeping._remove_deleted,
            keeping._snapshot_metadata,
            keeping._retain,
            keeping._checkpoint,
            keeping._check_space,
        ):
            with suppress(KafkaError, OSError):
                task()

    def answer(self, request: Request, version: int) -> object:
        """The response, once there is one."""
        exchange = self.kafka.begin(request, version)
        self.clock.advance(1_000)
        assert exchange.is_done and exchange.response is not None, "no response"
        self.refusals.append(repr(exchange.response))
        return exchange.response

    def produce(self, topic: str = "t") -> None:
        kind = ProduceRequest.TopicProduceData
        self._serial += 1
        data = kind.PartitionProduceData(index=0, records=batch(b"%d" % self._serial))
        sent = kind(name=topic, partition_data=[data])
        request = ProduceRequest(acks=-1, timeout_ms=500, topic_data=[sent])
        [[result]] = [each.partition_responses for each in self.answer(request, 9).responses]
        check(result.error_code)
        if topic == "t":
            self.acknowledged = result.base_offset + 1

    def fetch(self) -> None:
        found = only(self.answer(fetch_request(("t", 0, self.acknowledged - 1)), 11))
        check(found.error_code)
        assert found.records, "acknowledged records are not served"

    def commit(self) -> None:
        [topic] = self.answer(commit_request(("t", 0, 1)), 5).topics
        check(topic.partitions[0].error_code)

    def begin_transaction(self) -> None:
        request = InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=60_000)
        check(self.answer(request, 3).error_code)

    def delete_records(self) -> None:
        kind = DeleteRecordsRequest.Topic
        place = kind.Partition(partition_index=0, offset=max(self.acknowledged - 1, 0))
        request = DeleteRecordsRequest(topics=[kind(name="t", partitions=[place])], timeout_ms=500)
        [topic] = self.answer(request, 2).topics
        check(topic.partitions[0].error_code)

    def delete_topic(self) -> None:
        old = TopicReference(name=f"new{self._topics - 1}")
        now(self.kafka.broker.controller.submit(DeleteTopics([old])))

    def check_served(self) -> None:
        """AssertionError, KafkaError unless all works."""
        kafka = self.kafka
        assert kafka.broker.metadata.lagging == 0, "metadata is not applied to all partitions"
        self._topics += 1
        kafka.create(f"new{self._topics}")
        for topic in kafka.broker.image.topics:
            if not topic.startswith("__"):
                self.produce(topic)
        self.fetch()
        self.commit()
        self.begin_transaction()
        self.delete_records()
        self.keeping._checkpoint()
        self.keeping._snapshot_metadata()
        kafka.partition("t").log.roll(self.clock.now_ms())
        self.produce()

    @property
    def has_stopped(self) -> bool:
        return self.kafka.node.failure is not None


def check(code: int) -> None:
    if code:
        raise KafkaError(Error.of(code))


@pytest.mark.parametrize("operation", OPERATIONS)
def test_all_is_served_again_or_the_node_stops(operation: str) -> None:
    life, failed = Life(), 0
    asked: set[str] = set()
    for where, code in CASES[OPERATIONS.index(operation) % STEP :: STEP]:
        if not any(where in path for path in asked) and where:
            continue  # The operation is not used on such files.
        failure = Failure(operation, where, code)
        with life.disk.failing(failure):
            life.use()
        has_failed, life.disk.failed = life.disk.failed > 0, 0
        failed += has_failed
        asked |= life.disk.asked
        life.clock.advance(_SERVED_WITHIN_MS)
        try:
            assert not has_failed or operation != "sync" or life.has_stopped, "it goes on"
            if not life.has_stopped:
                life.check_served()
        except (AssertionError, KafkaError, KeyError, OSError) as error:
            raise AssertionError(f"{failure}: {error}") from error
        assert not [text for text in life.refusals if "/data" in text], life.refusals
        if life.has_stopped:
            assert has_failed
            life = Life()
    assert failed, "it was never asked for"
