"""Measures encoding and decoding of frequent messages: `python -m benchmarks.codec`."""

from __future__ import annotations

import platform
import timeit
from collections.abc import Callable
from typing import Any

from wirekafka.codec.message import Message
from wirekafka.protocol.fetch import FetchRequest, FetchResponse
from wirekafka.protocol.heartbeat import HeartbeatRequest
from wirekafka.protocol.produce import ProduceRequest, ProduceResponse

PARTITIONS = 3
RECORDS = bytes(1000)
REPEATS, NUMBER = 5, 20_000


def main() -> None:
    print(f"{platform.machine()}, Python {platform.python_version()}, {PARTITIONS} partitions")
    for version in (7, 9, 13):
        _decode(_produce_request(), version)
        _encode(_produce_response(), version)
    for version in (11, 12, 18):
        _decode(_fetch_request(PARTITIONS), version)
        _encode(_fetch_response(), version)
    _decode(_fetch_request(0), 18)
    _decode(HeartbeatRequest(group_id="group", generation_id=1, member_id="m" * 40), 4)
    _time("construct ProduceResponse", _produce_response)
    _time("construct FetchResponse", _fetch_response)


def _decode(message: Message, version: int) -> None:
    body = memoryview(bytearray(message.encode(version)))
    decode = type(message).decoder(version)
    size = len(body)
    _time(
        f"decode {type(message).__name__} v{version}, {size} bytes", lambda: decode(body, 0, size)
    )


def _encode(message: Message, version: int) -> None:
    encode = type(message).encoder(version)
    _time(f"encode {type(message).__name__} v{version}", lambda: encode(message, [], bytearray()))


def _time(what: str, work: Callable[[], Any]) -> None:
    best = min(timeit.repeat(work, number=NUMBER, repeat=REPEATS)) / NUMBER
    print(f"{what:45} {best * 1e6:5.2f} µs")


def _produce_request() -> ProduceRequest:
    topic = ProduceRequest.TopicProduceData
    partition = topic.PartitionProduceData
    return ProduceRequest(
        acks=-1,
        timeout_ms=30_000,
        topic_data=[
            topic(
                name="flights",
                partition_data=[
                    partition(index=index, records=RECORDS) for index in range(PARTITIONS)
                ],
            )
        ],
    )


def _produce_response() -> ProduceResponse:
    topic = ProduceResponse.TopicProduceResponse
    partition = topic.PartitionProduceResponse
    return ProduceResponse(
        responses=[
            topic(
                name="flights",
                partition_responses=[
                    partition(index=index, base_offset=7, log_start_offset=0)
                    for index in range(PARTITIONS)
                ],
            )
        ]
    )


def _fetch_request(partitions: int) -> FetchRequest:
    topic = FetchRequest.Topic
    partition = topic.Partition
    topics = [
        topic(
            topic="flights",
            partitions=[
                partition(partition=index, fetch_offset=7, partition_max_bytes=1 << 20)
                for index in range(partitions)
            ],
        )
    ]
    return FetchRequest(max_wait_ms=500, min_bytes=1, topics=topics if partitions else [])


def _fetch_response() -> FetchResponse:
    topic = FetchResponse.FetchableTopicResponse
    partition = topic.PartitionData
    return FetchResponse(
        responses=[
            topic(
                topic="flights",
                partitions=[
                    partition(partition_index=index, high_watermark=7, records=RECORDS)
                    for index in range(PARTITIONS)
                ],
            )
        ]
    )


if __name__ == "__main__":
    main()
