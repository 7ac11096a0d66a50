"""The client of a telemetry request, with all by which subscriptions can match it (KIP-714)."""

from __future__ import annotations

from wirekafka.apis.shared.call import Call
from wirekafka.telemetry.subscriptions import TelemetryClient


def client_of(call: Call) -> TelemetryClient:
    """Return the description of the connection's client."""
    # The connection id ends in the client's host, port and a number.
    port = call.connection_id.rpartition("-")[0].rpartition(":")[2]
    return TelemetryClient(
        client_id=call.client_id,
        software=call.client.software,
        address=call.client_host.removeprefix("/"),
        port=port,
        connection_id=call.connection_id,
    )
