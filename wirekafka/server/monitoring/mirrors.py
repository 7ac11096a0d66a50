"""Metrics of mirrored topics: how far they are behind their source, and whether they fail."""

from __future__ import annotations

from collections.abc import Iterator

from wirekafka.metrics.exposition import COUNTER, GAUGE, Column, Table
from wirekafka.replication.mirroring.mirror_fetcher import CopyState
from wirekafka.server.mirroring.mirroring import Mirroring

_STATES = tuple(state.value for state in CopyState)


class MirrorCollector:
    """The partitions that are copied from another cluster, and the connection to it."""

    def __init__(self, mirroring: Mirroring):
        self._mirroring = mirroring
        self._partitions = Table(
            ["topic", "partition"],
            [
                Column(
                    "wirekafka_mirror_lag_records",
                    GAUGE,
                    "Offsets from the end of the copy to the source's high watermark, as of the"
                    " last response.",
                ),
                Column("wirekafka_mirror_bytes_total", COUNTER, "Bytes of batches copied."),
                Column(
                    "wirekafka_mirror_skipped_records_total",
                    COUNTER,
                    "Offsets that the source had deleted before they were copied.",
                ),
            ],
        )
        self._states = Table(
            ["state"],
            [Column("wirekafka_mirror_partitions", GAUGE, "Mirrored partitions by state.")],
        )
        self._source = Table(
            [],
            [
                Column(
                    "wirekafka_mirror_source_up", GAUGE, "1 while the mirrored cluster answers."
                ),
                Column(
                    "wirekafka_mirror_refused_topics",
                    GAUGE,
                    "Topics that are not copied, because they differ from the source's.",
                ),
            ],
        )
        self.tables = (self._source, self._states, self._partitions)

    def collect(self) -> Iterator[None]:
        mirroring = self._mirroring
        refused = len(mirroring.plan.refused)
        self._source.fill([((), (int(mirroring.error is None), refused))])
        counts = dict.fromkeys(_STATES, 0)
        self._partitions.begin()
        for (topic, index), copied in list(mirroring.copied.items()):
            counts[copied.state.value] += 1
            values = copied.lag, copied.copied_bytes, copied.skipped
            self._partitions.put((topic, str(index)), values)
            yield
        self._states.fill([((state,), (count,)) for state, count in counts.items()])
