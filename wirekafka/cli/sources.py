"""The logs that commands read without a broker: directories, stores, and parts of their topics."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

import typer

from wirekafka.client.client import CliError

if TYPE_CHECKING:
    from wirekafka.reader import Log, Timestamp

_TIME = "such as 2026-11-01T00:00+00:00"

LogPlace = Annotated[
    str,
    typer.Argument(
        metavar="SOURCE",
        help="A log directory, several as in log.dirs (DIR,DIR), or the URL of a store "
        "(file://, s3://, gs://, az://).",
    ),
]
TierUrl = Annotated[
    str | None,
    typer.Option("--tier", metavar="URL", help="The store with older segments of the directories."),
]
KeyPrefix = Annotated[
    str, typer.Option("--key-prefix", metavar="PREFIX", help="Aiven's key.prefix.")
]
From = Annotated[
    str | None,
    typer.Option(
        "--from",
        "-f",
        metavar="WHERE",
        help=f"An offset, @MILLISECONDS since 1970, or a time {_TIME}.",
    ),
]
Until = Annotated[
    str | None,
    typer.Option("--until", "-u", metavar="WHERE", help="Where to stop, not included; as --from."),
]
Partitions = Annotated[
    list[int] | None,
    typer.Option("--partition", "-p", help="Read this partition only; may be repeated."),
]
LogEnd = Annotated[
    bool,
    typer.Option(
        "--to-log-end",
        help="Read beyond the high watermark too: for the directory of a broker that is gone.",
    ),
]
Uncommitted = Annotated[
    bool,
    typer.Option("--read-uncommitted", help="Include records of open and aborted transactions."),
]
SkipErrors = Annotated[
    bool, typer.Option("--skip-errors", help="Leave out damaged batches and records that are gone.")
]


class Range(NamedTuple):
    """The offsets of one partition that are read."""

    partition: int
    start_offset: int
    end_offset: int


@contextmanager
def opened_log(place: str, *, tier: str | None, key_prefix: str, to_log_end: bool) -> Iterator[Log]:
    """The log at directories or a URL. Raises CliError, also for a ReaderError of the block."""
    try:
        from wirekafka.reader import Log, ReaderError
    except ImportError as error:
        raise CliError(f"{error}: pip install 'wirekafka[tables]'") from error
    source = place if "://" in place else place.split(",")
    end: Literal["safe", "log"] = "log" if to_log_end else "safe"
    try:
        with Log.open(source, tier=tier, key_prefix=key_prefix, end=end) as log:
            yield log
    except ReaderError as error:
        raise CliError(str(error)) from error


def ranges(
    log: Log,
    topic: str,
    partitions: list[int] | None,
    *,
    start: str | None,
    until: str | None,
    isolation: str,
) -> list[Range]:
    """The ranges that --from and --until mean, within the safe ends.

    Raises CliError and ReaderError.
    """
    found = []
    for partition in partitions or log.partitions(topic):
        first, end = log.offsets(topic, partition, isolation=isolation)  # type: ignore[arg-type]
        begins = _offset(log, topic, partition, start, first, end)
        ends = min(_offset(log, topic, partition, until, end, end), end)
        found.append(Range(partition, begins, max(begins, ends)))
    return found


def _offset(
    log: Log, topic: str, partition: int, where: str | None, unlimited: int, late: int
) -> int:
    if where is None:
        return unlimited
    if re.fullmatch(r"\d{1,19}", where):
        return int(where)
    from wirekafka.reader.bounds import timestamp_ms

    found = log.offset_for_time(topic, partition, timestamp_ms(_time(where)))
    return late if found is None else found


def _time(where: str) -> datetime | Timestamp:
    from wirekafka.reader import Timestamp

    if re.fullmatch(r"@\d{1,19}", where):
        return Timestamp(int(where[1:]))
    try:
        time = datetime.fromisoformat(where)
    except ValueError:
        raise CliError(f"{where!r} is no offset, no @MILLISECONDS, and no time {_TIME}") from None
    if time.tzinfo is None:
        raise CliError(f"{where!r} has no time zone: write a time {_TIME}")
    return time
