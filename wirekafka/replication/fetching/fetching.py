"""The interface by which a broker starts and stops fetching replicas from their leaders."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from wirekafka.replication.partition.partition import Partition


class Fetching(Protocol):
    """Fetches the replicas that follow leaders on other brokers."""

    def follow(self, partition: Partition) -> None:
        """Fetch a partition from its current leader, if it has one, in its current leader epoch.

        Raises KafkaError(KAFKA_STORAGE_ERROR).
        """

    def forget(self, partition: Partition) -> None:
        """Stop fetching a partition that is led here or removed; ignored if it is not fetched."""

    def configured(self) -> None:
        """Apply a change of the broker's configuration."""

    def lags(self) -> Iterator[tuple[str, Partition, int]]:
        """The fetcher, by its name in Kafka's metrics, and the lag in records of each partition."""

    def stop(self) -> None:
        """Stop fetching."""


class _NoFetching:
    """The `Fetching` of a broker without connections to other brokers."""

    def follow(self, partition: Partition) -> None:
        pass

    def forget(self, partition: Partition) -> None:
        pass

    def configured(self) -> None:
        pass

    def lags(self) -> Iterator[tuple[str, Partition, int]]:
        return iter(())

    def stop(self) -> None:
        pass


NO_FETCHING: Fetching = _NoFetching()
