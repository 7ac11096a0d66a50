"""Proposes ISR changes for partitions that this broker leads, and applies the result (KIP-497)."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple, Protocol

from wirekafka.clock import Clock, Timer
from wirekafka.errors import Error, KafkaError
from wirekafka.metadata.controller.channel import Replica
from wirekafka.replication.partition.partition import Partition
from wirekafka.replication.partition.remote_replica import DecidedIsr, IsrChange
from wirekafka.runtime.driver import start
from wirekafka.runtime.promise import pause

logger = logging.getLogger(__name__)

_RETRY_MS = 50
_REFUSALS = frozenset({Error.INELIGIBLE_REPLICA, Error.OPERATION_NOT_ATTEMPTED})
"""Errors that leave the ISR as it was before the proposal."""
_OUTDATED = frozenset(
    {
        Error.UNKNOWN_TOPIC_OR_PARTITION,
        Error.UNKNOWN_TOPIC_ID,
        Error.FENCED_LEADER_EPOCH,
        Error.INVALID_UPDATE_VERSION,
        Error.INVALID_REQUEST,
        Error.NEW_LEADER_ELECTED,
    }
)
"""Errors of a proposal that is based on old metadata; the feed delivers the newer metadata."""


class IsrReporter(Protocol):
    """A registered broker."""

    async def alter_partition(
        self, changes: Mapping[Replica, IsrChange]
    ) -> dict[Replica, DecidedIsr | KafkaError]:
        """As `ControllerChannel.alter_partition`, with the broker's id and current epoch."""


class _Proposal(NamedTuple):
    change: IsrChange
    size: int
    """How many replicas the ISR had when the change was proposed."""


class IsrKeeper:
    """Proposes ISR changes to the controller, and applies the decisions.

    One request is in flight at a time; later changes go into the next one. A proposal without a
    decision is sent again, because the controller may have accepted it: until the decision is
    known, the leader waits for every replica that may be in the ISR.
    """

    def __init__(
        self, member: IsrReporter, partitions: Mapping[tuple[str, int], Partition], clock: Clock
    ):
        self._member = member
        self._partitions = partitions
        self._clock = clock
        self._check_ms = 0.0
        self._timer: Timer | None = None
        self._due: dict[Partition, None] = {}
        self._is_sending = False
        self._has_stopped = False
        self.shrinks = self.expands = self.refusals = 0
        """How many proposals were accepted, and how many were refused or outdated. A proposal also
        counts if its decision arrives after the metadata with its result.
        """
        self._failures: set[str] = set()
        """The messages of failures that are logged already and persist."""

    def start(self, max_lag_ms: int) -> None:
        """Check for lagging followers at intervals of `max_lag_ms` / 2.

        `max_lag_ms` is `replica.lag.time.max.ms`.
        """
        self._check_ms = max_lag_ms / 2
        self._check_later()

    def stop(self) -> None:
        """Propose no further changes."""
        self._has_stopped = True
        self._due.clear()
        if self._timer is not None:
            self._timer.cancel()

    def note(self, partition: Partition) -> None:
        """Queue a check of a partition after one of its followers has caught up."""
        self._due[partition] = None
        if not self._is_sending and not self._has_stopped:
            self._is_sending = True
            # Deferred, so that other partitions noted in this turn go into the same request.
            self._clock.call_later(0, lambda: start(self._send()))

    def check_all(self) -> None:
        """Queue the partitions whose ISR has to change, for example because a follower lags."""
        now_ms = self._clock.now_ms()
        for partition in list(self._partitions.values()):
            leader = partition.leader
            if leader is not None and leader.isr_change(now_ms) is not None:
                self.note(partition)

    def _check_later(self) -> None:
        def check() -> None:
            self.check_all()
            self._check_later()

        if not self._has_stopped:
            self._timer = self._clock.call_later(self._check_ms, check)

    async def _send(self) -> None:
        """Send proposals until no partition needs one."""
        proposals: dict[Partition, _Proposal] = {}
        try:
            while proposals := proposals | self._propose():
                proposals = await self._send_once(proposals)
                if proposals:
                    await pause(self._clock, _RETRY_MS)
                else:
                    self._failures.clear()
        finally:
            self._is_sending = False

    def _propose(self) -> dict[Partition, _Proposal]:
        due = self._due
        self._due = {}
        proposals: dict[Partition, _Proposal] = {}
        now_ms = self._clock.now_ms()
        for partition in due:
            leader = partition.leader
            change = leader.isr_change(now_ms) if leader is not None else None
            if leader is not None and change is not None:
                leader.propose(change)
                proposals[partition] = _Proposal(change, len(partition.isr))
                logger.info(
                    "Proposing the ISR %s for %s-%d in place of %s",
                    list(change.isr),
                    partition.topic,
                    partition.index,
                    list(partition.isr),
                )
        return proposals

    async def _send_once(self, proposals: dict[Partition, _Proposal]) -> dict[Partition, _Proposal]:
        """Send the proposals, and apply the decisions; returns the proposals to send again."""
        changes = {(each.topic_id, each.index): sent.change for each, sent in proposals.items()}
        try:
            results = await self._member.alter_partition(changes)
        except KafkaError as error:
            self._log_once(f"AlterPartition failed; it is retried: {error}")
            return dict(self._still_proposed(proposals))
        except Exception:  # A proposal that nobody sends again would end all changes of its ISR.
            logger.exception("AlterPartition failed; it is retried")
            return dict(self._still_proposed(proposals))
        for partition, sent in proposals.items():
            result = results.get((partition.topic_id, partition.index))
            if isinstance(result, DecidedIsr):
                self.shrinks += len(result.isr) < sent.size
                self.expands += len(result.isr) > sent.size
        undecided: dict[Partition, _Proposal] = {}
        for partition, sent in self._still_proposed(proposals):
            result = results.get((partition.topic_id, partition.index))
            try:
                if isinstance(result, DecidedIsr):
                    self._apply(partition, result)
                elif not self._is_settled(partition, result):
                    undecided[partition] = sent
            except Exception:  # Of one partition: the others' ISRs must go on changing.
                logger.exception("ISR of %s-%d not applied", partition.topic, partition.index)
                undecided[partition] = sent
        return undecided

    def _still_proposed(
        self, proposals: Mapping[Partition, _Proposal]
    ) -> Iterable[tuple[Partition, _Proposal]]:
        """The proposals that newer metadata has not superseded meanwhile."""
        if not self._has_stopped:
            for partition, sent in proposals.items():
                if partition.leader is not None and partition.leader.proposed is sent.change:
                    yield partition, sent

    def _apply(self, partition: Partition, decided: DecidedIsr) -> None:
        """Apply an accepted ISR before the metadata feed delivers it."""
        leadership = partition.leadership
        if decided.leader_epoch != leadership.leader_epoch:
            return  # The feed delivers the election.
        partition.lead(
            replace(
                leadership,
                isr=decided.isr,
                partition_epoch=decided.partition_epoch,
                leader_recovery_state=decided.leader_recovery_state,
            )
        )
        leader = partition.leader
        if leader is not None and leader.proposed is not None:
            leader.withdraw()  # The decision was the present ISR: its epoch is the same.
        self._due[partition] = None  # Another follower may have caught up or fallen behind.

    def _is_settled(self, partition: Partition, error: KafkaError | None) -> bool:
        """Handle the refusal of one proposal; False if it has to be sent again."""
        if error is None:
            return False
        self.refusals += error.error in _REFUSALS or error.error in _OUTDATED
        if error.error in _REFUSALS:
            logger.info("ISR of %s-%d refused: %s", partition.topic, partition.index, error)
            assert partition.leader is not None, "still proposed"
            partition.leader.withdraw()
            return True
        if error.error in _OUTDATED:
            logger.info("ISR of %s-%d outdated: %s", partition.topic, partition.index, error)
            return True
        self._log_once(f"ISR of {partition.topic}-{partition.index} proposed again: {error}")
        return False

    def _log_once(self, failure: str) -> None:
        """Log a failure that is retried every `_RETRY_MS`, until all proposals are decided."""
        if failure not in self._failures:
            self._failures.add(failure)
            logger.warning("%s", failure)
