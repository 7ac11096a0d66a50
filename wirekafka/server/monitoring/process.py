"""Metrics of the process and of its event loop."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from wirekafka.metrics.exposition import COUNTER, GAUGE, SUMMARY, Column, Summary, Table, single
from wirekafka.metrics.histogram import QUANTILES, Histogram, quantiles
from wirekafka.metrics.measures import Measures
from wirekafka.server.descriptors import DESCRIPTORS

_US_PER_S = 1_000_000
_IO = "/proc/self/io"


class LoopCollector:
    """How busy and how blocked the event loop is, and how long fsyncs and compactions take."""

    def __init__(self, measures: Measures):
        self._measures = measures
        self._table = Table(
            [],
            [
                Column(
                    "kafka_network_socketserver_networkprocessoravgidle_percent",
                    GAUGE,
                    "The share of time, up to 1, in which the thread that serves was idle.",
                ),
                Column(
                    "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent",
                    GAUGE,
                    "The same: one thread does all of it.",
                ),
                Column(
                    "wirekafka_event_loop_stalls_total",
                    COUNTER,
                    "How often the event loop was blocked for 50 ms or longer.",
                ),
                Column(
                    "wirekafka_event_loop_stall_seconds_total",
                    COUNTER,
                    "For how long these stalls have blocked it.",
                ),
                Column(
                    "wirekafka_event_loop_delay_seconds",
                    SUMMARY,
                    "How late timers of the event loop run.",
                ),
                Column(
                    "kafka_log_logflushstats_logflushrateandtimems",
                    SUMMARY,
                    "The fsyncs of partitions, in milliseconds.",
                ),
                Column(
                    "wirekafka_metadata_fsync_seconds",
                    SUMMARY,
                    "The fsyncs of the metadata log, in seconds.",
                ),
                Column("wirekafka_compaction_seconds", SUMMARY, "Finished compactions of logs."),
                Column(
                    "wirekafka_compaction_remaining_bytes",
                    GAUGE,
                    "Bytes that the running compaction has still to read; 0 if none runs.",
                ),
                Column(
                    "wirekafka_compacted_bytes_total", COUNTER, "Bytes that compactions removed."
                ),
            ],
        )
        self.tables = (self._table,)

    def collect(self) -> Iterator[None]:
        measures, stalls = self._measures, self._measures.stalls
        self._table.fill(
            [
                (
                    (),
                    (
                        measures.idle,
                        measures.idle,
                        stalls.count,
                        stalls.total_us / _US_PER_S,
                        _summary(stalls.delays, _US_PER_S),
                        _summary(measures.flushes, 1000),
                        _summary(measures.metadata_flushes, _US_PER_S),
                        _summary(measures.compactions, _US_PER_S),
                        measures.compacting_bytes,
                        measures.compacted_bytes,
                    ),
                )
            ]
        )
        yield


def _summary(histogram: Histogram, divisor: int) -> Summary:
    found = quantiles([histogram], QUANTILES)
    return Summary({name: value / divisor for name, value in found.items()}, histogram.count)


class RefusalCollector:
    """The connections that were refused for lack of descriptors."""

    def __init__(self) -> None:
        self._table = single(
            "wirekafka_refused_connections_total",
            COUNTER,
            "Connections that were closed at once: the last descriptors are for the node's files.",
        )
        self.tables = (self._table,)

    def collect(self) -> Iterator[None]:
        self._table.fill([((), (DESCRIPTORS.refused,))])
        yield


class DiskCollector:
    """The process's reads and writes of disks, where the system reports them (Linux)."""

    def __init__(self) -> None:
        prefix = "kafka_server_kafkaserver_linux_disk"
        self._table = Table(
            [],
            [
                Column(f"{prefix}_read_bytes", GAUGE, "Bytes read from disks since the start."),
                Column(f"{prefix}_write_bytes", GAUGE, "Bytes written to disks since the start."),
            ],
        )
        self.tables = (self._table,)

    def collect(self) -> Iterator[None]:
        self._table.begin()
        with suppress(OSError, ValueError, KeyError), open(_IO) as lines:
            found = dict(line.strip().split(": ") for line in lines)
            self._table.put((), (int(found["read_bytes"]), int(found["write_bytes"])))
        yield
