"""Replay: the records of a topic in files or a store are produced again, at their former pace."""

from __future__ import annotations

import heapq
import math
import re
import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from wirekafka.cli.export import records
from wirekafka.cli.output import CommandConfig, note
from wirekafka.cli.produce import BatchProducer, codec_named
from wirekafka.cli.sources import (
    From,
    KeyPrefix,
    LogEnd,
    LogPlace,
    Partitions,
    Range,
    SkipErrors,
    TierUrl,
    Uncommitted,
    Until,
    opened_log,
    ranges,
)
from wirekafka.client.client import Client, CliError
from wirekafka.client.fetcher import FetchedRecord
from wirekafka.codec.record import Record

if TYPE_CHECKING:
    from wirekafka.reader import Log

_ALL_REPLICAS = -1
_LEAST_WAIT_S = 0.002


def command(
    source: LogPlace,
    topic: Annotated[str, typer.Argument(help="The topic to read.")],
    *,
    to: Annotated[str, typer.Option("--to", metavar="HOST:PORT", help="The brokers to write to.")],
    to_topic: Annotated[
        str | None, typer.Option("--topic", metavar="NAME", help="Write to this topic instead.")
    ] = None,
    speed: Annotated[
        str, typer.Option("--speed", help="1x keeps the gaps in time, 10x cuts them; or max.")
    ] = "1x",
    compression: Annotated[
        str, typer.Option("--compression", "-z", help="none, gzip, snappy, lz4 or zstd.")
    ] = "none",
    command_config: CommandConfig = None,
    start: From = None,
    until: Until = None,
    partition: Partitions = None,
    tier: TierUrl = None,
    key_prefix: KeyPrefix = "",
    uncommitted: Uncommitted = False,
    to_log_end: LogEnd = False,
    skip_errors: SkipErrors = False,
) -> None:
    """Produce the records of a topic again: keys, headers, timestamps and partitions are kept."""
    pace = _Pace(_factor(speed))
    target = to_topic or topic
    isolation = "read_uncommitted" if uncommitted else "read_committed"
    with opened_log(source, tier=tier, key_prefix=key_prefix, to_log_end=to_log_end) as log:
        parts = ranges(log, topic, partition, start=start, until=until, isolation=isolation)
        on_error = "skip" if skip_errors else "raise"
        each_partition = [_records(log, topic, part, isolation, on_error) for part in parts]
        with Client(to, command_config) as client:
            producer = BatchProducer(client, target, codec_named(compression), _ALL_REPLICAS)
            for found in heapq.merge(*each_partition, key=_time_of):
                pace.keep(found.timestamp, producer)
                producer.add(
                    Record(
                        timestamp=found.timestamp,
                        key=found.key,
                        value=found.value,
                        headers=found.headers,
                    ),
                    found.partition,
                )
            producer.flush()
    note(f"{sum(producer.counts.values())} records to {target}")


class _Pace:
    """Waits for as long as there was nothing between two records, divided by a factor."""

    def __init__(self, factor: float):
        self._factor = factor
        self._first_ms: int | None = None
        self._began_s = 0.0

    def keep(self, timestamp_ms: int, producer: BatchProducer) -> None:
        """Send what is queued and wait, if it is too early for a record of that time."""
        if self._first_ms is None:
            self._first_ms, self._began_s = timestamp_ms, time.monotonic()
        due_s = self._began_s + (timestamp_ms - self._first_ms) / 1000 / self._factor
        wait_s = due_s - time.monotonic()
        if wait_s > _LEAST_WAIT_S:
            producer.flush()
            time.sleep(max(due_s - time.monotonic(), 0))


def _records(
    log: Log, topic: str, part: Range, isolation: str, on_error: str
) -> Iterator[FetchedRecord]:
    batches = log.batches(
        topic,
        [part.partition],
        start={part.partition: part.start_offset},
        end={part.partition: part.end_offset},
        headers=True,
        isolation=isolation,  # type: ignore[arg-type]
        on_error=on_error,  # type: ignore[arg-type]
        max_rows=1 << 12,
    )
    return _flat(records(batch) for batch in batches)


def _flat(groups: Iterable[Iterator[FetchedRecord]]) -> Iterator[FetchedRecord]:
    for group in groups:
        yield from group


def _factor(speed: str) -> float:
    if speed == "max":
        return math.inf
    if not re.fullmatch(r"\d{1,6}(\.\d{1,6})?x?", speed) or not float(speed.rstrip("x")):
        raise CliError(f"bad --speed {speed!r}: 1x, 10x, 0.5x or max")
    return float(speed.rstrip("x"))


def _time_of(record: FetchedRecord) -> int:
    return record.timestamp
