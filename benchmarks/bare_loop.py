"""A minimal Produce loop in Python, the baseline that the speed test compares the broker with.

`python -m benchmarks.bare_loop` prints the ratio of the costs of a request. The additional cost is
that of a real broker: routing, metadata, validation, sequences, indexes.
"""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path
from struct import Struct
from typing import NamedTuple

from benchmarks.driver import PRODUCE_VERSION, batch_of, produce_frame
from tests.in_process import InProcessBroker
from tests.manual_clock import ManualClock
from wirekafka.apis.shared.call import Call
from wirekafka.codec.crc import crc32c
from wirekafka.codec.frame import encode_request
from wirekafka.protocol.produce import ProduceRequest
from wirekafka.server.connections.pipeline import Pipeline
from wirekafka.server.connections.replies import Replies

_REQUEST_HEADER = Struct(">iIih")
_BATCH_HEADER = Struct(">qiiBIhiqqqhii")
_PREFIX = Struct(">qii")
_RESPONSE = Struct(">iiBB4sBihqqqBBBiB")
_REQUESTS = 50
_BODY_AT = 24
"""The offset after the header of `produce_frame`."""
_DECODED_VERSION = 8
"""A version of Produce that is always decoded, because the cache does not serve it."""


class BareLoop:
    """Parses requests of one fixed layout, checks and writes their batch, and responds."""

    def __init__(self, path: Path, topic: str, records_at: int):
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        self._topic = topic.encode()
        self._records_at = records_at
        self._end_offset = 0

    def serve(self, data: memoryview) -> bytes:
        """The response to one request."""
        size, _, correlation_id, _ = _REQUEST_HEADER.unpack_from(data)
        assert size == len(data) - 4
        batch = data[self._records_at : self._records_at + self._batch_bytes(data)]
        header = _BATCH_HEADER.unpack_from(batch)
        assert header[3] == 2 and crc32c(batch[21:]) == header[4]
        base_offset = self._end_offset
        os.writev(self._descriptor, (_PREFIX.pack(base_offset, header[1], 0), batch[16:]))
        self._end_offset += header[6] + 1
        return _RESPONSE.pack(
            0, correlation_id, 0, 2, self._topic, 2, 0, 0, base_offset, -1, 0, 1, 0, 0, 0, 0
        )

    def close(self) -> None:
        os.close(self._descriptor)

    def _batch_bytes(self, data: memoryview) -> int:
        (length,) = Struct(">i").unpack_from(data, self._records_at + 8)
        return int(length) + 12


class Times(NamedTuple):
    """The cost of a request as a multiple of the bare loop's."""

    repeated: float
    """A repeated request: the same bytes except for the batch."""
    decoded: float
    """Any other request, which is decoded, handled, and its response encoded."""
    bare_us: float
    """The CPU time of the bare loop, in µs."""


def times(directory: Path, rounds: int = 40) -> Times:
    """CPU of a request through wirekafka's pipeline over that of the bare loop.

    All serve the same batch in turn in this process, and the best round of each counts: what
    else the machine does falls on all.
    """
    topic = "bare"
    batch = batch_of(1, 200)
    frame = memoryview(bytearray(produce_frame(topic, batch, 1)))
    other = decoded_frame(topic)
    bare = BareLoop(directory / "bare.log", topic, bytes(frame).index(batch))
    broker = InProcessBroker(directory / "broker", ManualClock(time.time_ns() // 1_000_000))
    broker.create(topic)
    call = Call(broker.broker)
    serve = Pipeline().serve
    taken_s: dict[str, list[float]] = {"bare": [], "repeated": [], "decoded": []}
    for _ in range(rounds):
        start = time.process_time()
        for _ in range(_REQUESTS):
            bare.serve(frame)
        taken_s["bare"].append(time.process_time() - start)
        for name, sent in (("repeated", frame), ("decoded", other)):
            start = time.process_time()
            replies = Replies()
            for _ in range(_REQUESTS):
                serve(sent, 4, len(sent), call, replies)
            taken_s[name].append(time.process_time() - start)
    assert broker.partition(topic).end_offset == 2 * rounds * _REQUESTS, "appends were refused"
    bare.close()
    broker.stop()
    bare_s, repeated_s, decoded_s = (min(taken_s[name]) for name in taken_s)
    return Times(repeated_s / bare_s, decoded_s / bare_s, bare_s / _REQUESTS * 1e6)


def decoded_frame(topic: str) -> memoryview:
    """A Produce request of one 200-byte record, of a version that is decoded each time."""
    frame = produce_frame(topic, batch_of(1, 200), 1)
    request = ProduceRequest.decode(memoryview(frame), PRODUCE_VERSION, _BODY_AT)
    return memoryview(bytearray(encode_request(1, "benchmark", request, _DECODED_VERSION)))


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        found = times(Path(directory), rounds=400)
    for name, factor in (("repeated", found.repeated), ("decoded", found.decoded)):
        print(
            f"{name}: {factor:.2f} times a bare loop, {factor * found.bare_us:.1f}"
            f" of {found.bare_us:.1f} µs a request"
        )


if __name__ == "__main__":
    main()
