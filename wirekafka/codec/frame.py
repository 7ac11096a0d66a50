"""Encodes frames of requests and decodes frames of responses, as a client does."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from struct import Struct
from typing import TypeVar

from wirekafka.codec.message import Buffer, Int16, Int32, Message, Request, Response, String, field

_API_VERSIONS = 18
_SIZE = Struct(">i")
CORRELATION_ID_AT = 8
"""In a request's frame: after the size, the API key and the version."""
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
    head = bytearray(_request_head(type(message), version, client_id))
    chunks: list[Buffer] = []
    tail = message.encoder(version)(message, chunks, head)
    chunks.append(tail)
    _SIZE.pack_into(head, 0, sum(map(len, chunks)) - _SIZE.size)
    _SIZE.pack_into(head, CORRELATION_ID_AT, correlation_id)
    return b"".join(chunks)


@lru_cache(maxsize=1024)
def _request_head(cls: type[Message], version: int, client_id: str | None) -> bytes:
    """The start of a frame, up to the message, except for its size and its correlation id."""
    header = RequestHeader(
        request_api_key=cls.key, request_api_version=version, client_id=client_id
    )
    return bytes(_SIZE.size) + header.encode(request_header_version(cls, version))


def decode_response(
    response: type[AnyResponse], version: int, payload: Buffer
) -> tuple[int, AnyResponse]:
    """Decode a response frame without its size: (correlation id, message).

    Raises MalformedMessage, also when bytes are left over.
    """
    header_version = response_header_version(response, version)
    end = _HEADER_BYTES[header_version]
    if len(payload) >= end and not (header_version and payload[end - 1]):
        (correlation_id,) = _SIZE.unpack_from(payload)
        return correlation_id, response.decode(payload, version, end)
    header, position = ResponseHeader.decoder(header_version)(payload, 0, len(payload))
    return header.correlation_id, response.decode(payload, version, position)
