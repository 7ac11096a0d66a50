"""Frames as clients write and read them, and request headers as a broker reads them."""

from __future__ import annotations

import struct

import pytest

from wirekafka.codec.frame import RequestHeader, decode_response, encode_request
from wirekafka.codec.message import MalformedMessage
from wirekafka.protocol.api_versions import ApiVersionsRequest, ApiVersionsResponse
from wirekafka.protocol.heartbeat import HeartbeatRequest, HeartbeatResponse


def nullable_string(text: str | None) -> bytes:
    if text is None:
        return b"\xff\xff"
    return struct.pack(">h", len(text)) + text.encode()


@pytest.mark.parametrize(("version", "header_version"), [(0, 1), (3, 1), (4, 2)])
@pytest.mark.parametrize("client_id", ["tester", "", None])
def test_a_request_is_a_size_a_header_and_a_body(
    version: int, header_version: int, client_id: str | None
) -> None:
    request = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
    frame = encode_request(77, client_id, request, version)
    tags = b"\0" if header_version == 2 else b""
    header = struct.pack(">hhi", 12, version, 77) + nullable_string(client_id) + tags
    body = request.encode(version)
    assert frame == len(header + body).to_bytes(4, "big") + header + body
    decoded, at = RequestHeader.decoder(header_version)(frame, 4, len(frame))
    assert (decoded.correlation_id, decoded.client_id) == (77, client_id)
    assert HeartbeatRequest.decode(frame, version, at) == request


@pytest.mark.parametrize(("version", "tags"), [(3, b""), (4, b"\0")])
def test_a_response_header_is_flexible_where_the_response_is(version: int, tags: bytes) -> None:
    response = HeartbeatResponse(throttle_time_ms=0, error_code=25)
    payload = b"\0\0\0\7" + tags + response.encode(version)
    assert decode_response(HeartbeatResponse, version, payload) == (7, response)


@pytest.mark.parametrize("version", range(5))
def test_the_api_versions_response_header_is_always_version_0(version: int) -> None:
    response = ApiVersionsResponse(error_code=35, api_keys=[])
    payload = b"\0\0\0\7" + response.encode(version)
    assert decode_response(ApiVersionsResponse, version, payload) == (7, response)
    assert ApiVersionsRequest.key == ApiVersionsResponse.key == 18


def test_the_client_id_is_an_old_style_string_in_a_flexible_header() -> None:
    start = b"\0\x0c\0\4\0\0\0\x09"
    decode = RequestHeader.decoder(2)
    header, position = decode(start + b"\0\6tester\0...", 0, 20)
    assert (header.client_id, header.correlation_id, position) == ("tester", 9, 17)
    assert decode(start + b"\xff\xff\0", 0, 11)[0].client_id is None


@pytest.mark.parametrize(
    "rest",
    [
        b"",
        b"\0",
        b"\0\5ab",
        b"\xff\xfe\0",
        b"\x80\0\0",
        b"\0\1\xff\0",
        b"\0\1a",
        b"\0\0\1\0\2a",
        b"\0\0\2\0\0\0\0",
        b"\0\0\xff\xff\xff\xff\xff\xff",
    ],
)
def test_a_bad_end_of_a_header_is_refused(rest: bytes) -> None:
    header = b"\0\x0c\0\4\0\0\0\x09" + rest
    for behind in (b"", bytes(100)):
        with pytest.raises(MalformedMessage, match="RequestHeader v2"):
            RequestHeader.decoder(2)(header + behind, 0, len(header))


def test_bytes_after_a_response_are_refused() -> None:
    with pytest.raises(MalformedMessage, match="1 bytes follow it"):
        decode_response(HeartbeatResponse, 0, b"\0\0\0\7\0\0\0")
