"""Receives the metrics that clients push as OTLP (KIP-714), and serves them with the broker's own.

Importing it needs `opentelemetry-proto`: the extra `wirekafka[telemetry]`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from google.protobuf.message import DecodeError
from opentelemetry.proto.metrics.v1.metrics_pb2 import AggregationTemporality, MetricsData

from wirekafka.codec.compression import decompress
from wirekafka.errors import Error, KafkaError
from wirekafka.log.checkpoints import uuid_text
from wirekafka.metrics.client_metrics import (
    LABELS,
    MOST_OF_CLIENT,
    ClientIdentity,
    ClientMetrics,
    Point,
)
from wirekafka.metrics.exposition import COUNTER, GAUGE, Column, Table, single
from wirekafka.telemetry.instances import Push
from wirekafka.telemetry.subscriptions import ALL, Subscription, TelemetryClient

_STANDARD = re.compile(r"org\.apache\.kafka(\.[a-zA-Z][a-zA-Z0-9_]*)+")
"""The names of KIP-714. Other names could be names of the broker's own metrics."""
_COUNTED = "_total"
_DELTA = AggregationTemporality.AGGREGATION_TEMPORALITY_DELTA
_LEAST_KEPT_MS = 60_000
_KEPT_INTERVALS = 3
_MOST_POINTS = 4 * MOST_OF_CLIENT
"""After so many of one push the rest is not looked at."""
_MOST_PARTS = 4 * MOST_OF_CLIENT
_MOST_LABELS = 32
_ROWS_PER_STEP = 200


class TelemetryCollector:
    """The metrics that clients have pushed, under OpenTelemetry's rules for names in Prometheus."""

    def __init__(self, now_ms: Callable[[], int]):
        self._now_ms = now_ms
        self._metrics = ClientMetrics()
        self._families: dict[str, Table] = {}
        prefix = "wirekafka_telemetry"
        self._own = Table(
            [],
            [
                Column(f"{prefix}_clients", GAUGE, "Clients whose pushed metrics are known."),
                Column(f"{prefix}_pushes_total", COUNTER, "Pushes of metrics by clients."),
                Column(f"{prefix}_refused_total", COUNTER, "Pushes that could not be decoded."),
                Column(
                    f"{prefix}_dropped_values_total",
                    COUNTER,
                    "Pushed values that are not served: too many, or not of KIP-714.",
                ),
            ],
        )

    @property
    def tables(self) -> Sequence[Table]:
        """The broker's tables, and a table for each name that clients have pushed."""
        return [self._own, *self._families.values()]

    def receive(
        self, push: Push, client: TelemetryClient, max_bytes: int, subscription: Subscription
    ) -> None:
        """Take the metrics that a client has a subscription for; drop all other metrics.

        Raises KafkaError(INVALID_RECORD).
        """
        try:
            raw = decompress(push.codec, push.metrics, max_bytes)
            data = MetricsData.FromString(bytes(raw))
        except (KafkaError, DecodeError) as error:
            self._metrics.refused += 1
            raise KafkaError(Error.INVALID_RECORD) from error
        identity = ClientIdentity(
            client.client_id or "", uuid_text(push.instance_id), client.software
        )
        kept_ms = max(_LEAST_KEPT_MS, _KEPT_INTERVALS * subscription.interval_ms)
        self._metrics.take(
            push.instance_id,
            identity,
            islice(self._standard(data, _prefixes(subscription)), _MOST_POINTS),
            self._now_ms() + kept_ms,
        )

    def collect(self) -> Iterator[None]:
        metrics = self._metrics
        metrics.expire(self._now_ms())
        self._own.fill([((), (len(metrics), metrics.pushes, metrics.refused, metrics.dropped))])
        for table in self._families.values():
            table.begin()
        used = set()
        for number, (client, name, labels, value) in enumerate(metrics.rows()):
            table = self._families.get(name) or self._new_family(name)
            used.add(name)
            key = (client.client_id, client.instance_id, *client.software, *labels)
            table.put(key, (value,))
            if number % _ROWS_PER_STEP == _ROWS_PER_STEP - 1:
                yield
        for family in self._families.keys() - used:
            del self._families[family]

    def _new_family(self, name: str) -> Table:
        labels = ("client_id", "client_instance_id", "software_name", "software_version", *LABELS)
        kind = COUNTER if name.endswith(_COUNTED) else GAUGE
        table = single(name, kind, "As clients push it (KIP-714).", *labels)
        table.begin()
        self._families[name] = table
        return table

    def _standard(self, data: Any, prefixes: tuple[str, ...]) -> Iterator[Point]:
        """The values under names of KIP-714 that begin with one of the prefixes.

        Their names are as in Prometheus.
        """
        for metric, resource in _metrics(data):
            name = metric.name.replace(".", "_")
            is_sum = metric.HasField("sum")
            is_counter = is_sum and metric.sum.is_monotonic
            is_delta = is_sum and metric.sum.aggregation_temporality == _DELTA
            points = metric.sum.data_points if is_sum else metric.gauge.data_points
            if is_counter:
                name = name.removesuffix(_COUNTED) + _COUNTED
            is_standard = metric.name.startswith(prefixes) and _STANDARD.fullmatch(metric.name)
            if not is_standard or name.endswith(_COUNTED) != is_counter:
                self._metrics.dropped += len(points)
                continue
            for point in points:
                labels = {**resource, **_texts(point.attributes)}
                yield Point(name, labels, _number(point), is_delta)


def _prefixes(subscription: Subscription) -> tuple[str, ...]:
    """The prefixes of the names that a client is to push; the empty prefix selects all."""
    return tuple("" if each == ALL else each for each in subscription.metrics)


def _metrics(data: Any) -> Iterator[tuple[Any, Mapping[str, str]]]:
    """The metrics of a push, each with the attributes of its resource.

    Empty parts take 2 bytes each, so that they are bounded as well.
    """
    left = _MOST_PARTS
    for each in data.resource_metrics:
        attributes = _texts(each.resource.attributes)
        for scope in each.scope_metrics:
            for metric in scope.metrics:
                yield metric, attributes
                left -= 1
                if left <= 0:
                    return
            left -= 1
            if left <= 0:
                return
        left -= 1
        if left <= 0:
            return


def _texts(attributes: Any) -> Mapping[str, str]:
    return {
        each.key.replace(".", "_"): _text(each.value) for each in islice(attributes, _MOST_LABELS)
    }


def _text(value: Any) -> str:
    kind = value.WhichOneof("value")
    return str(getattr(value, kind)) if kind in ("string_value", "int_value") else ""


def _number(point: Any) -> float:
    found: float = point.as_int if point.HasField("as_int") else point.as_double
    return found
