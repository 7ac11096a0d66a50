"""The topic `_schemas`: made and checked as Confluent's registry does, read, and followed."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from wirekafka.client import configurations
from wirekafka.client.client import Client, CliError, check, list_offsets
from wirekafka.client.fetcher import TopicFetcher
from wirekafka.client.topic_changes import TopicCreation, create_topics
from wirekafka.config.option import ConfigError
from wirekafka.errors import Error
from wirekafka.protocol.list_offsets import ListOffsetsResponse
from wirekafka.protocol.metadata import MetadataResponse
from wirekafka.registry.entry import GIVEN_IDS, Entry
from wirekafka.registry.names import TOPIC
from wirekafka.registry.state import RegistryState

logger = logging.getLogger(__name__)

PARTITION = 0
_REPLICAS = 3
_POLICY = "cleanup.policy"
_WAIT_S = 0.5
"""How long the broker waits for a new record; a stop takes as long."""
_LONGEST_PAUSE_S = 2.0
_CREATION_TIMEOUT_S, _CREATION_PAUSE_S = 10.0, 0.05
_COPY_TIMEOUT_S = 30.0
_COMMITTED = 1
_LATEST, _EARLIEST = -1, -2

OpenClient = Callable[[], Client]


class Replay(NamedTuple):
    """A record that was read."""

    entry: Entry
    offset: int
    timestamp_ms: int


def prepare(client: Client, topic: str) -> None:
    """Create the topic if there is none. Raises CliError for a topic that would lose schemas."""
    found = client.metadata([topic])
    if found.topics[0].error_code == Error.UNKNOWN_TOPIC_OR_PARTITION:
        replicas = min(_REPLICAS, len(found.brokers))
        wanted = TopicCreation(1, replicas, {_POLICY: "compact"})
        [created] = create_topics(client, [topic], wanted)
        if created.error_code != Error.TOPIC_ALREADY_EXISTS:
            check(created.error_code, f"cannot create the topic {topic}", created.message)
    partitions = len(_settled(client, topic).partitions)
    if partitions != 1:
        raise CliError(
            f"the topic {topic} has {partitions} partitions, and a registry's has one: their"
            " records have no common order"
        )
    policies = {
        each.value
        for each in configurations.described(client, configurations.TOPIC, topic, only=[_POLICY])
        if each.name == _POLICY
    }
    if policies != {"compact"}:
        raise CliError(
            f"the topic {topic} has {_POLICY}={policies.pop()}, which would delete schemas in use:"
            f" set {_POLICY}=compact"
        )


def _settled(client: Client, topic: str) -> MetadataResponse.Topic:
    """The topic's metadata, once the broker that answers knows a topic that was just created."""
    deadline = time.monotonic() + _CREATION_TIMEOUT_S
    while True:
        [found] = client.metadata([topic]).topics
        unknown = found.error_code == Error.UNKNOWN_TOPIC_OR_PARTITION
        if not unknown or time.monotonic() > deadline:
            return client.topic(topic)
        time.sleep(_CREATION_PAUSE_S)


def stable_end(client: Client, topic: str) -> int:
    """Where the records that a reader of committed records gets end now."""
    [partition] = client.topic(topic).partitions
    request = list_offsets({topic: [PARTITION]}, _LATEST)
    request.isolation_level = _COMMITTED
    response = client.node(partition.leader_id).send(request, ListOffsetsResponse)
    [listed] = response.topics[0].partitions
    check(listed.error_code, topic)
    return listed.offset


class TopicReader:
    """Reads the topic's committed records once, in their order."""

    def __init__(self, client: Client, topic: str, position: int | None = None) -> None:
        """From its earliest record on, unless a position is given."""
        self.topic_id = client.topic(topic).topic_id
        self._fetcher = TopicFetcher(client, topic, committed_only=True)
        if position is None:
            position = self._fetcher.offsets([PARTITION], _EARLIEST)[PARTITION]
        self.position = position
        """The offset of the next record."""
        self._fetcher.assign({PARTITION: position})

    def read(self) -> Iterator[Replay]:
        """The next records, if any come within half a second. Raises CliError."""
        for record in self._fetcher.fetch(_WAIT_S):
            if record.key is not None:
                entry = Entry(record.key, record.value, dict(record.headers).get(GIVEN_IDS))
                yield Replay(entry, record.offset, record.timestamp)
        self.position = self._fetcher.moved().get(PARTITION, self.position)


class TopicFollower:
    """Reads the topic into a state and follows its end, on a thread of its own.

    The state changes on the event loop only.
    """

    def __init__(self, open_client: OpenClient, topic: str = TOPIC) -> None:
        self.topic = topic
        self.state = RegistryState()
        self.position = 0
        self._open_client = open_client
        self._topic_id: bytes | None = None
        self._waiters: list[tuple[int, asyncio.Future[None]]] = []
        self._should_stop, self._should_reload = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def load(self) -> None:
        """Read all records, before `start`. Raises CliError."""
        with self._open_client() as client:
            prepare(client, self.topic)
            self._load(client)

    def start(self) -> None:
        """Follow the end of the topic; call it on the event loop."""
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._run, name="schemas-reader", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread, after the fetch that it waits for."""
        self._should_stop.set()

    async def reached(self, offset: int) -> None:
        """Wait until all records before an offset are in the state."""
        if self.position < offset:
            reached: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.append((offset, reached))
            await reached

    def copied_at(self, offset: int, topic_id: bytes) -> RegistryState:
        """A copy of the state with all records before an offset; not for the loop's own thread.

        Raises CliError if they cannot be read in time, and if more was read: of another writer, or
        before the topic lost records.
        """
        assert self._loop is not None

        async def copied() -> RegistryState:
            while self._topic_id != topic_id:
                await asyncio.sleep(_CREATION_PAUSE_S)
            await self.reached(offset)
            if self.position > offset:
                self._should_reload.set()
                raise CliError(f"{self.topic} was read up to {self.position}, beyond {offset}")
            return self.state.copy()

        copying = asyncio.run_coroutine_threadsafe(copied(), self._loop)
        try:
            return copying.result(_COPY_TIMEOUT_S)
        except TimeoutError:
            copying.cancel()
            raise CliError(f"{self.topic} cannot be read up to offset {offset}") from None

    def _load(self, client: Client) -> TopicReader:
        """Replace the state by what is in the topic."""
        reader = TopicReader(client, self.topic)
        end = stable_end(client, self.topic)
        state = RegistryState()
        while reader.position < end:
            for replay in reader.read():
                state.replay(*replay)
        self._replace(state, reader)
        return reader

    def _replace(self, state: RegistryState, reader: TopicReader) -> None:
        self._should_reload.clear()

        def replace() -> None:
            self.state, self._topic_id = state, reader.topic_id
            self._move(reader.position)

        if self._loop is None:
            replace()
        else:
            self._on_loop(replace)

    def _run(self) -> None:
        pause_s = 0.1
        while not self._should_stop.is_set():
            try:
                with self._open_client() as client:
                    reader = self._resumed(client)
                    pause_s = 0.1
                    while not self._should_stop.is_set():
                        records = list(reader.read())
                        if self._should_reload.is_set():
                            reader = self._load(client)
                        else:
                            self._take(records, reader.position)
            except (CliError, ConfigError, OSError) as error:
                if not self._should_stop.is_set():
                    logger.warning("The topic %s cannot be read: %s", self.topic, error)
                self._should_stop.wait(pause_s)
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
            except RuntimeError:
                if not self._should_stop.is_set():
                    raise  # Otherwise the loop has ended.

    def _resumed(self, client: Client) -> TopicReader:
        """A reader from the position on, or from the start of a topic that is another one now."""
        prepare(client, self.topic)
        found = client.topic(self.topic)
        if found.topic_id == self._topic_id and stable_end(client, self.topic) >= self.position:
            return TopicReader(client, self.topic, self.position)
        logger.warning(
            "The topic %s has lost records or is a new one: it is read again", self.topic
        )
        return self._load(client)

    def _take(self, records: Sequence[Replay], position: int) -> None:
        def replay() -> None:
            for each in records:
                self.state.replay(*each)
            self._move(position)

        if position != self.position:
            self._on_loop(replay)

    def _on_loop(self, change: Callable[[], None]) -> None:
        """Change the state on the event loop, and wait, so that no more is read meanwhile."""
        assert self._loop is not None
        done = threading.Event()

        def run() -> None:
            try:
                change()
            finally:
                done.set()

        self._loop.call_soon_threadsafe(run)
        while not done.wait(_WAIT_S) and not self._should_stop.is_set():
            pass

    def _move(self, position: int) -> None:
        self.position = position
        waiting = self._waiters
        self._waiters = [each for each in waiting if each[0] > position]
        for offset, reached in waiting:
            if offset <= position and not reached.done():
                reached.set_result(None)
