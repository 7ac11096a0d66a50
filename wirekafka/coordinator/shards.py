"""The shards of a coordinator: a machine per partition of an internal topic led by this broker."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, TypeVar

from wirekafka.bounded_memory import Remembered
from wirekafka.clock import Clock
from wirekafka.coordinator.java_hash import coordinator_partition
from wirekafka.errors import Error, KafkaError
from wirekafka.runtime.machine import Command, Machine, Ticket
from wirekafka.runtime.replicated_log import ReplicatedLog
from wirekafka.runtime.runtime import Runtime

_Result = TypeVar("_Result")

logger = logging.getLogger(__name__)

_APPEND_ERRORS = {
    # Clients get an error that makes them retry or find the coordinator, not the log's error.
    Error.UNKNOWN_TOPIC_OR_PARTITION: Error.COORDINATOR_NOT_AVAILABLE,
    Error.NOT_ENOUGH_REPLICAS: Error.COORDINATOR_NOT_AVAILABLE,
    Error.REQUEST_TIMED_OUT: Error.COORDINATOR_NOT_AVAILABLE,
    Error.NOT_LEADER_OR_FOLLOWER: Error.NOT_COORDINATOR,
    Error.KAFKA_STORAGE_ERROR: Error.NOT_COORDINATOR,
    Error.MESSAGE_TOO_LARGE: Error.UNKNOWN_SERVER_ERROR,
    Error.RECORD_LIST_TOO_LARGE: Error.UNKNOWN_SERVER_ERROR,
}

_PARTITIONS_BYTES = 4 << 20


class Shards(ABC):
    """The shards led by this broker, by partition; finds the shard of a key.

    `partition_count` returns how many partitions the topic has, 0 before it is created.
    `observer_failed` is called when an observer of a shard's committed records has failed too
    often: it receives no more records, so the node must stop.
    """

    def __init__(
        self,
        topic: str,
        clock: Clock,
        partition_count: Callable[[], int],
        observer_failed: Callable[[Exception], None],
    ):
        self.topic = topic
        self._clock = clock
        self._partition_count = partition_count
        self._observer_failed = observer_failed
        self._runtimes: dict[int, Runtime] = {}
        self._partitions = Remembered[tuple[str, int], int](
            _PARTITIONS_BYTES, find=lambda key: coordinator_partition(*key)
        )
        """The partition of each key, by the key and the number of partitions."""

    @abstractmethod
    def make_runtime(self, partition: int, log: ReplicatedLog) -> Runtime:
        """Create the runtime of a shard on its log, not loaded yet."""

    def loaded(self, partition: int) -> None:  # noqa: B027
        """Called when a shard has read all of its log."""

    # Leadership

    def elected(self, partition: int, log: ReplicatedLog) -> None:
        """Load the shard in a new leader epoch, unless this broker has it already.

        An existing shard is kept with its waiting requests, because its log has not changed.
        """
        if not self.leads(partition):
            self.lead(partition, log)

    def lead(self, partition: int, log: ReplicatedLog) -> None:
        """Load the shard of a partition that this broker leads, and replace an existing one.

        A small log has been read when this returns; a larger one is read between requests, which
        fail with COORDINATOR_LOAD_IN_PROGRESS until then.
        """
        self.resign(partition)
        runtime = self.make_runtime(partition, log)
        self._runtimes[partition] = runtime
        runtime.load_gradually(partial(self._finish_loading, partition))

    def resign(self, partition: int) -> None:
        """Drop the shard after a loss of leadership: parked requests get NOT_COORDINATOR."""
        runtime = self._runtimes.pop(partition, None)
        if runtime is not None:
            runtime.stop()

    def stop(self) -> None:
        """Drop all shards, at a shutdown."""
        for partition in list(self._runtimes):
            self.resign(partition)

    def _finish_loading(self, partition: int, error: Exception | None) -> None:
        if error is None:
            self.loaded(partition)
            return
        # No coordinator is better than one with part of its state.
        logger.error("Loading %s-%d failed", self.topic, partition, exc_info=error)
        self.resign(partition)

    def leads(self, partition: int) -> bool:
        """Whether this broker has the shard of a partition, loaded or loading."""
        runtime = self._runtimes.get(partition)
        return runtime is not None and not runtime.is_stopped

    @property
    def led(self) -> int:
        """How many shards this broker has, loaded or loading."""
        return len(self._runtimes)

    def machines(self) -> list[Machine]:
        """The machines of all shards that are loaded, for reading only."""
        return [each.machine for each in list(self._runtimes.values()) if each.is_loaded]

    # Commands

    def partition_for(self, key: str) -> int:
        """The partition that owns a key; raises NOT_COORDINATOR before the topic exists."""
        count = self._partition_count()
        if not count:
            raise KafkaError(Error.NOT_COORDINATOR)
        return self._partitions[key, count]

    def shard_for(self, key: str) -> Runtime:
        """The runtime of the key's shard; raises NOT_COORDINATOR if it is led elsewhere."""
        runtime = self._runtimes.get(self.partition_for(key))
        if runtime is None:
            raise KafkaError(Error.NOT_COORDINATOR)
        return runtime

    async def submit(self, key: str, command: Command[_Result]) -> _Result:
        """Run a command on the key's shard; does not suspend if the reply is available at once.

        Raises `KafkaError`: the shard's error, NOT_COORDINATOR, or
        COORDINATOR_LOAD_IN_PROGRESS.
        """
        try:
            return await self.shard_for(key).submit(command)
        except KafkaError as error:
            self._replace_append_error(error)
            raise

    def start(self, key: str, command: Command[_Result]) -> _Result | Coroutine[Any, Any, _Result]:
        """Run a command as `submit` does, but return its reply if it is available at once.

        Otherwise returns a coroutine that waits for the reply.
        """
        try:
            runtime = self.shard_for(key)
            ticket = runtime.post(command)
            if ticket.done:
                return ticket.result()
        except KafkaError as error:
            self._replace_append_error(error)
            raise
        return self._reply_to(runtime, ticket)

    async def _reply_to(self, runtime: Runtime, ticket: Ticket[_Result]) -> _Result:
        try:
            return await runtime.reply_to(ticket)
        except KafkaError as error:
            self._replace_append_error(error)
            raise

    def _replace_append_error(self, error: KafkaError) -> None:
        """Raise the error that a client gets in place of the log's error."""
        client_error = _APPEND_ERRORS.get(error.error)
        if client_error is not None and not self.is_final(error):
            raise KafkaError(client_error) from error

    def is_final(self, error: KafkaError) -> bool:
        """Whether an error was chosen by the machine for the client, not raised by the log."""
        return False
