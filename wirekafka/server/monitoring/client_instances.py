"""Metrics of the clients that may push theirs, named as by Kafka's JMX beans (KIP-714)."""

from __future__ import annotations

from collections.abc import Iterator

from wirekafka.broker import Broker
from wirekafka.log.checkpoints import uuid_text
from wirekafka.metrics.exposition import GAUGE, Column, Table
from wirekafka.server.monitoring.coordinators import RecentRates

_PREFIX = "kafka_server_client_metrics"
_INSTANCES_PER_STEP = 500


class ClientInstanceCollector:
    """The client instances that this broker knows, and the results of their pushes."""

    def __init__(self, broker: Broker):
        self._broker = broker
        self._rates = RecentRates()
        unknown = f"{_PREFIX}_unknown_subscription_request"
        self._all = Table(
            [],
            [
                Column(f"{_PREFIX}_instance_count", GAUGE, "Instances of clients."),
                Column(f"{unknown}_count", GAUGE, "Pushes for a subscription that has changed."),
                Column(f"{unknown}_rate", GAUGE, "The same per second, of late."),
            ],
        )
        self._instances = Table(
            ["client_instance_id"],
            [
                Column(f"{_PREFIX}_plugin_export_count", GAUGE, "Pushes that were taken."),
                Column(f"{_PREFIX}_plugin_error_count", GAUGE, "Pushes that were not readable."),
                Column(f"{_PREFIX}_throttle_count", GAUGE, "Requests that came too early."),
            ],
        )
        self.tables = (self._all, self._instances)

    def collect(self) -> Iterator[None]:
        telemetry = self._broker.telemetry
        unknown = telemetry.unknown_subscriptions
        [rate] = self._rates.of((unknown,), self._broker.clock.now_ms())
        self._all.fill([((), (len(telemetry), unknown, rate))])
        self._instances.begin()
        for number, (id, instance) in enumerate(telemetry.instances()):
            counts = (instance.exports, instance.refusals, instance.throttles)
            self._instances.put((uuid_text(id),), counts)
            if number % _INSTANCES_PER_STEP == _INSTANCES_PER_STEP - 1:
                yield
        yield
