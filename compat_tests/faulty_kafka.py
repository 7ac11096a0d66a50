"""Apache Kafka behind the interface of `wirekafka.Broker`, with the same faults."""

from __future__ import annotations

import asyncio
import subprocess
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from compat_tests import apache_kafka
from compat_tests.faulty_proxy import Proxy, in_loop
from compat_tests.whole_log import READ_COMMITTED, end_offset, read_log
from compat_tests.wire import Wire
from tests.eventually import eventually
from wirekafka import Broker
from wirekafka.codec.batch import batches
from wirekafka.codec.message import Request, Response
from wirekafka.protocol.find_coordinator import FindCoordinatorRequest
from wirekafka.protocol.init_producer_id import InitProducerIdRequest
from wirekafka.protocol.list_offsets import ListOffsetsRequest
from wirekafka.protocol.metadata import MetadataRequest
from wirekafka.testing.hooks.rules import RuleSpec
from wirekafka.testing.hooks.traffic import Exchange

SETTINGS = f"""{apache_kafka.SMALL_CLEANER}group.min.session.timeout.ms=100
offsets.topic.num.partitions=4
transaction.state.log.num.partitions=4
"""
"""Options of `wirekafka.testing` that Kafka does not have."""


class FaultyKafka(Broker):
    """A `Broker` implemented by Apache Kafka and a proxy. The clock, snapshots, a full disk and
    moving a coordinator are not supported."""

    def __init__(self, directory: Path):
        super().__init__()
        self._kafka = KafkaProcess(directory)

    def start(self) -> Self:
        try:
            self._kafka.start()
            engine: Any = KafkaEngine(self._kafka)
            self.host, self.port = engine.start()
            self._running = engine
            engine.warm_up()
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        engine, self._running = self._running, None
        try:
            if self._control is not None:
                self._control.close()
                self._control = None
            if engine is not None:
                engine.close()
        finally:
            self._kafka.stop()

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        config: Mapping[str, object] | None = None,
        **options: object,
    ) -> None:
        super().create_topic(name, partitions, config, **options)
        engine: Any = self._engine
        engine.wait_for_leaders(name, partitions)


class KafkaProcess:
    """The process of the broker behind the proxy."""

    def __init__(self, directory: Path):
        self._directory = directory
        self.port, self._command = apache_kafka.prepare(directory, apache_kafka.SMALL_JVM, SETTINGS)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and return when it accepts connections."""
        self._process = apache_kafka.started(self._command, self._directory)
        apache_kafka.await_accepting(self._process, self._directory, self.port)

    def kill(self) -> None:
        """`kill -9`."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def stop(self) -> None:
        """Stop the process with SIGTERM, and kill it if it does not end."""
        if self._process is not None:
            apache_kafka.end(self._process)


class KafkaEngine:
    """The queries of `wirekafka.testing.engine.Engine`, answered from Kafka by requests."""

    def __init__(self, kafka: KafkaProcess):
        self._kafka = kafka
        self._wire = Wire(("127.0.0.1", kafka.port), timeout_s=40)
        self._lock = threading.Lock()
        self._proxy = Proxy(("127.0.0.1", kafka.port))
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)

    def start(self) -> tuple[str, int]:
        self._thread.start()
        in_loop(self._loop, self._proxy.open)
        return self._proxy.address

    def close(self) -> None:
        in_loop(self._loop, self._proxy.refuse)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self._wire.close()

    def crash(self) -> None:
        self._kafka.kill()
        in_loop(self._loop, self._proxy.refuse)
        self._wire.close()

    def stop(self) -> None:
        """Do nothing: `restart` follows a crash."""

    def restart(self) -> None:
        self._kafka.start()
        self.warm_up()
        in_loop(self._loop, self._proxy.open)

    # Queries.

    def members(self) -> list[KafkaEngine]:
        return [self]

    def leader(self, topic: str, partition: int) -> KafkaEngine:
        return self

    def coordinator(self, kind: str, key: str) -> KafkaEngine:
        return self

    def ask(self, request: Request, version: int) -> Response:
        with self._lock:
            answer = self._wire.ask(request, version)
        assert not isinstance(answer, str), answer
        response: Response = answer
        return response

    def warm_up(self) -> None:
        """Make Kafka create its internal topics, and wait until it coordinates."""

        def is_ready() -> bool:
            answers: list[Any] = [
                self.ask(FindCoordinatorRequest(key_type=kind, coordinator_keys=["x"]), 4)
                for kind in (0, 1)
            ]
            # A producer without a transactional id waits until producer ids are available.
            producers: list[Any] = [
                self.ask(
                    InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=1000), 4
                )
                for name in (None, "warm-up")
            ]
            return not any(
                [each.error_code for each in producers]
                + [each.coordinators[0].error_code for each in answers]
            )

        eventually(is_ready, timeout_s=60)

    def wait_for_leaders(self, topic: str, partitions: int) -> None:
        kind = ListOffsetsRequest.Topic
        request = ListOffsetsRequest(
            replica_id=-1,
            topics=[
                kind(
                    name=topic,
                    partitions=[
                        kind.Partition(partition_index=each, timestamp=-1)
                        for each in range(partitions)
                    ],
                )
            ],
        )

        def are_led() -> bool:
            answer: Any = self.ask(request, 6)
            return not any(each.error_code for each in answer.topics[0].partitions)

        eventually(are_led, every_s=0.01)

    def topics(self) -> dict[str, int]:
        answer: Any = self.ask(MetadataRequest(topics=None, allow_auto_topic_creation=False), 12)
        self._proxy.topic_names |= {topic.topic_id: topic.name for topic in answer.topics}
        return {topic.name: len(topic.partitions) for topic in answer.topics}

    def now_ms(self) -> int:
        return int(time.time() * 1000)

    def batches(self, topic: str, partition: int) -> tuple[bytes, int]:
        # Read first: a transaction that ends in between is then reported as open, never as ended.
        stable_offset = end_offset(self.ask, topic, partition, READ_COMMITTED)
        return bytes(read_log(self.ask, topic, partition).data), stable_offset

    def aborted(self, topic: str, partition: int) -> list[tuple[int, int, int]]:
        stable = read_log(self.ask, topic, partition, READ_COMMITTED)
        markers = [
            (header.producer_id, header.base_offset)
            for _, header in batches(stable.data)
            if header.is_control
        ]
        return [
            (
                producer,
                first_offset,
                min(
                    offset
                    for marked, offset in markers
                    if marked == producer and offset >= first_offset
                ),
            )
            for producer, first_offset in sorted(stable.aborted)
        ]

    def exchanges(self) -> list[Exchange]:
        exchanges: list[Exchange] = in_loop(
            self._loop, lambda: list(self._proxy.recorder.exchanges)
        )
        return exchanges

    def forget_exchanges(self) -> None:
        in_loop(self._loop, self._proxy.recorder.clear)

    # Faults.

    def add_rule(self, spec: RuleSpec) -> int:
        number: int = in_loop(self._loop, lambda: self._proxy.rules.add(spec))
        return number

    def remove_rule(self, number: int) -> None:
        in_loop(self._loop, lambda: self._proxy.rules.remove(number))

    def rule_counts(self, number: int) -> tuple[int, int]:
        rule = self._proxy.rules.rule(number)
        return rule.hits, rule.waiting

    def rule_mistake(self, number: int) -> str | None:
        return self._proxy.rules.rule(number).mistake

    def release(self, number: int) -> None:
        in_loop(self._loop, lambda: self._proxy.rules.rule(number).release())

    def refuse_connections(self) -> None:
        in_loop(self._loop, self._proxy.refuse)

    def accept_connections(self) -> None:
        in_loop(self._loop, self._proxy.open)

    def cut_connections(self) -> None:
        in_loop(self._loop, self._proxy.cut)
