"""Encodes frames of requests and decodes frames of responses, as a client does."""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import TypeVar

from wirekafka.codec.message import Buffer, Int16, Int32, Message, Request, Response, String, field

_API_VERSIONS = 18
_SIZE = Struct(">i")
_HEADER_BYTES = {0: 4, 1: 5}
"""The size of a response header, without tagged fields."""

AnyResponse = TypeVar("AnyResponse", bound=Response)


class RequestHeader(Message, versions="1-2", flexible="2+"):
    """The header of a request: version 2 where the request is flexible (KIP-482)."""

    request_api_key: Int16
    request_api_version: Int16
    correlation_id: Int32
    # An old-style string even in version 2: an older broker must be able to read the header.
    client_id: String | None = field(default="", flexible="none")


class ResponseHeader(Message, versions="0-1", flexible="1+"):
    """The header of a response: version 1 where the response is flexible (KIP-482)."""

    correlation_id: Int32


def request_header_version(message: type[Message], version: int) -> int:
    """The header version of a request class in one of its versions."""
    return 2 if version in message.flexible else 1


def response_header_version(message: type[Message], version: int) -> int:
    """The header version of a response class in one of its versions.

    Always 0 for ApiVersions: the client decodes it before it knows the broker's versions.
    """
    return 1 if version in message.flexible and message.key != _API_VERSIONS else 0


def encode_frame(parts: Sequence[Buffer]) -> bytes:
    """Join the parts to a frame, prefixed by their total size as an int32."""
    return b"".join([_SIZE.pack(sum(map(len, parts))), *parts])


def encode_request(
    correlation_id: int, client_id: str | None, message: Request, version: int
) -> bytes:
    """Encode a request frame, size included. Raises UnencodableMessage."""
    cls = type(message)
    header = RequestHeader(
        request_api_key=cls.key,
        request_api_version=version,
        correlation_id=correlation_id,
        client_id=client_id,
    )
    header_version = request_header_version(cls, version)
    return encode_frame([header.encode(header_version), message.encode(version)])


def decode_response(
    response: type[AnyResponse], version: int, payload: Buffer
) -> tuple[int, AnyResponse]:
    """Decode a response frame without its size: (correlation id, message).

    Raises MalformedMessage, also when bytes are left over.
    """
    header_version = response_header_version(response, version)
    # The decoder copies what it may read: of a large response no more than a header without tags.
    end = _HEADER_BYTES[header_version]
    if len(payload) > end and header_version > 0 and payload[end - 1]:
        end = len(payload)
    header, position = ResponseHeader.decoder(header_version)(payload, 0, min(end, len(payload)))
    return header.correlation_id, response.decode(payload, version, position)
