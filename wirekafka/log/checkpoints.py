"""Kafka's small text files: offset checkpoints, partition and directory metadata."""

from __future__ import annotations

import json
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from functools import lru_cache

TopicPartition = tuple[str, int]

RECOVERY_POINTS = "recovery-point-offset-checkpoint"
START_OFFSETS = "log-start-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
CLEANER_OFFSETS = "cleaner-offset-checkpoint"
PARTITION_METADATA = "partition.metadata"
META_PROPERTIES = "meta.properties"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
LOCK = ".lock"

UNKNOWN_BROKER_EPOCH = -1
_PLAIN = re.compile("[A-Za-z0-9_-]+")
"""Values that need no escapes in a Java properties file, such as most cluster ids."""


class BadCheckpoint(ValueError):
    """A checkpoint file that is not in Kafka's format."""


def offsets_text(offsets: Mapping[TopicPartition, int]) -> bytes:
    """An offset checkpoint, version 0: the number of entries, `topic partition offset` lines."""
    lines = [f"{topic} {index} {offset}\n" for (topic, index), offset in offsets.items()]
    return f"0\n{len(lines)}\n{''.join(lines)}".encode()


def offsets_from(text: bytes) -> dict[TopicPartition, int]:
    """The inverse of `offsets_text`; an empty file has none. Raises BadCheckpoint."""
    offsets = {}
    for topic, index, offset in _rows(text, 3):
        offsets[topic, _number(index)] = _number(offset)
    return offsets


@lru_cache(maxsize=16)  # A topic's partitions are created in a row.
def partition_metadata_text(topic_id: bytes) -> bytes:
    """The `partition.metadata` file, 43 bytes: without its topic id Kafka declares a log stray."""
    return f"version: 0\ntopic_id: {uuid_text(topic_id)}".encode()


@lru_cache(maxsize=16)
def partition_metadata_from(text: bytes) -> bytes | None:
    """The topic id in `partition.metadata`, 16 bytes; None without one, as after a power cut."""
    for line in text.decode("utf-8", "replace").splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "topic_id":
            try:
                return uuid_from(value.strip())
            except ValueError:
                return None
    return None


def meta_properties_text(cluster_id: str, node_id: int, directory_id: bytes) -> bytes:
    """The `meta.properties` file, version 1: the node that owns a log directory (KIP-631)."""
    lines = [
        "#",
        _property("cluster.id", cluster_id),
        f"directory.id={uuid_text(directory_id)}",
        f"node.id={node_id}",
        "version=1",
    ]
    return "".join(line + "\n" for line in lines).encode()


def _property(name: str, value: str) -> str:
    if _PLAIN.fullmatch(value):
        return f"{name}={value}"
    from javaproperties import join_key_value  # Here, as in the next function: it takes 30 ms.

    return join_key_value(name, value, separator="=")


def properties_from(text: bytes) -> dict[str, str]:
    """The `name=value` lines of a properties file; `#` begins a comment. Raises BadCheckpoint."""
    if b"\\" in text:
        from javaproperties import loads

        try:
            return {name: value.strip() for name, value in loads(text).items()}
        except ValueError as error:
            raise BadCheckpoint(str(error)) from error
    properties = {}
    for line in text.decode("utf-8", "replace").splitlines():
        line = line.strip()
        if line and line[0] not in "#!":
            name, _, value = line.partition("=")
            properties[name.strip()] = value.strip()
    return properties


def clean_shutdown_text(broker_epoch: int) -> bytes:
    """The clean shutdown marker (KIP-966): with it Kafka opens logs without a scan."""
    return json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":")).encode()


def clean_shutdown_from(text: bytes) -> int:
    """The broker epoch in the clean shutdown marker; -1 without one."""
    try:
        epoch = json.loads(text)["brokerEpoch"]
    except (ValueError, KeyError, TypeError):
        return UNKNOWN_BROKER_EPOCH
    return epoch if isinstance(epoch, int) else UNKNOWN_BROKER_EPOCH


def uuid_text(uuid: bytes) -> str:
    """Kafka's form of a UUID: 22 base64url characters without padding."""
    return urlsafe_b64encode(uuid).rstrip(b"=").decode()


def uuid_from(text: str) -> bytes:
    """The 16 bytes of a UUID in Kafka's form. Raises ValueError."""
    uuid = urlsafe_b64decode(text + "=" * (-len(text) % 4))
    if len(uuid) != 16:
        raise ValueError(f"{text!r} is not a UUID of 16 bytes")
    return uuid


def _rows(text: bytes, columns: int) -> list[list[str]]:
    lines = text.decode("utf-8", "replace").splitlines()
    if not lines:
        return []
    if len(lines) < 2 or _number(lines[0]) != 0:
        raise BadCheckpoint(f"unknown checkpoint version {lines[0]!r}")
    rows = [line.split() for line in lines[2:] if line]
    if len(rows) != _number(lines[1]):
        raise BadCheckpoint(f"{lines[1]} entries declared, {len(rows)} found")
    if any(len(row) != columns for row in rows):
        raise BadCheckpoint(f"a line without {columns} columns")
    return rows


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise BadCheckpoint(f"{text!r} is not a number") from None
