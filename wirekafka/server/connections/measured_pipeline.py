"""A pipeline that counts and times all requests, in place of `Pipeline` while there are metrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from struct import Struct
from time import perf_counter_ns
from typing import Any

from wirekafka.apis.shared.registry import Call
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
from wirekafka.server.connections.parked_request import Parked
from wirekafka.server.connections.pipeline import Buffer, Hook, Pipeline
from wirekafka.server.connections.produce_cache import OUTER_BYTES, Entry, ProduceCache
from wirekafka.server.connections.replies import Replies

_api_and_version = Struct(">I").unpack_from
_NS_PER_US = 1000
_SIZE_BYTES = 4
"""Of the size prefix of a response."""
_WAITING = 0
"""The position in `RepeatedRequests.counts`."""
_FETCH = "Fetch"
_PRODUCE, _PRODUCE_KEY = "Produce", ProduceCache.key
_RARE_NS = 1_000_000
"""From which mean distance on all requests that the cache serves are timed."""
_serve, _add = Pipeline.serve, Replies.add
"""Called directly: `super()` makes an object for each request."""


class MeasuredPipeline(Pipeline):
    """Counts into `requests`. The pipeline itself, and what it caches, is that of any broker."""

    __slots__ = ("_known", "_repeated", "_timed_ns", "_untimed", "_weight", "answers", "requests")

    def __init__(self, requests: Requests, hook: Hook | None = None):
        self._repeated: ProduceCache | _Served
        self.requests = requests
        self.answers = MeasuredReplies()
        self._known: dict[int, VersionRequests] = {}
        """By `key << 16 | version`."""
        self._untimed = 0
        """How many of the next requests that the cache serves are not timed."""
        self._weight = 1
        """How many requests the last one that was timed stands for."""
        self._timed_ns = 0
        """When that one began."""
        super().__init__(hook)

    def _use_cache(self, cache: ProduceCache | None) -> None:
        # `serve` asks the cache itself: the stages of `Pipeline.serve` only note requests in it.
        self.requests.forget_repeated()
        measured = cache and MeasuredCache(self)
        self._repeated = measured or _Served(None)
        self._caches[ProduceCache.key] = measured and _Served(measured)

    def serve(self, data: Buffer, at: int, end: int, call: Call, replies: Replies) -> Parked | None:
        """Serve a request as `Pipeline.serve` does, and count it."""
        if data[at + 1] != _PRODUCE_KEY:
            return self._serve_counted(data, at, end, call, replies)
        # Most likely a Produce request that the cache knows, and counts. The next lines are those
        # of `Pipeline.serve`: one more call would cost as much as all that is counted.
        quotas = call.broker.quotas
        if quotas is not None and call.unmeasured_revision != quotas.work_revision:
            call.began_ns = call.began_ns or call.work_ns()
        began_ns = 0 if (untimed := self._untimed) else perf_counter_ns()
        served = self._repeated.serve(data, at, end, call, replies)
        if served is True:
            if untimed:
                self._untimed = untimed - 1
            else:
                took_us = (perf_counter_ns() - began_ns) // _NS_PER_US
                self.requests.of(_PRODUCE).immediate.record(took_us, self._weigh(began_ns))
            if call.throttle_ms:
                self.requests.of(_PRODUCE).throttled.record(call.throttle_ms)
            return None
        if served is False:
            return self._serve_counted(data, at, end, call, replies)
        assert served.request.counts is not None
        served.request.counts[_WAITING] += 1
        if untimed:
            self._untimed = untimed - 1
        times = self._weigh(began_ns) if began_ns else 0
        version = self._known[_PRODUCE_KEY << 16 | call.version]
        return MeasuredParked(self, served, version, began_ns, times)

    def encoded(self, route: Route, correlation_id: int, response: Response) -> Replies:
        """Encode a response in a thread, and count its errors there."""
        replies = CountedReplies(response)
        _add(replies, route, correlation_id, response)
        return replies

    def _weigh(self, began_ns: int) -> int:
        """How many requests one that began then is timed for: itself, and the next ones."""
        is_rare = began_ns - self._timed_ns > _RARE_NS * self._weight
        self._timed_ns = began_ns
        self._weight = weight = 1 if is_rare else SAMPLED
        self._untimed = weight - 1
        return weight

    def _serve_counted(
        self, data: Buffer, at: int, end: int, call: Call, replies: Replies
    ) -> Parked | None:
        """Serve and count a request that the cache does not serve."""
        began_ns, answers = perf_counter_ns(), self.answers
        (api_and_version,) = _api_and_version(data, at)
        buffers = answers.buffers = replies.buffers
        head = answers.tail = replies.tail
        answers.route = None
        start, first = len(head), len(buffers)
        try:
            parked = _serve(self, data, at, end, call, answers)
        finally:
            tail = replies.tail = answers.tail
        version = self._known.get(api_and_version) or self._learn(api_and_version, call)
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
        sent_bytes = len(tail) - start
        if tail is not head:
            sent_bytes += sum(map(len, buffers[first:]))
        self.answered(version, call, sent_bytes)
        timed = _kind_of(version, call) if api.kinds else api
        timed.finished += 1
        timed.immediate.record((perf_counter_ns() - began_ns) // _NS_PER_US)
        return None

    def answered(self, version: VersionRequests, call: Call, sent_bytes: int) -> None:
        """Count the response that was added to `answers`, and its errors."""
        api = version.api
        answers = self.answers
        if sent_bytes:
            client = self.client(call)
            client.responses += 1
            client.bytes_out += sent_bytes
            api.response_bytes += sent_bytes
        route = answers.route
        if route is None:
            api.errors[0] += 1  # acks=0, or a response of the cache, which has no failures.
        elif answers.errors is not None:
            api.errors.update(answers.errors)
            answers.errors = answers.route = None
        else:
            count_errors(answers.response, api.errors)
            answers.response = answers.route = None
        if call.throttle_ms:
            api.throttled.record(call.throttle_ms)

    def client(self, call: Call) -> ClientTraffic:
        """The counters of the client."""
        found = call.traffic
        if found is None or found.software is not call.client_software:
            # It has just connected, or sent its software's name.
            found = self.requests.clients.of(call.listener, call.client_software)
            if found.software == call.client_software:
                call.client_software = found.software  # Found by identity from now on.
            call.traffic = found
        return found

    def counts(self, entry: Entry, around: bytes, call: Call) -> list[int]:
        """Return the counters of a new cache entry, `RepeatedRequests.counts` of its shape.

        `around` are the bytes from the client id to the partition index.
        """
        key = _PRODUCE_KEY << 16 | call.version
        version = self._known.get(key) or self._learn(key, call)
        topic = call.broker.partitions[entry.key].traffic
        assert version is not None and topic is not None, "there are metrics"
        response_bytes = 0 if entry.template is None else entry.template.size + _SIZE_BYTES
        other_bytes = len(around) + OUTER_BYTES
        shape = ProduceShape(version, self.client(call), topic, other_bytes, response_bytes)
        return self.requests.repeated(shape).counts

    def _learn(self, api_and_version: int, call: Call) -> VersionRequests | None:
        """The counters of an API and version; None if it is not one that was served."""
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
    """A cache whose entries have counters, which those of the same shape share."""

    __slots__ = ("_measured",)

    def __init__(self, measured: MeasuredPipeline):
        super().__init__()
        self._measured = measured

    def _remember(self, around: bytes, request: Any, call: Call) -> Entry | None:
        entry = super()._remember(around, request, call)
        if entry is not None:
            entry.counts = self._measured.counts(entry, around, call)
        return entry

    def _clear(self, generation: int) -> None:
        super()._clear(generation)
        self._measured.requests.forget_repeated()


class _Served:
    """A cache within the stages that follow it: asked before, it only notes requests."""

    __slots__ = ("_cache", "key")

    def __init__(self, cache: ProduceCache | None):
        self._cache = cache
        self.key = ProduceCache.key

    def serve(self, data: Buffer, at: int, end: int, call: Call, replies: Replies) -> bool:
        return False

    def note(self, frame: Buffer, request: Any, response: Any, call: Call) -> None:
        if self._cache is not None:
            self._cache.note(frame, request, response, call)


class MeasuredReplies(Replies):
    """Replies that remember the last response until it is counted."""

    __slots__ = ("errors", "response", "route")

    def __init__(self) -> None:
        super().__init__()
        self.errors: Counter[int] | None = None
        """The errors of a response that was encoded in a thread."""
        self.route: Route | None = None
        self.response: Any = None

    def add(self, route: Route, correlation_id: int, response: Any) -> None:
        """Encode and append a response."""
        _add(self, route, correlation_id, response)
        self.route, self.response = route, response

    def add_encoded(self, route: Route, encoded: Replies) -> None:
        """Append an encoded response."""
        super().add_encoded(route, encoded)
        assert isinstance(encoded, CountedReplies), "of a measured pipeline"
        self.route, self.errors = route, encoded.errors


class CountedReplies(Replies):
    """A response that was encoded in a thread, and its errors."""

    __slots__ = ("errors",)

    def __init__(self, response: Any) -> None:
        super().__init__()
        self.errors = Counter[int]()
        count_errors(response, self.errors)


class MeasuredParked:
    """A request that waits, and the time of the work for it so far."""

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
        began_ns, answers = self._began_ns, self._measured.answers
        resumed_ns = perf_counter_ns() if began_ns else 0
        buffers = answers.buffers = replies.buffers
        head = answers.tail = replies.tail
        answers.route = None
        start, first = len(head), len(buffers)
        is_done = True  # If it raises, too.
        try:
            is_done = self._parked.resume(call, answers)
        finally:
            tail = replies.tail = answers.tail
            self._version.api.in_flight -= is_done
        now_ns = perf_counter_ns() if began_ns else 0
        self._worked_ns += now_ns - resumed_ns
        if not is_done:
            return False
        sent_bytes = len(tail) - start
        if tail is not head:
            sent_bytes += sum(map(len, buffers[first:]))
        version = self._version
        self._measured.answered(version, call, sent_bytes)
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
    """Count a Fetch that has just been answered as that of a consumer or a follower."""
    measures = call.broker.measures
    is_follower = measures is not None and measures.traffic.last_fetch_is_followers
    version.counts[is_follower] += 1
    return version.api.kinds[is_follower]
