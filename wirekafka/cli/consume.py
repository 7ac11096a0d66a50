"""Consume: prints the records of a topic, alone or as a member of a group."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from wirekafka.cli.output import BOOTSTRAP, AsJson, Bootstrap, CommandConfig, note
from wirekafka.cli.schemas.access import RegistryUrl, opened_registry
from wirekafka.client.client import Client, CliError
from wirekafka.client.fetcher import FetchedRecord, TopicFetcher
from wirekafka.client.membership import GroupMembership
from wirekafka.client.record_fields import text_fields
from wirekafka.visible_text import json_text, visible

if TYPE_CHECKING:
    from wirekafka.cli.schemas.decoding import RecordDecoder

_LATEST, _EARLIEST = -1, -2
_COMMIT_EVERY_S = 5.0
_TOKEN = re.compile(rb"%[tpoTkvh%]")


class ConsumeLimits(NamedTuple):
    """When to stop: after a number of records, a time without one, or at the present end."""

    records: int | None
    idle_s: float | None
    at_end: bool


def command(
    topic: Annotated[str, typer.Argument(help="The topic to read.")],
    *,
    bootstrap: Bootstrap = BOOTSTRAP,
    command_config: CommandConfig = None,
    start: Annotated[
        str,
        typer.Option(
            "--from",
            "-f",
            metavar="WHERE",
            help="beginning, end, an offset, -N for the last N, or @MILLISECONDS since 1970. "
            "In a group: for partitions without a committed offset.",
        ),
    ] = "end",
    partition: Annotated[
        list[int] | None,
        typer.Option("--partition", "-p", help="Read this partition only; may be repeated."),
    ] = None,
    group: Annotated[
        str | None, typer.Option("--group", "-g", help="Join this group, and commit what was read.")
    ] = None,
    max_messages: Annotated[
        int | None,
        typer.Option("--max-messages", "-n", min=0, help="Stop after this many records."),
    ] = None,
    timeout: Annotated[
        float | None,
        typer.Option(
            "--timeout", "-t", metavar="SECONDS", help="Stop after this time without a record."
        ),
    ] = None,
    at_end: Annotated[
        bool, typer.Option("--exit-at-end", "-e", help="Stop at the present end of the topic.")
    ] = False,
    committed_only: Annotated[
        bool,
        typer.Option("--read-committed", help="Skip records of open and aborted transactions."),
    ] = False,
    template: Annotated[
        str,
        typer.Option(
            "--format",
            help="%t topic, %p partition, %o offset, %T timestamp, %k key, %v value, "
            "%h headers, %% a percent sign; \\n and \\t as usual. On a terminal, control "
            "characters of records are shown as escapes.",
        ),
    ] = "%v\\n",
    decode: Annotated[
        bool,
        typer.Option(
            "--decode",
            help="Print keys and values as JSON, by the schemas of a registry that they name.",
        ),
    ] = False,
    schema_registry: RegistryUrl = None,
    as_json: AsJson = False,
) -> None:
    """Print the records of a topic."""
    if group is not None and partition:
        raise CliError("--group and --partition: a group shares out the partitions itself")
    limits = ConsumeLimits(max_messages, timeout, at_end)
    write = json_line if as_json else _Template(template, _visible if sys.stdout.isatty() else _raw)
    if decode:
        from wirekafka.cli.schemas.decoding import RecordDecoder

        registry = opened_registry(schema_registry, command_config)
        write = DecodedLines(RecordDecoder(registry), None if as_json else write)
    with Client(bootstrap, command_config) as client:
        fetcher = TopicFetcher(client, topic, committed_only=committed_only)
        if group is None:
            reading = _read_alone(fetcher, partition, start, limits)
        else:
            reading = _read_in_group(fetcher, GroupMembership(client, group, topic), start, limits)
        count = _print(reading, fetcher, write)
    if sys.stderr.isatty():
        note(f"{count} records from {topic}")


def _print(
    reading: Generator[FetchedRecord, None, None],
    fetcher: TopicFetcher,
    write: Callable[[FetchedRecord], bytes],
) -> int:
    """Print records until the end or Ctrl-C; returns how many."""
    count = 0
    output = sys.stdout.buffer
    # Output appears at once on a terminal, and in large pieces in a full pipe.
    fetcher.before_waiting = output.flush
    try:
        for record in reading:
            output.write(write(record))
            count += 1
    except KeyboardInterrupt:
        pass
    finally:
        reading.close()
        output.flush()
    return count


def _read_alone(
    fetcher: TopicFetcher, partitions: list[int] | None, start: str, limits: ConsumeLimits
) -> Generator[FetchedRecord, None, None]:
    chosen = partitions or fetcher.partitions()
    fetcher.assign(start_offsets(fetcher, chosen, start))
    yield from _limited(fetcher, limits, lambda: False)


def _read_in_group(
    fetcher: TopicFetcher, membership: GroupMembership, start: str, limits: ConsumeLimits
) -> Generator[FetchedRecord, None, None]:
    left = limits.records
    try:
        while left is None or left > 0:
            mine = membership.join()
            known = membership.committed(mine)
            fresh = start_offsets(fetcher, [i for i in mine if i not in known], start)
            fetcher.assign(known | fresh)
            keeper = _Keeper(fetcher, membership)
            for record in _limited(fetcher, limits._replace(records=left), keeper.must_rejoin):
                left = None if left is None else left - 1
                yield record
            keeper.commit()
            if not keeper.rejoins:
                return
    except GeneratorExit:
        keeper.commit()
        raise
    finally:
        membership.leave()


class _Keeper:
    """Sends heartbeats and commits offsets between records."""

    def __init__(self, fetcher: TopicFetcher, membership: GroupMembership) -> None:
        self._fetcher, self._membership = fetcher, membership
        self._committed_at = time.monotonic()
        self.rejoins = False

    def must_rejoin(self) -> bool:
        """Send a heartbeat and commit when due; returns whether the group rebalances."""
        if time.monotonic() - self._committed_at > _COMMIT_EVERY_S:
            self.commit()
        self.rejoins = self._membership.must_rejoin()
        return self.rejoins

    def commit(self) -> None:
        """Commit the positions that moved."""
        self._committed_at = time.monotonic()
        self._membership.commit(self._fetcher.moved())


def _limited(
    fetcher: TopicFetcher, limits: ConsumeLimits, interrupted: Callable[[], bool]
) -> Generator[FetchedRecord, None, None]:
    """Records until a limit is met or `interrupted()` says so, between fetches."""
    left = limits.records
    ends = fetcher.ends() if limits.at_end else None
    quiet_since = time.monotonic()
    while left is None or left > 0:
        if interrupted() or (ends is not None and fetcher.has_reached(ends)):
            return
        wait_s = 0.5
        if limits.idle_s is not None:
            wait_s = min(wait_s, quiet_since + limits.idle_s - time.monotonic())
        if wait_s <= 0:
            return
        for record in fetcher.fetch(wait_s):
            if ends is not None and record.offset >= ends[record.partition]:
                continue
            yield record
            quiet_since = time.monotonic()
            left = None if left is None else left - 1
            if left == 0:
                return


def start_offsets(fetcher: TopicFetcher, partitions: list[int], start: str) -> dict[int, int]:
    """The start offset of each partition; CliError for an invalid --from."""
    if not partitions:
        return {}
    if start in ("beginning", "earliest"):
        return fetcher.offsets(partitions, _EARLIEST)
    if start in ("end", "latest"):
        return fetcher.offsets(partitions, _LATEST)
    number = start.removeprefix("@")
    if not re.fullmatch(r"-?\d{1,19}", number):
        raise CliError(f"bad --from {start!r}: beginning, end, OFFSET, -N or @MILLISECONDS")
    if start.startswith("@"):
        latest = fetcher.offsets(partitions, _LATEST)
        found = fetcher.offsets(partitions, int(number))
        return {i: found[i] if found[i] >= 0 else latest[i] for i in partitions}
    if int(start) >= 0:
        return dict.fromkeys(partitions, int(start))
    earliest, latest = (fetcher.offsets(partitions, at) for at in (_EARLIEST, _LATEST))
    return {i: max(earliest[i], latest[i] + int(start)) for i in partitions}


def _raw(data: bytes) -> bytes:
    return data


def _visible(data: bytes) -> bytes:
    """The writer of a record could otherwise control the terminal of its reader."""
    return visible(data.decode(errors="backslashreplace")).encode()


class _Template:
    """Prints records by a pattern; `show` makes a record's contents fit for the output.

    The text of the pattern itself is printed as it is.
    """

    def __init__(self, template: str, show: Callable[[bytes], bytes]) -> None:
        self._pattern = template.encode().decode("unicode_escape").encode("latin-1")
        self._show = show

    def __call__(self, record: FetchedRecord) -> bytes:
        if self._pattern == b"%v\n":
            return self._show(record.value or b"") + b"\n"
        return _TOKEN.sub(lambda token: self._show(_piece(token[0], record)), self._pattern)


def _piece(token: bytes, record: FetchedRecord) -> bytes:
    match token:
        case b"%t":
            return record.topic.encode()
        case b"%p":
            return b"%d" % record.partition
        case b"%o":
            return b"%d" % record.offset
        case b"%T":
            return b"%d" % record.timestamp
        case b"%k":
            return record.key or b""
        case b"%v":
            return record.value or b""
        case b"%h":
            return b",".join(
                name.encode() + b"=" + (value or b"") for name, value in record.headers
            )
        case _:
            return b"%"


class DecodedLines:
    """Writes decoded records: by `write`, or as JSON lines, in which they are values of JSON."""

    def __init__(
        self, decoder: RecordDecoder, write: Callable[[FetchedRecord], bytes] | None
    ) -> None:
        self._decoder, self._write = decoder, write

    def __call__(self, record: FetchedRecord) -> bytes:
        decoded = self._decoder.decoded(record)
        if self._write is not None:
            return self._write(decoded.as_text(record))
        fields: dict[str, Any] = {}
        for name, value in _json_fields(record).items():
            part = decoded.fields_of(name.removesuffix("_base64"))
            fields |= {name: value} if part is None else part
        return json_text(fields).encode() + b"\n"


def json_line(record: FetchedRecord) -> bytes:
    """A record as one line of JSON."""
    return json_text(_json_fields(record)).encode() + b"\n"


def _json_fields(record: FetchedRecord) -> dict[str, Any]:
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        **text_fields("key", record.key),
        **text_fields("value", record.value),
        "headers": [
            {"name": name, **text_fields("value", value)} for name, value in record.headers
        ],
    }
