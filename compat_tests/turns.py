"""wirekafka and Apache Kafka take turns on one log directory, each asked over one connection."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from compat_tests.apache_kafka import apache_kafka_on
from compat_tests.wire import Wire
from spark_examples.live_broker import live_broker
from tests.eventually import eventually
from wirekafka.codec.message import Request
from wirekafka.errors import Error
from wirekafka.protocol.create_topics import CreateTopicsRequest
from wirekafka.protocol.find_coordinator import FindCoordinatorRequest


class Turn:
    """The broker that is running."""

    def __init__(self, bootstrap: str):
        self._wire = Wire.to(bootstrap)

    def ask(self, request: Request, version: int) -> Any:
        return self._wire.ask(request, version)

    def close(self) -> None:
        self._wire.close()

    def create_topics(self, partitions: Mapping[str, int]) -> list[bytes]:
        """Topics by name, with so many partitions; returns their ids."""
        kind = CreateTopicsRequest.CreatableTopic
        topics = [
            kind(name=name, num_partitions=count, replication_factor=1)
            for name, count in partitions.items()
        ]
        response = self.ask(CreateTopicsRequest(topics=topics, timeout_ms=9000), 7)
        assert not any(topic.error_code for topic in response.topics), response
        return [topic.topic_id for topic in response.topics]

    def await_coordinator(self, unknown: Request, version: int) -> None:
        """Wait until groups have loaded: `unknown` describes a group that does not exist."""

        def is_ready() -> bool:
            find = FindCoordinatorRequest(coordinator_keys=["any"])
            if self.ask(find, 4).coordinators[0].error_code:
                return False
            [group] = self.ask(unknown, version).groups
            return bool(group.error_code == Error.GROUP_ID_NOT_FOUND)

        eventually(is_ready, timeout_s=30)


TurnOf = TypeVar("TurnOf", bound=Turn)


@dataclass(frozen=True)
class Turns(Generic[TurnOf]):
    """The turns of both engines on `data`, with the same settings."""

    data: Path
    scratch: Path
    settings: tuple[str, ...]
    turn_of: Callable[[str], TurnOf]
    """Makes a turn at a bootstrap address."""

    @contextmanager
    def ours(self, *settings: str) -> Iterator[TurnOf]:
        """wirekafka, with further settings."""
        with (
            live_broker(self.data, *self.settings, *settings) as bootstrap,
            self._at(bootstrap) as turn,
        ):
            yield turn

    @contextmanager
    def kafka(self, *settings: str) -> Iterator[TurnOf]:
        """Apache Kafka, with further settings."""
        lines = "".join(f"{setting}\n" for setting in (*self.settings, *settings))
        with (
            apache_kafka_on([self.data], self.scratch, settings=lines) as bootstrap,
            self._at(bootstrap) as turn,
        ):
            yield turn

    @contextmanager
    def _at(self, bootstrap: str) -> Iterator[TurnOf]:
        turn = self.turn_of(bootstrap)
        try:
            yield turn
        finally:
            turn.close()
