"""Cases with the raw-socket driver, in which the broker is the limit."""

from __future__ import annotations

import os
import selectors
import time
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from tempfile import NamedTemporaryFile, TemporaryDirectory

from benchmarks.driver import (
    ALL,
    Connection,
    Load,
    Pipeline,
    RequestFailed,
    batch_of,
    check_produced,
    create_topic,
    fetch_frame,
    fetched_records_at,
    produce_frame,
)
from benchmarks.measure import (
    ADDED_RATIO,
    BARE_RATIO,
    MB_RATE,
    NONE_IDLE,
    P99,
    RATIO,
    ROUND_TRIP,
    TAIL_RATIO,
    WITH_IDLE,
    Meter,
    Metrics,
    latencies,
)
from benchmarks.peers import Target
from wirekafka.codec.frame import encode_request
from wirekafka.protocol.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from wirekafka.protocol.offset_commit import OffsetCommitRequest, OffsetCommitResponse

_TOPIC = "raw"
FILLED = "filled"
_FETCH_BYTES = 1 << 20
_LITTLE_BYTES = 100e6
_STORED_BATCH = Load(records=75)
"""What a busy librdkafka sends: some 16 KB."""


def produce(target: Target, seconds: float, load: Load) -> Metrics:
    """One batch a request, `depth` requests in flight on each connection."""
    pipeline = _producing(target, load)
    meter = Meter(target)
    done = pipeline.run(seconds)
    records = done * load.records
    metrics = meter.metrics(records=records, requests=done, size_bytes=records * load.record_bytes)
    pipeline.finish()
    return metrics


def growing(target: Target, seconds: float, megabytes: int) -> Metrics:
    """Rates of producing and of reading the newest data: with that much held, against little.

    Beside them that of writing a bare file, for what the page cache itself takes longer then; a
    broker's own part of the time is what is beyond it.
    """
    fill(target, _LITTLE_BYTES)
    held_bytes = _LITTLE_BYTES
    rates = []
    with _BareFiles(target) as bare_files:
        for wanted_bytes in (0, 0, megabytes * 1e6):  # The first round is a warm-up.
            held_bytes += _extend(target, wanted_bytes - held_bytes)
            os.sync()  # Otherwise the write-back of the disk would be measured.
            start = time.perf_counter()
            written_bytes = _extend(target, _LITTLE_BYTES)
            produced = written_bytes / 1e6 / (time.perf_counter() - start)
            held_bytes += written_bytes
            newest = int((held_bytes - _LITTLE_BYTES / 2) / _STORED_BYTES) * _STORED_BATCH.records
            read = _consume(target, seconds / 2, 1, newest)[MB_RATE]
            rates.append((produced, read, bare_files.write()))
    _, (produced_before, read_before, bare_before), (produced, read, bare) = rates
    return {
        MB_RATE: produced,
        RATIO: produced / produced_before,
        TAIL_RATIO: read / read_before,
        BARE_RATIO: bare / bare_before,
        ADDED_RATIO: (1 / produced_before - 1 / bare_before) / (1 / produced - 1 / bare),
    }


class _BareFiles:
    """Files beside the broker's data, written as a log is. They stay until the end: pages that
    one of them gave back would be the next to be written to, and cheaper than others."""

    def __init__(self, target: Target):
        beside = None if target.data is None else target.data.parent
        self._directory = TemporaryDirectory(prefix="bare-", dir=beside)
        self._records = os.urandom(_STORED_BYTES)

    def __enter__(self) -> _BareFiles:
        return self

    def __exit__(self, *_: object) -> None:
        self._directory.cleanup()

    def write(self) -> float:
        """Write a file; returns the rate in MB/s."""
        os.sync()
        with NamedTemporaryFile(dir=self._directory.name, buffering=0, delete=False) as file:
            start = time.perf_counter()
            for _ in range(int(_LITTLE_BYTES / _STORED_BYTES)):
                file.write(self._records)
            return _LITTLE_BYTES / 1e6 / (time.perf_counter() - start)


def consume(target: Target, seconds: float, consumers: int) -> Metrics:
    """Consumers, each with a Fetch of 1 MiB in flight, read a topic from memory, over and over."""
    fill(target, 100e6)
    return _consume(target, seconds, consumers, 0)


def consume_cold(target: Target, seconds: float) -> Metrics:
    """One consumer reads a topic, once, that the page cache no longer holds."""
    size_bytes = 100e6 * max(1.0, min(seconds, 4.0))
    fill(target, size_bytes)
    _drop_page_cache(target)
    with ExitStack() as stack:
        reader = _Reader(target, stack)
        meter = Meter(target)
        total_bytes = 0
        while total_bytes < size_bytes * 0.95:
            reader.ask()
            received = None
            while received is None:
                received = reader.receive()
            total_bytes += received
        return meter.metrics(
            records=total_bytes / _STORED_BYTES * _STORED_BATCH.records, size_bytes=total_bytes
        )


def _consume(target: Target, seconds: float, consumers: int, first_offset: int) -> Metrics:
    with ExitStack() as stack:
        readers = [_Reader(target, stack, first_offset) for _ in range(consumers)]
        selector = stack.enter_context(closing(selectors.DefaultSelector()))
        for reader in readers:
            selector.register(reader.connection.socket, selectors.EVENT_READ, reader)
            reader.ask()
        meter = Meter(target)
        total_bytes = requests = 0
        while meter.elapsed_s < seconds:
            for key, _ in selector.select():
                size_bytes = key.data.receive()
                if size_bytes is not None:
                    total_bytes += size_bytes
                    requests += 1
                    key.data.ask()
        records = total_bytes / _STORED_BYTES * _STORED_BATCH.records
        return meter.metrics(records=records, requests=requests, size_bytes=total_bytes)


def round_trip(target: Target, seconds: float) -> Metrics:
    """One record, one request in flight, acks=all."""
    create_topic(target.host, target.port, _TOPIC)
    frame = produce_frame(_TOPIC, batch_of(1, 200), ALL)
    taken = []
    with closing(Connection(target.host, target.port)) as connection:
        check_produced(connection, frame)
        deadline = time.perf_counter() + seconds
        while (start := time.perf_counter()) < deadline:
            connection.send(frame)
            connection.response()
            taken.append(time.perf_counter() - start)
    return latencies(taken)


def consume_tail(target: Target, seconds: float) -> Metrics:
    """One consumer follows the end of a topic that a producer fills, eight batches in flight."""
    with _followed(target, _STORED_BATCH) as (selector, producer, frame, consumer):
        producer.send(frame * 8)
        meter = Meter(target)
        batches = 0
        while meter.elapsed_s < seconds:
            for key, _ in selector.select():
                if key.data is producer:
                    producer.send(frame * producer.count())
                else:
                    batches += consumer.receive()
                    consumer.ask()
        return meter.metrics(
            records=batches * _STORED_BATCH.records, size_bytes=batches * _STORED_BYTES
        )


def end_to_end(target: Target, seconds: float, per_s: int) -> Metrics:
    """A Produce is sent at a rate: to its answer, and to its record at a consumer that waits."""
    unanswered, sent = deque[float](), deque[float]()
    answered, taken = list[float](), list[float]()
    with _followed(target, Load()) as (selector, producer, frame, consumer):
        due = time.perf_counter()
        deadline = due + seconds
        while due < deadline or sent or unanswered:
            now = time.perf_counter()
            if now >= due and due < deadline:
                # Not from now: a driver that is late, as it waited for the broker, would hide it.
                sent.append(due)
                unanswered.append(due)
                producer.send(frame)
                due += 1 / per_s
                continue
            wait_s = due - now if due < deadline else 1.0
            for key, _ in selector.select(wait_s):
                if key.data is producer:
                    count, now = producer.count(), time.perf_counter()
                    answered.extend(now - unanswered.popleft() for _ in range(count))
                else:
                    count, now = consumer.receive(), time.perf_counter()
                    taken.extend(now - sent.popleft() for _ in range(count))
                    consumer.ask()
    round_trips = {ROUND_TRIP + name: value for name, value in latencies(answered).items()}
    return latencies(taken) | round_trips


def connections(target: Target, seconds: float, count: int) -> Metrics:
    """100 connections with one request in flight each, among `count` that are open."""
    active = min(count, 100)
    create_topic(target.host, target.port, _TOPIC)
    frame = produce_frame(_TOPIC, batch_of(1, 200), 1)
    with ExitStack() as stack:
        busy = [_opened(target, stack) for _ in range(active)]
        check_produced(busy[0], frame)
        alone = _latencies_of(busy, frame, seconds / 2)
        for _ in range(count - active):
            _opened(target, stack)
        meter = Meter(target)
        among = _latencies_of(busy, frame, seconds / 2)
        metrics = latencies(among) | meter.metrics(requests=len(among))
        metrics[NONE_IDLE] = latencies(alone)[P99]
        metrics[WITH_IDLE] = metrics[P99] / latencies(alone)[P99]
        return metrics


def offset_commits(target: Target, seconds: float) -> Metrics:
    """Commits of one partition's offset, by consumers that assign themselves."""
    group, version = "committers", 7
    create_topic(target.host, target.port, _TOPIC)
    topic = OffsetCommitRequest.Topic
    request = OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=-1,
        topics=[
            topic(name=_TOPIC, partitions=[topic.Partition(partition_index=0, committed_offset=5)])
        ],
    )
    opened = [Connection(target.host, target.port) for _ in range(4)]
    deadline = time.monotonic() + 30
    while True:
        opened[0].ask(FindCoordinatorRequest(key=group), FindCoordinatorResponse, 2)
        response = opened[0].ask(request, OffsetCommitResponse, version)
        error = response.topics[0].partitions[0].error_code
        if not error:
            break
        if time.monotonic() > deadline:
            raise RequestFailed(f"OffsetCommit: error {error}")
        time.sleep(0.1)
    pipeline = Pipeline(opened, encode_request(1, "benchmark", request, version), depth=5)
    meter = Meter(target)
    metrics = meter.metrics(requests=pipeline.run(seconds))
    pipeline.finish()
    return metrics


_STORED_BYTES = len(batch_of(_STORED_BATCH.records, _STORED_BATCH.record_bytes))


class _Reader:
    """A consumer of the filled topic."""

    def __init__(self, target: Target, stack: ExitStack, first_offset: int = 0):
        self.connection = Connection(target.host, target.port)
        stack.callback(self.connection.close)
        self._records_at = fetched_records_at(FILLED)
        self._buffer = memoryview(bytearray(_FETCH_BYTES + 4096))
        self._first_offset = self._offset = first_offset
        self._at = 0

    def ask(self) -> None:
        self.connection.send(fetch_frame(FILLED, self._offset, _FETCH_BYTES))

    def receive(self) -> int | None:
        """Read on; how many bytes of records came, once all are there."""
        count = self.connection.socket.recv_into(self._buffer[self._at :])
        if not count:
            raise ConnectionError("the broker hung up")
        self._at += count
        if self._at < 4:
            return None
        size = 4 + int.from_bytes(self._buffer[:4], "big")
        if self._at < size:
            return None
        self._at = 0
        received_bytes = max(size - self._records_at, 0)
        whole = received_bytes // _STORED_BYTES
        self._offset += whole * _STORED_BATCH.records
        if received_bytes < _FETCH_BYTES:
            # The log ends here: anew, since the next Fetch would wait for half a second.
            self._offset = self._first_offset
        return whole * _STORED_BYTES


@contextmanager
def _followed(
    target: Target, load: Load
) -> Iterator[tuple[selectors.BaseSelector, Connection, bytes, _Follower]]:
    """A producer with what it sends, and a consumer that waits at the end of its topic."""
    topic = f"followed-{time.monotonic_ns()}"  # Empty, so that what arrives is what was sent now.
    create_topic(target.host, target.port, topic)
    frame = produce_frame(topic, batch_of(load.records, load.record_bytes), load.acks)
    with ExitStack() as stack:
        producer = stack.enter_context(closing(Connection(target.host, target.port)))
        consumer = _Follower(target, stack, topic, load)
        # select() waits to the microsecond; epoll would round up to whole milliseconds.
        selector = stack.enter_context(selectors.SelectSelector())
        check_produced(producer, frame)
        consumer.ask()
        for each in (producer, consumer):
            selector.register(each, selectors.EVENT_READ, each)
        yield selector, producer, frame, consumer


class _Follower:
    """A consumer of batches that all are the same, of which it leaves out the first."""

    def __init__(self, target: Target, stack: ExitStack, topic: str, load: Load):
        self._connection = stack.enter_context(closing(Connection(target.host, target.port)))
        self._topic = topic
        self._records = self._offset = load.records
        self._batch_bytes = len(batch_of(load.records, load.record_bytes))
        self._records_at = fetched_records_at(topic)

    def fileno(self) -> int:
        return self._connection.fileno()

    def ask(self) -> None:
        self._connection.send(fetch_frame(self._topic, self._offset, _FETCH_BYTES))

    def receive(self) -> int:
        """How many batches the next response has."""
        records_bytes = len(self._connection.response()) + 4 - self._records_at
        batches = records_bytes // self._batch_bytes
        self._offset += batches * self._records
        return batches


def fill(target: Target, size_bytes: float) -> None:
    """Write that much of uniform batches, unless it was done before."""
    if not create_topic(target.host, target.port, FILLED):
        return
    with closing(Connection(target.host, target.port)) as connection:
        check_produced(connection, _filling_frame())
    _extend(target, size_bytes)


def _extend(target: Target, size_bytes: float) -> float:
    """Write so much more, sixteen batches in flight; how much it came to."""
    written_bytes = 0.0
    with closing(Connection(target.host, target.port)) as connection:
        frames = _filling_frame() * 16
        while written_bytes < size_bytes:
            connection.send(frames)
            done = 0
            while done < 16:
                done += connection.count()
            written_bytes += 16 * _STORED_BYTES
    return written_bytes


def _filling_frame() -> bytes:
    return produce_frame(FILLED, batch_of(_STORED_BATCH.records, _STORED_BATCH.record_bytes), 1)


def _drop_page_cache(target: Target) -> None:
    """Of the filled topic's files: needs no rights but the files' own."""
    if target.data is None:
        return
    for path in target.data.rglob(f"{FILLED}-0/*.log"):
        descriptor = os.open(path, os.O_RDWR)
        os.fsync(descriptor)
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)


def _producing(target: Target, load: Load) -> Pipeline:
    create_topic(target.host, target.port, _TOPIC)
    frame = produce_frame(_TOPIC, batch_of(load.records, load.record_bytes), load.acks)
    opened = [Connection(target.host, target.port) for _ in range(load.connections)]
    check_produced(opened[0], frame)
    return Pipeline(opened, frame, load.depth)


def _opened(target: Target, stack: ExitStack) -> Connection:
    connection = Connection(target.host, target.port)
    stack.callback(connection.close)
    connection.api_versions()
    return connection


def _latencies_of(busy: list[Connection], frame: bytes, seconds: float) -> list[float]:
    taken: list[float] = []
    with selectors.DefaultSelector() as selector:
        for connection in busy:
            selector.register(connection.socket, selectors.EVENT_READ, connection)
            connection.sent_at = time.perf_counter()
            connection.send(frame)
        deadline = time.perf_counter() + seconds
        in_flight = len(busy)
        while in_flight:
            for key, _ in selector.select():
                connection = key.data
                if not connection.count():
                    continue
                now = time.perf_counter()
                taken.append(now - connection.sent_at)
                if now < deadline:
                    connection.sent_at = now
                    connection.send(frame)
                else:
                    in_flight -= 1
    return taken
