"""A secured node in this process with planted secrets, and the clients that attack it."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import os
import struct
import sys
import threading
import time
import traceback
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from tests.attacks.hostile_values import (
    ENVIRONMENT_SECRET,
    OTHERS_GROUP,
    OTHERS_TOPIC,
    OTHERS_TRANSACTION,
    OWN_TOPIC,
    PREFIX,
    Baits,
)
from tests.attacks.secured import ADMIN, CLIENTS, NEIGHBOUR, acls, password_of, settings
from tests.certificates import Authority
from tests.in_process import InProcessBroker, batch
from tests.manual_clock import ManualClock
from tests.memory_net import MemoryConnection
from tests.planted_secrets import planted
from tests.raw_client import frame, response_in
from tests.sasl_client import plain
from tests.secret_search import LogSearch, SecretSearch
from tests.simulation.disk import SimulatedDisk
from wirekafka.codec.message import Request
from wirekafka.metrics.measures import Measures
from wirekafka.protocol.api_versions import ApiVersionsRequest
from wirekafka.protocol.create_acls import CreateAclsRequest
from wirekafka.protocol.find_coordinator import FindCoordinatorRequest
from wirekafka.protocol.init_producer_id import InitProducerIdRequest
from wirekafka.protocol.offset_commit import OffsetCommitRequest
from wirekafka.protocol.produce import ProduceRequest
from wirekafka.protocol.sasl_authenticate import SaslAuthenticateRequest
from wirekafka.protocol.sasl_handshake import SaslHandshakeRequest
from wirekafka.server.background.threads import sync_in_thread
from wirekafka.server.connections.request_log import RequestLog

MOST_HELD_S = 0.05
"""The processor time that one turn of the event loop may take."""
MOST_GROWTH_BYTES = 16 << 20
_HUNG_S = 5.0
_WAIT_MS, _SWEEP_MS = 1_000, 10_000
_TURNS = 12
_TRIES = 5
_OF_GROUPS, _OF_TRANSACTIONS = 0, 1
_OF_THE_CLUSTER = frozenset({4, 8, 16})
"""Types of resources whose options belong to the cluster: brokers, loggers, client metrics."""


@dataclass(frozen=True)
class Outcome:
    """What one request did."""

    response: bytes
    """All that was sent, sizes included."""
    is_closed: bool
    is_waiting: bool
    held_s: float
    """The processor time of the longest turn of the event loop."""


class AttackedNode:
    """A broker and its controller on a network and disk in memory, under a manual clock.

    Its configuration has a secret wherever one can be. Each turn of the event loop is measured in
    processor time, which does not depend on what else the machine does.
    """

    def __init__(self, directory: Path, search: SecretSearch, logs: LogSearch):
        self.baits = Baits.laid_in(directory)
        self.clock = ManualClock()
        self.disk = SimulatedDisk()
        self.search = search
        self._logs = logs
        self.executor = _CountingExecutor()
        self._loop = asyncio.new_event_loop()
        self._loop.set_default_executor(self.executor)
        self._watchdog = Watchdog(self.baits.fifo)
        self.kafka = self._run(lambda: self._started(directory))
        self._count_codecs()
        self.request_log = RequestLog()
        self._connections: list[MemoryConnection] = []
        self._prepare()

    def close(self) -> None:
        """Stop the node."""
        self._watchdog.stop()
        self.hang_up()
        self._run(self.kafka.node.abort)
        self._turns()
        self.executor.shutdown(wait=False, cancel_futures=True)
        self._loop.close()

    def protected(self, user: str) -> dict[str, Any]:
        """All that a user must not change: topics, records, options, ACLs, users, quotas, nodes."""
        image = self.kafka.broker.image
        security = image.security
        return {
            "topics": {name: each.id for name, each in image.topics.items() if _is_others(name)},
            "end of the log": self.kafka.partition(OTHERS_TOPIC).log.end_offset,
            "start of the log": self.kafka.partition(OTHERS_TOPIC).log.start_offset,
            "options": {
                (kind, name): values
                for (kind, name), values in image.configs.items()
                if _is_others(name) and not (user == NEIGHBOUR and kind in _OF_THE_CLUSTER)
            },
            "ACLs": set(security.acls),
            "users": set(security.scram),
            # Kafka, too, has rights on the cluster's configurations decide about quotas.
            "quotas": set() if user == NEIGHBOUR else set(security.quotas),
            "features": dict(image.features),
            "nodes": {each.id: (each.epoch, each.fenced) for each in image.brokers.values()},
        }

    def renew(self) -> None:
        """Make the topic of the narrow attacker again if that has deleted it."""
        if OWN_TOPIC not in self.kafka.broker.image.topics:
            self._run(lambda: self.kafka.create(OWN_TOPIC))

    @property
    def topic_ids(self) -> tuple[bytes, ...]:
        topics = self.kafka.broker.image.topics
        return tuple(topics[name].id for name in (OWN_TOPIC, OTHERS_TOPIC))

    @property
    def cluster_id(self) -> str:
        return self.kafka.broker.cluster_id

    def connect(self, user: str, listener: str = CLIENTS) -> MemoryConnection:
        """A connection that has logged in."""
        [address] = [each.address for each in self.kafka.node.listeners if each.name == listener]
        connection = self._run(lambda: self.kafka.net.open(address))
        self._connections.append(connection)
        token = SaslAuthenticateRequest(auth_bytes=plain(user, password_of(user)))
        shaken = self._ask(connection, SaslHandshakeRequest(mechanism="PLAIN"), 1)
        answer = self._ask(connection, token, 2)
        assert shaken.error_code == answer.error_code == 0, (shaken, answer)
        return connection

    def send(
        self, connection: MemoryConnection, payload: bytes, most_turns: int = _TURNS
    ) -> Outcome:
        """Send a request, and let the node serve it until it answers, closes or waits."""
        connection.received.clear()
        data = struct.pack(">i", len(payload)) + payload
        with self._watchdog.watching():
            held_s = self._turn(lambda: connection.feed(data))
            held_s = max(held_s, self._settled(connection, most_turns))
        return Outcome(
            response=bytes(connection.received),
            is_closed=connection.is_closing(),
            is_waiting=not connection.is_closing() and connection.protocol.is_parked,
            held_s=held_s,
        )

    def fault(self, user: str, listener: str) -> str:
        """Why a new connection cannot log in and get a response; empty if it can."""
        try:
            connection = self.connect(user, listener)
            answer = self._ask(connection, ApiVersionsRequest(), 0)
        except Exception as error:
            return "".join(traceback.format_exception(error))
        self._run(connection.hang_up)
        return "" if answer.error_code == 0 else f"error {answer.error_code}"

    def hang_up(self) -> None:
        """Close the connections of all clients."""
        for connection in self._connections:
            self._run(connection.hang_up)
        self._connections.clear()
        self._turns()

    def pass_time(self) -> None:
        """Let the periodic tasks run that look for what clients have left."""
        self._turn(lambda: self.clock.advance(_SWEEP_MS))
        self._turns()

    def resident_bytes(self) -> int:
        """The memory of this process, without what is free to be used again."""
        gc.collect()
        if sys.platform == "linux":
            with suppress(OSError, AttributeError):
                ctypes.CDLL(None).malloc_trim(0)
        return int(psutil.Process().memory_info().rss)

    @property
    def hangs(self) -> int:
        """How often a thread of the node did not come back from a file."""
        return self._watchdog.hangs

    def _started(self, directory: Path) -> InProcessBroker:
        return _WholeNode(
            "/data",
            self.clock,
            disk=self.disk,
            measures=Measures(),
            environment={**os.environ, ENVIRONMENT_SECRET: planted("of-the-environment")},
            **settings(Authority(directory)),
        )

    def _count_codecs(self) -> None:
        """Have large requests decoded in threads that are waited for."""
        for listener in self.kafka.node.listeners:
            listener.serve.__self__.run_apart = sync_in_thread  # type: ignore[attr-defined]

    def _prepare(self) -> None:
        """Create topics, ACLs, and a record that no attacker may read."""
        for name in (OWN_TOPIC, OTHERS_TOPIC):
            self._run(lambda name=name: self.kafka.create(name))
        admin = self.connect(ADMIN)
        answer = self._ask(admin, CreateAclsRequest(creations=list(acls())), 3)
        assert not any(each.error_code for each in answer.results)
        kind = ProduceRequest.TopicProduceData
        data = kind.PartitionProduceData(index=0, records=batch(planted("of-a-record").encode()))
        request = ProduceRequest(
            acks=1, timeout_ms=100, topic_data=[kind(name=OTHERS_TOPIC, partition_data=[data])]
        )
        answer = self._ask(admin, request, 9)
        assert answer.responses[0].partition_responses[0].error_code == 0
        self._begin_transaction(admin)
        self._commit_offset(admin)
        self.hang_up()
        gc.collect()
        gc.freeze()

    def _begin_transaction(self, admin: MemoryConnection) -> None:
        """Have the node know a transactional id.

        Matching it against a costly expression takes well over the allowed time, but not hours.
        """
        begin = InitProducerIdRequest(
            transactional_id=OTHERS_TRANSACTION,
            transaction_timeout_ms=60_000,
            producer_id=-1,
            producer_epoch=-1,
        )
        self._find_coordinator(admin, _OF_TRANSACTIONS, OTHERS_TRANSACTION)
        assert self._ask(admin, begin, 4).error_code == 0

    def _commit_offset(self, admin: MemoryConnection) -> None:
        """Have the node know a group, whose committed offset is a secret."""
        topic = OffsetCommitRequest.Topic
        metadata = planted("of-an-offset")
        partition = topic.Partition(committed_offset=7, committed_metadata=metadata)
        self._find_coordinator(admin, _OF_GROUPS, OTHERS_GROUP)
        commit = OffsetCommitRequest(
            group_id=OTHERS_GROUP, topics=[topic(name=OTHERS_TOPIC, partitions=[partition])]
        )
        [committed] = self._ask(admin, commit, 8).topics
        assert committed.partitions[0].error_code == 0

    def _find_coordinator(self, admin: MemoryConnection, kind: int, key: str) -> None:
        """Find a coordinator, which makes the topic of its records."""
        find = FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
        for _ in range(_TRIES):
            [found] = self._ask(admin, find, 4).coordinators
            if found.error_code == 0:
                return
            self.pass_time()
        raise AssertionError(found)

    def _ask(self, connection: MemoryConnection, request: Request, version: int) -> Any:
        outcome = self.send(connection, frame(request, version, 1, "test"))
        assert outcome.response, request
        connection.received.clear()
        return response_in(outcome.response[4:], type(request), version)

    def _settled(self, connection: MemoryConnection, most_turns: int) -> float:
        """Run turns until the node has answered or waits; returns the longest."""
        longest_s = 0.0
        for turn in range(most_turns):
            if self._is_done(connection) and turn:
                return longest_s
            longest_s = max(longest_s, self._turn(_nothing))
            if self.executor.pending:
                longest_s = max(longest_s, self._wait_for_threads())
        longest_s = max(longest_s, self._wait_for_threads())
        for _ in range(2):
            if self._is_done(connection):
                break
            longest_s = max(longest_s, self._turn(lambda: self.clock.advance(_WAIT_MS)))
            longest_s = max(longest_s, self._turns(), self._wait_for_threads())
        return longest_s

    def _is_done(self, connection: MemoryConnection) -> bool:
        if connection.is_closing():
            return True
        return bool(connection.received) and not connection.protocol.is_parked

    def _wait_for_threads(self) -> float:
        """Run turns until no thread works for the node."""
        longest_s = 0.0
        until = time.monotonic() + 4 * _HUNG_S
        while self.executor.pending and time.monotonic() < until:
            self._loop.call_later(0.001, self._loop.stop)
            longest_s = max(longest_s, self._measured())
        return max(longest_s, self._turns())

    def _turns(self) -> float:
        return max(self._turn(_nothing) for _ in range(3))

    def _turn(self, callback: Callable[[], Any]) -> float:
        """Run one turn of the event loop with a callback; returns its processor time."""
        self._loop.call_soon(callback)
        self._loop.call_soon(self._loop.stop)
        return self._measured()

    def _measured(self) -> float:
        """Run the event loop until it stops; the time without that of the search in its logs."""
        began = time.thread_time() - self._logs.spent_s
        self._loop.run_forever()
        return time.thread_time() - self._logs.spent_s - began

    def _run(self, function: Callable[[], Any]) -> Any:
        """The result of a function that is called on the event loop."""

        async def running() -> Any:
            return function()

        return self._loop.run_until_complete(running())


class _WholeNode(InProcessBroker):
    """A node in memory with its periodic tasks, on the running event loop."""

    def _begun(self) -> Coroutine[Any, Any, None]:
        return self.node.start()


class _CountingExecutor(ThreadPoolExecutor):
    """The threads to which the node passes work, and how much is under way."""

    def __init__(self) -> None:
        super().__init__(4)
        self.pending = 0
        self._lock = threading.Lock()

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        with self._lock:
            self.pending += 1
        submitted = super().submit(fn, *args, **kwargs)
        submitted.add_done_callback(self._ended)
        return submitted

    def _ended(self, _: object) -> None:
        with self._lock:
            self.pending -= 1


class Watchdog:
    """Ends waits for a writer of the bait's FIFO, which would otherwise hang the tests."""

    def __init__(self, fifo: Path, patience_s: float = _HUNG_S):
        self.hangs = 0
        self._patience_s = patience_s
        self._fifo = fifo
        self._since: float | None = None
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def watching(self) -> Watchdog:
        return self

    def __enter__(self) -> None:
        self._since = time.monotonic()

    def __exit__(self, *_: object) -> None:
        self._since = None

    def stop(self) -> None:
        """End the watch."""
        self._ends.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ends.wait(min(0.2, self._patience_s)):
            since = self._since
            if since is not None and time.monotonic() - since > self._patience_s:
                # Opening fails unless a reader waits, which then reads the end of the file.
                with suppress(OSError):
                    os.close(os.open(self._fifo, os.O_WRONLY | os.O_NONBLOCK))
                    self.hangs += 1


def _is_others(name: str) -> bool:
    """Whether a topic is none of the narrow attacker's, and not made by the node itself."""
    return not name.startswith((PREFIX, "__"))


def _nothing() -> None:
    """A turn of the event loop without a client."""
