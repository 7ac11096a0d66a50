"""The operations of share groups that involve both their coordinator and the stored states.

Group coordinators initialize the states of share partitions and delete them; each step is recorded
in the group, so that another heartbeat or request resumes after an error.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from wirekafka.coordinator.groups.share.commands import (
    AlterShareOffsets,
    DeleteShareOffsets,
    DeleteShareStates,
    ListInitialized,
    ShareHeartbeat,
    ShareHeartbeatReply,
    ShareOffsetsDeleted,
    StatesFailed,
    StatesInitialized,
    keys_of,
)
from wirekafka.coordinator.groups.share.latest_offsets import LatestOffsets
from wirekafka.coordinator.groups.share.topics import Partitions, by_topic, name_of
from wirekafka.coordinator.java_order import grown_capacity, integers_in_order, uuids_in_order
from wirekafka.coordinator.shards import Shards
from wirekafka.coordinator.share_state.states import (
    NO_COUNT,
    NO_OFFSET,
    ShareKey,
    ShareStates,
    StateInitialization,
    StateRead,
    StateSummary,
)
from wirekafka.coordinator.topics import CoordinatedTopics
from wirekafka.errors import Error, KafkaError
from wirekafka.runtime.driver import start

logger = logging.getLogger(__name__)

NO_LAG = -1


class ShareOffset(NamedTuple):
    """The start offset of a share partition, and how many records are still to be delivered.

    `lag` is -1 if it is not known. An `error` concerns the lag alone.
    """

    partition: int
    start_offset: int = NO_OFFSET
    leader_epoch: int = 0
    lag: int = NO_LAG
    error: Error = Error.NONE


class OffsetDeletion(NamedTuple):
    """The result of a deletion of states: ids of topics with deleted states, and errors by id.

    A topic in neither had no state. `has_states` says that the group ever had states.
    """

    has_states: bool
    deleted: Sequence[bytes] = ()
    errors: Mapping[bytes, KafkaError] = MappingProxyType({})


class ShareGroups:
    """Share groups with the stored states of their share partitions."""

    def __init__(
        self, groups: Shards, states: ShareStates, topics: CoordinatedTopics, latest: LatestOffsets
    ):
        self._groups = groups
        self._states = states
        self._topics = topics
        self._latest = latest

    async def heartbeat(self, command: ShareHeartbeat) -> ShareHeartbeatReply:
        """Process a heartbeat, and begin to initialize states if the group needs them.

        The reply does not wait for the initialization. Raises `KafkaError`.
        """
        reply: ShareHeartbeatReply = await self._groups.submit(command.group_id, command)
        if reply.initializations:
            start(self._initialize(command.group_id, reply.initializations))
        return reply

    # Offsets

    async def initialized(self, group_id: str) -> Partitions:
        """Return the partitions with an initialized state, of topics that exist.

        It is empty for an unknown group. Raises the coordinator's errors.
        """
        found: Partitions = await self._groups.submit(group_id, ListInitialized(group_id))
        return {id: found[id] for id in found if self._topics.by_id(id) is not None}

    async def describe_offsets(
        self, group_id: str, partitions: Partitions
    ) -> dict[bytes, list[ShareOffset]]:
        """Return the start offsets of partitions, by topic id, in Kafka's order.

        Partitions without a state, or whose state cannot be read, have no offset. Raises
        UNKNOWN_SERVER_ERROR for a topic without partitions, and for a negative one, as Kafka does.
        """
        if any(min(each, default=-1) < 0 for each in partitions.values()):
            raise KafkaError(
                Error.UNKNOWN_SERVER_ERROR,
                "The server experienced an unexpected error when processing the request.",
            )
        pairs = [(id, each) for id in partitions for each in partitions[id]]
        ordered = by_topic(pairs)
        keys = keys_of(group_id, ordered)
        summaries = await self._states.read_summaries([StateRead(key) for key in keys])
        latest = await self._latest.of(
            (name_of(key.topic_id, self._topics), key.partition)
            for key, summary in zip(keys, summaries, strict=True)
            if _has_lag(summary)
        )
        found: dict[bytes, list[ShareOffset]] = {id: [] for id in ordered}
        for key, summary in zip(keys, summaries, strict=True):
            where = name_of(key.topic_id, self._topics), key.partition
            found[key.topic_id].append(_offset(key, summary, latest.get(where, NO_OFFSET)))
        return found

    async def alter_offsets(
        self, command: AlterShareOffsets
    ) -> dict[tuple[bytes, int], KafkaError]:
        """Set start offsets; returns the errors by topic id and partition.

        Raises NON_EMPTY_GROUP and the coordinator's errors.
        """
        initializations: Sequence[StateInitialization] = await self._groups.submit(
            command.group_id, command
        )
        if not initializations:
            return {}
        results = await self._states.initialize(initializations)
        errors = _errors_by_partition((each.key for each in initializations), results)
        if not errors:
            await self._record_initialized(command.group_id, initializations)
        return errors

    async def delete_offsets(self, command: DeleteShareOffsets) -> OffsetDeletion:
        """Delete the states of topics.

        Raises GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP and the coordinator's errors.
        """
        found: Partitions | None = await self._groups.submit(command.group_id, command)
        if not found:
            return OffsetDeletion(found is not None)
        ordered = by_topic((id, each) for id in found for each in found[id])
        keys = keys_of(command.group_id, ordered)
        results = await self._states.delete(keys)
        errors: dict[bytes, KafkaError] = {}
        for (id, _), error in _errors_by_partition(keys, results).items():
            errors.setdefault(id, error)
        done = [id for id in ordered if id not in errors]
        done = uuids_in_order(done, grown_capacity(len(done)))
        if done:
            await self._groups.submit(command.group_id, ShareOffsetsDeleted(command.group_id, done))
        return OffsetDeletion(True, done, errors)

    async def delete_states(self, group_ids: Iterable[str]) -> dict[str, Error]:
        """Delete all states of the share groups among these, before the groups are deleted.

        Returns the errors of groups that must not be deleted then.
        """
        failed: dict[str, Error] = {}
        for group_id in dict.fromkeys(group_ids):
            try:
                found = await self._groups.submit(group_id, DeleteShareStates(group_id))
            except KafkaError as error:
                failed[group_id] = error.error
                continue
            counts = [len(partitions) for partitions in found.values()]
            if any(counts) and not all(counts):
                # As in Kafka: AlterShareGroupOffsets of unknown partitions alone leaves a topic
                # without partitions, because of which the first deletion of others is refused.
                failed[group_id] = Error.UNKNOWN_SERVER_ERROR
                continue
            keys = keys_of(group_id, found)
            results = await self._states.delete(keys) if keys else []
            for refusal in _errors_by_partition(keys, results).values():
                logger.error("States of share group %s were not deleted: %s", group_id, refusal)
                failed[group_id] = refusal.error
        return failed

    # Initialization

    async def _initialize(
        self, group_id: str, initializations: Sequence[StateInitialization]
    ) -> None:
        """Initialize states and record the result; a failure is retried by a later heartbeat."""
        results = await self._states.initialize(initializations)
        errors = _errors_by_partition((each.key for each in initializations), results)
        try:
            if not errors:
                await self._record_initialized(group_id, initializations)
                return
            logger.error("States of share group %s were not initialized: %s", group_id, errors)
            failed = _partitions(initializations)
            await self._groups.submit(group_id, StatesFailed(group_id, failed))
        except KafkaError as error:
            # The group's record says that states are being initialized: that is retried.
            logger.warning("States of share group %s were not recorded: %s", group_id, error)

    async def _record_initialized(
        self, group_id: str, initializations: Sequence[StateInitialization]
    ) -> None:
        done = _partitions(initializations)
        await self._groups.submit(group_id, StatesInitialized(group_id, done))


def _has_lag(summary: StateSummary | KafkaError) -> bool:
    return (
        not isinstance(summary, KafkaError)
        and summary.start_offset != NO_OFFSET
        and summary.delivery_complete_count != NO_COUNT
    )


def _offset(
    key: ShareKey, summary: StateSummary | KafkaError, latest: int | KafkaError
) -> ShareOffset:
    if isinstance(summary, KafkaError):
        return ShareOffset(key.partition)
    known = ShareOffset(key.partition, summary.start_offset, summary.leader_epoch)
    if not _has_lag(summary):
        return known
    if isinstance(latest, KafkaError):
        return ShareOffset(key.partition, 0, error=latest.error, lag=NO_LAG)
    delivered = summary.start_offset + summary.delivery_complete_count
    return known._replace(lag=latest - delivered)


def _partitions(initializations: Iterable[StateInitialization]) -> Partitions:
    pairs = ((each.key.topic_id, each.key.partition) for each in initializations)
    return {
        id: integers_in_order(found, grown_capacity(len(found)))
        for id, found in by_topic(pairs).items()
    }


def _errors_by_partition(
    keys: Iterable[ShareKey], results: Iterable[KafkaError | None]
) -> dict[tuple[bytes, int], KafkaError]:
    return {
        (key.topic_id, key.partition): result
        for key, result in zip(keys, results, strict=True)
        if result is not None
    }
