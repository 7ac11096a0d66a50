"""A pipeline that counts and times all requests, in place of `Pipeline` while there are metrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from struct import Struct
from time import perf_counter_ns
from typing import Any

from wirekafka.apis.registry import Call
from wirekafka.apis.routes import Route
from wirekafka.codec.message import Message
from wirekafka.metrics.requests import ApiRequests, ClientTraffic, Requests, VersionRequests
from wirekafka.server.parked import Parked
from wirekafka.server.pipeline import Buffer, Hook, Pipeline
from wirekafka.server.replies import Replies

_api_and_version = Struct(">I").unpack_from
_NS_PER_US = 1000
_FETCH = "Fetch"
_serve = Pipeline.serve
"""Called directly: `super()` makes an object for each request."""


class MeasuredPipeline(Pipeline):
    """Counts into `requests`. The pipeline itself, and what it caches, is that of any broker."""

    __slots__ = ("_known", "answers", "requests")

    def __init__(self, requests: Requests, hook: Hook | None = None):
        super().__init__(hook)
        self.requests = requests
        self.answers = MeasuredReplies()
        self._known: dict[int, VersionRequests] = {}
        """By `key << 16 | version`."""

    def serve(self, data: Buffer, at: int, end: int, call: Call, replies: Replies) -> Parked | None:
        """Serve a request as `Pipeline.serve` does, and count it."""
        (api_and_version,) = _api_and_version(data, at)
        version = self._known.get(api_and_version)
        answers, began_ns = self.answers, perf_counter_ns()
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
        took_ns = perf_counter_ns() - began_ns
        if parked is not None:
            return MeasuredParked(self, parked, version, (began_ns, took_ns))
        sent_bytes = len(tail) - start
        if tail is not head:
            sent_bytes += sum(map(len, buffers[first:]))
        if answers.route is None and sent_bytes and not call.throttle_ms:
            # Served from the cache: what `answered` would do, without the call.
            client.responses += 1
            client.bytes_out += sent_bytes
            api.response_bytes += sent_bytes
            api.errors[0] += 1
        else:
            self.answered(version, call, sent_bytes)
        api.immediate.record(took_ns // _NS_PER_US)
        if api.kinds is not None:
            _kind_of(version, api.kinds, call).answered_at_once(took_ns // _NS_PER_US)
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
            api.errors[0] += 1  # Served from the cache, which has no failures, or acks=0.
        else:
            _errors_of(type(answers.response)).count(answers.response, api.errors)
            answers.response = answers.route = None
        if call.throttle_ms:
            api.throttled.record(call.throttle_ms)

    def _learn(self, api_and_version: int, call: Call) -> VersionRequests | None:
        """The counters of an API and version; None if it is not one that was served."""
        # `serve` has set both, unless it has refused the version.
        if call.version != api_and_version & 0xFFFF or not call.api_name:
            return None
        api = self.requests.of(call.api_name)
        if call.api_name == _FETCH and api.kinds is None:
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


class MeasuredReplies(Replies):
    """Replies that remember the last response until it is counted."""

    __slots__ = ("response", "route")

    def __init__(self) -> None:
        super().__init__()
        self.route: Route | None = None
        self.response: Any = None

    def add(self, route: Route, correlation_id: int, response: Any) -> None:
        """Encode and append a response."""
        super().add(route, correlation_id, response)
        self.route, self.response = route, response


class MeasuredParked:
    """A request that waits, and the time of the work for it so far."""

    __slots__ = ("_began_ns", "_measured", "_parked", "_version", "_worked_ns")

    def __init__(
        self,
        measured: MeasuredPipeline,
        parked: Parked,
        version: VersionRequests,
        times_ns: tuple[int, int],
    ):
        """`times_ns` are when it began, and how long the work has taken so far."""
        self._measured = measured
        self._parked = parked
        self._version = version
        self._began_ns, self._worked_ns = times_ns
        version.api.in_flight += 1

    @property
    def must_complete(self) -> bool:
        return self._parked.must_complete

    def when_ready(self, callback: Callable[[object], None]) -> None:
        self._parked.when_ready(callback)

    def resume(self, call: Call, replies: Replies) -> bool:
        """As `Parked.resume`, and count the request once it has ended."""
        resumed_ns, answers = perf_counter_ns(), self._measured.answers
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
        now_ns = perf_counter_ns()
        self._worked_ns += now_ns - resumed_ns
        if not is_done:
            return False
        sent_bytes = len(tail) - start
        if tail is not head:
            sent_bytes += sum(map(len, buffers[first:]))
        version, api = self._version, self._version.api
        self._measured.answered(version, call, sent_bytes)
        total_us = (now_ns - self._began_ns) // _NS_PER_US
        worked_us = self._worked_ns // _NS_PER_US
        api.answered_later(total_us, worked_us)
        if api.kinds is not None:
            _kind_of(version, api.kinds, call).answered_later(total_us, worked_us)
        return True

    def abandon(self) -> None:
        self._version.api.in_flight -= 1
        self._parked.abandon()


def _kind_of(
    version: VersionRequests, kinds: tuple[ApiRequests, ApiRequests], call: Call
) -> ApiRequests:
    """Count a Fetch that has just been answered as that of a consumer or a follower."""
    measures = call.broker.measures
    is_follower = measures is not None and measures.traffic.last_fetch_is_followers
    version.counts[is_follower] += 1
    return kinds[is_follower]


class _Errors:
    """Where the responses of a class have error codes: a tree that follows their arrays."""

    __slots__ = ("_has_own", "_nested")

    def __init__(self, kind: type[Message]):
        self._has_own = any(field.name == "error_code" for field in kind.fields)
        self._nested = [
            (field.name, found)
            for field in kind.fields
            if field.part is not None and field.is_array
            if not (found := _Errors(field.part)).is_empty
        ]

    @property
    def is_empty(self) -> bool:
        return not self._has_own and not self._nested

    def count(self, response: Any, errors: Counter[int]) -> None:
        """Count all error codes of a response; 0 for one that has none."""
        if not self._has_own and not self._nested:
            errors[0] += 1
        self._add(response, errors)

    def _add(self, part: Any, errors: Counter[int]) -> None:
        if self._has_own:
            errors[int(part.error_code)] += 1
        for name, nested in self._nested:
            for each in getattr(part, name) or ():
                nested._add(each, errors)


_error_trees: dict[type[Message], _Errors] = {}


def _errors_of(kind: type[Message]) -> _Errors:
    tree = _error_trees.get(kind)
    if tree is None:
        tree = _error_trees[kind] = _Errors(kind)
    return tree
