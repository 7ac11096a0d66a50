"""A connection that times responses which its socket does not take at once."""

from __future__ import annotations

from time import perf_counter_ns

from wirekafka.metrics.histogram import Histogram
from wirekafka.metrics.measures import Measures
from wirekafka.server.connections.connection import Connection, ConnectionOwner
from wirekafka.server.connections.outbox import Outbox
from wirekafka.server.connections.request_memory import LimitedConnection

_NS_PER_US = 1000


class MeasuredConnection(Connection):
    """Replaces `Connection` while there are metrics. It does nothing for most responses."""

    def __init__(self, listener: ConnectionOwner, measures: Measures):
        super().__init__(listener)
        self._measures = measures
        self._full_since_ns = 0
        """Since when a response waits for room in the socket; 0 if none does."""
        self._sending = Histogram()
        """Of the API of that response."""

    def pause_writing(self) -> None:
        super().pause_writing()
        if not self._full_since_ns:
            self._full_since_ns, self._sending = perf_counter_ns(), self._histogram()

    def _flush(self, outbox: Outbox) -> None:
        super()._flush(outbox)
        if self._full_since_ns and outbox.is_empty and not outbox.is_paused:
            self._sending.record((perf_counter_ns() - self._full_since_ns) // _NS_PER_US)
            self._full_since_ns = 0

    def _histogram(self) -> Histogram:
        """The histogram of the API that was served last: responses of the cache are never large."""
        assert self.call is not None
        api = self._measures.requests.of(self.call.api_name)
        if api.kinds:
            api = api.kinds[self._measures.traffic.last_fetch_is_followers]
        return api.sending


class LimitedMeasuredConnection(MeasuredConnection, LimitedConnection):
    """A measured connection where the memory of requests is limited."""
