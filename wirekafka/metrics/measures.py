"""All counters of a node, into which its parts count while metrics are on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from wirekafka.log.directories.recovery_progress import RecoveryProgress
from wirekafka.metrics.histogram import Histogram
from wirekafka.metrics.requests import Requests
from wirekafka.metrics.traffic import Traffic

LEAST_STALL_US = 50_000
"""From which delay of a timer on the event loop counts as stalled."""


@dataclass(slots=True)
class Stalls:
    """How long the event loop did other things when it should have run a timer; in µs."""

    delays: Histogram = field(default_factory=Histogram)
    count: int = 0
    """How many delays were of at least `LEAST_STALL_US`."""
    total_us: int = 0
    """Their sum."""

    def record(self, delay_us: int) -> None:
        """Count one delay."""
        self.delays.record(delay_us)
        if delay_us >= LEAST_STALL_US:
            self.count += 1
            self.total_us += delay_us


@dataclass(slots=True)
class CleanerRun:
    """The findings of the cleaner's last look for logs to compact."""

    at_ms: int | None = None
    """When it has last looked."""
    dirtiest: float = 0.0
    """The largest share, up to 1, of a dirty part in a log that it then found."""
    skipped: Mapping[str, int] = field(default_factory=dict)
    """How many logs it leaves out for some minutes because they could not be compacted, by path."""
    last_s: float = 0.0
    """How long the last compaction took."""


@dataclass(slots=True)
class Measures:
    """The counters of one node, from its start. Times of histograms are in µs."""

    requests: Requests = field(default_factory=Requests)
    traffic: Traffic = field(default_factory=Traffic)
    flushes: Histogram = field(default_factory=Histogram)
    """The fsyncs of partitions."""
    metadata_flushes: Histogram = field(default_factory=Histogram)
    """The fsyncs of the metadata log; each commits the records appended before."""
    compactions: Histogram = field(default_factory=Histogram)
    """The compactions of logs."""
    remote_reads: Histogram = field(default_factory=Histogram)
    """The reads of remote storage, each in a thread."""
    compacted_bytes: int = 0
    """The bytes that they have removed; appends meanwhile are subtracted."""
    compacting_bytes: int = 0
    """The bytes that the running compaction has still to read; 0 if none runs."""
    cleaner: CleanerRun = field(default_factory=CleanerRun)
    stalls: Stalls = field(default_factory=Stalls)
    telemetry: Callable[..., None] | None = None
    """Takes the metrics that clients push (KIP-714); clients see that it is there."""
    recovering: Mapping[str, RecoveryProgress] = field(default_factory=dict)
    """The remaining recovery at the start of a broker, by log directory."""
    idle: float = 1.0
    """The share of the last seconds in which the thread of the event loop did nothing."""

    def rotate(self) -> None:
        """Begin a window of all histograms."""
        self.requests.rotate()
        self.flushes.rotate()
        self.metadata_flushes.rotate()
        self.compactions.rotate()
        self.remote_reads.rotate()
        self.stalls.delays.rotate()
