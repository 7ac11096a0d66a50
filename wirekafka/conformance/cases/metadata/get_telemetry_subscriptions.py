"""GetTelemetrySubscriptions: which metrics a client is to push, and how often."""

from __future__ import annotations

from wirekafka.conformance.case import Book, ConformanceLevel, Need
from wirekafka.conformance.cases.metadata.telemetry_clients import (
    OWN,
    fresh_id,
    name_software,
    settle,
    subscribe,
)
from wirekafka.conformance.stage import Stage
from wirekafka.errors import error_name
from wirekafka.protocol.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest

BOOK = Book(
    GetTelemetrySubscriptionsRequest,
    "metadata",
    ConformanceLevel.ADMIN,
    "KIP-714",
    needs=frozenset({Need.TELEMETRY}),
)
_NO_ID = bytes(16)
_RESERVED_ID = bytes(15) + b"\1"
_VERSION_BYTE, _RANDOM_VERSION = 6, 4


def ask(id: bytes) -> GetTelemetrySubscriptionsRequest:
    """A client's question."""
    return GetTelemetrySubscriptionsRequest(client_instance_id=id)


@BOOK.play("a client without an id")
def _without_id(stage: Stage) -> None:
    """The broker gives it a random id, and another to the next client."""
    first, second = stage.do(ask(_NO_ID)), stage.do(ask(_NO_ID))
    stage.note("error", error_name(first.error_code))
    stage.note("is random", first.client_instance_id[_VERSION_BYTE] >> 4 == _RANDOM_VERSION)
    stage.note("differ", first.client_instance_id != second.client_instance_id)


@BOOK.play("a client with an id")
def _with_id(stage: Stage) -> None:
    """It keeps its id; without a subscription it is to push nothing, and to ask again later."""
    id = fresh_id()
    answer = stage.do(ask(id))
    stage.note("error", error_name(answer.error_code))
    stage.note("keeps its id", answer.client_instance_id == id)
    stage.note("codecs", " ".join(map(str, answer.accepted_compression_types)))
    stage.note("largest push", answer.telemetry_max_bytes)
    stage.note("is for deltas", answer.delta_temporality)


@BOOK.play("a client without a subscription")
def _without_subscription(stage: Stage) -> None:
    """The interval is five minutes, and there are no metrics, where nothing matches."""
    name_software(stage)
    answer = stage.do(ask(fresh_id()), by=OWN)
    stage.note("interval", answer.push_interval_ms)
    stage.note("metrics", answer.requested_metrics)


# A change of any subscription lets clients ask and push again at once: alone.
@BOOK.play("a client that asks at once again", is_alone=True)
def _again(stage: Stage) -> None:
    """It is to wait for the interval, on another connection too."""
    id = fresh_id()
    for by in (OWN, OWN, "other"):
        stage.note("error", error_name(stage.do(ask(id), by=by).error_code))


@BOOK.play("a reserved id")
def _reserved(stage: Stage) -> None:
    """No client keeps the id of the metadata log: the broker gives it another."""
    answer = stage.do(ask(_RESERVED_ID))
    stage.note("error", error_name(answer.error_code))
    stage.note("keeps it", answer.client_instance_id == _RESERVED_ID)


_METRICS: dict[str, str | None] = {
    "all": "*",
    "of one prefix": "org.apache.kafka.producer.",
    "of two prefixes": "b,a",
    "with spaces": "b, a ,c",
    "twice": "a,a",
    "of prefixes of prefixes": "a.b,a",
    "all and one": "a,*",
    "none": "",
    "with nothing between commas": "a,,b",
}

for _what, _metrics in _METRICS.items():

    @BOOK.play(f"metrics {_what}")
    def _subscribed(stage: Stage, metrics: str | None = _metrics) -> None:
        """A subscription for the software of this client alone."""
        software = name_software(stage)
        match = f"client_software_name={software}"
        stage.note("error", subscribe(stage, "s", metrics=metrics, match=match, interval_ms="5000"))
        answer = settle(stage, software)
        stage.note("metrics", " ".join(sorted(f"<{each}>" for each in answer.requested_metrics)))


_PATTERNS = {
    "another client id": "client_id=zzz",
    "a part of the client id": "client_id=conform",
    "an expression": "client_id=conf.*nce",
    "another version": "client_software_version=2",
    "its version": "client_software_version=1",
    "spaces": " client_id = conformance ",
    "no value": "client_id=",
    "no key": "client_id",
    "an unknown key": "foo=x",
    "a key in capitals": "CLIENT_ID=conformance",
    "a bad expression": "client_id=(",
    "an address": r"client_source_address=\d+.*|.*:.*",
    "a port": r"client_source_port=\d+",
    "another port": "client_source_port=0",
    "a key twice": "client_id=zzz,client_id=conformance",
}

for _what, _pattern in _PATTERNS.items():

    @BOOK.play(f"a match by {_what}")
    def _matched(stage: Stage, pattern: str = _pattern) -> None:
        """The metrics of a subscription with this pattern, or why there is none."""
        software = name_software(stage)
        match = f"{pattern},client_software_name={software}"
        stage.note("error", subscribe(stage, "s", metrics="mine", match=match, interval_ms="5000"))
        answer = settle(stage, software)
        stage.note("is for the client", "mine" in answer.requested_metrics)


_INTERVALS = ("99", "100", "3600000", "3600001", "-1", "soon")

for _interval in _INTERVALS:

    @BOOK.play(f"an interval of {_interval.replace('-', 'minus ')}")
    def _interval_of(stage: Stage, interval: str = _interval) -> None:
        """Intervals are from 100 ms to an hour."""
        match = f"client_software_name={stage.name()}"
        stage.note("error", subscribe(stage, "s", interval_ms=interval, match=match))


@BOOK.play("several subscriptions")
def _several(stage: Stage) -> None:
    """The client is to push the metrics of all of them, as often as the most frequent."""
    software = name_software(stage)
    match = f"client_software_name={software}"
    subscribe(stage, "first", metrics="a,b", match=match, interval_ms="5000")
    subscribe(stage, "second", metrics="b,c", match=match, interval_ms="3000")
    answer = settle(stage, software)
    stage.note("metrics", " ".join(sorted(answer.requested_metrics)))


@BOOK.play("a subscription that ends")
def _ended(stage: Stage) -> None:
    """Without its options a subscription is gone, and the id of what is left is another."""
    software = name_software(stage)
    match = f"client_software_name={software}"
    subscribe(stage, "s", metrics="a", match=match, interval_ms="5000")
    before = settle(stage, software)
    stage.note("before", " ".join(sorted(before.requested_metrics)))
    subscribe(stage, "s", metrics=None, match=None, interval_ms=None)
    after = stage.until(lambda: _without(stage, "a"), "the end of the subscription")
    stage.note("after", " ".join(sorted(after)))


def _without(stage: Stage, metric: str) -> list[str] | None:
    found: list[str] = stage.do(ask(fresh_id()), by=OWN).requested_metrics
    return None if metric in found else found
