"""A pipeline that counts and times all requests, in place of `Pipeline` while there are metrics."""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from time import perf_counter_ns
from typing import Any

from wirekafka.apis.registry import Call
from wirekafka.apis.routes import Route
from wirekafka.metrics.requests import (
    SAMPLED,
    ApiRequests,
    ClientTraffic,
    RepeatedRequests,
    Requests,
    VersionRequests,
)
from wirekafka.server.error_counts import count_errors
from wirekafka.server.parked import Parked
from wirekafka.server.pipeline import Buffer, Hook, Pipeline
from wirekafka.server.produce_cache import VERSIONS, ProduceCache
from wirekafka.server.replies import Replies

_api_and_version = Struct(">I").unpack_from
_NS_PER_US = 1000
_FETCH = "Fetch"
_VERSION_AT = 3
"""Of the low byte of the version in a request."""
_REPEATED = frozenset(ProduceCache.key << 16 | version for version in VERSIONS)
_UNTIMED = SAMPLED - 1
"""The bits of a count that are 0 in those that are timed."""
_serve, _add = Pipeline.serve, Replies.add
"""Called directly: `super()` makes an object for each request."""


class MeasuredPipeline(Pipeline):
    """Counts into `requests`. The pipeline itself, and what it caches, is that of any broker."""

    __slots__ = ("_known", "_repeated", "answers", "requests")

    def __init__(self, requests: Requests, hook: Hook | None = None):
        self._repeated: ProduceCache | _Served
        super().__init__(hook)
        self.requests = requests
        self.answers = MeasuredReplies()
        self._known: dict[int, VersionRequests] = {}
        """By `key << 16 | version`."""

    def _use_cache(self, cache: ProduceCache | None) -> None:
        # `serve` asks the cache itself: the stages of `Pipeline.serve` only note requests in it.
        self._repeated = cache or _Served(None)
        self._caches[ProduceCache.key] = cache and _Served(cache)

    def serve(self, data: Buffer, at: int, end: int, call: Call, replies: Replies) -> Parked | None:
        """Serve a request as `Pipeline.serve` does, and count it."""
        client = call.traffic
        if client is None and data[at + 1] == ProduceCache.key:
            client = self._client(call)  # This is the first request of a connection.
        if client is None or (repeated := client.repeated.get(data[at + _VERSION_AT])) is None:
            return self._serve_counted(data, at, end, call, replies)
        # Most likely a Produce request that the cache knows; if not, it says so. The next lines are
        # those of `Pipeline.serve`: one more call would cost as much as all that is counted here.
        quotas = call.broker.quotas
        if quotas is not None and call.unmeasured_revision != quotas.work_revision:
            call.began_ns = call.began_ns or call.work_ns()
        tail = replies.tail
        start, began_ns = len(tail), 0
        if not repeated.count & _UNTIMED:
            began_ns = perf_counter_ns()
        served = self._repeated.serve(data, at, end, call, replies)
        if served is True:
            repeated.count += 1
            repeated.request_bytes += end - at
            if sent_bytes := len(tail) - start:
                repeated.response_bytes += sent_bytes
            else:
                repeated.unanswered += 1
            if began_ns:
                took_us = (perf_counter_ns() - began_ns) // _NS_PER_US
                repeated.version.api.immediate.record(took_us, SAMPLED)
            if call.throttle_ms:
                repeated.version.api.throttled.record(call.throttle_ms)
            return None
        if served is False:
            return self._serve_counted(data, at, end, call, replies)
        repeated.count += 1
        repeated.request_bytes += end - at
        repeated.waiting += 1
        return MeasuredParked(self, served, repeated.version, began_ns, SAMPLED)

    def _serve_counted(
        self, data: Buffer, at: int, end: int, call: Call, replies: Replies
    ) -> Parked | None:
        """Serve and count a request that the cache does not serve."""
        began_ns, answers = perf_counter_ns(), self.answers
        (api_and_version,) = _api_and_version(data, at)
        version = self._known.get(api_and_version)
        buffers = answers.buffers = replies.buffers
        head = answers.tail = replies.tail
        answers.route = None
        start, first = len(head), len(buffers)
        try:
            parked = _serve(self, data, at, end, call, answers)
        finally:
            tail = replies.tail = answers.tail
        if version is None:
            version = self._learn(api_and_version, call)
            if version is None:
                return parked
        client = call.traffic
        if client is None or client.software is not call.client_software:
            client = self._client(call)
        size_bytes = end - at
        api = version.api
        version.count += 1
        api.request_bytes += size_bytes
        client.requests += 1
        client.bytes_in += size_bytes
        if api_and_version in _REPEATED and version.version not in client.repeated:
            client.repeated[version.version] = RepeatedRequests(version, client)
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
        answers, client = self.answers, call.traffic
        if sent_bytes and client is not None:
            client.responses += 1
            client.bytes_out += sent_bytes
            api.response_bytes += sent_bytes
        route = answers.route
        if route is None:
            api.errors[0] += 1  # acks=0, or a response of the cache, which has no failures.
        else:
            count_errors(answers.response, api.errors)
            answers.response = answers.route = None
        if call.throttle_ms:
            api.throttled.record(call.throttle_ms)

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

    def _client(self, call: Call) -> ClientTraffic:
        """The counters of the client, which has just connected or sent its software's name."""
        found = self.requests.clients.of(call.listener, call.client_software)
        if found.software == call.client_software:
            call.client_software = found.software  # Found by identity from now on.
        call.traffic = found
        return found


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

    __slots__ = ("response", "route")

    def __init__(self) -> None:
        super().__init__()
        self.route: Route | None = None
        self.response: Any = None

    def add(self, route: Route, correlation_id: int, response: Any) -> None:
        """Encode and append a response."""
        _add(self, route, correlation_id, response)
        self.route, self.response = route, response


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
