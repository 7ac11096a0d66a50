"""The leader role of a mirror: clients read it, and only another cluster's batches are appended."""

from __future__ import annotations

from wirekafka.codec.batch import BatchHeader
from wirekafka.errors import Error, KafkaError
from wirekafka.log.append import Appended, Checked
from wirekafka.log.verification import CoordinatorWrite
from wirekafka.replication.partition.follower import PartitionResponse, ReplicaFollower
from wirekafka.replication.partition.leader import Leader
from wirekafka.runtime.replicated_log import Buffer


class MirrorLeader(Leader):
    """The operations of a replica that leads a mirrored partition.

    Its log is a follower's of the other cluster: batches keep their offsets and leader epochs. The
    leader epoch of this cluster is above these, and begins nowhere in the log.
    """

    __slots__ = ()

    def begin_epoch(self, leader_epoch: int) -> None:
        """Start a leader epoch, of which the log gets no record: it has the source's epochs."""
        replica = self._replica
        self.led_since_epoch = leader_epoch
        self.epoch_start_offset = replica.log.end_offset
        self._follow_assignment()

    def check_writable(self) -> None:
        """Raise POLICY_VIOLATION: until the topic is promoted, it is as its source.

        Kafka has no error for a read-only topic. Clients do not retry after this one, and show the
        message.
        """
        topic = self._replica.topic
        message = f"{topic} is a read-only mirror until `wirekafka mirror promote {topic}`"
        raise KafkaError(Error.POLICY_VIOLATION, message)

    def append_mirrored(self, response: PartitionResponse, now_ms: int) -> None:
        """Append batches of the source, unchanged, and take over its offsets.

        Batches of a leader epoch above the present one are left out. Raises KafkaError as
        `Log.append_as_follower`, with nothing appended.
        """
        ReplicaFollower(self._replica).apply(response, now_ms)

    def return_to_range(self, start_offset: int, end_offset: int, now_ms: int) -> None:
        """As `ReplicaFollower.return_to_range`."""
        ReplicaFollower(self._replica).return_to_range(start_offset, end_offset, now_ms)

    def append_from_client(
        self,
        records: Buffer,
        required_acks: int,
        now_ms: int,
        guard: object | None = None,
        *,
        ahead: Checked | None = None,
    ) -> Appended:
        """Raise KafkaError as `check_writable`."""
        self.check_writable()
        raise AssertionError("it is never writable")

    def append_valid(self, records: Buffer, required_acks: int, now_ms: int) -> Appended | None:
        """Return None: `append_from_client` raises the error."""
        return None

    def append_from_coordinator(self, records: Buffer) -> Appended:
        """Raise KafkaError as `check_writable`."""
        self.check_writable()
        raise AssertionError("it is never writable")

    def append_marker(self, batch: Buffer, transaction_version: int) -> Appended:
        """Raise KafkaError as `check_writable`."""
        self.check_writable()
        raise AssertionError("it is never writable")

    def begin_verification(
        self, header: BatchHeader | CoordinatorWrite, *, supports_epoch_bump: bool
    ) -> object | None:
        """Return None: no transaction has to be verified for a batch that is refused."""
        return None
