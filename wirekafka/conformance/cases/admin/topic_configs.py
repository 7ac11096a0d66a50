"""A valid and an invalid value of each configuration of topics."""

from __future__ import annotations

from typing import NamedTuple


class TopicConfig(NamedTuple):
    """Values of one configuration of topics; the valid value is not the default."""

    name: str
    valid: str
    invalid: str


TOPIC_CONFIGS = (
    TopicConfig("cleanup.policy", "compact,delete", "compact,shred"),
    TopicConfig("compression.gzip.level", "5", "10"),
    TopicConfig("compression.lz4.level", "17", "18"),
    TopicConfig("compression.type", "zstd", "rar"),
    TopicConfig("compression.zstd.level", "-131072", "23"),
    TopicConfig("delete.retention.ms", "0", "-1"),
    TopicConfig("file.delete.delay.ms", "0", "-1"),
    TopicConfig("flush.messages", "1", "0"),
    TopicConfig("flush.ms", "0", "-1"),
    TopicConfig("follower.replication.throttled.replicas", "0:1,1:2", "0-1"),
    TopicConfig("index.interval.bytes", "0", "-1"),
    TopicConfig("leader.replication.throttled.replicas", "*", "0:1:2"),
    TopicConfig("local.retention.bytes", "-1", "-3"),
    TopicConfig("local.retention.ms", "-1", "-3"),
    TopicConfig("max.compaction.lag.ms", "1", "0"),
    TopicConfig("max.message.bytes", "0", "-1"),
    TopicConfig("message.timestamp.after.max.ms", "0", "-1"),
    TopicConfig("message.timestamp.before.max.ms", "0", "-1"),
    TopicConfig("message.timestamp.type", "LogAppendTime", "logappendtime"),
    TopicConfig("min.cleanable.dirty.ratio", "1", "1.1"),
    TopicConfig("min.compaction.lag.ms", "1", "-1"),
    TopicConfig("min.insync.replicas", "2", "0"),
    TopicConfig("preallocate", "true", "yes"),
    TopicConfig("remote.log.copy.disable", "false", "maybe"),
    TopicConfig("remote.log.delete.on.disable", "false", "maybe"),
    TopicConfig("remote.storage.enable", "false", "maybe"),
    TopicConfig("retention.bytes", "0", "half"),
    TopicConfig("retention.ms", "-1", "-2"),
    TopicConfig("segment.bytes", "1048576", "1048575"),
    TopicConfig("segment.index.bytes", "8192", "3"),
    TopicConfig("segment.jitter.ms", "1", "-1"),
    TopicConfig("segment.ms", "1", "0"),
    TopicConfig("unclean.leader.election.enable", "true", "1"),
)

MALFORMED: dict[str, tuple[str, str]] = {
    "a number with a point": ("retention.ms", "1.5"),
    "a number with an exponent": ("retention.ms", "1e3"),
    "a number with a plus": ("retention.ms", "+5"),
    "a number between spaces": ("retention.ms", " 7 "),
    "a number with a leading zero": ("retention.ms", "07"),
    "an empty number": ("retention.ms", ""),
    "a number with more than 64 bits": ("retention.ms", "9223372036854775808"),
    "a number with more than 32 bits": ("max.message.bytes", "2147483648"),
    "no number for a fraction": ("min.cleanable.dirty.ratio", "NaN"),
    "a fraction below 0": ("min.cleanable.dirty.ratio", "-0.1"),
    "a fraction with spaces": ("min.cleanable.dirty.ratio", " 0.250 "),
    "a boolean in capitals": ("preallocate", "TRUE"),
    "an empty boolean": ("preallocate", ""),
    "a choice in capitals": ("compression.type", "GZIP"),
    "a choice between spaces": ("compression.type", " gzip "),
    "an empty choice": ("compression.type", ""),
    "an empty list": ("cleanup.policy", ""),
    "a list with spaces": ("cleanup.policy", "compact, delete"),
    "a list with an empty element": ("cleanup.policy", "compact,,delete"),
    "a list with an element twice": ("cleanup.policy", "compact,compact"),
    "a list that ends with a comma": ("cleanup.policy", "compact,"),
    "a gzip level of 0": ("compression.gzip.level", "0"),
    "the default gzip level": ("compression.gzip.level", "-1"),
    "a gzip level below the default": ("compression.gzip.level", "-2"),
    "a zstd level that is too low": ("compression.zstd.level", "-131073"),
    "an lz4 level of 0": ("compression.lz4.level", "0"),
    "all throttled replicas but one": ("leader.replication.throttled.replicas", "*,0:1"),
    "no throttled replicas": ("leader.replication.throttled.replicas", ""),
    "any negative number of bytes": ("retention.bytes", "-7"),
    "an internal configuration": ("internal.segment.bytes", "1000"),
    "the smallest index": ("segment.index.bytes", "4"),
    "an unknown configuration": ("no.such.key", "1"),
    "an empty configuration name": ("", "1"),
    "a configuration name in capitals": ("RETENTION.MS", "1000"),
    "a configuration with the name that brokers use": ("log.retention.ms", "1000"),
    "a configuration of brokers": ("num.io.threads", "4"),
    "a configuration that was removed": ("message.format.version", "2.8"),
    "a configuration that was removed with a bad value": ("message.downconversion.enable", "no"),
}
"""A configuration with a value by what is peculiar; some are accepted."""

TOGETHER: dict[str, tuple[tuple[str, str], ...]] = {
    "a local retention longer than the retention": (
        ("retention.ms", "1000"),
        ("local.retention.ms", "1001"),
    ),
    "a larger local retention than the retention": (
        ("retention.bytes", "1000"),
        ("local.retention.bytes", "1001"),
    ),
    "a local retention as long as the retention": (
        ("retention.ms", "1000"),
        ("local.retention.ms", "1000"),
    ),
    "an endless local retention in a short retention": (
        ("retention.ms", "1000"),
        ("local.retention.ms", "-1"),
    ),
    "a shortest compaction lag above the longest": (
        ("min.compaction.lag.ms", "1001"),
        ("max.compaction.lag.ms", "1000"),
    ),
    "equal compaction lags": (("min.compaction.lag.ms", "1000"), ("max.compaction.lag.ms", "1000")),
    "a jitter above the time of segments": (("segment.ms", "1000"), ("segment.jitter.ms", "1001")),
    "messages larger than segments": (
        ("segment.bytes", "1048576"),
        ("max.message.bytes", "1048577"),
    ),
    "two bad values": (("segment.bytes", "1"), ("no.such.key", "1")),
}
"""Configurations that depend on each other."""
