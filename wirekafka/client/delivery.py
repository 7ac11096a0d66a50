"""Delivers finished batches to the leaders of their partitions, until each is appended once."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from wirekafka.client.client import RETRY_FOR_S, Client, CliError, ConnectionFailure
from wirekafka.codec.batch import SEQUENCE_MASK, Buffer, read_header, with_producer
from wirekafka.errors import Error
from wirekafka.protocol.produce import ProduceRequest, ProduceResponse

Place: TypeAlias = tuple[str, int]
"""A topic, and the number of a partition."""

REQUEST_BYTES = 4 << 20
"""Of the batches of one request; a larger batch has a request of its own."""
_REQUESTS_IN_FLIGHT = 2
"""To each leader: it appends the batches of one while it receives the next."""
_ALL = -1
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.02, 0.5


class IdAndEpoch(NamedTuple):
    """The producer that batches name: its id, and the epoch that fences earlier ones."""

    producer_id: int
    producer_epoch: int


@dataclass(slots=True, eq=False)
class PartitionBatches:
    """The batches that a partition has still to get, in order.

    At most one is on its way: the broker recognizes a repeated batch by its sequence number, but
    cannot know that a batch before it is missing where it has no record of the producer.
    """

    place: Place
    batches: deque[Buffer]
    producer: IdAndEpoch
    sequence: int
    """Of the first record of the next batch."""
    base_offset: int = -1
    """Of the batch that was appended last."""
    end_offset: int = -1

    def next(self) -> Sequence[Buffer]:
        """The next batch, with its producer and sequence."""
        return with_producer(self.batches[0], *self.producer, self.sequence)

    def append(self, base_offset: int) -> None:
        """Drop the next batch, as it is in the log at this offset."""
        count = read_header(self.batches.popleft()).count
        self.sequence = (self.sequence + count) & SEQUENCE_MASK
        self.base_offset, self.end_offset = base_offset, base_offset + count


class ResponseError(NamedTuple):
    """An error of a response, for good or for now, and what it is about."""

    error: Error
    place: Place | None = None
    group: str = ""
    right: str = "WRITE"
    """What the request needs on its topics."""
    message: str | None = None
    size_bytes: int = 0
    """Of the batch."""


class _Flight(NamedTuple):
    """A request that waits for its response, and the partitions with a batch in it."""

    leader: int
    aboard: dict[Place, PartitionBatches]
    response: Callable[[], ProduceResponse]


class PartitionLeaders:
    """The leaders of partitions, as far as they were needed."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._leaders: dict[Place, int] = {}

    def of(self, place: Place) -> int | None:
        """The broker that leads a partition, if it is known."""
        return self._leaders.get(place)

    def forget(self, places: Iterable[Place]) -> None:
        """Drop leaders that did not append."""
        for place in places:
            self._leaders.pop(place, None)

    def find(self, places: Sequence[Place], error_of: Callable[[ResponseError], CliError]) -> None:
        """Request the leaders of partitions, some of which may have none now.

        Raises ConnectionFailure, and CliError for topics that cannot be used.
        """
        for topic in self._client.metadata(sorted({topic for topic, _ in places})).topics:
            name, error = topic.name or "", Error.of(topic.error_code)
            if error is Error.UNKNOWN_TOPIC_OR_PARTITION:
                raise CliError(f"no topic {name}")
            if error and not error.retriable:
                raise error_of(ResponseError(error, (name, 0)))
            found = {(name, each.partition_index): each.leader_id for each in topic.partitions}
            for place in places:
                if not error and place[0] == name and place not in found:
                    raise CliError(f"topic {name} has no partition {place[1]}")
            self._leaders |= {place: leader for place, leader in found.items() if leader >= 0}


class Delivery:
    """One delivery to any number of partitions, with few requests: each has many of them."""

    def __init__(
        self,
        client: Client,
        leaders: PartitionLeaders,
        error_of: Callable[[ResponseError], CliError],
        *,
        transactional_id: str | None,
        newest_version: int,
    ) -> None:
        self._client, self._leaders, self._error_of = client, leaders, error_of
        self._transactional_id, self._newest_version = transactional_id, newest_version
        self._idle: dict[Place, PartitionBatches] = {}
        self._in_flight: deque[_Flight] = deque()
        self._problem: CliError | None = None
        """What happened last to a batch that is to be sent again."""
        self._extend()

    def run(self, waiting: Iterable[PartitionBatches]) -> None:
        """Deliver all batches. Raises ConnectionFailure, and what a refused batch makes."""
        self._idle = {each.place: each for each in waiting if each.batches}
        try:
            while self._idle or self._in_flight:
                try:
                    self._start_flights()
                    if self._in_flight:
                        self._land(self._in_flight.popleft())
                except ConnectionFailure as failure:
                    self._recover(failure)
                if self._problem and not self._in_flight:
                    self._wait(self._problem)
        finally:
            # Later requests would get the responses that nobody has read.
            for flight in self._in_flight:
                with suppress(CliError):
                    flight.response()

    def _start_flights(self) -> None:
        missing = [place for place in self._idle if self._leaders.of(place) is None]
        if missing:
            if self._in_flight:
                return  # A connection answers in order: Metadata has to wait for the others.
            self._leaders.find(missing, self._error_of)
        by_leader: dict[int, list[PartitionBatches]] = {}
        for place, batches in self._idle.items():
            leader = self._leaders.of(place)
            if leader is None:
                self._problem = self._error_of(ResponseError(Error.LEADER_NOT_AVAILABLE, place))
            else:
                by_leader.setdefault(leader, []).append(batches)
        for leader, waiting in by_leader.items():
            flying = sum(flight.leader == leader for flight in self._in_flight)
            for _ in range(flying, _REQUESTS_IN_FLIGHT):
                if waiting:
                    self._start(leader, _taken(waiting))

    def _start(self, leader: int, batches: Sequence[PartitionBatches]) -> None:
        aboard = {each.place: each for each in batches}
        request = _request(self._transactional_id, batches)
        try:
            connection = self._client.node(leader)
            response = connection.begin(request, ProduceResponse, most=self._newest_version)
        except ConnectionFailure:
            self._leaders.forget(aboard)
            raise
        self._in_flight.append(_Flight(leader, aboard, response))
        for place in aboard:
            del self._idle[place]

    def _land(self, flight: _Flight) -> None:
        """Take the response to a request; its partitions with more to get are idle again."""
        self._idle |= flight.aboard
        try:
            response = flight.response()
        except ConnectionFailure:
            self._leaders.forget(flight.aboard)
            raise
        for topic in response.responses:
            for result in topic.partition_responses:
                batches = self._idle.pop((topic.name, result.index), None)
                if batches is None:
                    raise CliError(f"{topic.name}-{result.index}: answered without being asked")
                error = Error.of(result.error_code)
                if error:
                    self._refuse(batches, error, result.error_message)
                else:
                    batches.append(result.base_offset)
                    self._extend()
                if batches.batches:
                    self._idle[batches.place] = batches

    def _refuse(self, batches: PartitionBatches, error: Error, message: str | None) -> None:
        size_bytes = len(batches.batches[0])
        found = ResponseError(error, batches.place, message=message, size_bytes=size_bytes)
        self._problem = self._error_of(found)
        if not error.retriable:
            raise self._problem
        self._leaders.forget([batches.place])

    def _recover(self, failure: ConnectionFailure) -> None:
        """Take the responses of other connections, and make the broken ones again."""
        while self._in_flight:
            with suppress(ConnectionFailure):
                self._land(self._in_flight.popleft())
        self._client.drop_unusable()
        self._problem = failure

    def _extend(self) -> None:
        self._deadline = time.monotonic() + RETRY_FOR_S
        self._pause_s = _FIRST_PAUSE_S

    def _wait(self, problem: CliError) -> None:
        """Pause before batches are sent again. Raises the problem if it lasts too long."""
        if time.monotonic() > self._deadline:
            raise problem
        self._problem = None
        time.sleep(self._pause_s)
        self._pause_s = min(self._pause_s * 2, _LONGEST_PAUSE_S)


def _taken(waiting: list[PartitionBatches]) -> list[PartitionBatches]:
    """Remove as many partitions as there is room for in a request, at least one."""
    size_bytes = count = 0
    for each in waiting:
        size_bytes += len(each.batches[0])
        if count and size_bytes > REQUEST_BYTES:
            break
        count += 1
    taken = waiting[:count]
    del waiting[:count]
    return taken


def _request(transactional_id: str | None, batches: Sequence[PartitionBatches]) -> ProduceRequest:
    kind = ProduceRequest.TopicProduceData
    topics: dict[str, list[ProduceRequest.TopicProduceData.PartitionProduceData]] = {}
    for each in batches:
        topic, index = each.place
        data = kind.PartitionProduceData(index=index, records=each.next())
        topics.setdefault(topic, []).append(data)
    return ProduceRequest(
        transactional_id=transactional_id,
        acks=_ALL,
        timeout_ms=int(RETRY_FOR_S * 1000),
        topic_data=[kind(name=name, partition_data=data) for name, data in topics.items()],
    )
