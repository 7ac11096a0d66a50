"""What every archived log directory holds: the same topics, records and offsets."""

from __future__ import annotations

from pathlib import Path

VERSIONS = (
    "3.3.2",
    "3.4.1",
    "3.5.2",
    "3.6.2",
    "3.7.2",
    "3.8.1",
    "3.9.1",
    "4.0.1",
    "4.1.2",
    "4.2.0",
    "4.3.1",
    "4.4.0",
)

CLUSTER_ID = "b1R0aGVyIG9yYWNsZSEhIQ"
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
RECORDS_PER_CODEC = 3
START_MS = 1_700_000_000_000

EVENTS = "events"
"""One batch per codec, timestamps one second apart."""
EVENTS_CONFIG = {"retention.ms": "-1", "max.message.bytes": "200000"}

TABLE = "table"
"""Compacted; keys a, b, a, and a tombstone for b."""
TABLE_CONFIG = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.9"}
TABLE_RECORDS: tuple[tuple[bytes, bytes | None], ...] = (
    (b"a", b"1"),
    (b"b", b"2"),
    (b"a", b"3"),
    (b"b", None),
)

LEDGER = "ledger"
"""Written by one producer: a transaction committed, one aborted, one committed."""
LEDGER_CONFIG = {"retention.ms": "-1"}
TRANSACTIONAL_ID = "bookkeeper"
COMMITTED = (b"kept 0", b"kept 1", b"kept 2")
ABORTED = (b"dropped 0", b"dropped 1")

GROUP = "readers"
GROUP_OFFSET = 7
GROUP_METADATA = "by hand\0"
"""librdkafka sends the zero that ends a C string too."""


def events() -> list[tuple[int, bytes, bytes]]:
    """Timestamp in ms, key and value of each record of EVENTS, in order."""
    return [
        (START_MS + 1000 * number, b"key %d" % number, b"%d %s" % (number, codec.encode() * 40))
        for number, codec in enumerate(codec for codec in CODECS for _ in range(RECORDS_PER_CODEC))
    ]


def archive(version: str) -> Path:
    """The archive of the log directory that this release of Kafka wrote."""
    return Path(__file__).parent / f"kafka-{version}.tar.xz"
