"""A pipeline that counts and times all requests, in place of `Pipeline` while there are metrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from struct import Struct
from time import perf_counter_ns

from wirekafka.apis.shared.call import Call
from wirekafka.apis.shared.routes import Route
from wirekafka.codec.message import Response
from wirekafka.metrics.requests import (
    SAMPLED,
    ApiRequests,
    ClientTraffic,
    ProduceShape,
    Requests,
    VersionRequests,
)
from wirekafka.server.connections.error_counts import count_errors
from wirekafka.server.connections.parked_produce import ParkedProduce
from wirekafka.server.connections.parked_request import Parked
from wirekafka.server.connections.pipeline import Buffer, Hook, Pipeline
from wirekafka.server.connections.produce_cache import OUTER_BYTES, ProduceCache
from wirekafka.server.connections.repeated_produce import RepeatedProduce
from wirekafka.server.connections.replies import Replies

_api_and_version = Struct(">I").unpack_from
_NS_PER_US = 1000
_SIZE_BYTES = 4
"""Of the size prefix of a response."""
_WAITING = 0
"""The position in `RepeatedRequests.counts`."""
_FETCH = "Fetch"
_PRODUCE_KEY = 0
_RARE_NS = 1_000_000
"""From which mean distance on all requests that the cache serves are timed."""
_serve_decoded, _serve_repeated = Pipeline._serve_decoded, ProduceCache.serve
"""Called directly: `super()` makes an object for each request."""


class MeasuredPipeline(Pipeline):
    """A `Pipeline` that counts into `requests`; everything else, the cache too, is the same."""

    __slots__ = ("_known", "requests")

    def __init__(self, requests: Requests, hook: Hook | None = None):
        self.requests = requests
        self._known: dict[int, VersionRequests] = {}
        """By `key << 16 | version`."""
        super().__init__(hook)

    def _new_cache(self) -> ProduceCache:
        self.requests.forget_repeated()
        return MeasuredCache(self)

    def encoded(self, route: Route, correlation_id: int, response: Response) -> Replies:
        """Encode a response in a thread, and count its errors there."""
        replies = super().encoded(route, correlation_id, response)
        replies.last = Counter[int]()
        count_errors(response, replies.last)
        return replies

    def _serve_decoded(
        self, data: Buffer, at: int, end: int, call: Call, replies: Replies
    ) -> Parked | None:
        """Serve and count a request that the cache does not serve."""
        began_ns = perf_counter_ns()
        (api_and_version,) = _api_and_version(data, at)
        sent_before = replies.size_bytes
        replies.last = None
        parked = _serve_decoded(self, data, at, end, call, replies)
        version = self.version(api_and_version, call)
        if version is None:
            return parked
        client = self.client(call)
        size_bytes = end - at
        api = version.api
        version.count += 1
        api.request_bytes += size_bytes
        client.requests += 1
        client.bytes_in += size_bytes
        if parked is not None:
            return MeasuredParked(self, parked, version, began_ns)
        self.answered(version, call, replies, replies.size_bytes - sent_before)
        timed = _kind_of(version, call) if api.kinds else api
        timed.finished += 1
        timed.immediate.record((perf_counter_ns() - began_ns) // _NS_PER_US)
        return None

    def answered(
        self, version: VersionRequests, call: Call, replies: Replies, sent_bytes: int
    ) -> None:
        """Count the response that was added to `replies`, and its errors."""
        api, last = version.api, replies.last
        if sent_bytes:
            client = self.client(call)
            client.responses += 1
            client.bytes_out += sent_bytes
            api.response_bytes += sent_bytes
        if last is None:
            api.errors[0] += 1  # acks=0, or a response of the cache, which has no failures.
        elif isinstance(last, Counter):
            api.errors.update(last)
        else:
            count_errors(last, api.errors)
        if call.throttle_ms:
            api.throttled.record(call.throttle_ms)

    def client(self, call: Call) -> ClientTraffic:
        """The counters of the client."""
        found = call.metering.traffic
        if found is None or found.software is not call.client.software:
            # It has just connected, or sent its software's name.
            found = self.requests.clients.of(call.listener, call.client.software)
            if found.software == call.client.software:
                call.client.software = found.software  # Found by identity from now on.
            call.metering.traffic = found
        return found

    def version(self, api_and_version: int, call: Call) -> VersionRequests | None:
        """The counters of `key << 16 | version`; None if the version was not served."""
        return self._known.get(api_and_version) or self._learn(api_and_version, call)

    def _learn(self, api_and_version: int, call: Call) -> VersionRequests | None:
        # `serve` has set both, unless it has refused the version.
        if call.version != api_and_version & 0xFFFF or not call.api_name:
            return None
        api = self.requests.of(call.api_name)
        if call.api_name == _FETCH and not api.kinds:
            api.kinds = (self.requests.of("FetchConsumer"), self.requests.of("FetchFollower"))
        found = self._known[api_and_version] = VersionRequests(api, api_and_version & 0xFFFF)
        self.requests.versions.append(found)
        return found


class MeasuredCache(ProduceCache):
    """Counts and times the requests that it serves."""

    __slots__ = ("_measured", "_produce", "_timed_ns", "_untimed", "_weight")

    def __init__(self, measured: MeasuredPipeline):
        super().__init__()
        self._measured = measured
        self._produce = measured.requests.of("Produce")
        self._untimed = 0
        """How many of the next requests that the cache serves are not timed."""
        self._weight = 1
        """How many requests the last timed request stands for."""
        self._timed_ns = 0
        """When the last timed request began."""

    def serve(self, data: Buffer, at: int, end: int, call: Call, replies: Replies) -> Parked | bool:
        """As `ProduceCache.serve`, whose entries count; time one of many requests."""
        began_ns = 0 if (untimed := self._untimed) else perf_counter_ns()
        served = _serve_repeated(self, data, at, end, call, replies)
        if served is False:
            return False
        if served is True:
            if untimed:
                self._untimed = untimed - 1
            else:
                took_us = (perf_counter_ns() - began_ns) // _NS_PER_US
                self._produce.immediate.record(took_us, self._weigh(began_ns))
            if call.throttle_ms:
                self._produce.throttled.record(call.throttle_ms)
            return True
        assert isinstance(served, ParkedProduce), "no other request waits"
        counts = served.request.counts
        version = self._measured.version(_PRODUCE_KEY << 16 | call.version, call)
        assert counts is not None and version is not None, "there are metrics"
        counts[_WAITING] += 1
        if untimed:
            self._untimed = untimed - 1
        times = self._weigh(began_ns) if began_ns else 0
        return MeasuredParked(self._measured, served, version, began_ns, times)

    def _weigh(self, began_ns: int) -> int:
        """How many requests the timing of a request that began then stands for, itself included."""
        is_rare = began_ns - self._timed_ns > _RARE_NS * self._weight
        self._timed_ns = began_ns
        self._weight = weight = 1 if is_rare else SAMPLED
        self._untimed = weight - 1
        return weight

    def _counts_of(self, entry: RepeatedProduce, around: bytes, call: Call) -> list[int]:
        """Return the counters of an entry's shape, as `RepeatedRequests.counts`."""
        measured = self._measured
        version = measured.version(_PRODUCE_KEY << 16 | call.version, call)
        topic = call.broker.partitions[entry.key].traffic
        assert version is not None and topic is not None, "there are metrics"
        response_bytes = entry.size + _SIZE_BYTES if entry.acks else 0
        other_bytes = len(around) + OUTER_BYTES
        shape = ProduceShape(version, measured.client(call), topic, other_bytes, response_bytes)
        return measured.requests.repeated(shape).counts

    def _clear(self, generation: int) -> None:
        super()._clear(generation)
        self._measured.requests.forget_repeated()


class MeasuredParked:
    """A waiting request, and the time of the work for it so far."""

    __slots__ = ("_began_ns", "_measured", "_parked", "_times", "_version", "_worked_ns")

    def __init__(
        self,
        measured: MeasuredPipeline,
        parked: Parked,
        version: VersionRequests,
        began_ns: int,
        times: int = 1,
    ):
        """Its times are recorded for `times` requests, unless `began_ns`, its start, is 0."""
        self._measured = measured
        self._parked = parked
        self._version = version
        self._began_ns, self._times = began_ns, times
        self._worked_ns = perf_counter_ns() - began_ns if began_ns else 0
        version.api.in_flight += 1

    @property
    def must_complete(self) -> bool:
        return self._parked.must_complete

    def when_ready(self, callback: Callable[[object], None]) -> None:
        self._parked.when_ready(callback)

    def resume(self, call: Call, replies: Replies) -> bool:
        """As `Parked.resume`, and count the request once it has ended."""
        began_ns = self._began_ns
        resumed_ns = perf_counter_ns() if began_ns else 0
        sent_before = replies.size_bytes
        replies.last = None
        is_done = True  # If it raises, too.
        try:
            is_done = self._parked.resume(call, replies)
        finally:
            self._version.api.in_flight -= is_done
        now_ns = perf_counter_ns() if began_ns else 0
        self._worked_ns += now_ns - resumed_ns
        if not is_done:
            return False
        version = self._version
        self._measured.answered(version, call, replies, replies.size_bytes - sent_before)
        timed = _kind_of(version, call) if version.api.kinds else version.api
        timed.finished += 1
        if began_ns:
            total_us, local_us = (now_ns - began_ns) // _NS_PER_US, self._worked_ns // _NS_PER_US
            timed.answered_later(total_us, local_us, self._times)
        return True

    def abandon(self) -> None:
        self._version.api.in_flight -= 1
        self._parked.abandon()


def _kind_of(version: VersionRequests, call: Call) -> ApiRequests:
    """Count an answered Fetch as a consumer's or a follower's."""
    measures = call.broker.measures
    is_follower = measures is not None and measures.traffic.last_fetch_is_followers
    version.counts[is_follower] += 1
    return version.api.kinds[is_follower]
