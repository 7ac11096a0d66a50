"""GetTelemetrySubscriptions: says which metrics a client is to push, and how often (KIP-714)."""

from __future__ import annotations

from wirekafka.apis.shared.call import Call
from wirekafka.apis.shared.registry import api
from wirekafka.apis.shared.telemetry_client import client_of
from wirekafka.protocol.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from wirekafka.telemetry.instances import ACCEPTED_CODECS


@api(GetTelemetrySubscriptionsRequest, GetTelemetrySubscriptionsResponse)
def get_telemetry_subscriptions(
    request: GetTelemetrySubscriptionsRequest, call: Call
) -> GetTelemetrySubscriptionsResponse:
    """Return the client's subscription, and give it an id if it has none; no ACL limits it."""
    broker = call.broker
    instance_id, subscription = broker.telemetry.ask(
        request.client_instance_id, client_of(call), call.now_ms
    )
    return GetTelemetrySubscriptionsResponse(
        client_instance_id=instance_id,
        subscription_id=subscription.id,
        accepted_compression_types=list(ACCEPTED_CODECS),
        push_interval_ms=subscription.interval_ms,
        telemetry_max_bytes=broker.config.telemetry_max_bytes,
        delta_temporality=True,
        requested_metrics=subscription.metrics,
    )
