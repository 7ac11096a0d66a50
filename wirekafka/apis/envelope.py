"""Envelope: forwards a client's request with its principal and address to the controller.

Specified by KIP-590.
"""

from __future__ import annotations

import inspect
import ipaddress
from functools import partial
from typing import Any

from wirekafka.apis.shared import registry
from wirekafka.apis.shared.call import Call, ControllerCall
from wirekafka.apis.shared.registry import Api, controller_api
from wirekafka.apis.shared.turns import release
from wirekafka.codec.frame import (
    RequestHeader,
    ResponseHeader,
    decode_response,
    request_header_version,
    response_header_version,
)
from wirekafka.codec.message import MalformedMessage, Request, Response
from wirekafka.config.address import java_text
from wirekafka.errors import Error, KafkaError, MalformedRequest
from wirekafka.protocol.envelope import DefaultPrincipalData, EnvelopeRequest, EnvelopeResponse
from wirekafka.runtime.promise import computed
from wirekafka.security.acl import CLUSTER, CLUSTER_ACTION

_PRINCIPAL_VERSION = 0


@controller_api(EnvelopeRequest, EnvelopeResponse)
async def envelope(request: EnvelopeRequest, call: ControllerCall) -> EnvelopeResponse:
    """Handle the request of a broker's client, authorized as that client.

    The error of the envelope is the broker's: NOT_CONTROLLER lets it look for another controller.
    """
    call.authorize(CLUSTER_ACTION, CLUSTER)
    client = _client_of(request, call)
    decode = partial(_decoded, bytes(request.request_data))
    header, declared, inner = await computed(call.run_apart, decode)
    client.api_name, client.client_id = declared.name, header.client_id
    client.version = header.request_api_version
    assert declared.decide is not None, "forwarded"
    try:
        response: Any = declared.decide(inner, client)
        if inspect.iscoroutine(response):
            response = await response
    except MalformedRequest as error:
        raise KafkaError(Error.INVALID_REQUEST, str(error)) from error
    except KafkaError as error:
        if error.error is Error.NOT_CONTROLLER:
            raise
        response = await computed(call.run_apart, partial(declared.failure, inner, error, client))
    encode = partial(_encoded, response, client.version, header.correlation_id)
    encoded = await computed(call.run_apart, encode)
    messages = [inner, response]
    del inner, response, encode
    await computed(call.run_apart, partial(release, messages))
    return EnvelopeResponse(response_data=encoded)


def _encoded(response: Response, version: int, correlation_id: int) -> bytes:
    head_version = response_header_version(type(response), version)
    head = ResponseHeader(correlation_id=correlation_id).encode(head_version)
    return head + response.encode(version)


def _client_of(request: EnvelopeRequest, call: ControllerCall) -> ControllerCall:
    """The call of the client in an envelope, as yet without its request."""
    client = call.for_client()
    principal = _principal_in(request.request_principal)
    client.principal = f"{principal.type}:{principal.name}"
    client.is_token_authenticated = principal.token_authenticated
    try:
        address = ipaddress.ip_address(bytes(request.client_host_address))
    except ValueError:
        raise KafkaError(
            Error.INVALID_REQUEST, "Failed to parse client address from envelope"
        ) from None
    client.client_host = f"/{java_text(str(address))}"
    return client


def _principal_in(data: bytes | None) -> DefaultPrincipalData:
    if data is None or int.from_bytes(data[:2], "big") != _PRINCIPAL_VERSION:
        raise KafkaError(Error.PRINCIPAL_DESERIALIZATION_FAILURE)
    try:
        return DefaultPrincipalData.decode(bytes(data[2:]), _PRINCIPAL_VERSION)
    except MalformedMessage as error:
        raise KafkaError(Error.PRINCIPAL_DESERIALIZATION_FAILURE) from error


def _decoded(data: bytes) -> tuple[RequestHeader, Api, Any]:
    """The request in an envelope: its header, its API and its body. Raises INVALID_REQUEST."""
    key, version = int.from_bytes(data[:2], "big"), int.from_bytes(data[2:4], "big")
    declared = registry.declared_as(key)
    if declared is None or not declared.is_forwarded or version not in declared.request.versions:
        raise KafkaError(Error.INVALID_REQUEST, f"API key {key} is not enabled for forwarding")
    try:
        decode_header = RequestHeader.decoder(request_header_version(declared.request, version))
        header, at = decode_header(data, 0, len(data))
        body, _ = declared.request.decoder(version)(data, at, len(data))
    except (MalformedMessage, UnicodeDecodeError) as error:
        raise KafkaError(Error.INVALID_REQUEST, str(error)) from error
    return header, declared, body


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

    Raises KafkaError: the error of the envelope, or UNKNOWN_SERVER_ERROR if the wrapped response
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
        type=kind, name=name, token_authenticated=call.is_token_authenticated
    )
    return _PRINCIPAL_VERSION.to_bytes(2, "big") + data.encode(_PRINCIPAL_VERSION)
