"""A follower's Fetch frames: those of a usual shape equal what the codec makes of them."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

from wirekafka.codec.frame import decode_response, encode_request
from wirekafka.codec.message import MalformedMessage
from wirekafka.config.broker_config import BrokerConfig
from wirekafka.errors import Error
from wirekafka.protocol.fetch import FetchRequest, FetchResponse
from wirekafka.replication.fetching.fetcher_session import FollowedKey, PartitionFetch, Plan
from wirekafka.replication.fetching.follower_fetch import (
    FollowerFetch,
    LeaderResponse,
    Terms,
    decode_usual,
    fetch_request,
    leader_response,
)

_CLIENT_ID = "broker-2-fetcher-0"
_VERSIONS = range(12, FetchRequest.versions.last + 1)
_LARGEST = (1 << 63) - 1
_Topic = FetchResponse.FetchableTopicResponse
_Partition = _Topic.PartitionData


class Follower:
    """The settings that the requests of one follower depend on."""

    def __init__(self) -> None:
        self.config = BrokerConfig.of({"log.dirs": "/data"})
        self.broker_epoch = 10
        self.fetch = FollowerFetch(2, lambda: self.config, lambda: self.broker_epoch)

    def check(self, plan: Plan, correlation_id: int, version: int) -> None:
        """Check the frame of a plan against the codec's."""
        request = fetch_request(plan, Terms(2, self.broker_epoch, self.config))
        expected = encode_request(correlation_id, _CLIENT_ID, request, version)
        assert self.fetch.planned(plan).encode(correlation_id, _CLIENT_ID, version) == expected


def wanted(random: Random, count: int, topics: int = 1) -> dict[FollowedKey, PartitionFetch]:
    ids = [random.randbytes(16) for _ in range(topics)]
    keys = [(random.choice(ids), index) for index in range(count)]
    return {
        key: PartitionFetch(
            leader_epoch=random.choice((-1, 0, 7, 0x7FFFFFFF)),
            fetch_offset=random.choice((0, random.randrange(1 << 40), _LARGEST)),
            last_fetched_epoch=random.choice((-1, 3, 0x7FFFFFFF)),
            log_start_offset=random.choice((0, random.randrange(1 << 40), _LARGEST)),
        )
        for key in keys
    }


@pytest.mark.parametrize("version", _VERSIONS)
def test_requests_are_those_of_the_codec(version: int) -> None:
    random, follower = Random(version), Follower()
    for number in range(150):
        if number % 50 == 49:
            follower.broker_epoch += 1
        if number == 80:
            follower.config = BrokerConfig.of(
                {
                    "log.dirs": "/data",
                    "replica.fetch.max.bytes": "5",
                    "replica.fetch.wait.max.ms": "9",
                }
            )
        count = random.choice((0, 1, 1, 1, 2, 50, 126, 127, 128, 300))
        topics = random.choice((1, 1, 3, 130))
        forgotten = list(wanted(random, 2)) if number % 10 == 9 else []
        session_id = 7 if number % 20 else number
        plan = Plan(session_id, number, wanted(random, count, topics), forgotten)
        follower.check(plan, number, version)


def test_requests_follow_a_leader_that_changes_to_another_version() -> None:
    random, follower = Random(0), Follower()
    for number, version in enumerate((18, 17, 17, 12, 13, 18)):
        follower.check(Plan(7, number, wanted(random, 1), []), number, version)


def usual(random: Random) -> _Partition:
    """A partition of a usual response."""
    sizes = (0, 1, 61, 126, 127, 128, 16_382, 16_383, 16_384, 70_000, 2_097_150, 2_097_151)
    weights = (9, 9, 9, 9, 9, 9, 3, 3, 3, 3, 0.1, 0.1)
    [size] = random.choices(sizes, weights)
    return _Partition(
        partition_index=random.randrange(1000),
        high_watermark=random.randrange(_LARGEST),
        last_stable_offset=random.choice((-1, _LARGEST)),
        log_start_offset=random.randrange(_LARGEST),
        aborted_transactions=random.choice(([], None)),
        preferred_read_replica=random.choice((-1, 3)),
        records=random.choice((None, random.randbytes(size))),
    )


def unusual(random: Random) -> _Partition:
    """A partition of which something has to be decoded by the codec."""
    found = usual(random)
    match random.randrange(5):
        case 0:
            found.error_code = random.choice((-1, Error.OFFSET_OUT_OF_RANGE))
        case 1:
            found.diverging_epoch = _Partition.EpochEndOffset(epoch=3, end_offset=4)
        case 2:
            found.current_leader = _Partition.LeaderIdAndEpoch(leader_id=3, leader_epoch=4)
        case 3:
            found.aborted_transactions = [
                _Partition.AbortedTransaction(producer_id=1, first_offset=2)
            ]
        case _:
            found.records = bytes(1 << 21)
    return found


def frame_of(response: FetchResponse, version: int) -> memoryview:
    header = b"\0\0\0\x07" + (b"\0" if version >= 12 else b"")
    return memoryview(header + response.encode(version))


def response_of(random: Random, partitions: list[_Partition]) -> FetchResponse:
    response = FetchResponse(session_id=77, throttle_time_ms=random.choice((0, 5)))
    while partitions:
        count = random.randint(1, len(partitions))
        topic = _Topic(topic_id=random.randbytes(16), partitions=partitions[:count])
        response.responses.append(topic)
        partitions = partitions[count:]
    return response


def decoded(frame: memoryview, version: int) -> LeaderResponse | None:
    """What the codec makes of a response; None if it is malformed."""
    try:
        return leader_response(decode_response(FetchResponse, version, frame)[1])
    except MalformedMessage:
        return None


def check_response(frame: memoryview, version: int) -> None:
    """Check what a follower makes of a frame against the codec."""
    expected = decoded(frame, version)
    try:
        found = Follower().fetch.decode(frame, version)
    except MalformedMessage:
        assert expected is None
        return
    assert expected is not None
    assert (found.error, found.session_id) == (expected.error, expected.session_id)
    assert list(found.partitions) == list(expected.partitions)


@pytest.mark.parametrize("version", _VERSIONS)
def test_responses_are_decoded_as_by_the_codec(version: int) -> None:
    random = Random(version)
    for number in range(40):
        partitions = [usual(random) for _ in range(random.choice((0, 1, 1, 2, 60)))]
        is_usual = bool(number % 2)
        if not is_usual:
            partitions.insert(random.randint(0, len(partitions)), unusual(random))
        response = response_of(random, partitions)
        frame = frame_of(response, version)
        check_response(frame, version)
        if version >= 13:
            has_long_records = any(len(each.records or b"") >= (1 << 21) - 1 for each in partitions)
            assert (decode_usual(frame) is not None) == (is_usual and not has_long_records)


def test_a_response_with_an_error_or_many_partitions_is_decoded_by_the_codec() -> None:
    random = Random(0)
    many = FetchResponse(responses=[_Topic(partitions=[usual(random) for _ in range(130)])])
    topics = FetchResponse(
        responses=[_Topic(topic_id=random.randbytes(16), partitions=[]) for _ in range(130)]
    )
    for response in (FetchResponse(error_code=70, session_id=5), many, topics):
        frame = frame_of(response, 18)
        assert decode_usual(frame) is None
        check_response(frame, 18)


def damaged(random: Random, frame: memoryview) -> Iterator[memoryview]:
    for end in range(len(frame)):
        yield frame[:end]
    yield memoryview(bytes(frame) + b"\0")
    for at in range(4, len(frame)):
        copy = bytearray(frame)
        copy[at] = random.choice((0, 1, 2, 3, 0x7F, 0x80, 0xFF, copy[at] ^ 1))
        yield memoryview(copy)


def test_damaged_responses_are_decoded_or_refused_as_by_the_codec() -> None:
    random = Random(1)
    for _ in range(12):
        partitions = [
            _Partition(partition_index=index, records=random.randbytes(random.choice((0, 9, 200))))
            for index in range(random.randint(1, 3))
        ]
        for frame in damaged(random, frame_of(response_of(random, partitions), 18)):
            check_response(frame, 18)
