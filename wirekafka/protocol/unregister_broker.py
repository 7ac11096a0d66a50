"""UnregisterBroker: removes the registration of a broker that does not return (KIP-500)."""

from __future__ import annotations

from wirekafka.codec.message import Int16, Int32, Request, Response, String, field


class UnregisterBrokerRequest(Request, key=64, versions="0", flexible="0+"):
    broker_id: Int32


class UnregisterBrokerResponse(Response, answers=UnregisterBrokerRequest):
    throttle_time_ms: Int32
    error_code: Int16
    error_message: String | None = field(default="")
