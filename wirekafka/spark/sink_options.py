"""The options of writing, named as the options of Spark's kafka format and of Kafka's producer."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from wirekafka.codec.compression import Codec
from wirekafka.config.client_config import ClientConfig
from wirekafka.spark.option_texts import (
    OptionError,
    OptionTexts,
    boolean,
    check_client,
    nonempty,
    positive,
)
from wirekafka.spark.options import READING

BATCH_BYTES = 500_000
"""The largest record batch: half of what a topic's `max.message.bytes` allows by default."""
TRANSACTION_TIMEOUT_MS = 60_000
CLIENT_ID = "wirekafka-spark"
_LEVELS = {Codec.GZIP: range(1, 10), Codec.LZ4: range(1, 18), Codec.ZSTD: range(-131072, 23)}
"""The levels of each codec that has them, as producers accept them."""

_TRANSACTIONAL = ("transactional.id", "kafka.transactional.id")
_INTEGER, _SCHEME = re.compile("-?[0-9]+"), re.compile("[A-Za-z][A-Za-z0-9+.-]*:")

Use = Literal["stream", "batch"]


@dataclass(frozen=True)
class SinkOptions:
    """What a query writes to, and how; it can be pickled."""

    bootstrap: str
    client: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The options of connections, as in Kafka's client configurations."""
    topic: str | None = None
    """The topic of all records; None for the topics of the column `topic`."""
    transactional_id: str | None = None
    is_exactly_once: bool = True
    replaces_marker: bool = False
    """Whether the first batch of a run is written whatever the marker says of earlier ones."""
    compression: Codec = Codec.NONE
    level: int | None = None
    batch_bytes: int = BATCH_BYTES
    transaction_timeout_ms: int = TRANSACTION_TIMEOUT_MS
    checkpoint: str | None = None

    @property
    def config(self) -> ClientConfig:
        """The options of connections, parsed."""
        return ClientConfig(self.client)

    @property
    def client_id(self) -> str:
        """The name by which brokers know the query's connections."""
        return self.client.get("client.id", CLIENT_ID)


def sink_options(given: Mapping[str, str], use: Use) -> SinkOptions:
    """The options of a query that writes. Raises OptionError."""
    texts = OptionTexts(given)
    texts.refuse("is for reading", *READING)
    bootstrap = texts.take("kafka.bootstrap.servers", nonempty)
    if bootstrap is None:
        raise OptionError("kafka.bootstrap.servers is missing: give HOST:PORT of brokers")
    is_exactly_once = texts.take("exactlyOnce", boolean) is not False
    if not is_exactly_once:
        reason = "contradicts exactlyOnce=false"
        texts.refuse(reason, *_TRANSACTIONAL, "kafka.transaction.timeout.ms", "replaceMarker")
    elif use == "batch":
        texts.refuse("is for streams", "replaceMarker")
    name = texts.one_of(*_TRANSACTIONAL)
    transactional_id = None if name is None else texts.take(name, nonempty)
    if use == "stream" and is_exactly_once and transactional_id is None:
        raise OptionError(
            "transactional.id is missing: give a name that this query always has, and that no"
            " other producer has; or give exactlyOnce=false"
        )
    texts.take("kafka.acks", _all)
    texts.take("kafka.enable.idempotence", _true)
    codec = texts.take("kafka.compression.type", _codec) or Codec.NONE
    options = SinkOptions(
        bootstrap=bootstrap,
        topic=texts.take("topic", nonempty),
        transactional_id=transactional_id,
        is_exactly_once=is_exactly_once,
        replaces_marker=texts.take("replaceMarker", boolean) is True,
        compression=codec,
        level=_level(texts, codec),
        batch_bytes=texts.take("kafka.batch.size", positive) or BATCH_BYTES,
        transaction_timeout_ms=texts.take("kafka.transaction.timeout.ms", positive)
        or TRANSACTION_TIMEOUT_MS,
        checkpoint=texts.take("checkpointLocation", _absolute),
        client=texts.client(),
    )
    check_client(options.client)
    texts.take("queryName", nonempty)
    texts.refuse_others()
    return options


def has_transactional_id(given: Mapping[str, str]) -> bool:
    """Whether the options are of a query that writes exactly once."""
    return any(name.lower() in _TRANSACTIONAL for name in given)


def _level(texts: OptionTexts, codec: Codec) -> int | None:
    """The level of the codec; levels of other codecs are checked, but of no use."""
    levels = {
        each: texts.take(f"kafka.compression.{each.name.lower()}.level", _level_within(allowed))
        for each, allowed in _LEVELS.items()
    }
    return levels.get(codec)


def _level_within(allowed: range) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not _INTEGER.fullmatch(text.strip()) or int(text) not in allowed:
            raise ValueError(f"{text!r} is not a level from {allowed[0]} to {allowed[-1]}")
        return int(text)

    return parse


def _codec(text: str) -> Codec:
    codec = {each.name.lower(): each for each in Codec}.get(text.strip().lower())
    if codec is None:
        raise ValueError(f"{text!r} is not none, gzip, snappy, lz4 or zstd")
    return codec


def _all(text: str) -> str:
    if text.strip().lower() not in ("all", "-1"):
        raise ValueError(f"{text!r} is not all: this sink waits for all replicas in sync")
    return text


def _true(text: str) -> bool:
    if not boolean(text):
        raise ValueError("false: this sink always writes without repeated or reordered batches")
    return True


def _absolute(text: str) -> str:
    """The checkpoint's path as Spark makes it absolute."""
    path = nonempty(text).rstrip("/") or "/"
    return path if _SCHEME.match(path) else f"file:{Path(path).absolute()}"
