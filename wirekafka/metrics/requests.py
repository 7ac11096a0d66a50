"""What the requests of each API cost: counts, errors, and percentiles of their times."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from wirekafka.metrics.histogram import Histogram


class ApiRequests:
    """The requests of one API. Times are in microseconds.

    Most requests are answered at once: their time is recorded once, as `immediate`, although it is
    both the total and the local time. The others wait, for data or for replicas.
    """

    __slots__ = (
        "errors",
        "immediate",
        "in_flight",
        "kinds",
        "name",
        "request_bytes",
        "response_bytes",
        "throttled",
        "waited_local",
        "waited_remote",
        "waited_total",
    )

    def __init__(self, name: str):
        self.name = name
        self.errors: Counter[int] = Counter()
        """By error code; 0 is counted for each response without an error."""
        self.immediate = Histogram()
        self.waited_total = Histogram()
        self.waited_local = Histogram()
        self.waited_remote = Histogram()
        self.throttled = Histogram()
        """In milliseconds, of throttled requests only."""
        self.kinds: tuple[ApiRequests, ApiRequests] | None = None
        """The requests of Fetch again: those of consumers, and those of followers."""
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

    def answered_at_once(self, took_us: int) -> None:
        """Count a request that did not wait."""
        self.immediate.record(took_us)

    def answered_later(self, total_us: int, local_us: int) -> None:
        """Count a request that has waited; `local_us` is the work, the rest the wait."""
        self.waited_total.record(total_us)
        self.waited_local.record(local_us)
        self.waited_remote.record(max(total_us - local_us, 0))


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


class Clients:
    """Traffic by listener and client software, whose names clients choose: it is bounded."""

    OTHER = ("other", "other")
    MOST = 200

    def __init__(self) -> None:
        self._rows: dict[tuple[str, tuple[str, str]], ClientTraffic] = {}

    def of(self, listener: str, software: tuple[str, str]) -> ClientTraffic:
        """The counters of a listener's clients with this software, created if they are new."""
        row = self._rows.get((listener, software))
        if row is None:
            key = software if len(self._rows) < self.MOST else self.OTHER
            row = self._rows.setdefault((listener, key), ClientTraffic(key))
        return row

    def rows(self) -> list[tuple[str, ClientTraffic]]:
        """Each (listener, counters)."""
        return [(listener, row) for (listener, _), row in self._rows.items()]


class Requests:
    """The counters of all APIs of a node, and of its clients."""

    def __init__(self) -> None:
        self.apis: dict[str, ApiRequests] = {}
        self.versions: list[VersionRequests] = []
        self.clients = Clients()

    def of(self, name: str) -> ApiRequests:
        """The counters of an API, created if they are new."""
        found = self.apis.get(name)
        if found is None:
            found = self.apis[name] = ApiRequests(name)
        return found

    def received(self) -> Iterator[tuple[str, int, int]]:
        """The number of requests received: (API, version, number)."""
        for each in list(self.versions):
            yield each.api.name, each.version, each.count
            for kind, count in zip(each.api.kinds or (), each.counts, strict=False):
                yield kind.name, each.version, count

    def rotate(self) -> None:
        """Begin a window of all histograms."""
        for api in self.apis.values():
            api.rotate()
