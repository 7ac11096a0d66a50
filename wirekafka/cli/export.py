"""Export: the records of a topic in a log directory or a store, as a file of another format."""

from __future__ import annotations

import csv
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wirekafka.cli.consume import DecodedLines, json_line
from wirekafka.cli.output import CommandConfig, note
from wirekafka.cli.schemas.access import RegistryUrl, opened_registry
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
from wirekafka.client.client import CliError
from wirekafka.client.fetcher import FetchedRecord
from wirekafka.client.record_fields import CSV_NAMES, text_fields
from wirekafka.visible_text import json_text

if TYPE_CHECKING:
    import pyarrow as pa

    from wirekafka.cli.schemas.decoding import RecordDecoder

Write = Callable[["pa.RecordBatch"], None]
_DECODED_NAMES = ("key_decoded", "value_decoded")


def command(
    source: LogPlace,
    topic: Annotated[str, typer.Argument(help="The topic to read.")],
    output: Annotated[
        Path, typer.Argument(metavar="FILE", help="FILE.parquet, FILE.jsonl or FILE.csv.")
    ],
    *,
    start: From = None,
    until: Until = None,
    partition: Partitions = None,
    tier: TierUrl = None,
    key_prefix: KeyPrefix = "",
    headers: Annotated[bool, typer.Option("--headers", help="The column headers, too.")] = False,
    uncommitted: Uncommitted = False,
    to_log_end: LogEnd = False,
    skip_errors: SkipErrors = False,
    decode: Annotated[
        bool,
        typer.Option(
            "--decode",
            help="Keys and values as JSON, by the schemas of a registry that they name; in Parquet"
            " as further columns key_decoded and value_decoded.",
        ),
    ] = False,
    schema_registry: RegistryUrl = None,
    command_config: CommandConfig = None,
) -> None:
    """Write the records of a topic to a file, without a broker."""
    if output.suffix not in _WRITERS:
        raise CliError(f"{output}: the format is chosen by {', '.join(_WRITERS)}")
    if not output.parent.is_dir():
        raise CliError(f"there is no directory {output.parent}")
    isolation = "read_uncommitted" if uncommitted else "read_committed"
    has_headers = headers or output.suffix != ".parquet"
    decoder = _decoder(schema_registry, command_config) if decode else None
    with opened_log(source, tier=tier, key_prefix=key_prefix, to_log_end=to_log_end) as log:
        parts = ranges(log, topic, partition, start=start, until=until, isolation=isolation)
        found = log.batches(
            topic,
            [each.partition for each in parts],
            start={each.partition: each.start_offset for each in parts},
            end={each.partition: each.end_offset for each in parts},
            headers=has_headers or decode,
            isolation=isolation,  # type: ignore[arg-type]
            on_error="skip" if skip_errors else "raise",
        )
        count = 0
        with _written(output, has_headers, decoder) as write, _progress(parts) as advance:
            for batch in found:
                write(batch)
                count += batch.num_rows
                advance(batch)
    note(f"{count} records in {output}")


def _decoder(url: str | None, command_config: Path | None) -> RecordDecoder:
    from wirekafka.cli.schemas.decoding import RecordDecoder

    return RecordDecoder(opened_registry(url, command_config))


@contextmanager
def _written(output: Path, has_headers: bool, decoder: RecordDecoder | None) -> Iterator[Write]:
    """A writer of batches; the file appears when all of them are written."""
    unfinished = output.with_name(f".{output.name}.unfinished")
    try:
        with _WRITERS[output.suffix](unfinished, has_headers, decoder) as write:
            yield write
        os.replace(unfinished, output)
    finally:
        with suppress(FileNotFoundError):
            unfinished.unlink()


@contextmanager
def _parquet(path: Path, has_headers: bool, decoder: RecordDecoder | None) -> Iterator[Write]:
    import pyarrow as pa
    from pyarrow.parquet import ParquetWriter

    from wirekafka.tables.rows import schema

    columns = schema(headers=has_headers)
    if decoder is not None:
        columns = pa.schema([*columns, *((name, pa.string()) for name in _DECODED_NAMES)])
    with ParquetWriter(path, columns, compression="zstd") as writer:
        if decoder is None:
            yield writer.write_batch
        else:
            yield lambda batch: writer.write_batch(_with_decoded(batch, decoder, columns))


def _with_decoded(
    batch: pa.RecordBatch, decoder: RecordDecoder, columns: pa.Schema
) -> pa.RecordBatch:
    """The columns of a batch, and its decoded keys and values as JSON; null if not decoded."""
    import pyarrow as pa

    keys, values = [], []
    for record in records(batch):
        decoded = decoder.decoded(record)
        keys.append(None if decoded.key is None else json_text(decoded.key.value))
        values.append(None if decoded.value is None else json_text(decoded.value.value))
    added = dict(zip(_DECODED_NAMES, (keys, values), strict=True))
    arrays = [
        pa.array(added[each.name], each.type) if each.name in added else batch.column(each.name)
        for each in columns
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=columns)


@contextmanager
def _json_lines(path: Path, _: bool, decoder: RecordDecoder | None) -> Iterator[Write]:
    line = json_line if decoder is None else DecodedLines(decoder, None)
    with path.open("wb") as file:
        yield lambda batch: file.writelines(map(line, records(batch)))


@contextmanager
def _csv(path: Path, _: bool, decoder: RecordDecoder | None) -> Iterator[Write]:
    def fields(record: FetchedRecord) -> dict[str, Any]:
        shown = record if decoder is None else decoder.decoded(record).as_text(record)
        return _csv_fields(shown)

    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, CSV_NAMES)
        writer.writeheader()
        yield lambda batch: writer.writerows(map(fields, records(batch)))


_WRITERS: dict[str, Callable[[Path, bool, RecordDecoder | None], AbstractContextManager[Write]]] = {
    ".parquet": _parquet,
    ".jsonl": _json_lines,
    ".csv": _csv,
}


def records(batch: pa.RecordBatch) -> Iterator[FetchedRecord]:
    """The rows of a batch with headers, as records; timestamps in ms."""
    import pyarrow as pa

    times = batch.column("timestamp").cast(pa.int64()).to_pylist()
    for row, time in zip(batch.drop_columns(["timestamp"]).to_pylist(), times, strict=True):
        yield FetchedRecord(
            topic=row["topic"],
            partition=row["partition"],
            offset=row["offset"],
            timestamp=-1 if time is None else time // 1000,
            key=row["key"],
            value=row["value"],
            headers=tuple((each["key"], each["value"]) for each in row["headers"] or ()),
        )


def _csv_fields(record: FetchedRecord) -> dict[str, Any]:
    headers = [{"name": name, **text_fields("value", value)} for name, value in record.headers]
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        **text_fields("key", record.key),
        **text_fields("value", record.value),
        "headers": json_text(headers) if headers else "",
    }


@contextmanager
def _progress(parts: list[Range]) -> Iterator[Callable[[pa.RecordBatch], None]]:
    """A bar on a terminal, by the offsets that have been reached."""
    if not sys.stderr.isatty():
        yield lambda batch: None
        return
    from rich.console import Console
    from rich.progress import Progress

    total = sum(each.end_offset - each.start_offset for each in parts)
    before: dict[int, int] = {}
    done = 0
    for each in parts:
        before[each.partition] = done - each.start_offset
        done += each.end_offset - each.start_offset
    with Progress(console=Console(stderr=True)) as bar:
        task = bar.add_task("offsets", total=total)

        def advance(batch: pa.RecordBatch) -> None:
            partition = batch.column("partition")[-1].as_py()
            reached = batch.column("offset")[-1].as_py() + 1
            bar.update(task, completed=before[partition] + reached)

        yield advance
        bar.update(task, completed=total)
