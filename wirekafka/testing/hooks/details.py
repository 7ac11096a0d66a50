"""The effect of a recorded exchange on each partition, in the words of its report."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

from wirekafka.codec.batch import batches
from wirekafka.codec.record import decode_records
from wirekafka.errors import KafkaError
from wirekafka.log.slice import LogSlice
from wirekafka.testing.hooks.subjects import TOPIC_LISTS, NameOf, partition_index, partition_list

NamesOfIds = Mapping[bytes, str]
"""The names of topics by their ids."""

ShownValue = Callable[[bytes | None, Iterable[tuple[str, bytes | None]]], str | None]
"""The text for a value with its record's headers; None for a value that is not decoded."""

_NO_ID = bytes(16)
_NO_OFFSET = -1
_SHOWN_VALUES = 3
_TIMES = {
    -1: "latest",
    -2: "earliest",
    -3: "the offset of the largest timestamp",
    -4: "the earliest local offset",
    -5: "the latest tiered offset",
    -6: "the earliest offset not in the remote tier",
}
"""The meaning of the special timestamps of ListOffsets."""


def names_of_ids(request: Any, name_of: NameOf) -> dict[bytes, str]:
    """The names of the topics that a request names by ids."""
    found = {}
    for entry in _topics(request):
        topic_id = getattr(entry, "topic_id", _NO_ID)
        if topic_id != _NO_ID and (name := name_of(topic_id)) is not None:
            found[topic_id] = name
    return found


def record_counts(response: Any, names: NamesOfIds) -> dict[tuple[str, int], int]:
    """How many records each partition of a Fetch response has."""
    return {
        key: count
        for key, entry in _entries(response, names)
        if (count := _count(entry.records)) is not None
    }


def details(
    request: Any, response: Any, names: NamesOfIds, fetched: Mapping[tuple[str, int], int]
) -> list[str]:
    """For each partition: offsets that were asked for, written or returned, and record counts.

    `fetched` has the counts of a Fetch response, whose records are not kept.
    """
    asked = {key: _asked(entry) for key, entry in _entries(request, names)}
    answered = {key: _answered(entry) for key, entry in _entries(response, names)}
    lines = []
    for topic, index in dict.fromkeys((*asked, *fetched, *answered)):
        key = topic, index
        count = fetched.get(key)
        words = [
            *([_records(count)] if count is not None else []),
            *filter(None, (asked.get(key), answered.get(key))),
        ]
        if words:
            lines.append(f"{topic}-{index}: {' '.join(words)}")
    return lines


def shown_values(request: Any, shown: ShownValue) -> list[str]:
    """The first values of a Produce request that can be decoded, and dots if there are more."""
    found: list[str] = []
    for text in filter(None, (shown(*each) for each in _values(request))):
        if len(found) == _SHOWN_VALUES:
            return [*found, "..."]
        found.append(text)
    return found


def _values(request: Any) -> Iterator[tuple[bytes | None, tuple[tuple[str, bytes | None], ...]]]:
    for topic in request.topic_data:
        for partition in topic.partition_data:
            if partition.records is None:
                continue
            try:
                view = memoryview(partition.records)
                for position, header in batches(view):
                    for record in decode_records(view[position : position + header.size_bytes]):
                        yield record.value, record.headers
            except KafkaError:
                continue


def _asked(entry: Any) -> str:
    if hasattr(entry, "fetch_offset"):
        return f"from offset {entry.fetch_offset}"
    if hasattr(entry, "timestamp"):
        time = entry.timestamp
        return _TIMES.get(time, f"first offset since {time} ms")
    if hasattr(entry, "committed_offset"):
        return f"commits offset {entry.committed_offset}"
    if hasattr(entry, "records"):
        count = _count(entry.records)
        return "" if count is None else _records(count)
    return ""


def _answered(entry: Any) -> str:
    if getattr(entry, "error_code", 0):
        return ""
    if hasattr(entry, "base_offset"):
        return f"at offset {entry.base_offset}" if entry.base_offset != _NO_OFFSET else ""
    if hasattr(entry, "committed_offset"):
        offset = entry.committed_offset
        return "no offset committed" if offset == _NO_OFFSET else f"committed offset {offset}"
    if hasattr(entry, "timestamp") and hasattr(entry, "offset"):
        return f"is {entry.offset}" if entry.offset != _NO_OFFSET else "is none"
    return ""


def _records(count: int) -> str:
    return "1 record" if count == 1 else f"{count} records"


def _count(records: Any) -> int | None:
    """The number of records in these batches; None without batches, or if they were dropped."""
    if records is None:
        return None
    try:
        data = b"".join(records.buffers()) if isinstance(records, LogSlice) else records
        return sum(header.count for _, header in batches(data))
    except (KafkaError, OSError):
        return None


def _topics(message: Any) -> Iterator[Any]:
    for name in TOPIC_LISTS:
        yield from getattr(message, name, None) or ()
    yield from chain.from_iterable(
        getattr(group, "topics", None) or () for group in getattr(message, "groups", None) or ()
    )


def _entries(message: Any, names: NamesOfIds) -> Iterator[tuple[tuple[str, int], Any]]:
    """Every partition of a message that is more than an index."""
    if message is None:
        return
    for topic in _topics(message):
        listed = partition_list(topic)
        if listed is None:
            continue
        name = getattr(topic, "name", "") or getattr(topic, "topic", "")
        name = name or names.get(getattr(topic, "topic_id", _NO_ID), "")
        for entry in getattr(topic, listed) or ():
            index = partition_index(entry)
            if name and index is not None and not isinstance(entry, int):
                yield (name, index), entry
