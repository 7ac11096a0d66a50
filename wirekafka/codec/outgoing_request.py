"""A request to another node: its frame, and how its response is decoded."""

from __future__ import annotations

from typing import Any

from wirekafka.codec.frame import decode_response, encode_request
from wirekafka.codec.message import Request
from wirekafka.errors import Error

_API_VERSIONS = 18


class OutgoingRequest:
    """Encodes one request and decodes its response, by the codec.

    A subclass may do the same with less work, for requests that are sent often.
    """

    __slots__ = ("request",)

    def __init__(self, request: Request):
        self.request = request

    def encode(self, correlation_id: int, client_id: str, version: int) -> bytes:
        """Return the frame, size included. Raises UnencodableMessage."""
        return encode_request(correlation_id, client_id, self.request, version)

    def decode(self, frame: memoryview, version: int) -> Any:
        """Return the response, given its frame without the size. Raises MalformedMessage."""
        response = type(self.request).response
        if type(self.request).key == _API_VERSIONS and version > 0:
            code = int.from_bytes(frame[4:6], "big", signed=True)
            if code == Error.UNSUPPORTED_VERSION:
                version = 0  # Sent in a version that every client can decode (KIP-511).
        return decode_response(response, version, frame)[1]
