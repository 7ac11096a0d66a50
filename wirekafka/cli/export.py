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

from wirekafka.cli.consume import json_line, text_fields
from wirekafka.cli.output import note
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
from wirekafka.visible_text import json_text

if TYPE_CHECKING:
    import pyarrow as pa

Write = Callable[["pa.RecordBatch"], None]
_CSV_NAMES = (
    "topic",
    "partition",
    "offset",
    "timestamp",
    "key",
    "key_base64",
    "value",
    "value_base64",
    "headers",
)


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
) -> None:
    """Write the records of a topic to a file, without a broker."""
    if output.suffix not in _WRITERS:
        raise CliError(f"{output}: the format is chosen by {', '.join(_WRITERS)}")
    if not output.parent.is_dir():
        raise CliError(f"there is no directory {output.parent}")
    isolation = "read_uncommitted" if uncommitted else "read_committed"
    has_headers = headers or output.suffix != ".parquet"
    with opened_log(source, tier=tier, key_prefix=key_prefix, to_log_end=to_log_end) as log:
        parts = ranges(log, topic, partition, start=start, until=until, isolation=isolation)
        found = log.batches(
            topic,
            [each.partition for each in parts],
            start={each.partition: each.start_offset for each in parts},
            end={each.partition: each.end_offset for each in parts},
            headers=has_headers,
            isolation=isolation,  # type: ignore[arg-type]
            on_error="skip" if skip_errors else "raise",
        )
        count = 0
        with _written(output, has_headers) as write, _progress(parts) as advance:
            for batch in found:
                write(batch)
                count += batch.num_rows
                advance(batch)
    note(f"{count} records in {output}")


@contextmanager
def _written(output: Path, has_headers: bool) -> Iterator[Write]:
    """A writer of batches; the file appears when all of them are written."""
    unfinished = output.with_name(f".{output.name}.unfinished")
    try:
        with _WRITERS[output.suffix](unfinished, has_headers) as write:
            yield write
        os.replace(unfinished, output)
    finally:
        with suppress(FileNotFoundError):
            unfinished.unlink()


@contextmanager
def _parquet(path: Path, has_headers: bool) -> Iterator[Write]:
    from pyarrow.parquet import ParquetWriter

    from wirekafka.tables.rows import schema

    with ParquetWriter(path, schema(headers=has_headers), compression="zstd") as writer:
        yield writer.write_batch


@contextmanager
def _json_lines(path: Path, _: bool) -> Iterator[Write]:
    with path.open("wb") as file:
        yield lambda batch: file.writelines(map(json_line, records(batch)))


@contextmanager
def _csv(path: Path, _: bool) -> Iterator[Write]:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, _CSV_NAMES)
        writer.writeheader()
        yield lambda batch: writer.writerows(map(_csv_fields, records(batch)))


_WRITERS: dict[str, Callable[[Path, bool], AbstractContextManager[Write]]] = {
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
