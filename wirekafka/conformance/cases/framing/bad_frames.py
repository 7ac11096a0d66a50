"""Frames that are no requests: the broker closes their connection, and serves the others."""

from __future__ import annotations

import struct

from wirekafka.conformance.case import Book, ConformanceLevel
from wirekafka.conformance.cases.framing.frames import NULL, framed, head
from wirekafka.conformance.cases.framing.headers import asked, note_answer
from wirekafka.conformance.stage import Stage
from wirekafka.protocol.metadata import MetadataRequest

BOOK = Book(
    MetadataRequest,
    "framing and versions",
    ConformanceLevel.COMPLETE,
    "RequestHeader.json",
    folder="framing",
)
_KEY = MetadataRequest.key
_LARGEST = 2**31 - 1
_COUNT, _NO_TOPICS = b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff"
_ENDLESS = b"\xff" * 10


def _old(body: bytes, version: int = 1) -> bytes:
    return framed(head(_KEY, version, client_id=NULL), body)


def _flexible(body: bytes) -> bytes:
    return framed(head(_KEY, 9, client_id=NULL), b"\0", body)


_FRAMES: dict[str, bytes] = {
    "nothing": framed(b""),
    "one byte": framed(b"\0"),
    "a header cut short": framed(b"\0\3\0\1"),
    "a header without a client id": framed(struct.pack(">hhi", _KEY, 1, 7)),
    "a header alone": framed(head(_KEY, 1)),
    "size minus 1": b"\xff\xff\xff\xff" + head(_KEY, 1) + _NO_TOPICS,
    "the smallest size": b"\x80\0\0\0" + head(_KEY, 1) + _NO_TOPICS,
    "the largest size": b"\x7f\xff\xff\xff" + head(_KEY, 1) + _NO_TOPICS,
    "a byte more than is allowed": struct.pack(">i", 104_857_601) + head(_KEY, 1),
    "an unknown API key": framed(head(0xFFF, 1)),
    "a negative API key": framed(head(-1, 1)),
    "an unknown version": framed(head(_KEY, 0x7FFF)),
    "a negative version": framed(head(_KEY, -1), _NO_TOPICS),
    "one version too new": framed(head(_KEY, 14), b"\0\1\0\0\0"),
    "a version that was removed": framed(head(1, 0)),
    "Produce in version 0": framed(head(0, 0), b"\0\1\0\0\0\0\0\0\0\0"),
    "a huge count": _old(_COUNT),
    "a count of a million": _old(b"\0\x0f\x42\x40"),
    "a string past the end": _old(b"\0\0\0\1" + b"\0\5ab"),
    "a string of size minus 2": _old(b"\0\0\0\1" + b"\xff\xfe"),
    "a null in place of a name": _old(b"\0\0\0\1" + NULL),
    "bytes left over": _old(_NO_TOPICS + b"\xff\xff"),
    "a boolean of 2": _old(b"\0\0\0\0" + b"\2", 4),
    "a compact string past the end": _flexible(b"\2\x7fab"),
    "a huge compact count": _flexible(b"\xff\xff\xff\xff\x07\0\0\0\0"),
    "a compact count that never ends": _flexible(_ENDLESS),
    "a compact string whose size never ends": _flexible(b"\2" + _ENDLESS),
    "a compact null in place of a name": _flexible(b"\2\0\0\0\0\0\0"),
    "no tags at the end": _flexible(b"\0\0\0\0"),
    "a byte after the tags": _flexible(b"\1\0\0\0\0\0"),
    "an old header before a flexible body": framed(head(_KEY, 9, client_id=NULL), b"\1\0\0\0\0"),
    "a request of HTTP": b"GET / HTTP/1.1\r\nHost: kafka\r\n\r\n",
    "the beginning of TLS": bytes.fromhex("16030100a5010000a10303") + bytes(160),
    "a response": framed(b"\0\0\0\7\0\0\0\0"),
    "text": framed(b"hello, is this Kafka? " * 5),
}

for _what, _frame in _FRAMES.items():

    @BOOK.play(_what, versions="4")
    def _bad(stage: Stage, frame: bytes = _frame) -> None:
        """After it, a new connection is served."""
        stage.exchange(frame)
        note_answer(stage, stage.exchange(asked(stage), by="other"))


_NOT_FOR_CLIENTS = {
    "LeaderAndIsr": 4,
    "StopReplica": 5,
    "UpdateMetadata": 6,
    "ControlledShutdown": 7,
    "OffsetForLeaderEpoch in version 0": 23,
    "Vote": 52,
    "BeginQuorumEpoch": 53,
    "EndQuorumEpoch": 54,
    "AlterPartition": 56,
    "Envelope": 58,
    "FetchSnapshot": 59,
    "BrokerRegistration": 62,
    "BrokerHeartbeat": 63,
    "AllocateProducerIds": 67,
    "ControllerRegistration": 70,
    "AssignReplicasToDirs": 73,
    "UpdateRaftVoter": 82,
}

for _what, _api in _NOT_FOR_CLIENTS.items():

    @BOOK.play(f"{_what}", versions="4", source="KIP-500")
    def _internal(stage: Stage, key: int = _api) -> None:
        """An API that brokers do not have, or no longer."""
        stage.exchange(framed(head(key, 0), b"\0", bytes(40)))
        note_answer(stage, stage.exchange(asked(stage), by="other"))


@BOOK.play("a bad request after a good one", versions="4")
def _after(stage: Stage) -> None:
    """What was asked before a bad frame is answered, before the connection is closed."""
    note_answer(stage, stage.exchange(asked(stage) + framed(head(0xFFF, 1))))
    stage.exchange()


@BOOK.play("a good request after a bad one", versions="4")
def _before(stage: Stage) -> None:
    """What was asked after a bad frame is not answered."""
    stage.exchange(framed(head(0xFFF, 1)) + asked(stage))
    note_answer(stage, stage.exchange(asked(stage), by="other"))


@BOOK.play("a request that does not come to its end", versions="4")
def _unfinished(stage: Stage) -> None:
    """While a broker waits for the rest of a frame, others are served, and then its client."""
    frame = asked(stage)
    stage.put(frame[:-5], by="slow")
    note_answer(stage, stage.exchange(asked(stage, correlation_id=1), by="other"))
    note_answer(stage, stage.exchange(frame[-5:], by="slow"))


@BOOK.play("a client that leaves within a request", versions="4")
def _gone(stage: Stage) -> None:
    """A connection that ends in the middle of a frame harms no other."""
    stage.put(asked(stage)[:9], by="slow")
    stage.close("slow")
    note_answer(stage, stage.exchange(asked(stage), by="other"))
