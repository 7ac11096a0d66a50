"""The least a broker in Python can do for a Produce request: the yardstick of the speed guard.

`python -m benchmarks.bare_loop` says how many times dearer a request of wirekafka is, of which
everything a true broker adds is the reason: routing, metadata, validation, sequences, indexes.
"""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path
from struct import Struct

from benchmarks.driver import batch_of, produce_frame
from tests.in_process import InProcessBroker
from tests.manual_clock import ManualClock
from wirekafka.apis.registry import Call
from wirekafka.codec.crc import crc32c
from wirekafka.server import dispatch
from wirekafka.server.dispatch import Replies

_REQUEST_HEADER = Struct(">iIih")
_BATCH_HEADER = Struct(">qiiBIhiqqqhii")
_PREFIX = Struct(">qii")
_RESPONSE = Struct(">iiBB4sBihqqqBBBiB")
_REQUESTS = 50


class BareLoop:
    """Parses one fixed shape of request, checks its batch, writes it and answers."""

    def __init__(self, path: Path, topic: str, records_at: int):
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        self._topic = topic.encode()
        self._records_at = records_at
        self._end_offset = 0

    def serve(self, data: memoryview) -> bytes:
        """The response to one request."""
        size, _, correlation_id, _ = _REQUEST_HEADER.unpack_from(data)
        assert size == len(data) - 4
        batch = data[self._records_at:self._records_at + self._batch_bytes(data)]
        header = _BATCH_HEADER.unpack_from(batch)
        assert header[3] == 2 and crc32c(batch[21:]) == header[4]
        base_offset = self._end_offset
        os.writev(self._descriptor, (_PREFIX.pack(base_offset, header[1], 0), batch[16:]))
        self._end_offset += header[6] + 1
        return _RESPONSE.pack(
            0, correlation_id, 0, 2, self._topic, 2, 0, 0, base_offset, -1, 0, 1, 0, 0, 0, 0)

    def close(self) -> None:
        os.close(self._descriptor)

    def _batch_bytes(self, data: memoryview) -> int:
        (length,) = Struct(">i").unpack_from(data, self._records_at + 8)
        return int(length) + 12


def ratio(directory: Path, rounds: int = 40) -> tuple[float, float]:
    """CPU of a request through wirekafka's dispatch over that of the bare loop; and its µs.

    Both serve the same bytes in turn in this process, and the best round of each counts: what
    else the machine does falls on both.
    """
    topic = "bare"
    batch = batch_of(1, 200)
    frame = memoryview(bytearray(produce_frame(topic, batch, 1)))
    bare = BareLoop(directory / "bare.log", topic, bytes(frame).index(batch))
    broker = InProcessBroker(directory / "broker", ManualClock(time.time_ns() // 1_000_000))
    broker.create(topic)
    call = Call(broker.broker)
    bare_s, whole_s = [], []
    for _ in range(rounds):
        start = time.process_time()
        for _ in range(_REQUESTS):
            bare.serve(frame)
        middle = time.process_time()
        replies = Replies()
        for _ in range(_REQUESTS):
            dispatch.serve(frame, 4, len(frame), call, replies)
        whole_s.append(time.process_time() - middle)
        bare_s.append(middle - start)
    assert broker.partition(topic).end_offset == rounds * _REQUESTS, "appends were refused"
    bare.close()
    broker.stop()
    return min(whole_s) / min(bare_s), min(whole_s) / _REQUESTS * 1e6


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        times, whole_us = ratio(Path(directory), rounds=400)
    print(f"{times:.2f} times a bare loop: {whole_us:.1f} of {whole_us / times:.1f} µs a request")


if __name__ == "__main__":
    main()
