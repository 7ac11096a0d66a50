"""Malformed request frames for every API and version, the same for the same seed."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

from wirekafka.apis.shared import registry, routes
from wirekafka.codec.frame import RequestHeader
from wirekafka.codec.message import MalformedMessage, Request
from wirekafka.codec.schema import Field

LARGEST_REQUEST_BYTES = 104857600
"""Kafka's default of socket.request.max.bytes."""

_API_VERSIONS = 18
_UNREGISTER_BROKER = 64
_EDGES = {"b": 7, "h": 15, "i": 31, "q": 63}
_LENGTHS = (
    b"\xff\xff\xff\xff\x07",
    b"\xff\xff\xff\xff\x0f",
    b"\xff\xff\xff\xff\xff\x01",
    b"\x7f\xff\xff\xff",
    b"\xff\xff\xff\xff",
    b"\xff\xff\xff\xfe",
    b"\x80\x00\x00\x00",
    b"\x00\xff\xff\xff",
    b"\xff\xff",
    b"\xff\xfe",
    b"\x7f\xff",
    b"\x80\x00",
)
_BYTES = (0, 1, 2, 3, 0x7F, 0x80, 0xC0, 0xFE, 0xFF)


def malformed_frames(seed: int) -> Iterator[bytes]:
    """Frames, size included, each of which a broker must answer by closing the connection.

    A frame shorter than its size never becomes complete: there the client disconnects.
    """
    random = Random(seed)
    requests = [api.request for api in registry.load().values()]
    kinds: list[Callable[[Random, type[Request], int], bytes]] = [
        _bad_size,
        _unfinished,
        _noise,
        _bad_header,
        _unspoken,
        *[_noise_after_a_header] * 3,
        *[_cut] * 4,
        *[_huge_length] * 6,
        *[_mutated] * 8,
    ]
    while True:
        request = random.choice(requests)
        version = random.randint(*request.versions)
        frame = random.choice(kinds)(random, request, version)
        if is_malformed(frame):
            yield frame


def odd_frames(seed: int) -> Iterator[bytes]:
    """Well-formed requests with meaningless values; a broker responds or closes the connection.

    None unregisters the broker, which no client would find until its next start, as with Kafka.
    """
    random = Random(seed)
    registry.load()
    requests = [api.request for api in routes.BROKERS.served() if api.key != _UNREGISTER_BROKER]
    while True:
        request = random.choice(requests)
        version = random.randint(*request.versions)
        body = _random_part(random, request, version, 3).encode(version)
        yield _frame(_header(random, request, version) + body)


def is_malformed(frame: bytes) -> bool:
    """Whether a frame breaks the protocol, by its size, its header or its body."""
    (size,) = struct.unpack_from(">i", frame)
    if size != len(frame) - 4 or not 10 <= size <= LARGEST_REQUEST_BYTES:
        return True
    key, version = struct.unpack_from(">HH", frame, 4)
    route = routes.BROKERS.find(key << 16 | version)
    if route is None:
        # An unknown version of ApiVersions is allowed: the response lists the known ones.
        return key != _API_VERSIONS
    try:
        header = RequestHeader.decoder(2 if route.header_is_flexible else 1)
        _, at = header(frame, 4, len(frame))
        route.decode(frame, at, len(frame))
    except MalformedMessage:
        return True
    return False


def is_unfinished(frame: bytes) -> bool:
    """Whether a broker waits for more bytes of it."""
    (size,) = struct.unpack_from(">i", frame)
    return 10 <= size <= LARGEST_REQUEST_BYTES and size > len(frame) - 4


def _frame(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


def _header(random: Random, request: type[Request], version: int) -> bytes:
    client_id = random.choice((b"\xff\xff", b"\0\0", b"\0\4fuzz"))
    tags = b"\0" if version in request.flexible else b""
    return struct.pack(">hhi", request.key, version, random.getrandbits(31)) + client_id + tags


def _valid(random: Random, request: type[Request], version: int) -> bytes:
    body = _random_part(random, request, version, 2).encode(version)
    return _header(random, request, version) + body


def _bad_size(random: Random, request: type[Request], version: int) -> bytes:
    size = random.choice(
        (
            -1,
            -2,
            -(1 << 31),
            0,
            1,
            9,
            LARGEST_REQUEST_BYTES + 1,
            (1 << 31) - 1,
            random.randint(-(1 << 31), -1),
        )
    )
    return struct.pack(">i", size) + _valid(random, request, version)


def _unfinished(random: Random, request: type[Request], version: int) -> bytes:
    size = random.choice((1 << 10, 1 << 20, LARGEST_REQUEST_BYTES))
    return struct.pack(">i", size) + _valid(random, request, version)


def _noise(random: Random, request: type[Request], version: int) -> bytes:
    return _frame(random.randbytes(random.randint(10, 200)))


def _noise_after_a_header(random: Random, request: type[Request], version: int) -> bytes:
    noise = random.randbytes(random.choice((0, 1, 3, 20, 300)))
    return _frame(_header(random, request, version) + noise)


def _bad_header(random: Random, request: type[Request], version: int) -> bytes:
    client_id = random.choice((b"\xff\xfe", b"\x80\0", b"\x7f\xffshort", b"\0\2\xc3\x28"))
    start = struct.pack(">hhi", request.key, version, 1)
    tags = random.choice((b"\xff\xff\xff\xff\x0f", b"\2\1\0\1\0", b"\1\1\x7fx", b"\xff" * 6))
    return _frame(start + random.choice((client_id, b"\0\4fuzz" + tags)) + bytes(4))


def _unspoken(random: Random, request: type[Request], version: int) -> bytes:
    key, version = random.choice(
        (
            (request.key, request.versions.last + random.randint(1, 100)),
            (request.key, -1),
            (random.randint(100, 32767), version),
            (-random.randint(1, 32768), version),
        )
    )
    return _frame(struct.pack(">hhi", key, version, 1) + random.randbytes(20))


def _cut(random: Random, request: type[Request], version: int) -> bytes:
    payload = _valid(random, request, version)
    return _frame(payload[: random.randint(10, len(payload))])


def _huge_length(random: Random, request: type[Request], version: int) -> bytes:
    payload = _valid(random, request, version)
    length = random.choice(_LENGTHS)
    at = random.randint(10, len(payload))
    over = random.choice((0, 1, len(length)))
    return _frame(payload[:at] + length + payload[at + over :])


def _mutated(random: Random, request: type[Request], version: int) -> bytes:
    payload = bytearray(_valid(random, request, version))
    for _ in range(random.choice((1, 1, 2, 4, 16))):
        at = random.randrange(min(len(payload) - 1, random.choice((4, 12, 12))), len(payload))
        match random.randrange(4):
            case 0:
                payload[at] = random.choice(_BYTES)
            case 1:
                payload[at] ^= 1 << random.randrange(8)
            case 2:
                payload[at:at] = random.randbytes(random.randint(1, 4))
            case _:
                del payload[at : at + random.randint(1, 4)]
        if len(payload) < 12:
            break
    return _frame(bytes(payload))


def _random_part(random: Random, cls: type[Any], version: int, most: int) -> Any:
    return cls(
        **{
            f.name: _random_value(random, f, version, most)
            for f in cls.fields
            if version in f.versions
        }
    )


def _random_value(random: Random, field: Field, version: int, most: int) -> Any:
    if version in field.nullable and random.random() < 0.2:
        return None
    if not field.is_array:
        return _random_one(random, field, version, most)
    return [_random_one(random, field, version, most) for _ in range(random.randint(0, most))]


def _random_one(random: Random, field: Field, version: int, most: int) -> Any:
    if field.part is not None:
        return _random_part(random, field.part, version, most)
    match field.kind:
        case "?":
            return random.random() < 0.5
        case "d":
            return random.random()
        case "16s":
            return random.choice((bytes(16), random.randbytes(16)))
        case "string":
            return random.choice(("", "fuzz", "é" * 3, "x" * 130, random.randbytes(3).hex()))
        case "bytes" | "records":
            return random.randbytes(random.choice((0, 1, 12, 61, 130)))
        case "H" | "I":
            return random.randint(0, 0xFFFF)
        case kind:
            bits = _EDGES[str(kind)]
            return random.choice(
                (0, 1, -1, -2, (1 << bits) - 1, -(1 << bits), random.randint(-100, 100))
            )
