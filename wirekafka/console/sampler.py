"""Samples a cluster's offsets over Kafka's protocol: lag over time, and what topics take in."""

from __future__ import annotations

import logging
import threading
from array import array
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from wirekafka.apis.metadata import MetadataResponse
from wirekafka.client.client import Client, CliError
from wirekafka.client.membership import TopicPartition
from wirekafka.config.option import ConfigError
from wirekafka.console.offsets import LATEST, Listed, committed, list_groups, offsets_at
from wirekafka.console.pool import ClientPool
from wirekafka.console.render import now_ms
from wirekafka.console.source import GroupLag, Insight, Known, Snapshot, TopicRate, Unknown
from wirekafka.metrics.lag import HISTORY_MS, Behind, EndOffsets, LagHistory, LagSample, behind

logger = logging.getLogger(__name__)

_EVERY_S = LagHistory.EVERY_MS / 1000
_FIRST_WAIT_S = 5.0
_MOST_TOPICS = 2_000
_MOST_GROUPS = 2_000
_OUTSIDE = Unknown(
    "Only a wirekafka broker knows this, in its own console: `wirekafka serve --console PORT`."
)


class Sampler:
    """A source for any cluster: a thread that asks it every ten seconds."""

    def __init__(self, pool: ClientPool) -> None:
        self._pool = pool
        self._stop = threading.Event()
        self._first = threading.Event()
        self._snapshot: Known[Snapshot] = Unknown("The first samples are being collected.")
        self._groups = GroupSamples()
        self._topics = TopicSamples()
        self._thread = threading.Thread(target=self._run, name="console-sampler", daemon=True)
        self._thread.start()

    def snapshot(self) -> Known[Snapshot]:
        """The last samples; waits a moment for the first ones."""
        self._first.wait(_FIRST_WAIT_S)
        return self._snapshot

    def insight(self) -> Known[Insight]:
        """Nothing: another process cannot look into a broker."""
        return _OUTSIDE

    def wire(self) -> Known[Any]:
        """Nothing: another process cannot look into a broker."""
        return _OUTSIDE

    def close(self) -> None:
        """End after the sample that is being taken."""
        self._stop.set()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                with self._pool.client() as client:
                    self._snapshot = self._sample(client)
            except (CliError, ConfigError, OSError) as error:
                self._snapshot = Unknown(str(error))
            except Exception:
                logger.exception("Sampling a cluster for the console failed")
                self._snapshot = Unknown("Sampling failed; the log of the console has the details.")
            self._first.set()
            self._stop.wait(_EVERY_S)

    def _sample(self, client: Client) -> Snapshot:
        metadata = client.metadata()
        groups, problems = list_groups(client, [each.node_id for each in metadata.brokers])
        positions, failed = committed(client, groups)
        # Ends are read after positions, so that no lag seems negative.
        ends = offsets_at(client, metadata.topics, LATEST)
        at_ms = now_ms()
        return Snapshot(
            at_ms,
            self._groups.sample(at_ms, groups, positions, ends),
            self._topics.sample(at_ms, metadata.topics, ends),
            [*problems, *failed],
        )


class GroupSamples:
    """The lag of each group during the last hour."""

    def __init__(self) -> None:
        self._ends: dict[TopicPartition, EndOffsets] = {}
        self._histories: dict[str, LagHistory] = {}

    def sample(
        self,
        at_ms: int,
        groups: Sequence[Listed],
        positions: Mapping[str, Mapping[TopicPartition, int]],
        ends: Mapping[TopicPartition, int],
    ) -> Sequence[GroupLag]:
        """Add a sample of each group; returns their lag now."""
        self._observe(at_ms, positions, ends)
        found = []
        for group in groups:
            rows = [
                self._behind(key, position, ends[key], at_ms)
                for key, position in positions.get(group.name, {}).items()
                if key in ends
            ]
            lag = sum(row.lag for row in rows)
            known = [row.behind_ms for row in rows if row.behind_ms is not None]
            behind_ms = max(known) if known and len(known) == len(rows) else None
            history = self._history(group.name)
            if rows and history is not None:
                history.note(LagSample(at_ms, lag, -1 if behind_ms is None else behind_ms))
            samples = [] if history is None else list(history.samples())
            found.append(
                GroupLag(group.name, group.type, group.state, lag, behind_ms, len(rows), samples)
            )
        for name in self._histories.keys() - {group.name for group in groups}:
            del self._histories[name]
        return found

    def _observe(
        self,
        at_ms: int,
        positions: Mapping[str, Mapping[TopicPartition, int]],
        ends: Mapping[TopicPartition, int],
    ) -> None:
        read = {key for offsets in positions.values() for key in offsets if key in ends}
        for key in self._ends.keys() - read:
            del self._ends[key]
        for key in read:
            self._ends.setdefault(key, EndOffsets()).observe(at_ms, ends[key])

    def _behind(self, key: TopicPartition, position: int, end: int, at_ms: int) -> Behind:
        return behind(position, end, self._ends[key].passed_ms(position), at_ms)

    def _history(self, name: str) -> LagHistory | None:
        history = self._histories.get(name)
        if history is None and len(self._histories) < _MOST_GROUPS:
            history = self._histories[name] = LagHistory()
        return history


class TopicSamples:
    """How many records each topic has taken in, during the last hour."""

    _MOST = HISTORY_MS // LagHistory.EVERY_MS

    def __init__(self) -> None:
        self._topics: dict[str, array[int]] = {}

    def sample(
        self,
        at_ms: int,
        topics: Iterable[MetadataResponse.Topic],
        ends: Mapping[TopicPartition, int],
    ) -> Sequence[TopicRate]:
        """Add a sample of each topic; returns the rates since the one before."""
        found, seen = [], set()
        for topic in topics:
            name = topic.name or ""
            keys = [(name, each.partition_index) for each in topic.partitions]
            if not keys or any(key not in ends for key in keys):
                continue
            numbers = self._topics.get(name)
            if numbers is None:
                if len(self._topics) >= _MOST_TOPICS:
                    continue
                numbers = self._topics[name] = array("q")
            seen.add(name)
            numbers.extend((at_ms, sum(ends[key] for key in keys)))
            del numbers[: max(len(numbers) - 2 * self._MOST, 0)]
            rates = _rates(numbers)
            found.append(TopicRate(name, rates[-1][1] if rates else None, None, None, rates))
        for name in self._topics.keys() - seen:
            del self._topics[name]
        return found


def _rates(numbers: array[int]) -> list[tuple[int, float]]:
    samples = [(numbers[at], numbers[at + 1]) for at in range(0, len(numbers), 2)]
    return [
        (later_ms, max(end - start, 0) * 1000 / max(later_ms - earlier_ms, 1))
        for (earlier_ms, start), (later_ms, end) in pairwise(samples)
    ]
