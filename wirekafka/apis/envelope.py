"""Envelope: forwards a client's request with its principal and address to the controller.

Specified by KIP-590.
"""

from __future__ import annotations

import ipaddress
from typing import Any

from wirekafka.apis.registry import Call
from wirekafka.codec.frame import RequestHeader, decode_response, request_header_version
from wirekafka.codec.message import (
    Bool,
    Bytes,
    Int16,
    MalformedMessage,
    Message,
    Request,
    Response,
    String,
    field,
)
from wirekafka.errors import Error, KafkaError

_PRINCIPAL_VERSION = 0


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


def wrap(request: Request, call: Call) -> EnvelopeRequest:
    """Return the envelope of a client's request, which keeps the client's header and version."""
    kind = type(request)
    header = RequestHeader(
        request_api_key=kind.key,
        request_api_version=call.version,
        correlation_id=call.correlation_id,
        client_id=call.client_id,
    )
    return EnvelopeRequest(
        request_data=header.encode(request_header_version(kind, call.version))
        + request.encode(call.version),
        request_principal=_principal(call),
        client_host_address=ipaddress.ip_address(call.client_host.lstrip("/")).packed,
    )


def unwrap(envelope: EnvelopeResponse, request: Request, call: Call) -> Any:
    """Return the response to a wrapped request.

    Raises KafkaError: the error of the envelope, or UNKNOWN_SERVER_ERROR if the response in it
    cannot be decoded or has another correlation id.
    """
    if envelope.error_code:
        raise KafkaError.of(envelope.error_code)
    try:
        correlation_id, response = decode_response(
            type(request).response, call.version, envelope.response_data or b""
        )
    except MalformedMessage as error:
        raise KafkaError(Error.UNKNOWN_SERVER_ERROR) from error
    if correlation_id != call.correlation_id:
        raise KafkaError(Error.UNKNOWN_SERVER_ERROR)
    return response


def _principal(call: Call) -> bytes:
    kind, _, name = call.principal.partition(":")
    data = DefaultPrincipalData(
        type=kind,
        name=name,
        token_authenticated=call.login is not None and call.login.is_token_authenticated,
    )
    return _PRINCIPAL_VERSION.to_bytes(2, "big") + data.encode(_PRINCIPAL_VERSION)
