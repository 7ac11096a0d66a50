"""`wirekafka produce`: appends each line of standard input as a record, in batches."""

from __future__ import annotations

import json
import os
import select
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wirekafka.cli.configs import pairs
from wirekafka.cli.output import BOOTSTRAP, AsJson, Bootstrap, CommandConfig, note, show_json
from wirekafka.cli.schemas.access import RegistryUrl, SchemaType, opened_registry
from wirekafka.client.client import RETRY_FOR_S, Client, CliError, check
from wirekafka.client.partitioner import partition_of
from wirekafka.codec.compression import Codec
from wirekafka.codec.record import BatchOptions, Record, encode_batch
from wirekafka.errors import Error
from wirekafka.protocol.produce import ProduceRequest, ProduceResponse

if TYPE_CHECKING:
    from wirekafka.client.value_encoder import ValueEncoder

# Half of the default message.max.bytes, so that a batch fits however it compresses.
BATCH_BYTES = 500_000
_RECORD_OVERHEAD_BYTES = 32
_LINGER_S = 0.05
_READ_BYTES = 1 << 18
_TIMEOUT_MS = 30_000
# From version 13 on, requests name topics by id, which has no advantage for one command.
_NAMED = 12

Headers = tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LineFormat:
    """How lines are parsed into records."""

    key_separator: bytes | None
    null: bytes | None
    headers: Headers
    is_json: bool
    key_encoder: ValueEncoder | None = None
    value_encoder: ValueEncoder | None = None


class BatchProducer:
    """Batches per partition, sent when full or flushed."""

    def __init__(self, client: Client, topic: str, codec: Codec, acks: int) -> None:
        self._client, self._topic, self._codec, self._acks = client, topic, codec, acks
        self._leaders = self._find_leaders()
        self._pending: dict[int, list[Record]] = {}
        self._pending_bytes: dict[int, int] = {}
        self._sticky = 0
        self.counts: dict[int, int] = {}

    def add(self, record: Record, partition: int | None) -> None:
        """Queue a record for a partition, its key's by default; CliError if there is none."""
        if partition is None:
            partition = (
                self._sticky if record.key is None else partition_of(record.key, len(self._leaders))
            )
        if partition not in self._leaders:
            raise CliError(f"topic {self._topic} has no partition {partition}")
        size = len(record.key or b"") + len(record.value or b"") + _RECORD_OVERHEAD_BYTES
        if self._pending_bytes.get(partition, 0) + size > BATCH_BYTES:
            self._send(partition)
        self._pending.setdefault(partition, []).append(record)
        self._pending_bytes[partition] = self._pending_bytes.get(partition, 0) + size

    def flush(self) -> None:
        """Send the queued records."""
        for partition in list(self._pending):
            self._send(partition)

    def _send(self, partition: int) -> None:
        records = self._pending.pop(partition, [])
        self._pending_bytes.pop(partition, None)
        if not records:
            return
        # Keyless records change partition with every batch, so that all of them fill.
        self._sticky = (self._sticky + 1) % len(self._leaders)
        batch = encode_batch(records, options=BatchOptions(compression=self._codec))
        self._deliver(partition, batch)
        self.counts[partition] = self.counts.get(partition, 0) + len(records)

    def _deliver(self, partition: int, batch: bytes) -> None:
        deadline = time.monotonic() + RETRY_FOR_S
        while True:
            connection = self._client.node(self._leaders[partition])
            request = _request(self._topic, partition, batch, self._acks)
            if not self._acks:
                connection.post(request, most=_NAMED)
                return
            response = connection.send(request, ProduceResponse, most=_NAMED)
            [result] = response.responses[0].partition_responses
            error = Error(result.error_code)
            if not error or not error.retriable or time.monotonic() > deadline:
                check(result.error_code, f"{self._topic}-{partition}", result.error_message)
                return
            time.sleep(0.1)
            self._leaders = self._find_leaders()

    def _find_leaders(self) -> dict[int, int]:
        topic = self._client.topic(self._topic, create=True)
        return {p.partition_index: p.leader_id for p in topic.partitions}


def command(
    topic: Annotated[str, typer.Argument(help="The topic to write to.")],
    *,
    bootstrap: Bootstrap = BOOTSTRAP,
    command_config: CommandConfig = None,
    key_separator: Annotated[
        str | None, typer.Option("--key-separator", "-K", help="The separator of key and value.")
    ] = None,
    header: Annotated[
        list[str] | None,
        typer.Option("--header", "-H", metavar="NAME=VALUE", help="A header of every record."),
    ] = None,
    partition: Annotated[
        int | None, typer.Option("--partition", "-p", help="Write to this partition only.")
    ] = None,
    compression: Annotated[
        str, typer.Option("--compression", "-z", help="none, gzip, snappy, lz4 or zstd.")
    ] = "none",
    acks: Annotated[str, typer.Option("--acks", "-a", help="0, 1 or all.")] = "all",
    null: Annotated[
        str | None,
        typer.Option("--null", "-Z", metavar="TEXT", help="A key or value of this text is null."),
    ] = None,
    json_input: Annotated[
        bool,
        typer.Option(
            "--json-input",
            help="Lines are JSON objects: key, value, headers, partition, timestamp.",
        ),
    ] = False,
    schema: Annotated[
        str | None,
        typer.Option(
            "--schema",
            metavar="SUBJECT|FILE",
            help="Values are JSON, encoded by the latest schema of this subject, or by the schema "
            "of an .avsc, .json or .proto file, which is registered under TOPIC-value.",
        ),
    ] = None,
    key_schema: Annotated[
        str | None,
        typer.Option(
            "--key-schema",
            metavar="SUBJECT|FILE",
            help="Keys are JSON, encoded as values are by --schema; a file's is TOPIC-key.",
        ),
    ] = None,
    schema_type: SchemaType = None,
    schema_registry: RegistryUrl = None,
    as_json: AsJson = False,
) -> None:
    """Append standard input to a topic, one record per line."""
    line_format = LineFormat(
        key_separator=_bytes(key_separator),
        null=_bytes(null),
        is_json=json_input,
        headers=tuple((k, v.encode()) for k, v in pairs(header, "--header").items()),
    )
    words = _SchemaWords(value=schema, key=key_schema, type_name=schema_type)
    if words.are_given:
        line_format = _with_schemas(line_format, topic, words, schema_registry, command_config)
    with Client(bootstrap, command_config) as client:
        producer = BatchProducer(client, topic, codec_named(compression), _acks(acks))
        for number, line in enumerate(_lines(producer), 1):
            record, own = _record(line, number, line_format)
            producer.add(record, partition if own is None else own)
        producer.flush()
    total = sum(producer.counts.values())
    if as_json:
        show_json(
            {
                "topic": topic,
                "records": total,
                "partitions": {
                    str(index): count for index, count in sorted(producer.counts.items())
                },
            }
        )
    else:
        note(f"{total} records to {topic}")


@dataclass(frozen=True, slots=True, kw_only=True)
class _SchemaWords:
    """The options that name schemas."""

    value: str | None
    key: str | None
    type_name: str | None

    @property
    def are_given(self) -> bool:
        return self.value is not None or self.key is not None


def _with_schemas(
    line_format: LineFormat,
    topic: str,
    words: _SchemaWords,
    url: str | None,
    command_config: Path | None,
) -> LineFormat:
    """The same format with the encoders of keys and values. Raises CliError."""
    from wirekafka.cli.schemas.encoding import encoder_of

    if words.key is not None and not (line_format.is_json or line_format.key_separator):
        raise CliError("--key-schema: only lines of --key-separator or --json-input have keys")
    with opened_registry(url, command_config) as registry:
        key, value = (
            None if word is None else encoder_of(registry, word, subject, words.type_name)
            for word, subject in ((words.key, f"{topic}-key"), (words.value, f"{topic}-value"))
        )
    return replace(line_format, key_encoder=key, value_encoder=value)


def _lines(producer: BatchProducer) -> Iterator[bytes]:
    """Lines of standard input without their ends; flushes when no more come for a moment."""
    source = sys.stdin.fileno()
    rest = b""
    while chunk := os.read(source, _READ_BYTES):
        *lines, rest = (rest + chunk).split(b"\n")
        yield from (line.removesuffix(b"\r") for line in lines)
        if not select.select([source], [], [], _LINGER_S)[0]:
            producer.flush()
    if rest:
        yield rest


def _record(line: bytes, number: int, line_format: LineFormat) -> tuple[Record, int | None]:
    if line_format.is_json:
        return _json_record(line, number, line_format)
    key: bytes | None = None
    value: bytes | None = line
    if line_format.key_separator is not None:
        key, separator, value = line.partition(line_format.key_separator)
        if not separator:
            raise CliError(f"line {number}: no key separator")
    if line_format.null is not None:
        key = None if key == line_format.null else key
        value = None if value == line_format.null else value
    key = _encoded_text(key, line_format.key_encoder, f"line {number}: key")
    value = _encoded_text(value, line_format.value_encoder, f"line {number}: value")
    record = Record(key=key, value=value, headers=line_format.headers, timestamp=_now_ms())
    return record, None


def _encoded_text(data: bytes | None, encoder: ValueEncoder | None, place: str) -> bytes | None:
    if data is None or encoder is None:
        return data
    try:
        return encoder.encoded_text(data)
    except CliError as error:
        raise CliError(f"{place}: {error}") from None


def _json_record(line: bytes, number: int, line_format: LineFormat) -> tuple[Record, int | None]:
    try:
        fields = json.loads(line)
    except ValueError as error:
        raise CliError(f"line {number}: not JSON: {error}") from None
    if not isinstance(fields, dict):
        raise CliError(f"line {number}: not a JSON object")
    own = tuple((str(k), _json_bytes(v)) for k, v in (fields.get("headers") or {}).items())
    record = Record(
        key=_encoded(fields.get("key"), line_format.key_encoder, f"line {number}: key"),
        value=_encoded(fields.get("value"), line_format.value_encoder, f"line {number}: value"),
        headers=line_format.headers + own,
        timestamp=int(fields.get("timestamp") or _now_ms()),
    )
    return record, fields.get("partition")


def _encoded(value: Any, encoder: ValueEncoder | None, place: str) -> bytes | None:
    if value is None or encoder is None:
        return _json_bytes(value)
    try:
        return encoder.encoded(value)
    except CliError as error:
        raise CliError(f"{place}: {error}") from None


def _json_bytes(value: Any) -> bytes | None:
    if value is None:
        return None
    return (value if isinstance(value, str) else json.dumps(value)).encode()


def _request(topic: str, partition: int, batch: bytes, acks: int) -> ProduceRequest:
    data = ProduceRequest.TopicProduceData
    return ProduceRequest(
        acks=acks,
        timeout_ms=_TIMEOUT_MS,
        topic_data=[
            data(
                name=topic,
                partition_data=[data.PartitionProduceData(index=partition, records=batch)],
            )
        ],
    )


def codec_named(name: str) -> Codec:
    """The codec of a --compression option."""
    if name.upper() not in Codec.__members__:
        raise CliError(f"no compression {name!r}: none, gzip, snappy, lz4 or zstd")
    return Codec[name.upper()]


def _acks(word: str) -> int:
    known = {"0": 0, "1": 1, "all": -1, "-1": -1}
    if word not in known:
        raise CliError(f"bad --acks {word!r}: 0, 1 or all")
    return known[word]


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode().decode("unicode_escape").encode("latin-1")


def _now_ms() -> int:
    return int(time.time() * 1000)
