"""The options of the data source, named as the options of Spark's kafka format."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from wirekafka.regex import InvalidRegex, Regex
from wirekafka.spark.option_texts import (
    OptionError,
    OptionTexts,
    boolean,
    check_client,
    nonempty,
    parsed,
    positive,
)

if TYPE_CHECKING:
    from wirekafka.reader.log_reader import OnError
    from wirekafka.reader.source import Isolation

READING = (
    *("path", "paths", "tier", "onError", "subscribe", "subscribePattern", "assign"),
    *("startingOffsets", "startingOffsetsByTimestamp", "startingTimestamp"),
    *("endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp"),
    *("startingOffsetsByTimestampStrategy", "failOnDataLoss", "includeHeaders", "columns"),
    *("minPartitions", "maxRecordsPerPartition", "maxOffsetsPerTrigger"),
)
"""The options that only reading has."""
WRITING = ("topic", "transactional.id", "exactlyOnce", "replaceMarker")
"""The options that only writing has."""
EARLIEST, LATEST = -2, -1
"""The offsets that stand for the ends of a partition."""

T = TypeVar("T")
Offsets: TypeAlias = dict[str, dict[int, int]]
"""Offsets, or timestamps in ms, by topic and partition."""


@dataclass(frozen=True)
class ChosenTopics:
    """Which partitions are read: by name, by expression, or listed one by one."""

    names: tuple[str, ...] = ()
    pattern: str | None = None
    assigned: Mapping[str, tuple[int, ...]] | None = None


@dataclass(frozen=True)
class Position:
    """Where reading begins or ends: `EARLIEST` or `LATEST`, by partition, or by time."""

    everywhere: int | None = None
    offsets: Offsets | None = None
    timestamp_ms: int | None = None
    timestamps_ms: Offsets | None = None


@dataclass(frozen=True)
class Options:
    """What a query reads, from where, and in which steps; it can be pickled."""

    topics: ChosenTopics
    start: Position
    end: Position
    paths: tuple[str, ...] = ()
    tier: str | None = None
    bootstrap: str | None = None
    client: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The options of connections, as in Kafka's client configurations."""
    isolation: Isolation = "read_committed"
    fails_on_data_loss: bool = True
    includes_headers: bool = False
    columns: tuple[str, ...] | None = None
    min_partitions: int | None = None
    max_records_per_partition: int | None = None
    max_offsets_per_trigger: int | None = None
    late_start_is_latest: bool = False
    """Whether reading begins at the end where no record is as new as the starting timestamp."""
    on_error: OnError = "raise"
    """Whether damaged batches of files fail the query or are left out."""


def batch_options(given: Mapping[str, str]) -> Options:
    """The options of a batch query. Raises OptionError."""
    texts = OptionTexts(given)
    texts.refuse("is for streams", "maxOffsetsPerTrigger")
    start = _position(texts, "starting", default=EARLIEST)
    end = _position(texts, "ending", default=LATEST)
    if start.everywhere == LATEST or LATEST in _values(start.offsets):
        raise OptionError("startingOffsets: a batch query cannot start at the latest offset")
    if end.everywhere == EARLIEST or EARLIEST in _values(end.offsets):
        raise OptionError("endingOffsets: a batch query cannot end at the earliest offset")
    return _options(texts, start, end)


def stream_options(given: Mapping[str, str]) -> Options:
    """The options of a streaming query. Raises OptionError."""
    texts = OptionTexts(given)
    reason = "is for batch queries: a stream has no end"
    texts.refuse(reason, "endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp")
    start = _position(texts, "starting", default=LATEST)
    return _options(texts, start, Position(LATEST))


def chosen_columns(given: Mapping[str, str]) -> tuple[tuple[str, ...] | None, bool]:
    """The columns that are named, None for the usual columns; and whether headers are added."""
    texts = OptionTexts(given)
    headers = texts.take("includeHeaders", boolean)
    return texts.take("columns", _columns), bool(headers)


def _options(texts: OptionTexts, start: Position, end: Position) -> Options:
    texts.refuse("is for writing", *WRITING)
    client = texts.client()
    paths = _paths(texts)
    bootstrap = client.pop("bootstrap.servers", None)
    if paths and bootstrap is not None:
        raise OptionError("kafka.bootstrap.servers contradicts path: give one of them")
    if not paths and bootstrap is None:
        raise OptionError("give path (a log directory) or kafka.bootstrap.servers")
    isolation = parsed("kafka.isolation.level", _isolation, client.pop("isolation.level", None))
    if client and bootstrap is None:
        raise OptionError(f"kafka.{next(iter(client))} needs kafka.bootstrap.servers")
    check_client(client)
    tier = texts.take("tier", nonempty)
    on_error = texts.take("onError", _on_error)
    for name, value in {"tier": tier, "onError": on_error}.items():
        if value is not None and bootstrap is not None:
            raise OptionError(f"{name} contradicts kafka.bootstrap.servers: it is for path")
    columns, headers = texts.take("columns", _columns), texts.take("includeHeaders", boolean)
    strategy = texts.take("startingOffsetsByTimestampStrategy", _strategy)
    options = Options(
        topics=_topics(texts),
        start=start,
        end=end,
        paths=paths,
        tier=tier,
        bootstrap=bootstrap,
        client=client,
        isolation=isolation or "read_committed",
        fails_on_data_loss=texts.take("failOnDataLoss", boolean) is not False,
        includes_headers=bool(headers),
        columns=columns,
        min_partitions=texts.take("minPartitions", positive),
        max_records_per_partition=texts.take("maxRecordsPerPartition", positive),
        max_offsets_per_trigger=texts.take("maxOffsetsPerTrigger", positive),
        late_start_is_latest=strategy == "latest",
        on_error=on_error or "raise",
    )
    texts.refuse_others()
    return options


def _paths(texts: OptionTexts) -> tuple[str, ...]:
    """The directories of `load(path)`, or of `load([path, path])`."""
    if texts.one_of("path", "paths") == "paths":
        return texts.take("paths", _list_of_texts) or ()
    path = texts.take("path", nonempty)
    return () if path is None else (path,)


def _topics(texts: OptionTexts) -> ChosenTopics:
    match texts.one_of("subscribe", "subscribePattern", "assign"):
        case "subscribe":
            return ChosenTopics(names=texts.take("subscribe", _names) or ())
        case "subscribePattern":
            return ChosenTopics(pattern=texts.take("subscribePattern", _pattern))
        case "assign":
            return ChosenTopics(assigned=texts.take("assign", _assigned))
    raise OptionError("give one of subscribe, subscribePattern and assign")


def _position(texts: OptionTexts, word: str, *, default: int) -> Position:
    """The position by `startingOffsets`, or `endingOffsets`, or the like by time."""
    offsets, by_time, time = f"{word}Offsets", f"{word}OffsetsByTimestamp", f"{word}Timestamp"
    match texts.one_of(time, by_time, offsets):
        case None:
            return Position(default)
        case name if name == time:
            return Position(timestamp_ms=texts.take(time, _timestamp))
        case name if name == by_time:
            return Position(timestamps_ms=texts.take(by_time, _timestamps))
    return texts.take(offsets, _offsets) or Position(default)


def _offsets(text: str) -> Position:
    match text.strip().lower():
        case "earliest":
            return Position(EARLIEST)
        case "latest":
            return Position(LATEST)
    found = parse_offsets(text)
    if any(offset < EARLIEST for offset in _values(found)):
        raise ValueError("an offset is less than -2, which stands for the earliest")
    return Position(offsets=found)


def parse_offsets(text: str) -> Offsets:
    """Decode offsets such as {"orders": {"0": 12, "1": -2}}. Raises ValueError."""
    form = 'expected JSON such as {"orders": {"0": 12, "1": 34}}'
    found = _json(text, form)
    if not isinstance(found, dict):
        raise ValueError(form)
    offsets: Offsets = {}
    for topic, partitions in found.items():
        if not isinstance(partitions, dict):
            raise ValueError(form)
        for partition, offset in partitions.items():
            is_offset = isinstance(offset, int) and not isinstance(offset, bool)
            if not partition.isdigit() or not is_offset:
                raise ValueError(form)
            offsets.setdefault(topic, {})[int(partition)] = offset
    return offsets


def _timestamps(text: str) -> Offsets:
    found = parse_offsets(text)
    if any(timestamp < 0 for timestamp in _values(found)):
        raise ValueError("a timestamp is negative")
    return found


def _assigned(text: str) -> dict[str, tuple[int, ...]]:
    form = 'expected JSON such as {"orders": [0, 1]}'
    found = _json(text, form)
    if not isinstance(found, dict) or not found:
        raise ValueError(form)
    for partitions in found.values():
        is_list = isinstance(partitions, list) and partitions
        if not is_list or not all(type(each) is int and each >= 0 for each in partitions):
            raise ValueError(form)
    return {topic: tuple(sorted(set(partitions))) for topic, partitions in found.items()}


def _json(text: str, form: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        raise ValueError(form) from None


def _names(text: str) -> tuple[str, ...]:
    names = tuple(sorted({name.strip() for name in text.split(",")} - {""}))
    if not names:
        raise ValueError("no topic")
    return names


def _pattern(text: str) -> str:
    try:
        Regex(text)
    except InvalidRegex as error:
        raise ValueError(f"not an expression of RE2: {error}") from None
    return text


def _columns(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    if not names:
        raise ValueError("no column")
    from wirekafka.tables.rows import schema

    return tuple(schema(names).names)


def _timestamp(text: str) -> int:
    if not text.strip().isdigit():
        raise ValueError(f"{text!r} is not a time in ms since 1970")
    return int(text)


def _strategy(text: str) -> str:
    if text.strip().lower() not in ("error", "latest"):
        raise ValueError(f"{text!r} is not error or latest")
    return text.strip().lower()


def _on_error(text: str) -> OnError:
    match text.strip().lower():
        case "raise" | "skip" as chosen:
            return chosen
    raise ValueError(f"{text!r} is not raise or skip")


def _isolation(text: str) -> Isolation:
    match text.strip().lower():
        case "read_committed" | "read_uncommitted" as chosen:
            return chosen
    raise ValueError(f"{text!r} is not read_committed or read_uncommitted")


def _list_of_texts(text: str) -> tuple[str, ...]:
    form = 'expected JSON such as ["/disk1", "/disk2"]'
    found = _json(text, form)
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        raise ValueError(form)
    return tuple(found)


def _values(offsets: Offsets | None) -> list[int]:
    return [each for partitions in (offsets or {}).values() for each in partitions.values()]
