"""Frames from arbitrary pieces of data, and the buffers that they arrive in."""

from __future__ import annotations

import struct

import pytest

from wirekafka.server.peers.frame_reader import FrameReader


class Owner:
    def __init__(self, *, keeps: bool = True) -> None:
        self.keeps = keeps
        self.frames: list[bytes] = []
        self.views: list[memoryview] = []
        self.reason: str | None = None

    def received(self, frame: memoryview) -> None:
        self.frames.append(bytes(frame))
        if self.keeps:
            self.views.append(frame)

    def lost(self, reason: str) -> None:
        self.reason = reason


def feed(reader: FrameReader, data: bytes, piece: int = 1 << 30) -> None:
    at = 0
    while at < len(data):
        buffer = reader.get_buffer(-1)
        size = min(len(buffer), piece, len(data) - at)
        buffer[:size] = data[at : at + size]
        reader.buffer_updated(size)
        at += size


def framed(*payloads: bytes) -> bytes:
    return b"".join(struct.pack(">i", len(payload)) + payload for payload in payloads)


LARGE = [bytes([number]) * size for number, size in ((1, 100_000), (2, 90_000), (3, 120_000))]


@pytest.mark.parametrize("piece", [1, 7, 4096, 1 << 30])
@pytest.mark.parametrize("keeps", [True, False])
def test_frames_arrive_whole_from_any_pieces(piece: int, keeps: bool) -> None:
    owner = Owner(keeps=keeps)
    payloads = [b"abcd", b"x" * 20_000, b"efghi", *LARGE, b"last"]
    feed(FrameReader(owner, 1 << 20), framed(*payloads), piece)
    assert owner.frames == payloads
    assert [bytes(view) for view in owner.views] == (payloads if keeps else [])


def test_a_buffer_is_used_again_once_its_frame_is_forgotten() -> None:
    owner = Owner()
    reader = FrameReader(owner, 1 << 20)
    feed(reader, framed(LARGE[0]))
    feed(reader, framed(LARGE[1]))
    first, second = owner.views
    assert first.obj is not second.obj, "the first frame is still in use"
    buffer = second.obj
    part = second[10:20]
    owner.views.clear()
    del first, second
    feed(reader, framed(LARGE[1]))
    assert owner.views[0].obj is not buffer, "a part of it is still in use"
    assert bytes(part) == LARGE[1][10:20]
    buffer = owner.views[0].obj
    owner.views.clear()
    feed(reader, framed(LARGE[1]))
    assert owner.views[0].obj is buffer


def test_a_frame_beyond_the_limit_ends_the_connection() -> None:
    owner = Owner()
    feed(FrameReader(owner, 1_000), struct.pack(">i", 1_001))
    assert owner.reason == "a response of 1001 bytes"
