"""Envelope: forwards a client's request with its principal and address to the controller."""

from __future__ import annotations

from wirekafka.codec.message import Bool, Bytes, Int16, Message, Request, Response, String, field


class EnvelopeRequest(Request, key=58, versions="0", flexible="0+"):
    request_data: Bytes
    request_principal: Bytes | None
    client_host_address: Bytes


class EnvelopeResponse(Response, answers=EnvelopeRequest):
    response_data: Bytes | None = field(default=None)
    error_code: Int16


class DefaultPrincipalData(Message, versions="0", flexible="0+"):
    """A principal in the serialization of Kafka's default principal builder."""

    type: String
    name: String
    token_authenticated: Bool
