"""Requests to share coordinators on other brokers, made from commands on share-group states."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from wirekafka.codec.message import Request
from wirekafka.coordinator.routing import Routing
from wirekafka.coordinator.share_state.commands import KeyedCommand, StateDeletion, SummaryRead
from wirekafka.coordinator.share_state.states import (
    NO_EPOCH,
    StateBatch,
    StateInitialization,
    StateRead,
    StateSummary,
    StateWrite,
    StoredState,
)
from wirekafka.errors import Error, KafkaError
from wirekafka.protocol.delete_share_group_state import DeleteShareGroupStateRequest
from wirekafka.protocol.initialize_share_group_state import InitializeShareGroupStateRequest
from wirekafka.protocol.read_share_group_state import ReadShareGroupStateRequest
from wirekafka.protocol.read_share_group_state_summary import ReadShareGroupStateSummaryRequest
from wirekafka.protocol.write_share_group_state import WriteShareGroupStateRequest

_CLIENT_ID = "Persister"
"""As Kafka's brokers send it."""

_Initialize = InitializeShareGroupStateRequest
_Read = ReadShareGroupStateRequest
_Write = WriteShareGroupStateRequest
_Delete = DeleteShareGroupStateRequest
_Summarize = ReadShareGroupStateSummaryRequest


async def run_on_share_states(
    routing: Routing, broker_id: int, commands: Sequence[KeyedCommand]
) -> Sequence[Any]:
    """Run commands on states of share partitions (Read-, WriteShareGroupState and others).

    All commands are of one type and on states of one group; the broker must be their coordinator.
    Returns the reply to each as in `ShareStates`, or its `KafkaError`. Raises the errors of
    `Links.send`.
    """
    response = await routing.links.send(broker_id, _CLIENT_ID, _request_of(commands))
    return _replies_of(commands, response)


def _request_of(commands: Sequence[KeyedCommand]) -> Request:
    """Return one request for these commands, all of one type and on states of one group."""
    first = commands[0]
    match first:
        case StateInitialization():
            return _request(_Initialize, _Initialize.InitializeStateData, commands)
        case StateRead():
            return _request(_Read, _Read.ReadStateData, commands)
        case StateWrite():
            return _request(_Write, _Write.WriteStateData, commands)
        case StateDeletion():
            return _request(_Delete, _Delete.DeleteStateData, commands)
        case SummaryRead():
            return _request(_Summarize, _Summarize.ReadStateSummaryData, commands)


def _replies_of(commands: Sequence[KeyedCommand], response: Any) -> Sequence[Any]:
    """Return the reply or `KafkaError` of each command, given the response to their request."""
    results = {
        (topic.topic_id, each.partition): each
        for topic in response.results
        for each in topic.partitions
    }
    return [
        _reply(command, results.get((command.key.topic_id, command.key.partition)))
        for command in commands
    ]


def _request(
    request: Callable[..., Request], topic_part: Any, commands: Sequence[KeyedCommand]
) -> Request:
    topics: dict[bytes, list[Any]] = {}
    for command in commands:
        partition = topic_part.PartitionData(
            partition=command.key.partition, **_fields(command, topic_part)
        )
        topics.setdefault(command.key.topic_id, []).append(partition)
    return request(
        group_id=commands[0].key.group_id,
        topics=[
            topic_part(topic_id=topic_id, partitions=partitions)
            for topic_id, partitions in topics.items()
        ],
    )


def _fields(command: KeyedCommand, topic_part: Any) -> dict[str, Any]:
    """The fields of a command's partition, except for its index."""
    match command:
        case StateInitialization():
            return {"state_epoch": command.state_epoch, "start_offset": command.start_offset}
        case StateRead():
            return {"leader_epoch": command.leader_epoch}
        case SummaryRead():
            return {"leader_epoch": NO_EPOCH}
        case StateDeletion():
            return {}
        case StateWrite():
            return {
                "state_epoch": command.state_epoch,
                "leader_epoch": command.leader_epoch,
                "start_offset": command.start_offset,
                "delivery_complete_count": command.delivery_complete_count,
                "state_batches": [
                    topic_part.PartitionData.StateBatch(**batch._asdict())
                    for batch in command.batches
                ],
            }


def _reply(command: KeyedCommand, result: Any) -> Any:
    if result is None:
        return KafkaError(Error.UNKNOWN_SERVER_ERROR, "The response omits the partition")
    if result.error_code:
        return KafkaError.of(result.error_code, result.error_message)
    match command:
        case StateRead():
            return StoredState(
                result.state_epoch,
                result.start_offset,
                tuple(
                    StateBatch(
                        each.first_offset,
                        each.last_offset,
                        each.delivery_state,
                        each.delivery_count,
                    )
                    for each in result.state_batches
                ),
            )
        case SummaryRead():
            return StateSummary(
                result.state_epoch,
                result.leader_epoch,
                result.start_offset,
                result.delivery_complete_count,
            )
        case StateInitialization() | StateWrite() | StateDeletion():
            return None
