"""Recorded requests of clients with their responses, and assertions about them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from wirekafka.codec.message import Part, Request, Response
from wirekafka.errors import Error
from wirekafka.testing.hooks.details import ShownValue, details, record_counts, shown_values
from wirekafka.testing.hooks.names import AnyApi
from wirekafka.testing.hooks.subjects import Subjects

KEPT = 10_000
"""How many exchanges are kept; older exchanges are dropped."""
KEPT_RECORD_BYTES = 16 << 20
"""How many bytes of produced records are kept; `records` of older requests become None."""

_SHOWN = 12
_SHOWN_PARTITIONS = 4


@dataclass(slots=True)
class Exchange:
    """A request with its response.

    `response` is None while the request waits, when none is sent (acks=0) and when the connection
    was dropped. Records of a Fetch response are left out; see `Broker.records`.
    """

    number: int
    at_ms: int
    """The broker's time, in ms since the epoch."""
    api: str
    version: int
    client_id: str | None
    connection: str
    request: Any
    subjects: Subjects
    response: Any = None
    is_done: bool = False
    faults: tuple[str, ...] = ()
    """The rules that acted on the exchange."""
    broker_id: int = 1
    """The broker that was asked."""
    topic_names: Mapping[bytes, str] = field(default_factory=dict)
    """The names of topics that the request names by id."""
    record_counts: Mapping[tuple[str, int], int] = field(default_factory=dict)
    """How many records a Fetch response had, by topic and partition."""
    shown: ShownValue | None = field(default=None, repr=False, compare=False)
    """Decodes values by the schema registry, where the broker under test has one."""

    @property
    def errors(self) -> list[Error]:
        """All errors in the response, at any depth."""
        return list(_errors(self.response)) if self.response is not None else []

    def __str__(self) -> str:
        line = f"#{self.number} {self.client_id or '-'} {self.api} v{self.version}"
        about = [
            f"{topic}-{index}" if index is not None else topic
            for topic, index in sorted(
                self.subjects.partitions, key=lambda each: (each[0], each[1] or 0)
            )
        ]
        about += [f"group {each}" for each in sorted(self.subjects.groups)]
        about += [f"transaction {each}" for each in sorted(self.subjects.transactional_ids)]
        if about:
            line += f" ({_some(about)})"
        if self.errors:
            line += " -> " + ", ".join(dict.fromkeys(each.name for each in self.errors))
        elif not self.is_done:
            line += " -> waiting"
        elif self.response is None:
            line += " -> no response"
        else:
            line += " -> ok"
        line += f" [{'; '.join(self.faults)}]" if self.faults else ""
        about = details(self.request, self.response, self.topic_names, self.record_counts)
        line += f"; {_some(about)}" if about else ""
        if self.shown is None or self.api != "Produce":
            return line
        values = shown_values(self.request, self.shown)
        return line + (f"; {', '.join(values)}" if values else "")


class Recorder:
    """Keeps the last exchanges; used on the broker's event loop only.

    Produced records are copied, because the connection reuses its read buffer.
    """

    def __init__(self, broker_id: int = 1, numbers: Iterator[int] | None = None) -> None:
        """The brokers of a cluster share the `numbers` of their exchanges."""
        self.exchanges: deque[Exchange] = deque()
        self._broker_id = broker_id
        self._numbers = numbers or count(1)
        self._record_bytes = 0
        self._sizes: deque[int] = deque()
        self._topic_names: dict[bytes, str] = {}
        """Of all exchanges: a response to an incremental Fetch has topics of earlier requests."""

    def begin(self, exchange: Exchange) -> Exchange:
        """Record a request; returns the exchange."""
        exchange.number = next(self._numbers)
        exchange.broker_id = self._broker_id
        self._topic_names.update(exchange.topic_names)
        size = 0
        if exchange.api == "Produce":
            size = _keep_records(exchange.request)
        self.exchanges.append(exchange)
        self._sizes.append(size)
        self._record_bytes += size
        while len(self.exchanges) > KEPT:
            self.exchanges.popleft()
            self._record_bytes -= self._sizes.popleft()
        if self._record_bytes > KEPT_RECORD_BYTES:
            self._drop_records()
        return exchange

    def end(self, exchange: Exchange, response: Response | None) -> None:
        """Record the response of an exchange."""
        exchange.is_done = True
        exchange.response = response
        if response is not None and exchange.api == "Fetch":
            exchange.record_counts = record_counts(response, self._topic_names)
            exchange.response = _without_records(response)

    def clear(self) -> None:
        """Drop all exchanges."""
        self.exchanges.clear()
        self._sizes.clear()
        self._record_bytes = 0

    def _drop_records(self) -> None:
        for at, size in enumerate(self._sizes):
            if self._record_bytes <= KEPT_RECORD_BYTES // 2:
                return
            if size:
                _drop(self.exchanges[at].request)
                self._sizes[at] = 0
                self._record_bytes -= size


class Traffic:
    """The recorded exchanges, oldest first, read again at each use.

    At most the last 10,000 are kept, and the last 16 MiB of produced records.
    """

    def __init__(self, take: Callable[[], list[Exchange]], forget: Callable[[], None]):
        self._recorded = take
        self._forget = forget
        self._shown: ShownValue | None = None

    def show_values(self, shown: ShownValue) -> None:
        """Show the values of produced records as this function decodes them."""
        self._shown = shown

    def __iter__(self) -> Iterator[Exchange]:
        return iter(self._take())

    def __len__(self) -> int:
        return len(self._take())

    def of(
        self,
        api: AnyApi | None = None,
        *,
        client_id: str | None = None,
        topic: str | None = None,
        group: str | None = None,
        transactional_id: str | None = None,
    ) -> list[Exchange]:
        """The exchanges that match all arguments; `api` is Kafka's name of an API."""
        if api is not None:
            from wirekafka.testing.hooks.rules import api_names

            (api,) = api_names(api)
        return [
            each
            for each in self._take()
            if (
                api in (None, each.api)
                and client_id in (None, each.client_id)
                and (topic is None or each.subjects.has_topic(topic, None))
                and (group is None or group in each.subjects.groups)
                and (
                    transactional_id is None or transactional_id in each.subjects.transactional_ids
                )
            )
        ]

    def clear(self) -> None:
        """Drop all exchanges."""
        self._forget()

    def _take(self) -> list[Exchange]:
        found = self._recorded()
        if self._shown is not None:
            for each in found:
                each.shown = self._shown
        return found

    def assert_requested(
        self,
        api: AnyApi,
        times: int | None = None,
        *,
        client_id: str | None = None,
        topic: str | None = None,
        group: str | None = None,
    ) -> list[Exchange]:
        """The matching requests; AssertionError unless there are `times` (None: at least one)."""
        __tracebackhide__ = True
        found = self.of(api, client_id=client_id, topic=topic, group=group)
        if (len(found) == times) if times is not None else found:
            return found
        about = [
            f"{name} {value}"
            for name, value in (("client", client_id), ("topic", topic), ("group", group))
            if value is not None
        ]
        wanted = "at least one" if times is None else str(times)
        raise AssertionError(
            f"expected {wanted} {api} request(s){' by ' if about else ''}{', '.join(about)};"
            f" saw {len(found)}:\n{_listing(found or self._take())}"
        )

    def assert_committed(
        self, group: str, topic: str, partition: int, offset: int, times: int | None = None
    ) -> None:
        """Raise AssertionError unless the group has committed the offset without an error.

        `times` is the exact number of commits; None is one or more.
        """
        __tracebackhide__ = True
        commits = [
            (each, found)
            for each in self.of(group=group)
            for found in _commits(each, topic, partition)
        ]
        good = [found for each, found in commits if found == offset and not any(each.errors)]
        if (len(good) == times) if times is not None else good:
            return
        count = {None: "a commit", 1: "one commit"}.get(times, f"{times} commits")
        saw = "".join(f"\n  offset {found}: {each}" for each, found in commits[-_SHOWN:])
        raise AssertionError(
            f"expected {count} by group {group} at offset {offset} of {topic}-{partition};"
            f" saw:{saw or ' none'}"
        )

    def __str__(self) -> str:
        return _listing(self._take())


def _some(words: list[str]) -> str:
    return ", ".join(words[:_SHOWN_PARTITIONS]) + (
        ", ..." if len(words) > _SHOWN_PARTITIONS else ""
    )


def _listing(exchanges: list[Exchange]) -> str:
    lines = [f"  {each}" for each in exchanges[-_SHOWN:]]
    if len(exchanges) > _SHOWN:
        lines.insert(0, f"  ... {len(exchanges) - _SHOWN} before")
    return "\n".join(lines) or "  nothing"


def _commits(exchange: Exchange, topic: str, partition: int) -> Iterator[int]:
    if exchange.api not in ("OffsetCommit", "TxnOffsetCommit"):
        return
    if not exchange.subjects.has_topic(topic, partition):
        return
    for committed in exchange.request.topics:
        # Topics named by id are matched by their partitions alone.
        if getattr(committed, "name", "") in ("", topic):
            for each in committed.partitions:
                if each.partition_index == partition:
                    yield each.committed_offset


def _errors(message: Any) -> Iterator[Error]:
    for each_field in message.fields:
        value = getattr(message, each_field.name)
        if each_field.name.endswith("error_code"):
            if value:
                yield Error(value)
        elif isinstance(value, Part):
            yield from _errors(value)
        elif isinstance(value, list | tuple):
            for each in value:
                if isinstance(each, Part):
                    yield from _errors(each)


def _keep_records(request: Any) -> int:
    size = 0
    for topic in request.topic_data:
        for partition in topic.partition_data:
            if partition.records is not None:
                partition.records = bytes(partition.records)
                size += len(partition.records)
    return size


def _drop(request: Request) -> None:
    produce: Any = request
    for topic in produce.topic_data:
        for partition in topic.partition_data:
            partition.records = None


def _without_records(response: Any) -> Any:
    kind = type(response)
    topic_kind = kind.FetchableTopicResponse
    return kind(
        throttle_time_ms=response.throttle_time_ms,
        error_code=response.error_code,
        session_id=response.session_id,
        responses=[
            topic_kind(
                topic=topic.topic,
                topic_id=topic.topic_id,
                partitions=[
                    topic_kind.PartitionData(
                        partition_index=each.partition_index,
                        error_code=each.error_code,
                        high_watermark=each.high_watermark,
                        last_stable_offset=each.last_stable_offset,
                        log_start_offset=each.log_start_offset,
                        aborted_transactions=each.aborted_transactions,
                        records=None,
                    )
                    for each in topic.partitions
                ],
            )
            for topic in response.responses
        ],
    )
