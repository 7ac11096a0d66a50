"""The leaders of a cluster's partitions: found, and found again after failures that pass."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import TypeVar

from wirekafka.client.client import (
    RETRY_FOR_S,
    BrokerConnection,
    Client,
    CliError,
    ConnectionFailure,
)
from wirekafka.errors import Error
from wirekafka.reader.problems import ReaderError, UnknownLog
from wirekafka.runtime.backoff import Backoff

_BACKOFF = Backoff(first_ms=50, longest_ms=1_000, jitter=0.2)

T = TypeVar("T")


class PassingError(Exception):
    """A failure that passes by itself, such as an election of a leader."""


class Patience:
    """The time for which failures in a row are retried, and the delays between."""

    def __init__(self, subject: str) -> None:
        self._subject = subject
        self._failures = 0
        self._deadline = 0.0

    def renew(self) -> None:
        """Begin anew after a success."""
        self._failures = 0

    @property
    def is_over(self) -> bool:
        """Whether the time for retries has passed."""
        return self._failures > 0 and time.monotonic() > self._deadline

    def wait(self, reason: str) -> None:
        """Wait after a failure. Raises ReaderError with the reason once time is up."""
        if not self._failures:
            self._deadline = time.monotonic() + RETRY_FOR_S
        elif self.is_over:
            raise ReaderError(f"{self._subject}: {reason} (after {RETRY_FOR_S:.0f} s of retries)")
        time.sleep(_BACKOFF.delay_ms(self._failures) / 1000)
        self._failures += 1


class Leaders:
    """Connections to the leaders of partitions. Raises ReaderError, UnknownLog above all."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._ids: dict[str, dict[int, int]] = {}

    def close(self) -> None:
        """Close all connections."""
        self._client.close()

    def topics(self) -> list[str]:
        """The names of all topics, but for internal topics."""
        found = self.retried("the list of topics", self._client.metadata).topics
        return sorted(topic.name or "" for topic in found if not topic.is_internal)

    def partitions(self, topics: Iterable[str]) -> dict[str, list[int]]:
        """The partitions that topics have now."""
        chosen = sorted(set(topics))
        if chosen:
            self.retried(f"topic {chosen[0]}", lambda: self._find(chosen))
        return {topic: sorted(self._ids[topic]) for topic in chosen}

    def id_of(self, topic: str, partition: int) -> int:
        """The id of a partition's leader. Raises PassingError if there is none now."""
        if topic not in self._ids:
            self._find([topic])
        leader = self._ids[topic].get(partition)
        if leader is None:
            raise UnknownLog(f"topic {topic} has no partition {partition}")
        if leader < 0:
            raise PassingError(f"{topic}-{partition} has no leader")
        return leader

    def connection(self, leader: int) -> BrokerConnection:
        """The connection to a leader by its id."""
        return self._client.node(leader)

    def retried(self, subject: str, attempt: Callable[[], T], topics: Iterable[str] = ()) -> T:
        """Attempt until no error that passes occurs, each time with the leaders of then."""
        patience = Patience(subject)
        while True:
            try:
                return attempt()
            except (ConnectionFailure, PassingError) as error:
                patience.wait(str(error))
            except CliError as error:
                raise ReaderError(str(error)) from None
            self._client.drop_unusable()
            for topic in topics:
                self._ids.pop(topic, None)

    def _find(self, topics: list[str]) -> None:
        for found in self._client.metadata(topics).topics:
            if found.error_code == Error.UNKNOWN_TOPIC_OR_PARTITION:
                raise UnknownLog(f"no topic {found.name}")
            check_answer(found.error_code, f"topic {found.name}")
            self._ids[found.name or ""] = {p.partition_index: p.leader_id for p in found.partitions}


def check_answer(error_code: int, subject: str) -> None:
    """Raise PassingError or ReaderError if a response has an error about `subject`."""
    if not error_code:
        return
    error = Error.of(error_code)
    reason = f"{subject}: {error.name}"
    raise PassingError(reason) if error.retriable else ReaderError(reason)
