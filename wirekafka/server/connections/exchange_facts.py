"""The facts of a request and its response: topics, offsets, records, sizes and errors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from wirekafka.codec.batch import batches
from wirekafka.codec.message import Message
from wirekafka.errors import KafkaError, error_name

TopicNames = Callable[[bytes], str | None]
"""The name of a topic by its id; None for an id that is not known."""

_MOST_PARTS = 500
"""The parts of a message that are looked at: topics, partitions and others."""
_KEPT_TOPICS = 3
_LONGEST_NAME = 249
"""Of a topic; a client may name longer ones, which are cut."""
_TOPICS = frozenset({"topic", "topic_name"})
_OFFSETS = frozenset({"fetch_offset", "base_offset", "committed_offset", "offset"})


@dataclass(slots=True)
class ExchangeFacts:
    """What is in a request and its response; the offsets of the request, if it names any."""

    topics: list[str] = field(default_factory=list)
    """The first topics."""
    topic_count: int = 0
    partitions: int = 0
    least_offset: int = -1
    greatest_offset: int = -1
    """-1 if there are no offsets."""
    records: int = -1
    """-1 if there are none, or if they are in files and not counted."""
    record_bytes: int = 0
    errors: list[str] = field(default_factory=list)
    """The names of the errors in the response, each once."""

    @classmethod
    def of_request(cls, request: Message, version: int, names: TopicNames) -> ExchangeFacts:
        """The facts of a request. Its buffer is used again: it is read at once."""
        facts = cls()
        _Reading(facts, version, names).read(request)
        return facts

    def add_response(self, response: Message, version: int, names: TopicNames) -> None:
        """Add the facts of the response."""
        found = ExchangeFacts()
        _Reading(found, version, names).read(response)
        if not self.topic_count:
            self.topics, self.topic_count = found.topics, found.topic_count
        self.partitions = self.partitions or found.partitions
        if self.greatest_offset < 0:
            self.least_offset, self.greatest_offset = found.least_offset, found.greatest_offset
        if found.record_bytes:
            self.records, self.record_bytes = found.records, found.record_bytes
        self.errors += found.errors


class _Reading:
    """One pass through a message."""

    def __init__(self, facts: ExchangeFacts, version: int, names: TopicNames) -> None:
        self._facts, self._version, self._names = facts, version, names
        self._room = _MOST_PARTS

    def read(self, message: Message) -> None:
        """Note a message or a part, and the parts in it."""
        if self._room <= 0:
            return
        self._room -= 1
        kind = type(message).__name__
        if "Partition" in kind and not kind.startswith("TopicPartition"):
            self._facts.partitions += 1
        for each in message.fields:
            if self._version not in each.versions:
                continue
            value = getattr(message, each.name)
            if each.part is not None:
                for part in value or () if each.is_array else (value,):
                    if part is not None:
                        self.read(part)
            elif value is not None and not each.is_array:
                self._note(kind, each.name, each.kind, value)

    def _note(self, kind: str, name: str, wire: Any, value: Any) -> None:
        facts = self._facts
        if wire == "records":
            self._note_records(value)
        elif name == "error_code":
            if value and (known := error_name(value)) not in facts.errors:
                facts.errors.append(known)
        elif name == "topic_id":
            if found := self._names(bytes(value)):
                self._note_topic(found)
        elif name in _TOPICS or (name == "name" and _is_topic(kind)):
            self._note_topic(value)
        elif name in _OFFSETS and value >= 0:
            least = facts.least_offset
            facts.least_offset = value if least < 0 else min(least, value)
            facts.greatest_offset = max(facts.greatest_offset, value)

    def _note_topic(self, name: str) -> None:
        facts = self._facts
        if not name or name in facts.topics:
            return
        facts.topic_count += 1
        if len(facts.topics) < _KEPT_TOPICS:
            facts.topics.append(name[:_LONGEST_NAME])

    def _note_records(self, records: Any) -> None:
        """Count records where they are in memory; those in files are given by their size only."""
        facts = self._facts
        pieces = records if isinstance(records, list | tuple) else (records,)
        for piece in pieces:
            facts.record_bytes += len(piece)
            if not isinstance(piece, bytes | bytearray | memoryview):
                facts.records = -1
                continue
            try:
                count = sum(max(header.count, 0) for _, header in batches(piece))
            except KafkaError:
                continue
            if count:
                facts.records = max(facts.records, 0) + count


def _is_topic(kind: str) -> bool:
    """Whether the name in a part of this class is a topic's, and not an option's."""
    return "Topic" in kind and "Config" not in kind
