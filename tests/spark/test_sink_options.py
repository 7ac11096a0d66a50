"""The options of writing, and what is refused before any row is touched."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from wirekafka.codec.compression import Codec
from wirekafka.spark.option_texts import OptionError
from wirekafka.spark.options import READING, WRITING, batch_options
from wirekafka.spark.sink_options import (
    BATCH_BYTES,
    TRANSACTION_TIMEOUT_MS,
    Use,
    has_transactional_id,
    sink_options,
)

STREAM = {"kafka.bootstrap.servers": "host:9092", "transactional.id": "orders"}
BATCH = {"kafka.bootstrap.servers": "host:9092"}


def test_stream_has_defaults() -> None:
    options = sink_options(STREAM, "stream")
    assert options.transactional_id == "orders"
    assert options.is_exactly_once and not options.replaces_marker
    assert options.batch_bytes == BATCH_BYTES
    assert options.transaction_timeout_ms == TRANSACTION_TIMEOUT_MS
    assert options.compression is Codec.NONE
    assert pickle.loads(pickle.dumps(options)) == options


def test_names_have_any_case_as_spark_passes_them_on() -> None:
    given = {
        "kafka.BOOTSTRAP.servers": "host:9092",
        "EXACTLYONCE": "False",
        "kafka.compression.type": "ZSTD",
        "kafka.compression.zstd.level": "7",
        "kafka.batch.size": "1000",
        "kafka.security.protocol": "SSL",
        "TOPIC": "orders",
    }
    options = sink_options(given, "stream")
    assert not options.is_exactly_once
    assert (options.compression, options.level) == (Codec.ZSTD, 7)
    assert options.batch_bytes == 1000
    assert options.topic == "orders"
    assert options.client == {"security.protocol": "SSL"}


def test_transactional_id_may_have_the_prefix_of_producers() -> None:
    given = BATCH | {"kafka.transactional.id": "orders"}
    assert sink_options(given, "stream").transactional_id == "orders"
    assert has_transactional_id(given) and has_transactional_id({"Transactional.ID": "orders"})
    assert not has_transactional_id(BATCH)


def test_checkpoint_is_absolute_as_spark_makes_it() -> None:
    def checkpoint(text: str) -> str | None:
        return sink_options(STREAM | {"checkpointLocation": text}, "stream").checkpoint

    assert checkpoint("/tmp/orders/") == "file:/tmp/orders"
    assert checkpoint("orders") == f"file:{Path.cwd()}/orders"
    assert checkpoint("s3a://bucket/orders") == "s3a://bucket/orders"


REFUSED: list[tuple[Use, dict[str, str], str]] = [
    ("stream", {"transactional.id": "orders"}, "kafka.bootstrap.servers is missing"),
    ("stream", BATCH, "transactional.id is missing"),
    ("stream", STREAM | {"exactlyOnce": "false"}, "transactional.id contradicts exactlyOnce"),
    ("stream", STREAM | {"exactlyOnce": "maybe"}, "exactlyOnce: 'maybe' is not true or false"),
    ("stream", STREAM | {"kafka.transactional.id": "b"}, "kafka.transactional.id contradicts"),
    ("stream", STREAM | {"kafka.acks": "1"}, "kafka.acks: '1' is not all"),
    ("stream", STREAM | {"kafka.enable.idempotence": "false"}, "kafka.enable.idempotence: false"),
    ("stream", STREAM | {"kafka.compression.type": "lzo"}, "kafka.compression.type: 'lzo'"),
    ("stream", STREAM | {"kafka.compression.gzip.level": "10"}, "kafka.compression.gzip.level"),
    ("stream", STREAM | {"kafka.batch.size": "0"}, "kafka.batch.size: '0'"),
    ("stream", STREAM | {"kafka.transaction.timeout.ms": "x"}, "kafka.transaction.timeout.ms: 'x'"),
    ("stream", STREAM | {"kafka.linger.ms": "5"}, "kafka.linger.ms is no option"),
    ("stream", STREAM | {"kafka.security.protocol": "TLS"}, "kafka.security.protocol: "),
    ("stream", STREAM | {"topics": "a"}, "topics is no option"),
    ("batch", BATCH | {"replaceMarker": "true"}, "replaceMarker is for streams"),
    (
        "batch",
        BATCH | {"exactlyOnce": "false", "kafka.transaction.timeout.ms": "1000"},
        "kafka.transaction.timeout.ms contradicts",
    ),
]


@pytest.mark.parametrize(("use", "given", "reason"), REFUSED)
def test_refusals_name_the_option(use: Use, given: dict[str, str], reason: str) -> None:
    with pytest.raises(OptionError, match=reason):
        sink_options(given, use)


@pytest.mark.parametrize("name", READING)
def test_options_of_reading_are_refused_when_writing(name: str) -> None:
    with pytest.raises(OptionError, match=f"{name} is for reading"):
        sink_options(BATCH | {name.lower(): "1"}, "batch")


@pytest.mark.parametrize("name", WRITING)
def test_options_of_writing_are_refused_when_reading(name: str) -> None:
    with pytest.raises(OptionError, match=f"{name} is for writing"):
        batch_options(BATCH | {"subscribe": "orders", name.lower(): "1"})
