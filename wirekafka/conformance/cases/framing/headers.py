"""Headers and frames as clients may write them: ids, tags, several requests, pieces."""

from __future__ import annotations

import struct
from typing import Any

from wirekafka.codec.frame import decode_response
from wirekafka.codec.varint import encode_uvarint
from wirekafka.conformance.case import Book, ConformanceLevel
from wirekafka.conformance.cases.framing.frames import (
    CORRELATION_ID,
    NULL,
    compact,
    framed,
    head,
    text,
)
from wirekafka.conformance.stage import Stage, batch
from wirekafka.protocol.fetch import FetchRequest
from wirekafka.protocol.metadata import MetadataRequest, MetadataResponse
from wirekafka.protocol.produce import ProduceRequest

BOOK = Book(
    MetadataRequest,
    "framing and versions",
    ConformanceLevel.CORE,
    "RequestHeader.json",
    folder="framing",
)
_OLD, _FLEXIBLE = 4, 9
_BOTH = f"{_OLD},{_FLEXIBLE}"
_NO_TAGS = b"\0"
_LONG_WAIT_MS = 400


def tags(*pairs: tuple[int, bytes]) -> bytes:
    """Tagged fields in the order that is given."""
    fields = [encode_uvarint(tag) + encode_uvarint(len(data)) + data for tag, data in pairs]
    return encode_uvarint(len(pairs)) + b"".join(fields)


def body(stage: Stage, *, in_topic: bytes = _NO_TAGS, at_end: bytes = _NO_TAGS) -> bytes:
    """A request for the shared topic that creates nothing, in the version that is played."""
    name = stage.topic.encode()
    if stage.version < _FLEXIBLE:
        return b"\0\0\0\1" + text(name) + b"\0"
    return b"\2" + compact(name) + in_topic + b"\0\0\0" + at_end


def asked(
    stage: Stage,
    *,
    correlation_id: int = CORRELATION_ID,
    client_id: bytes = text(b"kit"),
    in_header: bytes = _NO_TAGS,
    in_topic: bytes = _NO_TAGS,
    at_end: bytes = _NO_TAGS,
) -> bytes:
    """The whole frame of such a request."""
    header = head(MetadataRequest.key, stage.version, correlation_id, client_id)
    if stage.version >= _FLEXIBLE:
        header += in_header
    return framed(header, body(stage, in_topic=in_topic, at_end=at_end))


def note_answer(stage: Stage, received: Any) -> None:
    """Compare the correlation id of a response and the topics that it describes."""
    if isinstance(received, str):
        return
    correlation_id, answer = decode_response(MetadataResponse, stage.version, received)
    stage.note("correlation id", correlation_id)
    stage.note("topics", [(each.name, each.error_code) for each in answer.topics])


for _what, _id in {"zero": 0, "minus 1": -1, "the largest": 2**31 - 1, "small": -(2**31)}.items():

    @BOOK.play(f"correlation id {_what}", versions=_BOTH)
    def _correlated(stage: Stage, correlation_id: int = _id) -> None:
        """The response has the id of the request, whatever that is."""
        note_answer(stage, stage.exchange(asked(stage, correlation_id=correlation_id)))


_CLIENT_IDS: dict[str, bytes] = {
    "null": NULL,
    "empty": text(b""),
    "of other letters": text("ünïcode ☃".encode()),
    "of 32,767 letters": text(b"k" * 32_767),
    "with a zero byte": text(b"k\0t"),
    "with a line's end": text(b"kit\n"),
    "longer than the frame": struct.pack(">h", 32_000) + b"kit",
}

for _what, _data in _CLIENT_IDS.items():

    @BOOK.play(f"client id {_what}", versions=_BOTH)
    def _named(stage: Stage, client_id: bytes = _data) -> None:
        """The client id is an old-style string in every version, and may be null."""
        note_answer(stage, stage.exchange(asked(stage, client_id=client_id)))


_TAGS: dict[str, bytes] = {
    "one unknown tag": tags((40, b"x")),
    "two unknown tags": tags((40, b"x"), (41, b"yy")),
    "an empty tag": tags((40, b"")),
    "a tag of 5,000 bytes": tags((40, b"x" * 5000)),
    "the largest tag": tags((2**31 - 1, b"x")),
    "a tag past the end": b"\1" + encode_uvarint(40) + encode_uvarint(100_000) + b"x",
    "more tags than there are": b"\3" + encode_uvarint(40) + b"\1x",
    "a count of tags in five bytes": b"\x80\x80\x80\x80\0",
    "a count of tags that never ends": b"\xff" * 12,
}

for _what, _data in _TAGS.items():
    for _place in ("in_header", "in_topic", "at_end"):

        @BOOK.play(f"{_what} {_place.replace('_', ' ')}", versions=str(_FLEXIBLE), source="KIP-482")
        def _tagged(stage: Stage, place: str = _place, data: bytes = _data) -> None:
            """A broker skips the tags that it does not know."""
            places: dict[str, Any] = {place: data}
            note_answer(stage, stage.exchange(asked(stage, **places)))


@BOOK.play("several requests in one piece", versions=_BOTH)
def _at_once(stage: Stage) -> None:
    """Five requests are sent at once, and answered in their order."""
    frames = [asked(stage, correlation_id=number) for number in range(5)]
    note_answer(stage, stage.exchange(b"".join(frames)))
    for _ in frames[1:]:
        note_answer(stage, stage.exchange())


@BOOK.play("a request in single bytes", versions=_BOTH)
def _in_bytes(stage: Stage) -> None:
    """Each byte of a request is sent by itself."""
    frame = asked(stage)
    note_answer(stage, stage.exchange(*(frame[at : at + 1] for at in range(len(frame)))))


@BOOK.play("two requests divided elsewhere", versions=_BOTH)
def _divided(stage: Stage) -> None:
    """The second request begins in the piece in which the first ends, its size divided."""
    both = asked(stage, correlation_id=1) + asked(stage, correlation_id=2)
    middle = len(both) // 2 + 2
    note_answer(stage, stage.exchange(both[:middle], both[middle:]))
    note_answer(stage, stage.exchange())


@BOOK.play("a quick request after a slow one", versions="9", source="KIP-1")
def _in_order(stage: Stage) -> None:
    """A Fetch that waits for records is answered before the request that was sent after it."""
    part = FetchRequest.Topic.Partition(partition=0, fetch_offset=3, partition_max_bytes=1000)
    topic = FetchRequest.Topic(topic=stage.topic, partitions=[part])
    slow = FetchRequest(max_wait_ms=_LONG_WAIT_MS, min_bytes=1, max_bytes=1000, topics=[topic])
    header = head(FetchRequest.key, 11, correlation_id=1)
    first = framed(header, slow.encode(11))
    received = stage.exchange(first + asked(stage, correlation_id=2))
    if not isinstance(received, str):
        stage.note("first answer", int.from_bytes(received[:4], "big"))
    note_answer(stage, stage.exchange())


@BOOK.play("a request after one without an answer", versions="9", source="ProduceRequest.json")
def _unanswered(stage: Stage) -> None:
    """Produce with acks 0 has no answer: the next request's comes first."""
    name = stage.create()
    silent = stage.produce_request(name, batch(), acks=0)
    first = framed(head(ProduceRequest.key, 8, correlation_id=1), silent.encode(8))
    note_answer(stage, stage.exchange(first + asked(stage, correlation_id=2)))


@BOOK.play("a refused request without an answer", versions="9", source="ProduceRequest.json")
def _refused(stage: Stage) -> None:
    """A refusal of a Produce with acks 0 closes the connection: the client learns of it."""
    silent = stage.produce_request(stage.missing, batch(), acks=0)
    stage.exchange(framed(head(ProduceRequest.key, 8), silent.encode(8)))


@BOOK.play("connections do not share correlation ids", versions=_BOTH)
def _two_connections(stage: Stage) -> None:
    """Two clients use the same id at the same time."""
    for by in ("raw", "other"):
        note_answer(stage, stage.exchange(asked(stage, correlation_id=5), by=by))
