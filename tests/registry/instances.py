"""Instances of a registry's storage in this process, and decisions that need no schema parser."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Self

from wirekafka.client.client import Client
from wirekafka.registry.entry import Entry
from wirekafka.registry.instance.leader_term import LeaderTerm, Submissions
from wirekafka.registry.instance.topic import TopicFollower
from wirekafka.registry.instance.topic_writer import TopicWriter
from wirekafka.registry.records import SchemaContent, SchemaRecord
from wirekafka.registry.state import RegistryState
from wirekafka.registry.subjects import DEFAULT_CONTEXT
from wirekafka.registry.writer import Decided, Decision

ID = "registries-under-test"


def entry_of(subject: str, id: int, text: str, version: int = 1) -> Entry:
    """The record of a schema that nobody has parsed."""
    content = SchemaContent("AVRO", text)
    return SchemaRecord(subject, version, id, content.guid(), content).entry()


def register(subject: str, text: str = '"string"') -> Decision[int]:
    """Give a text the next version of a subject, and the next id; returns the id."""

    def decide(state: RegistryState) -> Decided[int]:
        id = state.max_id(DEFAULT_CONTEXT) + 1
        versions = state.versions(subject, deleted=True)
        version = versions[-1].version + 1 if versions else 1
        return Decided([entry_of(subject, id, text, version)], id)

    return decide


class Instance:
    """The storage of one instance, without the election."""

    def __init__(self, bootstrap: str, transactional_id: str = ID) -> None:
        self.bootstrap = bootstrap
        self.follower = TopicFollower(self.client)
        self.writer = TopicWriter(self.follower, self.client, transactional_id)

    def client(self) -> Client:
        return Client(self.bootstrap)

    def subjects(self) -> list[str]:
        return list(self.writer.state().subjects())

    async def register(self, subject: str, text: str = '"string"') -> int:
        return await self.writer.submit(register(subject, text))

    async def register_as_elected(self, subject: str) -> int:
        """Register while each sign of the election begins another term, if the last has failed."""
        registering = asyncio.ensure_future(self.register(subject))
        while not registering.done():
            self.writer.lead()
            await asyncio.wait([registering], timeout=0.1)
        return registering.result()


@asynccontextmanager
async def instance(bootstrap: str, *, leads: bool = True) -> AsyncIterator[Instance]:
    """An instance that has read the topic, and perhaps is the leader."""
    made = Instance(bootstrap)
    await asyncio.to_thread(made.follower.load)
    made.follower.start()
    if leads:
        made.writer.lead()
    else:
        made.writer.follow()
    try:
        yield made
    finally:
        await asyncio.to_thread(made.writer.close)
        made.follower.stop()


@contextmanager
def following(bootstrap: str) -> Iterator[Instance]:
    """An instance that only reads, on a loop in a thread."""
    with ThreadedLoop() as loop:
        made = Instance(bootstrap)
        made.follower.load()
        loop.call(made.follower.start)
        yield made
        made.follower.stop()


class ThreadedLoop:
    """An event loop that runs in a thread."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def call(self, function: Callable[[], None]) -> None:
        async def run() -> None:
            function()

        asyncio.run_coroutine_threadsafe(run(), self._loop).result()


def term(instance: Instance, submissions: Submissions) -> LeaderTerm:
    """The term of a leader, which begins at once."""
    return LeaderTerm(instance.client, instance.follower, ID, submissions)
