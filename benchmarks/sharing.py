"""Consumption by a share group whose members acknowledge explicitly, as raw requests.

Each member fetches from a partition of its own, and acknowledges what it acquired in a request of
its own, as KafkaShareConsumer does for `commitSync`. A fraction of the records is released.
"""

from __future__ import annotations

import base64
import secrets
import selectors
import time
from typing import Any

from benchmarks.driver import (
    ALL,
    Connection,
    RequestFailed,
    batch_of,
    check_produced,
    configure_group,
    create_topic,
    produce_frame,
)
from benchmarks.measure import Meter, Metrics
from benchmarks.peers import Target
from wirekafka.codec.frame import decode_response, encode_request
from wirekafka.protocol.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from wirekafka.protocol.share_acknowledge import ShareAcknowledgeRequest, ShareAcknowledgeResponse
from wirekafka.protocol.share_fetch import ShareFetchRequest, ShareFetchResponse
from wirekafka.protocol.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)

MEMBERS = 4
_BATCH, _RECORD_BYTES = 100, 200
_RECORDS_PER_S = 20_000
"""Of each partition, for each second of the run, which ends early once all are accepted."""
_HEARTBEAT_VERSION, _SHARE_VERSION = 1, 2
_ACCEPT, _RELEASE = 1, 2
_RELEASED = 50
"""One of so many acquired ranges is released when it is first delivered."""
_PREPARED_S = 60.0


class ShareMember:
    """A member on a connection of its own: it fetches, acknowledges, and fetches again."""

    def __init__(self, target: Target, group: str, topic_id: bytes, partition: int):
        self.connection = Connection(target.host, target.port)
        self.accepted = 0
        self._group = group
        self._topic_id = topic_id
        self._partition = partition
        self._id = base64.urlsafe_b64encode(secrets.token_bytes(16)).decode().rstrip("=")
        self._epoch = 0
        self._acquired: list[Any] = []
        self._ranges = 0

    def send(self) -> None:
        """Acknowledge what was acquired, or fetch if nothing is."""
        if self._acquired:
            request: Any = self._acknowledgement()
        else:
            kind = ShareFetchRequest.FetchTopic
            partition = kind.FetchPartition(partition_index=self._partition)
            request = ShareFetchRequest(
                group_id=self._group,
                member_id=self._id,
                share_session_epoch=self._epoch,
                max_wait_ms=500,
                min_bytes=1,
                max_records=500,
                batch_size=500,
                topics=[]
                if self._epoch
                else [kind(topic_id=self._topic_id, partitions=[partition])],
            )
        self.connection.send(encode_request(1, "benchmark", request, _SHARE_VERSION))

    def receive(self) -> None:
        """Read the response to `send`. Raises RequestFailed for an error."""
        if self._acquired:
            self._check(self._decoded(ShareAcknowledgeResponse))
            self._acquired = []
        else:
            for partition in self._check(self._decoded(ShareFetchResponse)):
                self._acquired += partition.acquired_records
        self._epoch += 1

    def _acknowledgement(self) -> ShareAcknowledgeRequest:
        kind = ShareAcknowledgeRequest.AcknowledgeTopic
        part = kind.AcknowledgePartition
        batches = []
        for run in self._acquired:
            self._ranges += 1
            is_released = self._ranges % _RELEASED == 0 and run.delivery_count == 1
            if not is_released:
                self.accepted += run.last_offset - run.first_offset + 1
            batches.append(
                part.AcknowledgementBatch(
                    first_offset=run.first_offset,
                    last_offset=run.last_offset,
                    acknowledge_types=[_RELEASE if is_released else _ACCEPT],
                )
            )
        partition = part(partition_index=self._partition, acknowledgement_batches=batches)
        return ShareAcknowledgeRequest(
            group_id=self._group,
            member_id=self._id,
            share_session_epoch=self._epoch,
            topics=[kind(topic_id=self._topic_id, partitions=[partition])],
        )

    def _decoded(self, response: Any) -> Any:
        return decode_response(response, _SHARE_VERSION, self.connection.response())[1]

    def _check(self, response: Any) -> list[Any]:
        partitions = [each for topic in response.responses for each in topic.partitions]
        for error in (response.error_code, *(each.error_code for each in partitions)):
            if error:
                raise RequestFailed(f"{type(response).__name__}: error {error}")
        return partitions


def consumption(target: Target, seconds: float) -> Metrics:
    """Records that were acquired and accepted per second, and the broker's CPU time for them."""
    name = f"shared-{secrets.token_hex(4)}"
    create_topic(target.host, target.port, name, MEMBERS)
    connection = Connection(target.host, target.port)
    configure_group(connection, name, "share.auto.offset.reset", "earliest")
    records = int(_RECORDS_PER_S * seconds)
    batch = batch_of(_BATCH, _RECORD_BYTES)
    for partition in range(MEMBERS):
        frame = produce_frame(name, batch, ALL, partition)
        for _ in range(max(records // _BATCH, 1)):
            check_produced(connection, frame)
    topic_id = _joined(connection, name)
    connection.close()
    members = [ShareMember(target, name, topic_id, index) for index in range(MEMBERS)]
    selector = selectors.DefaultSelector()
    for member in members:
        selector.register(member.connection.socket, selectors.EVENT_READ, member)
        # The first fetch makes the broker read the state of the share partition.
        member.send()
        member.receive()
    meter = Meter(target)
    for member in members:
        member.send()
    everything = MEMBERS * max(records // _BATCH, 1) * _BATCH
    while meter.elapsed_s < seconds and sum(each.accepted for each in members) < everything:
        for key, _ in selector.select():
            key.data.receive()
            key.data.send()
    accepted = sum(member.accepted for member in members)
    metrics = meter.metrics(records=accepted, size_bytes=accepted * _RECORD_BYTES)
    selector.close()
    for member in members:
        member.connection.close()
    return metrics


def _joined(connection: Connection, group: str) -> bytes:
    """Join until all partitions of the group's topic are assigned; returns the topic's id."""
    member_id = base64.urlsafe_b64encode(secrets.token_bytes(16)).decode().rstrip("=")
    epoch = 0
    deadline = time.monotonic() + _PREPARED_S
    while time.monotonic() < deadline:
        # It makes the broker create the internal topic of all groups.
        connection.ask(FindCoordinatorRequest(coordinator_keys=[group]), FindCoordinatorResponse, 4)
        request = ShareGroupHeartbeatRequest(
            group_id=group,
            member_id=member_id,
            member_epoch=epoch,
            subscribed_topic_names=None if epoch else [group],
        )
        answer = connection.ask(request, ShareGroupHeartbeatResponse, _HEARTBEAT_VERSION)
        if not answer.error_code:
            epoch = answer.member_epoch
            assigned = answer.assignment.topic_partitions if answer.assignment else []
            if assigned and len(assigned[0].partitions) == MEMBERS:
                topic_id: bytes = assigned[0].topic_id
                return topic_id
        time.sleep(0.05)
    raise RequestFailed("ShareGroupHeartbeat: the partitions were not assigned")
