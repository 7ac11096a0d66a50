"""Metrics of requests and connections, by API, listener and client software."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from wirekafka.errors import Error
from wirekafka.metrics.exposition import COUNTER, GAUGE, SUMMARY, Column, Summary, Table, single
from wirekafka.metrics.histogram import QUANTILES, Histogram, quantiles
from wirekafka.metrics.requests import ApiRequests, Requests
from wirekafka.server.connections.listener import Listener

_US_PER_MS = 1000
_PROCESSOR = "0"
"""The label `networkProcessor`: Kafka has several threads for each listener, this broker one."""
_DELAYED = {
    "Produce": ("Produce",),
    "Fetch": ("Fetch",),
    "ShareFetch": ("ShareFetch",),
    "DeleteRecords": ("DeleteRecords",),
    "AlterAcls": ("CreateAcls", "DeleteAcls"),
}
"""Kafka's names of its purgatories, with the APIs whose requests wait there."""
_ZEROS = dict.fromkeys(QUANTILES, 0.0)


class RequestCollector:
    """The requests of each API: how many, with which errors, and how long they take."""

    def __init__(self, requests: Requests):
        self._requests = requests
        prefix = "kafka_network_requestmetrics"
        self._versions = single(
            f"{prefix}_requests_total",
            COUNTER,
            "Requests by API and version.",
            "request",
            "version",
        )
        self._errors = single(
            f"{prefix}_errors_total",
            COUNTER,
            "Error codes in responses by API; NONE where there is no error.",
            "request",
            "error",
        )
        self._apis = Table(
            ["request"],
            [
                Column(
                    f"{prefix}_totaltimems", SUMMARY, "From a request's arrival to its response."
                ),
                Column(f"{prefix}_localtimems", SUMMARY, "The work for a request."),
                Column(f"{prefix}_remotetimems", SUMMARY, "How long a request has waited."),
                Column(
                    f"{prefix}_requestqueuetimems",
                    SUMMARY,
                    "Always 0: a request is served by the thread that has read it.",
                ),
                Column(
                    f"{prefix}_responsequeuetimems",
                    SUMMARY,
                    "Always 0: a response is sent by the thread that has made it.",
                ),
                Column(
                    f"{prefix}_responsesendtimems",
                    SUMMARY,
                    "Until the socket had taken a response; 0 if it has taken it at once.",
                ),
                Column(
                    f"{prefix}_throttletimems",
                    SUMMARY,
                    "The throttle times in responses; mostly 0.",
                ),
                Column("wirekafka_request_bytes_total", COUNTER, "Bytes of requests by API."),
                Column("wirekafka_response_bytes_total", COUNTER, "Bytes of responses by API."),
                Column("wirekafka_requests_waiting", GAUGE, "Requests that wait now."),
            ],
        )
        self._delayed = _delayed_table()
        self._queues = _queue_table()
        self.tables = (self._versions, self._errors, self._apis, self._delayed, self._queues)

    def collect(self) -> Iterator[None]:
        yield from self._requests.settling()
        self._versions.fill(
            ((name, str(version)), (count,)) for name, version, count in self._requests.received()
        )
        yield
        apis = self._requests.apis
        self._errors.fill(
            ((api.name, _error_name(code)), (count,))
            for api in list(apis.values())
            for code, count in sorted(api.errors.items())
        )
        yield
        self._apis.begin()
        for api in list(apis.values()):
            self._apis.put((api.name,), _values(api))
            yield
        self._delayed.begin()
        for operation, names in _DELAYED.items():
            waiting = sum(apis[name].in_flight for name in names if name in apis)
            self._delayed.put((operation,), (waiting, waiting))


def _delayed_table() -> Table:
    prefix, waiting = "kafka_server_delayedoperationpurgatory", "Requests that wait"
    return Table(
        ["delayedOperation"],
        [
            Column(f"{prefix}_purgatorysize", GAUGE, f"{waiting} for records, replicas or a time."),
            Column(f"{prefix}_numdelayedoperations", GAUGE, f"{waiting}: the same number."),
        ],
    )


def _queue_table() -> Table:
    table = Table(
        [],
        [
            Column(
                f"kafka_network_requestchannel_{name}queuesize",
                GAUGE,
                "Always 0: there are no queues between threads.",
            )
            for name in ("request", "response")
        ],
    )
    table.fill([((), (0, 0))])
    return table


def _values(api: ApiRequests) -> Sequence[Summary | int]:
    timed = api.kinds or (api,)
    at_once = [each.immediate for each in timed]
    total = [each.waited_total for each in timed]
    sending = [each.sending for each in timed]
    count = sum(each.finished for each in timed)
    lately, all_lately = _lately(at_once), _lately([*at_once, *total])
    throttled, delayed = _lately([api.throttled]), _lately(sending)
    return (
        _summary([*at_once, *total], count),
        _summary([*at_once, *(each.waited_local for each in timed)], count),
        _summary([each.waited_remote for each in timed], count, zeros=lately),
        Summary(_ZEROS, count),
        Summary(_ZEROS, count),
        _summary(sending, count, zeros=max(all_lately - delayed, 0)),
        Summary(quantiles([api.throttled], QUANTILES, max(all_lately - throttled, 0)), count),
        api.request_bytes,
        api.response_bytes,
        api.in_flight,
    )


def _lately(histograms: Sequence[Histogram]) -> int:
    """How many values were recorded in the windows of the histograms."""
    return sum(sum(window.values()) for each in histograms for window in each.windows())


def _summary(histograms: Sequence[Histogram], count: int, zeros: int = 0) -> Summary:
    found = quantiles(histograms, QUANTILES, zeros)
    return Summary({name: value / _US_PER_MS for name, value in found.items()}, count)


def _error_name(code: int) -> str:
    try:
        return Error(code).name
    except ValueError:
        return str(code)


class ConnectionCollector:
    """Connections and traffic by listener, and by the software of clients (KIP-511)."""

    def __init__(self, requests: Requests, listeners: Callable[[], Sequence[Listener]]):
        self._requests = requests
        self._listeners_now = listeners
        prefix = "kafka_server_socket_server_metrics"
        self._listeners = Table(
            ["listener", "networkProcessor"],
            [
                Column(f"{prefix}_connection_count", GAUGE, "Open connections."),
                Column(f"{prefix}_connection_creation_total", COUNTER, "Accepted connections."),
                Column(f"{prefix}_connection_close_total", COUNTER, "Closed connections."),
                Column(f"{prefix}_request_total", COUNTER, "Requests received."),
                Column(f"{prefix}_response_total", COUNTER, "Responses sent."),
                Column(f"{prefix}_incoming_byte_total", COUNTER, "Bytes of requests."),
                Column(f"{prefix}_outgoing_byte_total", COUNTER, "Bytes of responses."),
            ],
        )
        self._software = single(
            f"{prefix}_connections_software",
            GAUGE,
            "Open connections by the name and version that clients send in ApiVersions.",
            "clientSoftwareName",
            "clientSoftwareVersion",
            "listener",
            "networkProcessor",
        )
        self._traffic = Table(
            ["listener", "software", "version"],
            [
                Column("wirekafka_client_requests_total", COUNTER, "Requests by client software."),
                Column(
                    "wirekafka_client_request_bytes_total",
                    COUNTER,
                    "Bytes of requests by client software.",
                ),
                Column(
                    "wirekafka_client_response_bytes_total",
                    COUNTER,
                    "Bytes of responses by client software.",
                ),
            ],
        )
        self.tables = (self._listeners, self._software, self._traffic)

    def collect(self) -> Iterator[None]:
        self._requests.settle()
        rows = self._requests.clients.rows()
        self._traffic.fill(
            ((listener, *row.software), (row.requests, row.bytes_in, row.bytes_out))
            for listener, row in rows
        )
        self._listeners.begin()
        self._software.begin()
        for listener in self._listeners_now():
            yield
            own = [row for name, row in rows if name == listener.name]
            self._listeners.put(
                (listener.name, _PROCESSOR),
                (
                    listener.connections,
                    listener.accepted,
                    max(listener.accepted - listener.connections, 0),
                    sum(row.requests for row in own),
                    sum(row.responses for row in own),
                    sum(row.bytes_in for row in own),
                    sum(row.bytes_out for row in own),
                ),
            )
            for software, count in Counter(listener.software()).items():
                self._software.put((*software, listener.name, _PROCESSOR), (count,))
