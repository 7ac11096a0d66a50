"""Shared by the APIs of stored share-group states: errors, and the order of results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from wirekafka.coordinator.java_order import HashOrder, uuid_hash_code
from wirekafka.coordinator.share_state.commands import KeyedCommand
from wirekafka.errors import DEFAULT_MESSAGES, KafkaError

Result = TypeVar("Result")


def is_processed(request: Any) -> bool:
    """Whether Kafka processes a request; any other request gets a response without results.

    A processed request has a group id, topics, and partitions of each topic.
    """
    return bool(
        request.group_id and request.topics and all(topic.partitions for topic in request.topics)
    )


def by_topic(
    commands: Sequence[KeyedCommand], results: Sequence[Result]
) -> list[tuple[bytes, list[tuple[int, Result]]]]:
    """Group the results of commands by topic id, in the order of Kafka's hash maps.

    Of a partition that occurs twice, only the last result is returned.
    """
    topics: HashOrder[bytes] = HashOrder(uuid_hash_code)
    partitions: dict[bytes, HashOrder[int]] = {}
    found: dict[tuple[bytes, int], Result] = {}
    for command, result in zip(commands, results, strict=True):
        key = command.key
        topics.compute(key.topic_id)
        partitions.setdefault(key.topic_id, HashOrder(int)).put(key.partition)
        found[key.topic_id, key.partition] = result
    return [
        (id, [(partition, found[id, partition]) for partition in partitions[id].walk()])
        for id in topics.walk()
    ]


def error_fields(result: object, operation: str) -> dict[str, Any]:
    """Return the fields of a response that report the error of a result, if it is one.

    `operation` is named in the message of errors that the share coordinator did not choose.
    """
    if not isinstance(result, KafkaError):
        return {}
    message = result.message
    if message is None:
        cause = result.__cause__
        original = cause if isinstance(cause, KafkaError) else result
        text = original.message or DEFAULT_MESSAGES.get(original.error, original.error.name)
        message = f"Unable to {operation}: {text}"
    return {"error_code": result.error, "error_message": message}


def failed_fields(error: KafkaError) -> dict[str, Any]:
    """Return the fields of a response that report the failure of the whole request."""
    return {
        "error_code": error.error,
        "error_message": error.message or DEFAULT_MESSAGES.get(error.error, error.error.name),
    }
