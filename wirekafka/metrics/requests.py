"""The requests of each API: counts, errors, and percentiles of their times."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from wirekafka.metrics.histogram import Histogram
from wirekafka.metrics.traffic import TopicTraffic

SAMPLED = 128
"""Of frequent Produce requests that the cache serves, one of this number is timed, for all."""
_SHAPES_PER_STEP = 200


class ApiRequests:
    """The requests of one API. Times are in microseconds.

    Most requests are answered at once: their time is recorded once, as `immediate`, although it is
    both the total and the local time. Other requests wait, for data or for replicas. All requests
    are counted, but not all are timed: `finished` is exact, while the histograms count a timed
    request for several untimed requests.
    """

    __slots__ = (
        "errors",
        "finished",
        "immediate",
        "in_flight",
        "kinds",
        "name",
        "request_bytes",
        "response_bytes",
        "sending",
        "throttled",
        "waited_local",
        "waited_remote",
        "waited_total",
    )

    def __init__(self, name: str):
        self.name = name
        self.errors: Counter[int] = Counter()
        """By error code; 0 is counted for each response without an error."""
        self.finished = 0
        """How many requests have got a response, or get none (acks=0)."""
        self.immediate = Histogram()
        self.waited_total = Histogram()
        self.waited_local = Histogram()
        self.waited_remote = Histogram()
        self.throttled = Histogram()
        """In milliseconds, of throttled requests only."""
        self.sending = Histogram()
        """Of the responses that the socket did not take at once: until it had taken all."""
        self.kinds: tuple[ApiRequests, ...] = ()
        """The Fetch requests of consumers, and of followers. Both have times and `finished` of
        their own; everything else is counted for Fetch as a whole."""
        self.in_flight = 0
        """How many requests wait now."""
        self.request_bytes = 0
        self.response_bytes = 0

    def rotate(self) -> None:
        """Begin a window of the histograms."""
        self.immediate.rotate()
        self.waited_total.rotate()
        self.waited_local.rotate()
        self.waited_remote.rotate()
        self.throttled.rotate()
        self.sending.rotate()

    def answered_later(self, total_us: int, local_us: int, times: int = 1) -> None:
        """Record the times of a request that has waited; `local_us` is the work, the rest the wait.

        It is counted for `times` requests.
        """
        self.waited_total.record(total_us, times)
        self.waited_local.record(local_us, times)
        self.waited_remote.record(max(total_us - local_us, 0), times)


class VersionRequests:
    """The requests of one version of an API."""

    __slots__ = ("api", "count", "counts", "version")

    def __init__(self, api: ApiRequests, version: int):
        self.api = api
        self.version = version
        self.count = 0
        self.counts = [0, 0]
        """By kind, where there are kinds."""


class ClientTraffic:
    """The requests of clients of one kind of software on one listener."""

    __slots__ = ("bytes_in", "bytes_out", "requests", "responses", "software")

    def __init__(self, software: tuple[str, str]):
        self.software = software
        """Name and version, as in ApiVersions (KIP-511)."""
        self.requests = 0
        self.responses = 0
        self.bytes_in = 0
        self.bytes_out = 0


class ProduceShape(NamedTuple):
    """The properties that Produce requests share if they are counted together."""

    version: VersionRequests
    client: ClientTraffic
    topic: TopicTraffic
    other_bytes: int
    """The size of a request without its batch and without the field that has the batch's size."""
    response_bytes: int
    """The size of a response without error; 0 for acks=0."""


class RepeatedRequests:
    """The Produce requests of one shape that the cache has served.

    Counted apart, because that takes less time: `settle` adds them to the other counters.
    """

    __slots__ = ("_shape", "counts")

    def __init__(self, shape: ProduceShape):
        self._shape = shape
        self.counts = [0] * 6
        """Since the last `settle`: requests that have to wait, which end and are answered without
        being counted here; all requests whose batch has a size of 1, of 2 and of 3 bytes; the bytes
        of the batches, plus 1 for each; their records."""

    def settle(self) -> None:
        """Add the counts since the last call to the counters of API, client and topic."""
        waiting, *by_size_bytes, batch_bytes, messages = self.counts
        count = sum(by_size_bytes)
        if not count:
            return
        self.counts[:] = [0] * 6
        version, client, topic, other_bytes, response_bytes = self._shape
        finished = count - waiting
        received = sum(number * size for size, number in enumerate(by_size_bytes, 1))
        received += count * (other_bytes - 1) + batch_bytes
        sent = finished * response_bytes
        api = version.api
        version.count += count
        api.finished += finished
        api.errors[0] += finished
        api.request_bytes += received
        api.response_bytes += sent
        client.requests += count
        client.bytes_in += received
        client.bytes_out += sent
        if sent:
            client.responses += finished
        topic.produces += count
        topic.bytes_in += batch_bytes - count
        topic.messages_in += messages


class Clients:
    """Traffic by listener and client software, whose names clients choose: it is bounded."""

    OTHER = ("other", "other")
    MOST = 200
    LONGEST = 64
    """In characters: clients with longer names are counted as `other`."""

    def __init__(self) -> None:
        self._rows: dict[tuple[str, tuple[str, str]], ClientTraffic] = {}

    def of(self, listener: str, software: tuple[str, str]) -> ClientTraffic:
        """The counters of a listener's clients with this software, created if they are new."""
        row = self._rows.get((listener, software))
        if row is None:
            is_short = max(map(len, software)) <= self.LONGEST
            key = software if is_short and len(self._rows) < self.MOST else self.OTHER
            row = self._rows.setdefault((listener, key), ClientTraffic(key))
        return row

    def rows(self) -> list[tuple[str, ClientTraffic]]:
        """Each (listener, counters), up to date after `Requests.settle`."""
        return [(listener, row) for (listener, _), row in self._rows.items()]


class Requests:
    """The counters of all APIs of a node, and of its clients."""

    def __init__(self) -> None:
        self.apis: dict[str, ApiRequests] = {}
        self.versions: list[VersionRequests] = []
        self.clients = Clients()
        self._repeated: dict[ProduceShape, RepeatedRequests] = {}

    def of(self, name: str) -> ApiRequests:
        """The counters of an API, created if they are new. `settle` brings them up to date."""
        found = self.apis.get(name)
        if found is None:
            found = self.apis[name] = ApiRequests(name)
        return found

    def settle(self) -> None:
        """Include the requests that were counted apart, in the counters of topics too."""
        for each in self._repeated.values():
            each.settle()

    def settling(self) -> Iterator[None]:
        """`settle` in steps of less than a millisecond."""
        for number, each in enumerate(list(self._repeated.values()), 1):
            each.settle()
            if number % _SHAPES_PER_STEP == 0:
                yield

    def repeated(self, shape: ProduceShape) -> RepeatedRequests:
        """The counters of a shape, created if they are new."""
        found = self._repeated.get(shape)
        if found is None:
            found = self._repeated[shape] = RepeatedRequests(shape)
        return found

    def forget_repeated(self) -> None:
        """Include all requests that were counted apart, and drop their counters."""
        self.settle()
        self._repeated.clear()

    def received(self) -> Iterator[tuple[str, int, int]]:
        """The number of requests received: (API, version, number)."""
        self.settle()
        for each in list(self.versions):
            yield each.api.name, each.version, each.count
            for kind, count in zip(each.api.kinds, each.counts, strict=False):
                yield kind.name, each.version, count

    def rotate(self) -> None:
        """Begin a window of all histograms."""
        for api in self.apis.values():
            api.rotate()
