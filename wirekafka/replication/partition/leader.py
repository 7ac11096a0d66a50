"""The leader role: appends, followers' positions, the ISR, and the high watermark."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import replace

from wirekafka.codec.batch import BatchHeader
from wirekafka.errors import Error, KafkaError
from wirekafka.log.append import Append, Appended, Checked, Origin, TakesLong
from wirekafka.log.conversion import is_recompressed
from wirekafka.log.log import Log
from wirekafka.log.verification import CoordinatorWrite, Verifications
from wirekafka.protocol.records.control import Marker, encode_marker
from wirekafka.replication.partition.remote_replica import (
    FetchTimes,
    IsrChange,
    IsrMember,
    RemoteReplica,
)
from wirekafka.replication.partition.replica import NO_EPOCH, Replica
from wirekafka.runtime.replicated_log import Buffer

logger = logging.getLogger(__name__)

_ALL_ACKS = -1
_NEVER_FLUSHED = (1 << 63) - 1
_NO_FOLLOWERS: dict[int, RemoteReplica] = {}


class Leader:
    """The operations of a replica while it leads.

    Get it from `Partition.leading` each time: it is invalid once the role changes. The controller's
    ISR arrives through `assign`; changes that followers' positions call for are proposed as an
    `IsrChange`.
    """

    __slots__ = (
        "_client_append",
        "_coordinator_append",
        "_followers",
        "_is_alone",
        "_is_sole",
        "_log",
        "_proposed",
        "_recompresses",
        "_replica",
        "epoch_start_offset",
        "lacks_replicas",
        "led_since_epoch",
    )

    def __init__(self, replica: Replica):
        self._replica = replica
        self._log = replica.log
        self._followers = _NO_FOLLOWERS
        # Shared by all appends, to spare an allocation each: the log does not keep them.
        self._client_append = Append(leader_epoch=NO_EPOCH, now_ms=0, defers=True)
        self._coordinator_append = Append(
            leader_epoch=NO_EPOCH, now_ms=0, origin=Origin.COORDINATOR
        )
        self._is_alone = False
        """Whether this is the only replica, so that an append waits for no follower."""
        self._is_sole = False
        """Whether an append is committed at once, for any `acks`."""
        self._proposed: IsrChange | None = None
        self._recompresses = False
        """Whether the topic has a compression of its own."""
        self.epoch_start_offset = 0
        """The end of the log when this leader epoch began."""
        self.led_since_epoch = 0
        """The leader epoch since which no other broker may have led the partition."""
        self.lacks_replicas = False
        """Whether the ISR is smaller than `min.insync.replicas`, or than the replicas if fewer."""

    # Leadership.

    def begin_epoch(self, leader_epoch: int) -> None:
        """Start a leader epoch at the end of the log, before `assign`."""
        if leader_epoch != self._client_append.leader_epoch + 1:
            self.led_since_epoch = leader_epoch  # Epochs in between may have had another leader.
        end_offset = self._log.end_offset
        self._log.epochs.begin(leader_epoch, end_offset)
        self.epoch_start_offset = end_offset
        isr = self._replica.leadership.isr
        now_ms = self._replica.clock.now_ms()
        self._follow_assignment()
        for follower in self._followers.values():
            follower.begin_epoch(end_offset, now_ms, in_sync=follower.broker_id in isr)

    def assign(self) -> None:
        """Take over the replicas and the ISR that the controller decided.

        Ends a proposal that was based on an older partition epoch. A proposal based on this epoch
        is still undecided: the metadata feed may deliver a decision that is known already.
        """
        leadership = self._replica.leadership
        self._client_append.leader_epoch = leadership.leader_epoch
        proposed = self._proposed
        if proposed is not None and proposed.partition_epoch < leadership.partition_epoch:
            self._proposed = None
        self._follow_assignment()
        self._is_alone = not self._followers and leadership.isr == (self._replica.node_id,)
        self.configure()

    def configure(self) -> None:
        """Take over the log's configuration, and commit if it or a new ISR permits."""
        leadership = self._replica.leadership
        config = self._log.config
        wanted = config.min_insync_replicas
        self.lacks_replicas = len(leadership.isr) < min(wanted, len(leadership.replicas))
        self._recompresses = config.compression_type != "producer"
        self.advance()
        self._is_sole = (
            self._is_alone
            and config.flush_messages == _NEVER_FLUSHED
            and self._replica.high_watermark == self._log.end_offset
        )

    def use_log(self, log: Log) -> None:
        """Continue on a copy of the log."""
        self._log = log

    # Appends.

    def check_writable(self) -> None:
        """Raise KafkaError if clients may not change the log."""

    def append_from_client(
        self,
        records: Buffer,
        required_acks: int,
        now_ms: int,
        guard: object | None = None,
        *,
        ahead: Checked | None = None,
    ) -> Appended:
        """Append a producer's batch.

        `guard` is what `begin_verification` returned for a transactional batch. `ahead` is the
        result of `validate.check_ahead`, which is needed if this raises TakesLong. KafkaError as
        `Log.append_as_leader`, or NOT_ENOUGH_REPLICAS when acks=all and too few are in sync.
        """
        if required_acks == _ALL_ACKS and self.lacks_replicas:
            raise KafkaError(Error.NOT_ENOUGH_REPLICAS)
        append = self._client_append if ahead is None else replace(self._client_append, ahead=ahead)
        append.now_ms = now_ms
        append.guard = guard
        appended = self._log.append_as_leader(records, append)
        traffic = self._replica.traffic
        if traffic is not None:
            traffic.appended(len(records), appended.end_offset - appended.base_offset)
            if self._recompresses:
                self._count_conversion(records, appended)
        self._appended()
        return appended

    def append_valid(self, records: Buffer, required_acks: int, now_ms: int) -> Appended | None:
        """Append a producer's batch as `append_from_client`, without a guard.

        Returns None, with nothing changed, if the batch is refused, or if it may need a sync:
        `append_from_client` then raises the error, or appends it. The caller counts the batch as
        one of the topic's. Fast twin of
        `wirekafka.replication.partition.leader.Leader.append_from_client`.
        """
        log, is_sole = self._log, self._is_sole
        if not is_sole and (
            (required_acks == _ALL_ACKS and self.lacks_replicas)
            or log.config.flush_messages != _NEVER_FLUSHED
        ):
            return None
        append = self._client_append
        append.now_ms = now_ms
        append.guard = None
        try:
            appended = log.append_as_leader(records, append)
        except (KafkaError, TakesLong):
            return None
        replica = self._replica
        if self._recompresses and replica.traffic is not None:
            self._count_conversion(records, appended)
        if is_sole:
            replica.set_high_watermark(log.end_offset)
        else:
            self._appended()
        return appended

    def _count_conversion(self, records: Buffer, appended: Appended) -> None:
        traffic = self._replica.traffic
        if traffic is not None and is_recompressed(records, self._log.config):
            traffic.conversions += appended.end_offset - appended.base_offset

    def append_from_coordinator(self, records: Buffer) -> Appended:
        """Append a batch made by this broker, such as a group's records.

        KafkaError: NOT_ENOUGH_REPLICAS, as for a client with acks=all; as `Log.append_as_leader`.
        """
        append = self._coordinator_append
        append.leader_epoch = self._replica.leader_epoch
        append.now_ms = self._replica.clock.now_ms()
        return self._append_own(records, append)

    def append_marker(self, batch: Buffer, transaction_version: int) -> Appended:
        """Append the marker that ends a producer's transaction here.

        KafkaError: NOT_ENOUGH_REPLICAS; as `ProducerStates.check_marker`.
        """
        return self._append_own(
            batch,
            Append(
                leader_epoch=self._replica.leader_epoch,
                now_ms=self._replica.clock.now_ms(),
                origin=Origin.COORDINATOR,
                transaction_version=transaction_version,
            ),
        )

    def abort_transactions(self) -> None:
        """Abort all open transactions: of a promoted mirror, their ends are not copied any more.

        Readers of committed records would wait for these for ever. A failure is logged.
        """
        now_ms = self._replica.clock.now_ms()
        for producer in list(self._log.producers):
            if producer.transaction_offset is None:
                continue
            marker = Marker(False, max(producer.coordinator_epoch, 0), now_ms)
            batch = encode_marker(producer.producer_id, producer.epoch, marker)
            try:
                self.append_marker(batch, 0)
            except KafkaError as error:
                logger.error("A transaction stays open in %s: %s", self._log.name, error)

    def begin_verification(
        self, header: BatchHeader | CoordinatorWrite, *, supports_epoch_bump: bool
    ) -> object | None:
        """Return the guard for `append_from_client` of a transactional batch (KIP-890).

        The append must wait until the coordinator has verified the transaction. None when the
        producer's transaction is open in this log: it has been verified before. A coordinator
        checks the guard with `is_verified` right before its append instead.
        """
        producers = self._log.producers
        if producers.has_open_transaction(header.producer_id, header.producer_epoch):
            return None
        if producers.verifications is None:
            producers.verifications = Verifications()
        return producers.verifications.begin(
            header, self._replica.clock.now_ms(), supports_epoch_bump=supports_epoch_bump
        )

    def is_verified(self, producer_id: int, guard: object) -> bool:
        """Whether no marker has ended the producer's transaction since `begin_verification`."""
        verifications = self._log.producers.verifications
        return verifications is not None and verifications.is_valid(producer_id, guard)

    # Followers.

    @property
    def followers(self) -> Mapping[int, RemoteReplica]:
        """The other replicas by broker id."""
        return self._followers

    def check_follower(self, replica_id: int, current_leader_epoch: int) -> None:
        """Raise KafkaError unless that broker has a replica of this partition.

        UNKNOWN_LEADER_EPOCH if it sent a leader epoch, so that it retries: it may know of a new
        assignment before this broker does. NOT_LEADER_OR_FOLLOWER otherwise.
        """
        if replica_id not in self._followers:
            raise KafkaError(
                Error.NOT_LEADER_OR_FOLLOWER
                if current_leader_epoch == NO_EPOCH
                else Error.UNKNOWN_LEADER_EPOCH
            )

    def follower_fetched(
        self, replica_id: int, fetch_offset: int, log_start: int, broker_epoch: int, now_ms: int
    ) -> None:
        """Note a follower's fetch: it has everything from `log_start` up to `fetch_offset`.

        KafkaError(NOT_LEADER_OR_FOLLOWER) with nothing changed for a fetch from before the
        broker's last registration; a `broker_epoch` of -1 is not checked (KIP-903).
        """
        replica = self._replica
        follower = self._followers[replica_id]
        if broker_epoch != NO_EPOCH:
            alive_epoch = replica.brokers.alive_epoch(replica_id)
            if alive_epoch is not None and alive_epoch > broker_epoch:
                raise KafkaError(Error.NOT_LEADER_OR_FOLLOWER)
        end_offset, start_offset = follower.end_offset, follower.start_offset
        follower.fetched(fetch_offset, log_start, self._log.end_offset, now_ms)
        follower.broker_epoch = broker_epoch
        advanced = end_offset != fetch_offset and self.advance()
        if not advanced and start_offset != log_start and replica.watchers:
            replica.wake()  # A DeleteRecords may wait for the low watermark.
        if (
            replica.propose_later is not None
            and self._proposed is None
            and replica_id not in replica.leadership.isr
            and self._has_caught_up(follower)
        ):
            replica.propose_later(replica)

    def follower_rests(self, replica_id: int, session: FetchTimes) -> None:
        """Count each fetch in a session as one of this partition, from the end of the log.

        The session calls `follower_woke` before anything changes here; a new leader epoch ends it
        too.
        """
        follower = self._followers.get(replica_id)
        if follower is not None:
            follower.rest(session)

    def follower_woke(self, replica_id: int, session: FetchTimes) -> None:
        """Undo `follower_rests`; the time of the session's last fetch is kept."""
        follower = self._followers.get(replica_id)
        if follower is not None:
            follower.wake(session)

    @property
    def low_watermark(self) -> int:
        """The smallest log start offset of the live replicas; the records below are deleted."""
        alive_epoch = self._replica.brokers.alive_epoch
        return min(
            (
                follower.start_offset
                for follower in self._followers.values()
                if alive_epoch(follower.broker_id) is not None
            ),
            default=self._log.start_offset,
        )

    # The ISR.

    @property
    def maximal_isr(self) -> frozenset[int]:
        """The ISR together with the replicas that a proposal adds (KIP-497).

        Any of them may be elected next, so each must have everything that is committed.
        """
        isr = frozenset(self._replica.leadership.isr)
        return isr if self._proposed is None else isr.union(self._proposed.isr)

    @property
    def lacks_maximal_replicas(self) -> bool:
        """As `lacks_replicas`, but counts `maximal_isr`, with replicas that are only proposed."""
        if self._proposed is None:
            return self.lacks_replicas
        wanted = self._log.config.min_insync_replicas
        return len(self.maximal_isr) < min(wanted, len(self._replica.leadership.replicas))

    def isr_change(self, now_ms: int) -> IsrChange | None:
        """Return the ISR change that followers' positions call for now; None if there is none.

        Lagging followers are removed in a change of their own, before new followers are added,
        because the controller refuses a change as a whole. None also while a change is proposed.
        """
        if self._proposed is not None or self._is_alone:
            return None
        isr = self._replica.leadership.isr
        lagging = [broker for broker in isr if self._lags(broker, now_ms)]
        if lagging:
            return self._change(broker for broker in isr if broker not in lagging)
        joining = [
            follower.broker_id
            for follower in self._followers.values()
            if follower.broker_id not in isr and self._has_caught_up(follower)
        ]
        return self._change([*isr, *joining]) if joining else None

    @property
    def proposed(self) -> IsrChange | None:
        """The proposed change that is neither decided nor withdrawn yet."""
        return self._proposed

    def propose(self, change: IsrChange) -> None:
        """Note that a change was sent to the controller; `assign` applies the decision."""
        self._proposed = change

    def withdraw(self) -> None:
        """Note that the controller has refused the proposed change."""
        self._proposed = None
        self.advance()

    def advance(self) -> bool:
        """Raise the high watermark to the in-sync replicas' lowest end; returns whether it rose."""
        replica = self._replica
        # Offsets from before this epoch count as durable: nothing syncs them again.
        end_offset = max(replica.durable_end_offset, self.epoch_start_offset)
        if self._followers:
            if self.lacks_replicas:
                return False  # Nothing is committed below min.insync.replicas (KIP-966).
            end_offset = self._reached_by_all(end_offset)
        if end_offset <= replica.high_watermark:
            return False
        replica.set_high_watermark(end_offset)
        return True

    def _appended(self) -> None:
        replica = self._replica
        end_offset = self._log.end_offset
        if end_offset >= replica.flush_at and not replica.sync_or_defer():
            if self._followers:
                replica.wake()  # Followers may fetch it before it is synced here.
            return
        if self._is_alone:
            replica.set_high_watermark(end_offset)
        elif not self.advance() and replica.watchers:
            replica.wake()

    def _append_own(self, batch: Buffer, append: Append) -> Appended:
        if self.lacks_replicas:
            raise KafkaError(Error.NOT_ENOUGH_REPLICAS)
        appended = self._log.append_as_leader(batch, append)
        traffic = self._replica.traffic
        if traffic is not None:
            traffic.appended(len(batch), appended.end_offset - appended.base_offset)
        self._appended()
        return appended

    def _follow_assignment(self) -> None:
        replica = self._replica
        others = [broker for broker in replica.leadership.replicas if broker != replica.node_id]
        known = self._followers
        self._followers = (
            {broker: known.get(broker) or RemoteReplica(broker) for broker in others}
            if others
            else _NO_FOLLOWERS
        )

    def _reached_by_all(self, end_offset: int) -> int:
        """The offset that the leader and all followers in sync or about to join have reached.

        A follower that has caught up but is not in the ISR yet counts too: otherwise the high
        watermark could keep ahead of it, and it would never join.
        """
        isr = self._replica.leadership.isr if self._proposed is None else self.maximal_isr
        for follower in self._followers.values():
            if follower.end_offset < end_offset and (
                follower.broker_id in isr or self._may_catch_up(follower)
            ):
                end_offset = follower.end_offset
        return end_offset

    def _may_catch_up(self, follower: RemoteReplica) -> bool:
        """Whether a follower outside of the ISR is about to join it."""
        now_ms = self._replica.clock.now_ms()
        max_lag_ms = self._replica.brokers.max_lag_ms
        return follower.is_caught_up(
            self._log.end_offset, now_ms, max_lag_ms
        ) and self._is_eligible(follower)

    def _lags(self, broker_id: int, now_ms: int) -> bool:
        if broker_id == self._replica.node_id:
            return False
        follower = self._followers.get(broker_id)
        return follower is None or not follower.is_caught_up(
            self._log.end_offset, now_ms, self._replica.brokers.max_lag_ms
        )

    def _has_caught_up(self, follower: RemoteReplica) -> bool:
        return (
            follower.end_offset >= self._replica.high_watermark
            and follower.end_offset >= self.epoch_start_offset
            and self._is_eligible(follower)
        )

    def _is_eligible(self, follower: RemoteReplica) -> bool:
        """Whether a follower is unfenced and has not restarted since its last fetch (KIP-903)."""
        brokers = self._replica.brokers
        epoch = brokers.alive_epoch(follower.broker_id)
        return (
            epoch is not None
            and follower.broker_epoch in (NO_EPOCH, epoch)
            and brokers.may_join(follower.broker_id)
        )

    def _change(self, isr: Iterable[int]) -> IsrChange:
        members = []
        for broker in isr:
            follower = self._followers.get(broker)
            epoch = follower.broker_epoch if follower is not None else None
            members.append(IsrMember(broker, NO_EPOCH if epoch is None else epoch))
        leadership = self._replica.leadership
        return IsrChange(tuple(members), leadership.leader_epoch, leadership.partition_epoch)
