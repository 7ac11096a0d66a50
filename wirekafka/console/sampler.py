"""Samples a cluster's offsets over Kafka's protocol: lag over time, and topics' rates."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from wirekafka.client.client import Client, CliError
from wirekafka.client.membership import TopicPartition
from wirekafka.client.pool import ClientPool
from wirekafka.config.option import ConfigError
from wirekafka.console.offsets import LATEST, GroupListing, committed, list_groups, offsets_at
from wirekafka.console.render import now_ms
from wirekafka.console.source import ClusterSample, GroupLag, Insight, Known, MirrorReport, Unknown
from wirekafka.console.summary import summary
from wirekafka.console.topic_samples import TopicSamples, sums
from wirekafka.metrics.lag import Behind, EndOffsets, LagHistory, LagSample, behind

logger = logging.getLogger(__name__)

_EVERY_S = LagHistory.EVERY_MS / 1000
_FIRST_WAIT_S = 5.0
_MOST_GROUPS = 2_000
_OUTSIDE = Unknown(
    "Only a wirekafka broker knows this, in its own console: `wirekafka serve --console PORT`."
)


class Knowledge(Protocol):
    """The state of a broker that runs the console (`insight.Inside`)."""

    def insight(self) -> Known[Insight]:
        """The broker's present state."""

    def mirror(self) -> Known[MirrorReport]:
        """The broker's copies of another cluster."""


class Sampler:
    """A source for any cluster: a thread that sends requests every ten seconds.

    It sends no requests for values that `inside` has.
    """

    def __init__(
        self, pool: ClientPool, inside: Knowledge | None = None, tap: object = None
    ) -> None:
        self._pool, self._inside, self._tap = pool, inside, tap
        self._stop = threading.Event()
        self._first = threading.Event()
        self._snapshot: Known[ClusterSample] = Unknown("The first samples are being collected.")
        self._groups = GroupSamples()
        self._topics = TopicSamples()
        self._thread = threading.Thread(target=self._run, name="console-sampler", daemon=True)
        self._thread.start()

    def snapshot(self) -> Known[ClusterSample]:
        """The last samples; waits a moment for the first samples."""
        self._first.wait(_FIRST_WAIT_S)
        return self._snapshot

    def insight(self) -> Known[Insight]:
        """The state of the broker, if the console runs inside a broker."""
        return _OUTSIDE if self._inside is None else self._inside.insight()

    def wire(self) -> Known[Any]:
        """The tap of the broker's requests, if the console runs inside of one."""
        return _OUTSIDE if self._tap is None else self._tap

    def mirror(self) -> Known[MirrorReport]:
        """The broker's copies of another cluster, if the console runs inside of the broker."""
        return _OUTSIDE if self._inside is None else self._inside.mirror()

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

    def _sample(self, client: Client) -> ClusterSample:
        metadata = client.metadata()
        brokers = [each.node_id for each in metadata.brokers]
        groups, problems = list_groups(client, brokers)
        insight = self.insight()
        exact = {} if isinstance(insight, Unknown) else insight.groups
        others = [group for group in groups if group.name not in exact]
        positions, failed = committed(client, others)
        wanted = {key for offsets in positions.values() for key in offsets}
        knows_rates = not isinstance(insight, Unknown) and brokers == [insight.broker_id]
        # Ends are read after positions, so that no lag seems negative.
        ends = offsets_at(client, metadata.topics, LATEST, wanted if knows_rates else None)
        at_ms = now_ms()
        lags = self._groups.sample(at_ms, others, positions, ends)
        lags += [
            exact[group.name]._replace(kind=group.type, state=group.state)
            for group in groups
            if group.name in exact
        ]
        names = {topic.name or "" for topic in metadata.topics}
        if knows_rates and not isinstance(insight, Unknown):
            rates = [rate for name, rate in insight.rates.items() if name in names]
        else:
            rates = self._topics.sample(at_ms, sums(metadata.topics, ends))
        return ClusterSample(at_ms, summary(client, metadata), lags, rates, [*problems, *failed])


class GroupSamples:
    """The lag of each group during the last hour."""

    def __init__(self) -> None:
        self._ends: dict[TopicPartition, EndOffsets] = {}
        self._histories: dict[str, LagHistory] = {}

    def sample(
        self,
        at_ms: int,
        groups: Sequence[GroupListing],
        positions: Mapping[str, Mapping[TopicPartition, int]],
        ends: Mapping[TopicPartition, int],
    ) -> list[GroupLag]:
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
            found.append(
                GroupLag(group.name, group.type, group.state, lag, behind_ms, len(rows), history)
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
