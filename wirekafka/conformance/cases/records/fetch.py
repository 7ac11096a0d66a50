"""Fetch: what is read from where, how much of it, and what is refused."""

from __future__ import annotations

from typing import Any

from wirekafka.codec.record import Record, encode_batch
from wirekafka.conformance.case import Book, ConformanceLevel, Make
from wirekafka.conformance.cases.records.logs import (
    BATCH_BYTES,
    compressed,
    emptied,
    rolled,
    several,
    stamped,
    timed,
    trimmed,
)
from wirekafka.conformance.cases.records.requests import fetch, fetch_all, part
from wirekafka.conformance.stage import TIME_MS, UNKNOWN_ID, PreparationFailed, Stage, batch
from wirekafka.protocol.fetch import FetchRequest

BOOK = Book(FetchRequest, "fetch", ConformanceLevel.CORE, "FetchRequest.json")

_POSITIONS: dict[str, tuple[Any, int]] = {
    "from the start": (timed, 0),
    "from the middle of a batch": (timed, 4),
    "from the last record of a batch": (timed, 5),
    "from the last record": (timed, 17),
    "at the end": (timed, 18),
    "one beyond the end": (timed, 19),
    "far beyond the end": (timed, 2**63 - 1),
    "before the start": (timed, -1),
    "at minus 2": (timed, -2),
    "below a log start": (trimmed, 3),
    "of offset 0 below a log start": (trimmed, 0),
    "at a log start within a batch": (trimmed, 4),
    "of a log whose records are all deleted": (emptied, 3),
    "below the end of an emptied log": (emptied, 2),
    "of gzip from the middle": (compressed, 2),
    "of snappy from the middle": (compressed, 7),
    "of lz4 from the middle": (compressed, 12),
    "of zstd from the middle": (compressed, 17),
    "of batches stamped at their append": (stamped, 0),
    "from a segment in the middle": (rolled, 3),
}
for _title, (_log, _offset) in _POSITIONS.items():
    BOOK.ask(
        _title,
        lambda s, log=_log, offset=_offset: fetch(s, log(s), offset, most=BATCH_BYTES + 20),
        source="KIP-110" if "zstd" in _title else "",
    )

_SIZES: dict[str, dict[str, int]] = {
    "with no bytes for a partition": {"most": 0},
    "with one byte for a partition": {"most": 1},
    "with a byte less than a batch": {"most": BATCH_BYTES - 1},
    "with the bytes of a batch": {"most": BATCH_BYTES},
    "with a byte less than two batches": {"most": 2 * BATCH_BYTES - 1},
    "with the bytes of two batches": {"most": 2 * BATCH_BYTES},
    "with the largest number of bytes": {"most": 2**31 - 1, "max_bytes": 2**31 - 1},
    "with no bytes in all": {"max_bytes": 0},
    "with one byte in all": {"max_bytes": 1},
    "with fewer bytes in all than for a partition": {"max_bytes": BATCH_BYTES + 1},
    "with more required bytes than there are": {"min_bytes": 1 << 24},
    "with no required bytes": {"min_bytes": 0},
    "with required bytes below zero": {"min_bytes": -1},
    "with a time to wait below zero": {"max_wait_ms": -1, "min_bytes": 1 << 24},
}
for _title, _options in _SIZES.items():
    BOOK.ask(
        _title, lambda s, options=_options: fetch(s, several(s), 0, **options), source="KIP-74"
    )

_PARTS: dict[str, dict[str, Any]] = {
    "of three partitions": {"parts": ((0, 0), (1, 0), (2, 0))},
    "of three partitions in reverse": {"parts": ((2, 0), (1, 0), (0, 0))},
    "of three partitions with bytes for one": {
        "parts": ((0, 0), (1, 0), (2, 0)),
        "max_bytes": BATCH_BYTES,
    },
    "of three partitions with bytes for one, the last first": {
        "parts": ((2, 0), (1, 0), (0, 0)),
        "max_bytes": BATCH_BYTES,
    },
    "of three partitions with bytes for five batches": {
        "parts": ((0, 0), (1, 0), (2, 0)),
        "max_bytes": 5 * BATCH_BYTES,
    },
    "of three partitions with one byte in all": {"parts": ((1, 0), (0, 0), (2, 0)), "max_bytes": 1},
    "of an empty partition ahead of full ones with one byte": {
        "parts": ((3, 0), (1, 0), (0, 0)),
        "max_bytes": 1,
    },
    "of a partition at its end ahead of another": {"parts": ((0, 9), (1, 3)), "max_bytes": 1},
    "of a partition out of range beside another": {"parts": ((0, 10), (1, 6))},
    "of a missing partition beside another": {"parts": ((9, 0), (1, 6))},
    "of a partition out of range ahead of another with one byte": {
        "parts": ((0, 10), (1, 6)),
        "max_bytes": 1,
    },
    "of a partition twice": {"parts": ((0, 3), (0, 6))},
    "of a topic without partitions": {"parts": ()},
}


def _parts(stage: Stage, parts: tuple[tuple[int, int], ...], **options: Any) -> FetchRequest:
    asked = [part(partition, offset) for partition, offset in parts]
    return fetch_all(stage, [(several(stage), asked)], **options)


for _title, _options in _PARTS.items():
    BOOK.ask(_title, lambda s, options=_options: _parts(s, **options), source="KIP-74")


def _two_topics(stage: Stage, **options: int) -> FetchRequest:
    topics = [(several(stage), [part(0, 6)]), (timed(stage), [part(0, 15), part(1)])]
    return fetch_all(stage, topics, **options)


def _topic_twice(stage: Stage) -> FetchRequest:
    name = several(stage)
    return fetch_all(stage, [(name, [part(0, 6)]), (name, [part(1, 6)])])


def _with_id(stage: Stage, id: bytes) -> FetchRequest:
    request = fetch(stage, several(stage), 6)
    request.topics[0].topic_id = id
    return request


def _beside_an_unknown_id(stage: Stage) -> FetchRequest:
    topics = [(stage.missing, [part()]), (several(stage), [part(0, 6)])]
    return fetch_all(stage, topics)


_REQUESTS: dict[str, Make] = {
    "of two topics": _two_topics,
    "of two topics with one byte in all": lambda s: _two_topics(s, max_bytes=1),
    "of a topic listed twice": _topic_twice,
    "of nothing": lambda s: fetch_all(s, []),
    "of a missing partition": lambda s: fetch(s, s.topic, partition=9),
    "of a negative partition": lambda s: fetch(s, s.topic, partition=-1),
    "of a missing topic": lambda s: fetch(s, s.missing),
    "of a missing topic beside another": _beside_an_unknown_id,
    "of an empty partition": lambda s: fetch(s, s.topic, partition=1),
    "beyond the end of an empty partition": lambda s: fetch(s, s.topic, 1, partition=1),
    "of a compacted topic": lambda s: fetch(s, s.compacted),
    "at an isolation level of 7": lambda s: fetch(s, s.topic, isolation_level=7),
    "at an isolation level below zero": lambda s: fetch(s, s.topic, isolation_level=-1),
    "only committed without transactions": lambda s: fetch(s, s.topic, isolation_level=1),
    "of the metadata log": lambda s: fetch(s, "__cluster_metadata"),
}
for _title, _make in _REQUESTS.items():
    BOOK.ask(_title, _make)

_WITH_EPOCHS: dict[str, tuple[dict[str, int], str]] = {
    "in the leader's epoch": ({"epoch": 0}, "9+"),
    "in a later epoch than the leader's": ({"epoch": 5}, "9+"),
    "in an epoch below minus 1": ({"epoch": -2}, "9+"),
    "after a record of the leader's epoch": ({"last_epoch": 0, "offset": 3}, "12+"),
    "after a record of a later epoch": ({"last_epoch": 5, "offset": 3}, "12+"),
    "after a record of epoch 0 beyond the end": ({"last_epoch": 0, "offset": 30}, "12+"),
    "after a record of a later epoch beyond the end": ({"last_epoch": 5, "offset": 30}, "12+"),
    "after a record of an epoch below minus 1": ({"last_epoch": -2, "offset": 3}, "12+"),
    "in the leader's epoch after a record of it": ({"epoch": 0, "last_epoch": 0}, "12+"),
    "in a later epoch after a record of epoch 0": ({"epoch": 5, "last_epoch": 0}, "12+"),
    "in the leader's epoch beyond the end": ({"epoch": 0, "offset": 30}, "9+"),
}
for _title, (_options, _versions) in _WITH_EPOCHS.items():
    BOOK.ask(
        _title,
        lambda s, options=_options: fetch(s, s.topic, **options),
        versions=_versions,
        source="KIP-595" if "last_epoch" in _options else "KIP-320",
    )

_OF_FOLLOWERS: dict[str, tuple[str, Make]] = {
    "as an unknown follower": ("4-14", lambda s: fetch(s, s.topic, replica_id=12345)),
    "as an unknown follower with a state": (
        "15+",
        lambda s: fetch(s, s.topic, replica_state=FetchRequest.ReplicaState(replica_id=12345)),
    ),
    "as a debugging consumer": ("4-14", lambda s: fetch(s, s.topic, replica_id=-2)),
    "with a rack": ("11+", lambda s: fetch(s, s.topic, rack_id="rack of nobody")),
    "with a log start": ("5+", lambda s: fetch(s, s.topic, start=2)),
    "with the id of another cluster": ("12+", lambda s: fetch(s, s.topic, cluster_id="another")),
    "by an unknown id": ("13+", lambda s: _with_id(s, UNKNOWN_ID)),
    "by the id zero": ("13+", lambda s: _with_id(s, bytes(16))),
}
for _title, (_versions, _make) in _OF_FOLLOWERS.items():
    BOOK.ask(_title, _make, versions=_versions, source="KIP-392" if "rack" in _title else "")


@BOOK.play("a topic created again has another id", versions="13", source="KIP-516")
def _created_again(stage: Stage) -> None:
    """The id of a deleted topic finds nothing, even when there is a topic of the same name."""
    name = stage.create()
    stage.produce(name, batch())
    old = stage.id_of(name)
    stage.delete(name)

    def is_created() -> bool:
        try:
            stage.create()
        except PreparationFailed as error:
            if "TOPIC_ALREADY_EXISTS" not in str(error):
                raise
            return False
        return True

    stage.until(is_created, "the topic again")
    request = fetch(stage, name)
    stage.ask(request)
    request.topics[0].topic_id = old
    stage.ask(request)


@BOOK.play("a large batch first in each request", versions="4,12", source="KIP-74")
def _large(stage: Stage) -> None:
    """A batch above all limits is returned whole if it is the first with records, only then."""
    name = stage.create(partitions=2)
    large = encode_batch([Record(timestamp=TIME_MS, value=b"x" * 5000)])
    stage.produce(name, batch())
    stage.produce(name, large)
    stage.produce(name, large, 1)
    stage.ask(fetch(stage, name, 0, most=BATCH_BYTES + 10, max_bytes=BATCH_BYTES + 10))
    stage.ask(fetch(stage, name, 3, most=10, max_bytes=10))
    parts = [part(0, 3, most=10), part(1, most=10)]
    stage.ask(fetch_all(stage, [(name, parts)], max_bytes=1000))
    parts = [part(0, 0, most=BATCH_BYTES), part(1, most=10)]
    stage.ask(fetch_all(stage, [(name, parts)], max_bytes=1 << 20))


@BOOK.play("all batches one after the other", versions="4,12")
def _all_batches(stage: Stage) -> None:
    """A reader with room for one batch gets each once, over several segments."""
    name = rolled(stage)
    offset, seen = 0, []
    while offset < 6:
        answer = stage.do(fetch(stage, name, offset, most=1), stage.version)
        data = bytes(answer.responses[0].partitions[0].records)
        seen.append(f"{offset} is in {len(data)} bytes at {int.from_bytes(data[:8], 'big')}")
        offset += 1
    stage.note("batches", seen)
