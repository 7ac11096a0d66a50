"""A repeated Produce request whose batch waits for the in-sync replicas (acks=all)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from wirekafka.apis.produce import name_leaders
from wirekafka.apis.shared.call import Call
from wirekafka.apis.shared.produce_waiting import outcome
from wirekafka.apis.shared.routes import BROKERS
from wirekafka.errors import Error
from wirekafka.log.append import Appended
from wirekafka.protocol.produce import ProduceRequest, ProduceResponse
from wirekafka.replication.partition.leader import Leader
from wirekafka.replication.partition.partition import Partition
from wirekafka.replication.partition.waiting import Watched
from wirekafka.server.connections.repeated_produce import RepeatedProduce
from wirekafka.server.connections.replies import Replies

_TopicResponse = ProduceResponse.TopicProduceResponse


class ParkedProduce:
    """A batch that waits for the in-sync replicas, and the inputs of its response.

    A handler that waits has a coroutine and a future instead. Fast twin of
    `wirekafka.apis.produce._produce_replicated`.
    """

    __slots__ = (
        "_appended",
        "_callback",
        "_correlation_id",
        "_is_ready",
        "_leader",
        "_partition",
        "_timer",
        "_waiting",
        "end_offset",
        "request",
    )
    must_complete = True

    def __init__(
        self,
        call: Call,
        request: RepeatedProduce,
        correlation_id: int,
        partition: Partition,
        leader: Leader,
        appended: Appended,
    ):
        self.request = request
        self._correlation_id = correlation_id
        self._partition, self._leader, self._appended = partition, leader, appended
        self.end_offset = appended.end_offset
        self._callback: Callable[[object], None] | None = None
        self._is_ready = False
        self._waiting = call.broker.waiting
        partition.await_commit(self)
        self._timer = self._waiting.park(self, request.timeout_ms)

    def look(self, changed: Watched) -> None:
        """Release the request if it need not wait any longer (`waiting.Watcher`)."""
        partition = self._partition
        if (
            partition.high_watermark >= self.end_offset
            or partition.leader is not self._leader
            or partition.log.has_failed
        ):
            self.release()

    def release(self) -> None:
        """Have the connection continue with the request, whether or not its batch is committed."""
        self._partition.uncommitted.pop(self, None)
        if not self._is_ready:
            self._is_ready = True
            if self._callback is not None:
                asyncio.get_running_loop().call_soon(self._callback, None)

    def when_ready(self, callback: Callable[[object], None]) -> None:
        self._callback = callback
        if self._is_ready:
            asyncio.get_running_loop().call_soon(callback, None)

    def resume(self, call: Call, replies: Replies) -> bool:
        self.abandon()
        partition, appended = self._partition, self._appended
        error = outcome(partition, self._leader, self.end_offset)
        if error is Error.NONE:
            self.request.put(replies, self._correlation_id, appended)
            return True
        name, topic_id = self.request.topic
        failed = _TopicResponse.PartitionProduceResponse(
            index=partition.index,
            error_code=error,
            base_offset=appended.base_offset,
            log_append_time_ms=appended.log_append_time_ms,
            log_start_offset=appended.start_offset,
        )
        topic = _TopicResponse(name=name, topic_id=topic_id, partition_responses=[failed])
        response = ProduceResponse(responses=[topic])
        name_leaders(response, call)
        route = BROKERS.find(ProduceRequest.key << 16 | call.version)
        assert route is not None, "the request was served by it"
        replies.add(route, self._correlation_id, response)
        return True

    def abandon(self) -> None:
        self._partition.uncommitted.pop(self, None)
        self._waiting.unpark(self)
        self._timer.cancel()
